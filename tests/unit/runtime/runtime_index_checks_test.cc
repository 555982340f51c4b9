// What a run's checks found, on devices that are done when a run returns and on late ones. If these
// fail, an index that is out of range is reported for the wrong call, or never.
#include <gtest/gtest.h>

#include "common/runtime/device/cpu_device.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/whole_run.h"
#include "tests/unit/runtime/late_device.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

// The first element that is not below the length, a copy, and a state that counts runs.
constexpr const char* kKernels = R"(
#define I(k) ((int64_t*)b[k])
KERNEL(check) { int64_t at = INT64_MAX; for (int64_t i = s[0]; i-- > 0;) if (I(0)[i] >= s[0]) at = i; I(1)[0] = at; }
KERNEL(same) { for (int64_t i = 0; i < s[0]; ++i) I(1)[i] = I(0)[i]; }
KERNEL(count) { I(1)[0] = I(0)[0] + 1; I(2)[0] = I(0)[0]; }
)";

HostTensor integers(const std::vector<int64_t>& values) {
  return HostTensor::copy_of(DType::kInt64, {static_cast<int64_t>(values.size())},
                             std::as_bytes(std::span(values)))
      .value();
}

class IndexChecksTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { object = new Bytes(compile_object(kKernels)); }
  static void TearDownTestSuite() { delete object; }

  std::unique_ptr<Executor> load(Device& device, ExecutorOptions options = {}) {
    PlanMaker m;
    m.plan.symbols = {{1, 100}};
    Expr n = Expr::symbol(0);
    int ids = m.input({n}, InputKind::kUser, DType::kInt64);
    int state = m.input({1}, InputKind::kState, DType::kInt64);
    int copy = m.output({n}, DType::kInt64);
    int fresh = m.mutate(1, {1}, DType::kInt64), old = m.output({1}, DType::kInt64);
    m.plan.outputs.push_back({OutputKind::kCheck, -1, 0, n, false});
    int first = m.add_buffer(BufferKind::kOutput, 3, {}, DType::kInt64);
    m.plan.outputs.push_back({OutputKind::kCheck, -1, -1, n + 1, true});
    int second = m.add_buffer(BufferKind::kOutput, 4, {}, DType::kInt64);
    m.call(m.kernel("same"), {ids}, {copy}, {n});
    m.call(m.kernel("count"), {state}, {fresh, old});
    int check = m.kernel("check");
    m.call(check, {ids}, {first}, {n});
    m.call(check, {ids}, {second}, {n});
    Plan plan = m.finish(*object);
    plan.key.target = device.target();
    auto source = [](const Digest&) -> Result<ByteView> { return ByteView(*object); };
    auto executor = Executor::load(plan, source, device, options);
    EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
    if (!executor.ok()) return nullptr;
    EXPECT_TRUE((*executor)->set_state(1, integers({0})).ok());
    return std::move(*executor);
  }

  static Bytes* object;
};
Bytes* IndexChecksTest::object = nullptr;

void expect_reports(Executor& executor) {
  auto right = executor.run(std::vector<HostTensor>{integers({0, 2, 1})});
  ASSERT_TRUE(right.ok()) << right.error().message;
  EXPECT_EQ(right->checks, (std::vector<int64_t>{kNoPosition, kNoPosition}));
  EXPECT_EQ(right->user.size(), 2u) << "a check is no output of the caller's";
  EXPECT_FALSE(executor.take_failed_check().has_value());

  auto wrong = executor.run(std::vector<HostTensor>{integers({0, 3, 7, 1, 9, 1, 1})});
  ASSERT_TRUE(wrong.ok()) << wrong.error().message;
  EXPECT_EQ(wrong->checks, (std::vector<int64_t>{2, 2}));
  auto failed = executor.take_failed_check();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->output, 3);
  EXPECT_EQ(failed->position, 2);
  EXPECT_EQ(failed->limit, 7);
  EXPECT_TRUE(failed->is_last);
  EXPECT_FALSE(executor.take_failed_check().has_value()) << "it is reported once";

  auto outputs = outputs_in_order(executor, *wrong);
  ASSERT_TRUE(outputs.ok());
  ASSERT_EQ(outputs->size(), 5u);
  EXPECT_EQ((*outputs)[3].get_int(0), 2);
  ASSERT_TRUE(executor.run(std::vector<HostTensor>{integers({0})}).ok());
  EXPECT_FALSE(executor.take_failed_check().has_value());
}

TEST_F(IndexChecksTest, ARunTellsWhatItsChecksFound) {
  auto cpu = make_cpu_device();
  expect_reports(*load(*cpu));
  LateDevice late;
  expect_reports(*load(late));
  ExecutorOptions guard;
  guard.guard = true;
  auto guarded = load(late, guard);
  expect_reports(*guarded);
  EXPECT_TRUE(guarded->check_guards().ok());
}

// On a caller's stream nothing waits for the values: they are seen when they are there.
TEST_F(IndexChecksTest, OnAStreamAnEarlierRunIsReportedLater) {
  LateDevice device;
  auto executor = load(device);
  auto memory = device.allocate(8).value();
  std::vector<int64_t> sizes = {1};
  std::vector<TensorRef> inputs = {{DType::kInt64, sizes, memory.data(), 8, true}};
  std::vector<DeviceTensor> outputs;
  int stream = 0;
  auto run = [&](int64_t value) {
    ASSERT_TRUE(device.fill(memory.data(), static_cast<std::byte>(value), 8).ok());
    ASSERT_TRUE(executor->run_on(&stream, inputs, outputs).ok());
    EXPECT_EQ(outputs.size(), 2u);
  };
  run(0);
  run(1);
  run(0);
  EXPECT_FALSE(device.is_idle()) << "the checks were waited for";
  EXPECT_FALSE(executor->take_failed_check().has_value());
  ASSERT_TRUE(device.synchronise().ok());
  auto failed = executor->take_failed_check();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->position, 0);
  EXPECT_FALSE(failed->is_last);
  EXPECT_FALSE(executor->take_failed_check().has_value());

  // Of many runs that nobody waits for, the first that failed is told, and none is forgotten.
  for (int k = 0; k < 300; ++k) run(k == 5 ? 1 : 0);
  ASSERT_TRUE(device.synchronise().ok());
  EXPECT_TRUE(executor->take_failed_check().has_value());
}

TEST_F(IndexChecksTest, PlansWithMalformedChecksAreRefused) {
  auto cpu = make_cpu_device();
  auto executor = load(*cpu);
  auto refused = [&](auto&& damage) {
    Plan plan = executor->plan();
    damage(plan);
    Status status = verify(plan);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kCorrupt) << status.error().message;
  };
  refused([](Plan& p) { p.outputs[3].input = 1; });  // a state
  refused([](Plan& p) { p.outputs[3].input = 7; });  // nothing
  refused([](Plan& p) { p.outputs[3].input = -2; });
  refused([](Plan& p) { p.outputs[3].limit = Expr::symbol(1); });
  refused([](Plan& p) { p.outputs[3].limit = -1; });
  refused([](Plan& p) { p.outputs[0].kind = OutputKind::kCheck; });  // a vector
  refused([](Plan& p) {
    for (Buffer& buffer : p.buffers) {
      if (buffer.kind == BufferKind::kOutput && buffer.position == 3) buffer.dtype = DType::kInt32;
    }
  });
}

}  // namespace
}  // namespace common
