// Sessions that follow a farm's plans while programs call their models: if these fail, a program
// stays with the plan it began with, loses its model's state when a better one comes, or a machine
// that was away starts with yesterday's plan for ever.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "clients/runtime/farm/farm_access.h"
#include "clients/runtime/farm/farm_client.h"
#include "clients/runtime/live_instance.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/runtime/device/cpu_device.h"
#include "common/runtime/machine_class.h"
#include "common/wire/security.h"
#include "tests/farm/service/service_farm.h"
#include "tests/unit/clients/sealed_plan.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace coordinator::service {
namespace {

using clients::LiveInstance;
using clients::Session;
using clients::SessionOptions;
using common::Digest;
using common::DType;
using common::HostTensor;
using common::InputKind;
using std::chrono::milliseconds;

// total' = total + x; y = total'.
constexpr const char* kKernels = R"(
KERNEL(add_to_total) {
  for (int64_t j = 0; j < 4; ++j) {
    float sum = ((float*)b[0])[j] + ((float*)b[1])[j];
    ((float*)b[2])[j] = ((float*)b[3])[j] = sum;
  }
}
)";

clients::Model make_model() {
  common::GraphBuilder builder;
  auto total = builder.input(InputKind::kState, DType::kFloat32, {4}, "total");
  auto x = builder.input(InputKind::kUser, DType::kFloat32, {4}, "x");
  auto fresh = builder.binary(common::BinaryOp::kAdd, total, x);
  builder.mutate(0, fresh);
  builder.output(fresh);
  clients::Model model;
  model.graph = builder.finish();
  static const std::vector<float> kZeros(4, 0);
  clients::StoredTensor first{clients::ScalarType::kFloat32,    {4},    {1}, 0,
                              std::as_bytes(std::span(kZeros)), nullptr};
  model.weights = {first, std::nullopt};
  model.weight_names = {"total", ""};
  model.user_inputs = {1};
  model.user_input_is_complex = {false};
  model.user_outputs = {{1, false, {}}};
  return model;
}

// Calls on ones, each of which must find the total where the last one left it.
class Caller {
 public:
  explicit Caller(std::unique_ptr<LiveInstance> instance) : instance_(std::move(instance)) {
    for (int64_t k = 0; k < x_.elements(); ++k) x_.set(k, 1);
  }
  void call() {
    std::vector<common::TensorRef> inputs = {common::ref_of(x_)};
    common::Status status = instance_->run(inputs, outputs_);
    ASSERT_TRUE(status.ok()) << status.error().message;
    const auto* values = reinterpret_cast<const float*>(outputs_.user.at(0).data());
    ASSERT_EQ(values[3], static_cast<float>(++calls_)) << "a call was lost or counted twice";
  }
  Digest plan() const { return instance_->plan() ? instance_->plan()->id : Digest{}; }
  int calls() const { return calls_; }

 private:
  std::unique_ptr<LiveInstance> instance_;
  HostTensor x_ = HostTensor::zeros(DType::kFloat32, {4}).value();
  common::RunOutputs outputs_;
  int calls_ = 0;
};

class LiveClientsTest : public ServiceTest {
 protected:
  LiveClientsTest() { options_.times.no_worker_grace_ms = 600'000; }

  // Whoever has this directory of state may use the farm from now on.
  void grant(const std::string& state) {
    ASSERT_TRUE(common::make_directories(state).ok());
    auto keys = common::load_or_create_key_pair(state + "/client.key");
    ASSERT_TRUE(keys.ok()) << keys.error().message;
    allowed_ += common::cat(keys->public_key, " team submit,read,admin\n");
    ASSERT_TRUE(common::make_directories(options_.state).ok());
    ASSERT_TRUE(
        common::write_file_atomic(options_.state + "/allow", common::as_bytes(allowed_)).ok());
  }
  clients::FarmAccess access(const std::string& state) {
    std::string keys = public_key().empty() ? "" : state + "/client.key";
    return {endpoint(), public_key(), keys, "", {state}};
  }
  std::shared_ptr<Session> session(const std::string& state) {
    SessionOptions options;
    options.access = access(state);
    options.device = "cpu";
    options.threads = 1;
    return Session::open(options).value();
  }
  std::unique_ptr<Caller> caller(const std::shared_ptr<Session>& session) {
    auto weights = std::make_shared<clients::Weights>(model_, &session->device());
    auto made = LiveInstance::make(session, model_, weights, milliseconds(0), session->sizes());
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return std::make_unique<Caller>(std::move(*made));
  }
  // The farm has a better plan from now on. Returns its id there.
  Digest give_plan(const std::string& state, int64_t best_ns) {
    common::PlanMaker m;
    int total = m.input({4}, InputKind::kState), x = m.input({4});
    int fresh = m.mutate(0, {4}), y = m.output({4});
    m.plan.buffers[static_cast<size_t>(y)].position = 1;
    m.call(m.kernel("add_to_total"), {total, x}, {fresh, y});
    common::Plan plan = m.finish(object_);
    plan.key = key();
    plan.provenance.best_ns = best_ns;
    plan.provenance.baseline_ns = 10'000;
    plan.provenance.farm = "elsewhere";
    plan.provenance.worker = "worker";
    plan.provenance.machine = common::machine_class_of("cpu", 1);
    common::Bytes sealed = common::encode_sealed(common::seal(signer_, "team", plan));
    std::map<Digest, common::SharedBytes> blobs;
    for (const common::Bytes& bytes : {sealed, object_}) {
      blobs.emplace(common::digest_of(bytes), common::share(common::Bytes(bytes)));
    }
    common::ImportPlans request;
    request.plans = {common::digest_of(sealed)};
    request.signer = signer_.public_key();
    auto farm = clients::connect_to_farm(access(state));
    EXPECT_TRUE(farm.ok()) << (farm.ok() ? "" : farm.error().message);
    if (!farm.ok()) return {};
    auto ids = (*farm)->import_plans(
        request,
        [&](const Digest& digest) -> common::Result<common::SharedBytes> { return blobs[digest]; });
    EXPECT_TRUE(ids.ok()) << (ids.ok() ? "" : ids.error().message);
    return ids.ok() ? ids->at(0) : Digest{};
  }
  common::PlanKey key() const {
    return common::plan_key_of(model_->graph, common::host_cpu_target(),
                               std::string(common::kDefaultPolicy));
  }
  // Calls all of them until each runs that plan.
  static void call_until(const Digest& plan, const std::vector<Caller*>& callers) {
    for (;;) {
      bool is_over = true;
      for (Caller* caller : callers) {
        caller->call();
        if (testing::Test::HasFatalFailure()) return;
        is_over = is_over && caller->plan() == plan;
      }
      if (is_over) return;
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  common::ScratchDirectory clients_ = common::ScratchDirectory::create("live_clients").value();
  const std::string here_ = clients_.path() + "/here", there_ = clients_.path() + "/there";
  const common::Bytes object_ = common::compile_object(kKernels);
  const common::SigningKey signer_ = common::make_signing_key();
  const std::shared_ptr<const clients::Model> model_ =
      std::make_shared<const clients::Model>(make_model());

 private:
  std::string allowed_;
};

TEST_F(LiveClientsTest, CallsGoThroughFourPlansWithTheirState) {
  options_.access.secure = true;
  grant(here_);
  grant(there_);
  start();
  auto one = caller(session(here_)), other = caller(session(there_));
  Digest last;
  for (int64_t best_ns : {4000, 3000, 2000, 1000}) {
    for (int k = 0; k < 250; ++k) {
      one->call();
      other->call();
      ASSERT_FALSE(HasFatalFailure());
    }
    EXPECT_EQ(one->plan(), last);
    EXPECT_EQ(other->plan(), last);
    last = give_plan(here_, best_ns);
    call_until(last, {one.get(), other.get()});
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_GE(one->calls(), 1000);
  EXPECT_GE(other->calls(), 1000);
}

TEST_F(LiveClientsTest, WhoWasAwayBeginsWithThePlanOfTheDiskAndCatchesUp) {
  start();
  Digest first = give_plan(here_, 2000);
  {
    auto one = caller(session(here_));
    call_until(first, {one.get()});
    ASSERT_FALSE(HasFatalFailure());
  }
  Digest second = give_plan(there_, 1000);
  auto again = session(here_);
  auto one = caller(again);
  EXPECT_EQ(one->plan(), first);
  call_until(second, {one.get()});
  ASSERT_FALSE(HasFatalFailure());

  // Both sides have the same: the disk gives it to a session that asks no farm.
  one.reset();
  again.reset();
  SessionOptions offline;
  offline.access = access(here_);
  stop();
  offline.device = "cpu";
  offline.threads = 1;  // as the session before: plans are kept by machine class
  auto request = Session::open(offline).value()->request(model_->graph);
  ASSERT_NE(request->plan(), nullptr);
  EXPECT_EQ(request->plan()->id, second);
}

TEST_F(LiveClientsTest, ASessionHasThePlainPlanWhileTheFarmSearches) {
  counters_->hands_out = true;
  options_.times.news_ms = 1;
  start();
  FakeMachine here;
  here.machine = common::machine_class_of("cpu", 1);
  FakeWorker worker(endpoint(), "w1", common::host_cpu_target().name, 2, std::nullopt,
                    common::kProtocolsSpoken, here);
  worker.answers_max = 1;
  auto opened = session(here_);
  auto request = opened->request(scripted_graph(4), "Mlp");
  ASSERT_TRUE(converse({&worker}, [&] { return request->plan() != nullptr; }));
  auto farm = clients::connect_to_farm(access(here_), [] { return common::Status(); });
  ASSERT_TRUE(farm.ok()) << farm.error().message;
  EXPECT_NE((*farm)->status(common::StatusTopic::kJobs).value().find(R"("name":"Mlp")"),
            std::string::npos)
      << "the job is called as the module's class is";
  EXPECT_EQ(request->plan()->facts.standing, common::Standing::kInterim);
  EXPECT_TRUE(request->plan()->plan.provenance.search.is_interim);
  uint64_t changes = request->changes();
  worker.release();
  ASSERT_TRUE(converse(
      {&worker}, [&] { return request->plan()->facts.standing == common::Standing::kFinal; }));
  EXPECT_GT(request->changes(), changes);
  EXPECT_FALSE(request->plan()->plan.provenance.search.is_interim);
  EXPECT_EQ(counters_->searches, 1);
}

}  // namespace
}  // namespace coordinator::service
