// A device that lfarm has never heard of works on a farm: the coordinator searches for its target,
// its worker compiles, verifies and measures, and a client runs the signed plan. If this fails, a
// new device needs changes outside its own folder.
#include "tests/device/paper_device.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "clients/cli/models/case.h"
#include "clients/runtime/farm/farm_client.h"
#include "clients/runtime/model/instance.h"
#include "common/base/files.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/process/subprocess.h"
#include "common/wire/ir_codec.h"
#include "tests/device/paper_backend.h"
#include "tests/paths/paths.h"

namespace {

constexpr std::chrono::seconds kPatience{600};
const std::string kBinaries = paths::binaries();

class PaperFarm : public testing::Test {
 protected:
  PaperFarm() : scratch_(common::ScratchDirectory::create("lfarm-paper").value()) {
    std::string file = scratch_.path() + "/endpoint";
    coordinator_ = start({kBinaries + "/lfarm-coordinator", "--state", scratch_.path() + "/farm",
                          "--listen", "tcp://127.0.0.1:0", "--endpoint-file", file});
    auto end = std::chrono::steady_clock::now() + kPatience;
    while (::access(file.c_str(), R_OK) != 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    endpoint_ = common::read_file(file).value();
    endpoint_.pop_back();  // the newline
    worker_ = start({kBinaries + "/../tests/lfarm-worker-paper", "--farm", endpoint_, "--state",
                     scratch_.path() + "/worker"});
  }
  ~PaperFarm() override {
    for (auto* process : {&worker_, &coordinator_}) {
      (*process)->send_signal(SIGTERM);
      EXPECT_TRUE((*process)->wait(600'000).has_value());
    }
  }

  static std::optional<common::Subprocess> start(std::vector<std::string> arguments) {
    common::SpawnOptions options;
    options.arguments = std::move(arguments);
    return common::Subprocess::start(options).value();
  }

  common::ScratchDirectory scratch_;
  std::string endpoint_;
  std::optional<common::Subprocess> coordinator_, worker_;
};

TEST_F(PaperFarm, FindsAPlanThatRunsOnTheNewDevice) {
  clients::FarmClientOptions options;
  options.endpoint = endpoint_;
  auto client = clients::FarmClient::connect(std::move(options));
  ASSERT_TRUE(client.ok()) << client.error().message;
  auto device = paper::open_device();
  clients::PulledPlan pulled;
  clients::InstanceMaker maker = [&](const std::shared_ptr<const clients::Model>& model)
      -> common::Result<clients::InstanceFactory> {
    clients::SubmitRequest request;
    request.key = {common::graph_hash(model->graph),
                   {paper::kTarget},
                   std::string(common::kDefaultPolicy),
                   (*client)->compiler_epoch()};
    request.graph = common::encode_graph(model->graph);
    request.budget_candidates = 8;
    LFARM_ASSIGN_OR_RETURN(pulled, (*client)->submit(
                                       request, [](uint64_t) {}, [](const common::Progress&) {}));
    return clients::InstanceFactory([&, model] {
      auto objects = [&](const common::Digest& digest) -> common::Result<common::ByteView> {
        return pulled.objects.at(digest).bytes;
      };
      return clients::make_plan_instance(model, pulled.plan, objects, *device);
    });
  };
  auto result = clients::run_case(paths::fixtures("/models/mlp_dynamic"), maker);
  EXPECT_EQ(result.verdict, clients::Verdict::kPass) << clients::line_of(result);
  EXPECT_EQ(pulled.plan.key.target.name, paper::kTarget);
  EXPECT_NE(pulled.plan.provenance.prediction.calibration, "default");  // those are a processor's
}

}  // namespace
