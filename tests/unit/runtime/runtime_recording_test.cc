// When the executor replays what it ran before: if these fail, a GPU's small kernels wait for the
// host, or a run works on memory of another one.
#include <gtest/gtest.h>

#include "common/runtime/executor/executor.h"
#include "tests/unit/runtime/late_device.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

constexpr const char* kKernels = R"(
#define F(k) ((float*)b[k])
KERNEL(add) { for (int64_t i = 0; i < s[0]; ++i) F(2)[i] = F(0)[i] + F(1)[i]; }
KERNEL(twice) { for (int64_t i = 0; i < s[0]; ++i) F(1)[i] = 2 * F(0)[i]; }
)";

HostTensor tensor(const std::vector<float>& values) {
  auto size = static_cast<int64_t>(values.size());
  auto made = HostTensor::uninitialized(DType::kFloat32, {size});
  for (int64_t i = 0; i < size; ++i) made->set(i, values[static_cast<size_t>(i)]);
  return *made;
}

class RecordingTest : public testing::Test {
 protected:
  std::unique_ptr<Executor> load(PlanMaker maker, ExecutorOptions options = {}) {
    Plan plan = maker.finish(object_);
    plan.key.target = device_.target();
    auto source = [this](const Digest&) -> Result<ByteView> { return ByteView(object_); };
    auto executor = Executor::load(plan, source, device_, options);
    EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
    return executor.ok() ? std::move(*executor) : nullptr;
  }
  // Runs on an input of n elements of this value; the first element of the output.
  static float run(Executor& executor, float value, size_t n = 3) {
    auto out = executor.run(std::vector<HostTensor>{tensor(std::vector<float>(n, value))});
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().message);
    return out.ok() ? static_cast<float>(out->user.at(0).get(0)) : -1;
  }

  // out = 2 * (x + w)
  static PlanMaker scaled_sum(Expr n) {
    PlanMaker m;
    if (!n.is_constant()) m.plan.symbols = {{1, 1000}};
    int x = m.input({n}), w = m.input({1}, InputKind::kWeight);
    int sum = m.temporary({1}), out = m.output({1});
    m.call(m.kernel("add"), {x, w}, {sum}, {1});
    m.call(m.kernel("twice"), {sum}, {out}, {1});
    return m;
  }
  // state' = state + x, while the old state is read after: it moves between two memories.
  static PlanMaker counter() {
    PlanMaker m;
    int state = m.input({1}, InputKind::kState), x = m.input({1});
    int fresh = m.mutate(0, {1}), out = m.output({1});
    m.call(m.kernel("add"), {state, x}, {fresh}, {1});
    m.call(m.kernel("twice"), {state}, {out}, {1});
    return m;
  }

  Bytes object_ = compile_object(kKernels);
  LateDevice device_;
};

TEST_F(RecordingTest, WhatComesAgainIsReplayed) {
  auto executor = load(scaled_sum(3));
  ASSERT_TRUE(executor->bind_weight(1, tensor({1})).ok());
  EXPECT_EQ(run(*executor, 1), 4);
  EXPECT_EQ(device_.recorded, 0);  // most plans of a search run but a few times
  EXPECT_EQ(device_.launched, 2);
  for (float k : {2.f, 3.f, 4.f}) EXPECT_EQ(run(*executor, k), 2 * (k + 1));
  EXPECT_EQ(device_.recorded, 1);
  EXPECT_EQ(device_.replayed, 3);
  EXPECT_EQ(device_.launched, 4);  // the recording's own
}

TEST_F(RecordingTest, OtherMemoryIsRecordedAnew) {
  auto executor = load(scaled_sum(3));
  ASSERT_TRUE(executor->bind_weight(1, tensor({1})).ok());
  for (float k : {1.f, 2.f, 3.f}) EXPECT_EQ(run(*executor, k), 2 * (k + 1));
  HostTensor other = tensor({10});
  ASSERT_TRUE(executor->bind_weight(1, other).ok());
  for (float k : {1.f, 2.f, 3.f}) EXPECT_EQ(run(*executor, k), 2 * (k + 10));
}

// Two recordings are kept, and taken over by whatever comes third.
TEST_F(RecordingTest, ManyMemoriesTakeTurns) {
  auto executor = load(scaled_sum(3));
  std::vector<DeviceMemory> between;  // what is freed is not to come back as the next one
  for (float w : {1.f, 10.f, 100.f, 1000.f}) {
    ASSERT_TRUE(executor->bind_weight(1, tensor({w})).ok());
    for (float k : {1.f, 2.f, 3.f}) EXPECT_EQ(run(*executor, k), 2 * (k + w));
    for (int n = 0; n < 4; ++n) between.push_back(device_.allocate(sizeof(float)).value());
  }
}

TEST_F(RecordingTest, CachesAreFlushedBeforeTimedRunsThatAskForIt) {
  for (bool cold : {false, true}) {
    ExecutorOptions options;
    options.cold_caches = cold;
    auto executor = load(scaled_sum(3), options);
    ASSERT_TRUE(executor->bind_weight(1, tensor({1})).ok());
    run(*executor, 1);
    EXPECT_EQ(device_.flushed, 0);
    RunOutputs outputs;
    std::vector<HostTensor> inputs = {tensor({1, 1, 1})};
    ASSERT_TRUE(executor->run_total_ns(inputs, outputs).ok());
    EXPECT_EQ(device_.flushed, cold ? 1 : 0);
    ASSERT_TRUE(executor->run_calls_ns(inputs, outputs).ok());
    EXPECT_EQ(device_.flushed, cold ? 2 : 0);
  }
}

TEST_F(RecordingTest, EverySizeHasItsOwn) {
  auto executor = load(scaled_sum(Expr::symbol(0)));
  ASSERT_TRUE(executor->bind_weight(1, tensor({1})).ok());
  run(*executor, 1, 6);  // the largest first, so that memory stays
  for (int k = 0; k < 4; ++k) {
    for (size_t n : {2, 4}) EXPECT_EQ(run(*executor, static_cast<float>(k), n), 2 * (k + 1));
  }
  EXPECT_EQ(device_.recorded, 2);
  EXPECT_EQ(device_.replayed, 6);
}

TEST_F(RecordingTest, StatesThatMoveAreReplayedToo) {
  auto executor = load(counter());
  ASSERT_TRUE(executor->set_state(0, tensor({100})).ok());
  for (int k = 0; k < 8; ++k) EXPECT_EQ(run(*executor, 1, 1), 2.f * (100 + k));
  EXPECT_EQ(executor->state(0)->get(0), 108);
  EXPECT_EQ(device_.recorded, 2);
  EXPECT_EQ(device_.replayed, 6);
}

TEST_F(RecordingTest, CallsThatAreTimedAreLaunchedOneByOne) {
  auto executor = load(scaled_sum(3));
  ASSERT_TRUE(executor->bind_weight(1, tensor({1})).ok());
  RunOutputs outputs;
  std::vector<HostTensor> inputs = {tensor({1, 1, 1})};
  for (int k = 0; k < 3; ++k) {
    auto times = executor->run_calls_ns(inputs, outputs);
    ASSERT_TRUE(times.ok());
    EXPECT_EQ(times->size(), 2u);
  }
  EXPECT_EQ(device_.recorded, 0);
  EXPECT_EQ(device_.launched, 6);
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(executor->run_total_ns(inputs, outputs).ok());
  EXPECT_EQ(device_.replayed, 2);
}

}  // namespace
}  // namespace common
