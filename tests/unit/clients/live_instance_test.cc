// Instances with plans for parts of their sizes: if these fail, a decoder forgets what it has read
// when it goes from a prompt to single steps.
#include "clients/runtime/live_instance.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/runtime/device/cpu_device.h"
#include "tests/unit/runtime/runtime_testing.h"
#include "tests/unit/service/kept_plan.h"

namespace clients {
namespace {

using common::DType;
using common::Expr;
using common::Graph;
using common::HostTensor;
using common::InputKind;
using common::RunOutputs;
using common::TensorRef;
using Values = std::vector<float>;

// total' = total + the sum of x's rows; y = total'.
constexpr const char* kKernels = R"(
KERNEL(read_rows) {
  for (int64_t j = 0; j < 4; ++j) {
    float sum = ((float*)b[0])[j];
    for (int64_t i = 0; i < s[0]; ++i) sum += ((float*)b[1])[4 * i + j];
    ((float*)b[2])[j] = ((float*)b[3])[j] = sum;
  }
}
)";

Model make_model() {
  common::GraphBuilder builder({{1, 8}});
  auto total = builder.input(InputKind::kState, DType::kFloat32, {4}, "total");
  auto x = builder.input(InputKind::kUser, DType::kFloat32, {Expr::symbol(0), 4}, "x");
  auto sum = builder.reduce(common::ReduceOp::kSum, x, {0});
  auto fresh = builder.binary(common::BinaryOp::kAdd, total, sum);
  builder.mutate(0, fresh);
  builder.output(fresh);
  Model model;
  model.graph = builder.finish();
  static const Values kZeros(4, 0);
  StoredTensor first{ScalarType::kFloat32, {4}, {1}, 0, std::as_bytes(std::span(kZeros)), nullptr};
  model.weights = {first, std::nullopt};
  model.weight_names = {"total", ""};
  model.user_inputs = {1};
  model.user_input_is_complex = {false};
  model.user_outputs = {{1, false, {}}};
  return model;
}

class SizedInstance : public testing::Test {
 protected:
  static void SetUpTestSuite() { object = new common::Bytes(common::compile_object(kKernels)); }
  static void TearDownTestSuite() { delete object; }

  // A plan for these sizes, on the disk.
  void keep(const std::string& sizes) {
    SizeRanges ranges = parse_size_ranges(sizes)->at(0);
    Graph graph = for_sizes(model_->graph, ranges).value();
    common::PlanMaker m;
    m.plan.symbols = graph.symbols;
    int total = m.input({4}, InputKind::kState);
    int x = m.input(graph.inputs[1].shape);
    int fresh = m.mutate(0, {4}), y = m.output({4});
    m.plan.buffers[static_cast<size_t>(y)].position = 1;
    m.call(m.kernel("read_rows"), {total, x}, {fresh, y}, {graph.inputs[1].shape[0]});
    common::Plan plan = m.finish(*object);
    plan.key = {{},
                common::host_cpu_target(),
                std::string(common::kDefaultPolicy),
                std::string(common::kCompilerEpoch)};
    auto kept = common::keep_plan(state_.path(), common::graph_hash(graph), plan, *object);
    ASSERT_TRUE(kept.ok()) << kept.error().message;
  }
  std::unique_ptr<LiveInstance> make(const std::string& sizes) {
    SessionOptions options;
    options.access.state.path = state_.path();
    options.device = "cpu";
    options.threads = 1;
    options.sizes = parse_size_ranges(sizes).value();
    session_ = Session::open(options).value();
    auto weights = std::make_shared<Weights>(model_, &session_->device());
    auto made = LiveInstance::make(session_, model_, weights, std::chrono::milliseconds(0),
                                   session_->sizes());
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return made.ok() ? std::move(*made) : nullptr;
  }
  // One call on `count` rows of ones, into host memory or through the device's.
  Values call(LiveInstance& instance, int64_t count, bool on_device) {
    HostTensor x = HostTensor::zeros(DType::kFloat32, {count, 4}).value();
    for (int64_t k = 0; k < x.elements(); ++k) x.set(k, 1);
    std::vector<TensorRef> inputs = {common::ref_of(x)};
    common::Status status;
    const std::byte* data = nullptr;
    if (on_device) {
      status = instance.run_on(nullptr, inputs, device_);
      if (status.ok()) data = device_.at(0).data;
    } else {
      status = instance.run(inputs, host_);
      if (status.ok()) data = host_.user.at(0).data();
    }
    EXPECT_TRUE(status.ok()) << status.error().message;
    const auto* values = reinterpret_cast<const float*>(data);
    return data == nullptr ? Values() : Values(values, values + 4);
  }

  static common::Bytes* object;
  common::ScratchDirectory state_ = common::ScratchDirectory::create("lfarm-test").value();
  std::shared_ptr<const Model> model_ = std::make_shared<const Model>(make_model());
  std::shared_ptr<Session> session_;
  RunOutputs host_;
  std::vector<common::DeviceTensor> device_;
};
common::Bytes* SizedInstance::object = nullptr;

TEST_F(SizedInstance, TheStateGoesFromPlanToPlan) {
  keep("s0=1");
  keep("s0=2..8");
  auto instance = make("s0=1;s0=2..8");
  float total = 0;
  std::string plans[2];
  int step = 0;
  for (int64_t count : {5, 1, 1, 8, 1, 2, 3, 1}) {
    total += static_cast<float>(count);
    EXPECT_EQ(call(*instance, count, ++step % 3 == 0), Values(4, total)) << "step " << step;
    ASSERT_NE(instance->plan(), nullptr);
    std::string& plan = plans[count == 1 ? 0 : 1];
    if (plan.empty()) plan = instance->plan()->id.hex();
    EXPECT_EQ(instance->plan()->id.hex(), plan);
  }
  EXPECT_NE(plans[0], plans[1]);
}

TEST_F(SizedInstance, TheStateGoesFromTheInterpreterToAPlanAndBack) {
  keep("s0=1");
  auto instance = make("s0=1;s0=2..8");
  float total = 0;
  int step = 0;
  for (int64_t count : {1, 3, 1, 1, 2, 8, 1}) {
    total += static_cast<float>(count);
    EXPECT_EQ(call(*instance, count, ++step % 2 == 0), Values(4, total)) << "step " << step;
    EXPECT_EQ(instance->plan() != nullptr, count == 1);
  }
}

TEST_F(SizedInstance, SizesThatNoPartHoldsAreRefused) {
  keep("s0=1");
  auto instance = make("s0=1;s0=4..8");
  EXPECT_EQ(call(*instance, 1, false), Values(4, 1));
  HostTensor x = HostTensor::zeros(DType::kFloat32, {3, 4}).value();
  std::vector<TensorRef> inputs = {common::ref_of(x)};
  common::Status status = instance->run(inputs, host_);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, common::Code::kInvalidInput);
  EXPECT_EQ(status.error().message, "sizes s0=3 lie in none of the session's ranges s0=1;s0=4..8");
  EXPECT_EQ(call(*instance, 1, false), Values(4, 2)) << "a refused call changed the state";
}

}  // namespace
}  // namespace clients
