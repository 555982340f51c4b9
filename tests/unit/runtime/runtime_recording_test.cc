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
// How many other addresses its operand has had, in a row.
KERNEL(moves) {
  static const void* seen; static float moves;
  if (b[0] != seen) ++moves;
  seen = b[0];
  F(2)[0] = moves;
}
KERNEL(slow) { for (volatile int k = 0; k < 2000000; ++k) {} F(1)[0] = F(0)[0]; }
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
    // For each of two calls, and for those that are repeated.
    EXPECT_EQ(device_.flushed >= 1 + 2, cold);
    EXPECT_EQ(device_.flushed == 0, !cold);
    device_.flushed = 0;
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

// Times of calls, as a measurement takes them; nothing where they could not be had.
std::vector<int64_t> call_times(Executor& executor, const std::vector<HostTensor>& inputs,
                                RunOutputs& outputs) {
  auto times = executor.run_calls_ns(inputs, outputs);
  EXPECT_TRUE(times.ok()) << (times.ok() ? "" : times.error().message);
  return times.ok() ? *times : std::vector<int64_t>();
}

TEST_F(RecordingTest, ShortCallsAreTimedWithinARow) {
  auto executor = load(scaled_sum(3));
  ASSERT_TRUE(executor->bind_weight(1, tensor({1})).ok());
  RunOutputs outputs;
  for (float k : {1.f, 2.f, 3.f}) {
    EXPECT_EQ(call_times(*executor, {tensor({k, 1, 1})}, outputs).size(), 2u);
    EXPECT_EQ(outputs.user.at(0).get(0), 2 * (k + 1));
  }
  // Unless the processor did something else at every launch.
  EXPECT_GE(device_.recorded, 2);
  EXPECT_EQ(device_.replayed, device_.recorded);
  EXPECT_GE(device_.launched, 3 * 2 + 2 * device_.recorded) << "a row repeats its kernel";
  for (int k = 0; k < 3; ++k) EXPECT_EQ(run(*executor, 5), 12);
}

TEST_F(RecordingTest, CallsOfOneKernelAreTimedOnce) {
  PlanMaker m;
  int x = m.input({1}), a = m.temporary({1}), out = m.output({1});
  int twice = m.kernel("twice");
  m.call(twice, {x}, {a}, {1});
  m.call(twice, {a}, {out}, {1});
  auto executor = load(std::move(m));
  RunOutputs outputs;
  constexpr int kRuns = 3;
  for (int k = 0; k < kRuns; ++k) {
    std::vector<int64_t> times = call_times(*executor, {tensor({3})}, outputs);
    ASSERT_EQ(times.size(), 2u);
    EXPECT_EQ(times[0], times[1]);
    EXPECT_EQ(outputs.user.at(0).get(0), 12);
  }
  EXPECT_LE(device_.replayed, kRuns);
}

// A state that is updated where it lies, and one that moves, change once in a run that is timed.
TEST_F(RecordingTest, StatesChangeOnceInATimedRun) {
  PlanMaker in_place;
  int state = in_place.input({1}, InputKind::kState), x = in_place.input({1});
  int fresh = in_place.mutate(0, {1}), out = in_place.output({1});
  in_place.call(in_place.kernel("add", 1, 0), {state, x}, {fresh}, {1});
  in_place.call(in_place.kernel("twice"), {fresh}, {out}, {1});
  for (bool moves : {false, true}) {
    auto executor = load(moves ? counter() : in_place);
    ASSERT_TRUE(executor->set_state(0, tensor({100})).ok());
    RunOutputs outputs;
    for (int k = 0; k < 4; ++k) {
      EXPECT_EQ(call_times(*executor, {tensor({1})}, outputs).size(), 2u);
      EXPECT_EQ(executor->state(0)->get(0), 101 + k) << "moves " << moves;
      EXPECT_EQ(outputs.user.at(0).get(0), 2 * (100 + k + (moves ? 0 : 1)));
    }
  }
}

TEST_F(RecordingTest, EachRepetitionReadsAWeightOfItsOwnWhereCachesAreCold) {
  for (bool cold : {false, true}) {
    PlanMaker m;
    int w = m.input({1}, InputKind::kWeight), x = m.input({1}), out = m.output({1});
    m.call(m.kernel("moves"), {w, x}, {out}, {1});
    ExecutorOptions options;
    options.cold_caches = cold;
    auto executor = load(std::move(m), options);
    ASSERT_TRUE(executor->bind_weight(0, tensor({1})).ok());
    const float before = run(*executor, 1, 1);
    RunOutputs outputs;
    constexpr int kRuns = 3;
    for (int k = 0; k < kRuns; ++k) call_times(*executor, {tensor({1})}, outputs);
    const double moves = outputs.user.at(0).get(0) - before;
    // There and back would be two.
    EXPECT_EQ(moves > 2 * kRuns, cold) << moves;
    EXPECT_EQ(moves == 0, !cold) << moves;
  }
}

TEST_F(RecordingTest, WhatIsLongOrCannotBeRecordedIsTimedAsItIsLaunched) {
  for (bool refuses : {false, true}) {
    device_.refuses_rows = refuses;
    device_.replayed = 0;
    PlanMaker m;
    int x = m.input({1}), out = m.output({1});
    m.call(m.kernel(refuses ? "twice" : "slow"), {x}, {out}, {1});
    auto executor = load(std::move(m));
    RunOutputs outputs;
    for (int k = 0; k < 2; ++k) {
      std::vector<int64_t> times = call_times(*executor, {tensor({3})}, outputs);
      ASSERT_EQ(times.size(), 1u);
      EXPECT_GT(times[0], 0);
      EXPECT_EQ(outputs.user.at(0).get(0), refuses ? 6 : 3);
    }
    EXPECT_EQ(device_.replayed, 0);
    EXPECT_EQ(device_.recorded, refuses ? 1 : 0);
    device_.recorded = 0;
  }
}

}  // namespace
}  // namespace common
