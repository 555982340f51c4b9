// The executor: results, state, sizes, in-place updates, guards, and errors that name the culprit.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "common/base/random.h"
#include "common/runtime/device/cpu_device.h"
#include "common/runtime/executor/executor.h"
#include "tests/unit/runtime/late_device.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

// s[0] is the element count of every operand unless said otherwise.
constexpr const char* kKernels = R"(
#define F(k) ((float*)b[k])
#define I(k) ((int64_t*)b[k])
#include <string.h>
KERNEL(copy) { for (int64_t i = begin; i < end; ++i) F(1)[i] = F(0)[i]; }
KERNEL(add) { for (int64_t i = begin; i < end; ++i) F(2)[i] = F(0)[i] + F(1)[i]; }
KERNEL(twice) { for (int64_t i = 0; i < s[0]; ++i) F(1)[i] = 2 * F(0)[i]; }
KERNEL(both) { for (int64_t i = 0; i < s[0]; ++i) { F(1)[i] = F(0)[i] + 1; F(2)[i] = F(0)[i] - 1; } }
/* base, position (i64), value -> base with value added at position */
KERNEL(put) { if (b[0] != b[3]) memcpy(b[3], b[0], s[0] * 4); F(3)[I(1)[0]] += F(2)[0]; }
KERNEL(same_memory) { if (b[0] != b[1]) memcpy(b[1], b[0], s[0] * 4); F(1)[0] = b[0] == b[1]; }
/* the output holds the base: base -> base with 100 added to its first element */
KERNEL(add_to_base) { F(1)[0] += 100; }
KERNEL(offset) { F(1)[0] = (uintptr_t)b[0] % 64; F(1)[1] = F(0)[1]; }
KERNEL(reverse) { float* t = scratch; for (int64_t i = 0; i < s[0]; ++i) t[i] = F(0)[s[0]-1-i];
  memcpy(b[1], t, s[0] * 4); }
/* out[0] tells how often this ran, the rest is twice the input */
KERNEL(counted) { static float runs; F(1)[0] = ++runs; for (int64_t i = 1; i < s[0]; ++i) F(1)[i] = 2 * F(0)[i]; }
KERNEL(spoil_and_add) { for (int64_t i = 0; i < s[0]; ++i) { F(2)[i] = F(0)[i] + F(1)[i]; F(1)[i] += 1; } }
KERNEL(past_end) { for (int64_t i = 0; i <= s[0]; ++i) F(1)[i] = F(0)[0]; }
KERNEL(before_start) { for (int64_t i = -1; i < s[0]; ++i) F(1)[i] = F(0)[0]; }
KERNEL(half_done) { for (int64_t i = 0; i < s[0] / 2; ++i) F(1)[i] = F(0)[i]; }
KERNEL(spoil_input) { F(0)[0] = 7; for (int64_t i = 0; i < s[0]; ++i) F(1)[i] = F(0)[i]; }
)";

HostTensor tensor(std::vector<float> values) {
  auto size = static_cast<int64_t>(values.size());
  auto t = HostTensor::uninitialized(DType::kFloat32, {size});
  for (int64_t i = 0; i < size; ++i) t->set(i, values[static_cast<size_t>(i)]);
  return *t;
}
HostTensor index_tensor(int64_t value) {
  auto t = HostTensor::zeros(DType::kInt64, {1});
  t->set_int(0, value);
  return *t;
}
std::vector<float> values(const HostTensor& t) {
  std::vector<float> result;
  for (int64_t i = 0; i < t.elements(); ++i) result.push_back(static_cast<float>(t.get(i)));
  return result;
}
using Values = std::vector<float>;

// What is true of one device is true of all.
class ExecutorTest : public testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() { shared_object = new Bytes(compile_object(kKernels)); }
  static void TearDownTestSuite() { delete shared_object; }

  Result<std::unique_ptr<Executor>> load(PlanMaker maker, ExecutorOptions options = {}) {
    Plan plan = maker.finish(*shared_object);
    plan.key.target = device_->target();
    auto source = [](const Digest&) -> Result<ByteView> { return ByteView(*shared_object); };
    return Executor::load(plan, source, *device_, options);
  }
  std::unique_ptr<Executor> must_load(const PlanMaker& maker, ExecutorOptions options = {}) {
    auto executor = load(maker, options);
    EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
    return executor.ok() ? std::move(*executor) : nullptr;
  }

  static Bytes* shared_object;
  std::unique_ptr<Device> device_ = GetParam() ? std::make_unique<LateDevice>() : make_cpu_device();
};
Bytes* ExecutorTest::shared_object = nullptr;

// out = 2 * (x + w), with x of s0 elements.
PlanMaker scaled_sum(Expr n) {
  PlanMaker m;
  if (!n.is_constant()) m.plan.symbols = {{1, 1000}};
  int x = m.input({n});
  int w = m.input({n}, InputKind::kWeight);
  int sum = m.temporary({n}), out = m.output({n});
  m.call(m.kernel("add", Expr::symbol(0)), {x, w}, {sum}, {n});
  m.call(m.kernel("twice"), {sum}, {out}, {n});
  return m;
}

TEST_P(ExecutorTest, RunsAPlanOverAndOver) {
  for (bool guard : {false, true}) {
    auto executor = must_load(scaled_sum(4), {guard});
    ASSERT_TRUE(executor->bind_weight(1, tensor({1, 2, 3, 4})).ok());
    for (float k : {0.f, 1.f, 2.f}) {
      std::vector<HostTensor> inputs = {tensor({k, k, k, k})};
      auto out = executor->run(inputs);
      ASSERT_TRUE(out.ok()) << out.error().message;
      EXPECT_EQ(values(out->user.at(0)), (Values{2 * k + 2, 2 * k + 4, 2 * k + 6, 2 * k + 8}));
      EXPECT_TRUE(out->mutated.empty());
      EXPECT_TRUE(executor->check_guards().ok());
    }
  }
}

// Kernels load whole vectors from where they expect a buffer to begin.
TEST_P(ExecutorTest, InputsThatBeginAnywhereAreAligned) {
  PlanMaker m;
  int x = m.input({2}), out = m.output({2});
  m.call(m.kernel("offset"), {x}, {out});
  auto executor = must_load(m);
  alignas(kBufferAlignment) float memory[] = {0, 3, 5, 7};
  for (size_t start : {0, 1, 2}) {
    ByteView bytes{reinterpret_cast<const std::byte*>(memory + start), 8};
    std::vector<HostTensor> inputs = {HostTensor::wrap(DType::kFloat32, {2}, bytes).value()};
    auto run = executor->run(inputs);
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_EQ(values(run->user.at(0)), (Values{0, memory[start + 1]}));
  }
}

TEST_P(ExecutorTest, OutputsAreReused) {
  auto executor = must_load(scaled_sum(4));
  ASSERT_TRUE(executor->bind_weight(1, tensor({1, 2, 3, 4})).ok());
  RunOutputs outputs;
  std::vector<HostTensor> inputs = {tensor({1, 1, 1, 1})};
  ASSERT_TRUE(executor->run_total_ns(inputs, outputs).ok());
  const std::byte* first = outputs.user.at(0).data();
  inputs[0] = tensor({2, 2, 2, 2});
  ASSERT_TRUE(executor->run_total_ns(inputs, outputs).ok());
  EXPECT_EQ(outputs.user.at(0).data(), first);
  EXPECT_EQ(values(outputs.user.at(0)), (Values{6, 8, 10, 12}));
}

TEST_P(ExecutorTest, ResultsOfEarlierRunsStay) {
  auto executor = must_load(scaled_sum(2));
  ASSERT_TRUE(executor->bind_weight(1, tensor({0, 0})).ok());
  auto first = executor->run(std::vector<HostTensor>{tensor({1, 1})});
  auto second = executor->run(std::vector<HostTensor>{tensor({5, 5})});
  EXPECT_EQ(values(first->user.at(0)), (Values{2, 2}));
  EXPECT_EQ(values(second->user.at(0)), (Values{10, 10}));
}

TEST_P(ExecutorTest, WeightsAreUsedInPlaceWhenAligned) {
  auto executor = must_load(scaled_sum(4));
  HostTensor weight = tensor({1, 1, 1, 1});
  ASSERT_TRUE(executor->bind_weight(1, weight).ok());
  weight.set(0, 9);  // what is shared is seen, what was copied is not
  std::vector<HostTensor> inputs = {tensor({0, 0, 0, 0})};
  float seen = device_->uses_host_memory() ? 18 : 2;
  EXPECT_EQ(values(executor->run(inputs)->user.at(0)), (Values{seen, 2, 2, 2}));

  alignas(64) float raw[5] = {0, 1, 2, 3, 4};
  ByteView odd{reinterpret_cast<const std::byte*>(raw + 1), 16};
  ASSERT_TRUE(executor->bind_weight(1, odd).ok());
  raw[1] = 100;
  EXPECT_EQ(values(executor->run(inputs)->user.at(0)), (Values{2, 4, 6, 8}));
}

TEST_P(ExecutorTest, UnalignedInputsAreCopied) {
  auto executor = must_load(scaled_sum(4));
  ASSERT_TRUE(executor->bind_weight(1, tensor({0, 0, 0, 0})).ok());
  alignas(64) float raw[5] = {0, 1, 2, 3, 4};
  ByteView odd{reinterpret_cast<const std::byte*>(raw + 1), 16};
  std::vector<HostTensor> inputs = {*HostTensor::wrap(DType::kFloat32, {4}, odd)};
  EXPECT_EQ(values(executor->run(inputs)->user.at(0)), (Values{2, 4, 6, 8}));
}

TEST_P(ExecutorTest, SizesMayChangeFromRunToRun) {
  PlanMaker m;
  m.plan.symbols = {{1, 100}};
  Expr n = Expr::symbol(0);
  int x = m.input({n});
  int t = m.temporary({n}), out = m.output({n});
  m.call(m.kernel("reverse", 1, -1, 4 * Expr::symbol(0)), {x}, {t}, {n});
  m.call(m.kernel("twice"), {t}, {out}, {n});
  for (bool guard : {false, true}) {
    auto executor = must_load(m, {guard});
    // More size sets than are kept, each twice, growing and shrinking.
    for (int64_t size : {3, 90, 1, 7, 20, 30, 31, 32, 33, 34, 35, 3, 90, 1}) {
      Values in, expected;
      for (int64_t i = 0; i < size; ++i) in.push_back(static_cast<float>(i));
      for (int64_t i = size; i-- > 0;) expected.push_back(2 * static_cast<float>(i));
      auto result = executor->run(std::vector<HostTensor>{tensor(in)});
      ASSERT_TRUE(result.ok()) << result.error().message;
      EXPECT_EQ(values(result->user.at(0)), expected);
      EXPECT_TRUE(executor->check_guards().ok());
    }
    auto refused = executor->run(std::vector<HostTensor>{tensor(Values(101))});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kInvalidInput);
  }
}

TEST_P(ExecutorTest, TellsTheMemoryThatTheDeviceGave) {
  if (!GetParam())
    GTEST_SKIP() << "a device that uses the host's memory is given tensors as they lie";
  PlanMaker m;
  m.plan.symbols = {{1, 1000}};
  Expr n = Expr::symbol(0);
  int x = m.input({n}), weight = m.input({1000}, InputKind::kWeight);
  int state = m.input({300}, InputKind::kState);
  int packed = m.temporary({1000}), t = m.temporary({n}), out = m.output({n});
  int next = m.mutate(2, {300});
  m.call(m.kernel("twice"), {weight}, {packed}, {1000});
  m.call(m.kernel("add", Expr::symbol(0)), {x, packed}, {t}, {n});
  m.call(m.kernel("reverse", 1, -1, 4 * Expr::symbol(0)), {t}, {out}, {n});
  m.call(m.kernel("copy", Expr::symbol(0)), {state}, {next}, {300});
  auto executor = must_load(m);
  ASSERT_TRUE(executor->bind_weight(1, tensor(Values(1000, 1))).ok());
  ASSERT_TRUE(executor->set_state(2, tensor(Values(300, 1))).ok());
  auto ran = executor->run(std::vector<HostTensor>{tensor(Values(90, 1))});
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  ExecutorMemory memory = executor->memory();
  EXPECT_EQ(memory.weights, 4000u);
  EXPECT_EQ(memory.prepacked, 4000u);
  EXPECT_GE(memory.states, 1200u);
  EXPECT_GE(memory.arena, 360u);
  EXPECT_GE(memory.scratch, 360u);
  EXPECT_GT(memory.code, 0u);
  auto all = static_cast<double>(memory.weights + memory.prepacked + memory.states + memory.arena +
                                 memory.scratch + memory.staging);
  auto given = static_cast<double>(static_cast<const LateDevice&>(*device_).allocated);
  EXPECT_NEAR(all, given, 0.01 * given);
}

// state' = state with x added at position p; out = copy of state'.
PlanMaker counter(bool late_read) {
  PlanMaker m;
  int state = m.input({3}, InputKind::kState);
  int position = m.input({1}, InputKind::kUser, DType::kInt64);
  int x = m.input({1});
  int fresh = m.mutate(0, {3}), out = m.output({3});
  m.call(m.kernel("put", 1, 0), {state, position, x}, {fresh}, {3});
  m.call(m.kernel("copy", Expr::symbol(0)), {late_read ? state : fresh}, {out}, {3});
  return m;
}

TEST_P(ExecutorTest, StateSurvivesFromCallToCall) {
  for (bool guard : {false, true}) {
    for (bool late_read : {false, true}) {
      auto executor = must_load(counter(late_read), {guard});
      ASSERT_TRUE(executor->set_state(0, tensor({10, 20, 30})).ok());
      std::vector<Values> expected = {{10, 20, 30}, {11, 20, 30}, {11, 22, 30}, {11, 22, 33}};
      for (int64_t step = 0; step < 3; ++step) {
        std::vector<HostTensor> inputs = {index_tensor(step),
                                          tensor({static_cast<float>(step + 1)})};
        auto result = executor->run(inputs);
        ASSERT_TRUE(result.ok()) << result.error().message;
        size_t seen = static_cast<size_t>(late_read ? step : step + 1);
        EXPECT_EQ(values(result->user.at(0)), expected[seen]);
        EXPECT_EQ(result->user.size(), 1u);
        EXPECT_EQ(values(*executor->state(0)), expected[static_cast<size_t>(step) + 1]);
        EXPECT_TRUE(executor->check_guards().ok());
      }
      ASSERT_TRUE(executor->set_state(0, tensor({0, 0, 0})).ok());
      EXPECT_EQ(values(*executor->state(0)), (Values{0, 0, 0}));
    }
  }
}

TEST_P(ExecutorTest, StateIsUpdatedInPlaceOnlyWhenNothingReadsTheOld) {
  for (bool late_read : {false, true}) {
    PlanMaker m;
    int state = m.input({4}, InputKind::kState);
    int fresh = m.mutate(0, {4}), out = m.output({4});
    m.call(m.kernel("same_memory", 1, 0), {state}, {fresh}, {4});
    m.call(m.kernel("copy", Expr::symbol(0)), {late_read ? state : fresh}, {out}, {4});
    auto executor = must_load(m);
    ASSERT_TRUE(executor->set_state(0, tensor({5, 5, 5, 5})).ok());
    auto result = executor->run({});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(values(*executor->state(0)).at(0), late_read ? 0.f : 1.f);
    EXPECT_EQ(values(result->user.at(0)).at(0), late_read ? 5.f : 1.f);
  }
}

// A kernel that starts from its base finds it in the output, wherever that lies, in every run.
TEST_P(ExecutorTest, OutputsHoldTheirBases) {
  for (bool late_read : {false, true}) {
    PlanMaker m;
    int state = m.input({4}, InputKind::kState), x = m.input({4});
    int fresh = m.mutate(0, {4}), changed = m.output({4}), out = m.output({4});
    int add = m.kernel("add_to_base", 1, 0);
    m.plan.kernels.back().entry.starts_from_bases = true;
    m.call(add, {state}, {fresh});
    m.call(add, {x}, {changed});
    m.call(m.kernel("copy", Expr::symbol(0)), {late_read ? state : fresh}, {out}, {4});
    for (bool guard : {false, true}) {
      auto executor = must_load(m, {guard});
      ASSERT_TRUE(executor->set_state(0, tensor({5, 6, 7, 8})).ok());
      for (float run : {1.f, 2.f, 3.f}) {
        HostTensor given = tensor({1, 2, 3, 4});
        auto result = executor->run(std::vector<HostTensor>{given});
        ASSERT_TRUE(result.ok()) << result.error().message;
        EXPECT_EQ(values(*executor->state(0)), (Values{5 + 100 * run, 6, 7, 8}));
        EXPECT_EQ(values(result->user.at(0)), (Values{101, 2, 3, 4}));
        EXPECT_EQ(values(given), (Values{1, 2, 3, 4}));
        float seen = late_read ? run - 1 : run;
        EXPECT_EQ(values(result->user.at(1)), (Values{5 + 100 * seen, 6, 7, 8}));
      }
      EXPECT_TRUE(executor->check_guards().ok());
    }
  }
}

TEST_P(ExecutorTest, MutatedUserInputsAreReportedBack) {
  PlanMaker m;
  int x = m.input({2});
  int fresh = m.mutate(0, {2}), out = m.output({2});
  m.call(m.kernel("both"), {x}, {fresh, out}, {2});
  for (bool guard : {false, true}) {
    auto executor = must_load(m, {guard});
    HostTensor in = tensor({4, 5});
    auto result = executor->run(std::vector<HostTensor>{in});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(values(result->user.at(0)), (Values{3, 4}));
    ASSERT_EQ(result->mutated.size(), 1u);
    EXPECT_EQ(result->mutated[0].input, 0);
    EXPECT_EQ(values(result->mutated[0].value), (Values{5, 6}));
    EXPECT_EQ(values(in), (Values{4, 5}));
  }
}

TEST_P(ExecutorTest, WrongInputsAreNamed) {
  auto executor = must_load(scaled_sum(4));
  std::vector<HostTensor> good = {tensor({1, 2, 3, 4})};
  auto expect_invalid = [&](std::span<const HostTensor> inputs, const char* piece) {
    auto result = executor->run(inputs);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, Code::kInvalidInput);
    EXPECT_NE(result.error().message.find(piece), std::string::npos) << result.error().message;
  };
  expect_invalid(good, "input 1 (weight)");
  ASSERT_FALSE(executor->bind_weight(0, tensor({1, 2, 3, 4})).ok());
  ASSERT_FALSE(executor->bind_weight(2, tensor({1, 2, 3, 4})).ok());
  ASSERT_FALSE(executor->bind_weight(1, tensor({1, 2, 3})).ok());
  ASSERT_FALSE(executor->bind_weight(1, index_tensor(0)).ok());
  ASSERT_FALSE(executor->set_state(1, tensor({1, 2, 3, 4})).ok());
  ASSERT_TRUE(executor->bind_weight(1, tensor({1, 2, 3, 4})).ok());
  ASSERT_TRUE(executor->run(good).ok());
  expect_invalid({}, "takes 1 inputs, 0 were given");
  std::vector<HostTensor> short_one = {tensor({1, 2, 3})};
  expect_invalid(short_one, "'0' has sizes [3]");
  std::vector<HostTensor> wrong_type = {*HostTensor::zeros(DType::kInt32, {4})};
  expect_invalid(wrong_type, "input 0 (user) is i32[4]");
  std::vector<HostTensor> wrong_rank = {*HostTensor::zeros(DType::kFloat32, {2, 2})};
  expect_invalid(wrong_rank, "input 0 (user)");
}

TEST_P(ExecutorTest, MalformedPlansAreRefused) {
  auto refused = [&](const std::function<void(Plan&)>& spoil, Code code) {
    Plan plan = scaled_sum(4).finish(*shared_object);
    plan.key.target = device_->target();
    spoil(plan);
    auto source = [](const Digest&) -> Result<ByteView> { return ByteView(*shared_object); };
    auto executor = Executor::load(plan, source, *device_);
    ASSERT_FALSE(executor.ok());
    EXPECT_EQ(executor.error().code, code) << executor.error().message;
  };
  refused([](Plan& p) { p.key.target.name = "cuda-sm_90a"; }, Code::kInvalidInput);
  refused([](Plan& p) { p.kernels[0].entry.name = "nothing"; }, Code::kCorrupt);
  refused([](Plan& p) { p.objects[0] = Digest{}; }, Code::kCorrupt);
  refused([](Plan& p) { p.calls[0].inputs[0] = 99; }, Code::kCorrupt);
  refused([](Plan& p) { p.outputs[0] = {OutputKind::kMutate, -1, 1}; }, Code::kCorrupt);
  refused([](Plan& p) { p.calls.pop_back(); }, Code::kCorrupt);
}

TEST_P(ExecutorTest, GuardsSeeWhatKernelsMustNotDo) {
  auto check = [&](const char* entry, bool into_temporary) {
    PlanMaker m;
    int x = m.input({4});
    int target = into_temporary ? m.temporary({4}) : m.output({4});
    m.call(m.kernel(entry), {x}, {target}, {4});
    if (into_temporary) m.call(m.kernel("twice"), {target}, {m.output({4})}, {4});
    auto executor = must_load(m, {true});
    EXPECT_TRUE(executor->run(std::vector<HostTensor>{tensor({1, 2, 3, 4})}).ok());
    return executor->check_guards();
  };
  EXPECT_TRUE(check("twice", false).ok());
  EXPECT_TRUE(check("twice", true).ok());
  for (const char* entry : {"past_end", "before_start"}) {
    for (bool into_temporary : {false, true}) {
      Status status = check(entry, into_temporary);
      ASSERT_FALSE(status.ok()) << entry;
      EXPECT_EQ(status.error().code, Code::kVerification);
    }
  }
  Status spoilt = check("spoil_input", false);
  ASSERT_FALSE(spoilt.ok());
  EXPECT_NE(spoilt.error().message.find("input 0"), std::string::npos) << spoilt.error().message;
}

TEST_P(ExecutorTest, WeightsWithBandsAreGuardedWhereTheyLie) {
  if (!device_->uses_host_memory()) GTEST_SKIP() << "a GPU's memory has copies of weights";
  for (const char* entry : {"twice", "spoil_input"}) {
    PlanMaker m;
    int w = m.input({4}, InputKind::kWeight);
    m.call(m.kernel(entry), {w}, {m.output({4})}, {4});
    auto executor = must_load(m, {true});
    HostTensor weight = *HostTensor::banded(DType::kFloat32, {4}, kGuardBand);
    for (int64_t i = 0; i < 4; ++i) weight.set(i, 1);
    ASSERT_TRUE(executor->bind_weight(0, weight).ok());
    ASSERT_TRUE(executor->run(std::vector<HostTensor>{}).ok());
    const bool is_spoilt = std::string_view(entry) == "spoil_input";
    EXPECT_EQ(weight.get(0) != 1, is_spoilt) << "the weight was copied";
    EXPECT_EQ(executor->check_guards().ok(), !is_spoilt);
    // As a kernel would that takes the weight for longer than it is.
    weight.mutable_bytes().data()[weight.bytes().size()] = std::byte{0};
    Status status = executor->check_guards();
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("input 0"), std::string::npos) << status.error().message;
  }
}

TEST_P(ExecutorTest, UnwrittenOutputsShowAsNaN) {
  PlanMaker m;
  int x = m.input({4});
  m.call(m.kernel("half_done"), {x}, {m.output({4})}, {4});
  auto executor = must_load(m, {true});
  RunOutputs outputs;
  for (int round = 0; round < 2; ++round) {  // the second run must not see the first one's output
    ASSERT_TRUE(
        executor->run_total_ns(std::vector<HostTensor>{tensor({1, 2, 3, 4})}, outputs).ok());
    EXPECT_EQ(outputs.user.at(0).get(1), 2);
    EXPECT_TRUE(std::isnan(outputs.user.at(0).get(3)));
  }
}

TEST_P(ExecutorTest, TimesEveryCall) {
  auto executor = must_load(scaled_sum(4));
  ASSERT_TRUE(executor->bind_weight(1, tensor({1, 2, 3, 4})).ok());
  std::vector<HostTensor> inputs = {tensor({1, 1, 1, 1})};
  RunOutputs outputs;
  auto times = executor->run_calls_ns(inputs, outputs);
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->size(), 2u);
  auto total = executor->run_total_ns(inputs, outputs);
  ASSERT_TRUE(total.ok());
  EXPECT_GE(*total, 0);
  EXPECT_EQ(values(outputs.user.at(0)), (Values{4, 6, 8, 10}));
}

TEST_P(ExecutorTest, LibraryProducts) {
  if (!device_->has_gemm()) GTEST_SKIP() << "OpenBLAS is not installed";
  PlanMaker m;
  m.plan.symbols = {{0, 64}};
  Expr n = Expr::symbol(0);
  int a = m.input({n, 3}), b = m.input({3, 2}, InputKind::kWeight), out = m.output({n, 2});
  PlanKernel kernel;
  kernel.library = true;
  kernel.gemm.m = Expr::symbol(0);
  kernel.gemm.n = 2;
  kernel.gemm.k = 3;
  kernel.gemm.a = {0, 0, 3, 1};
  kernel.gemm.b = {0, 0, 2, 1};
  kernel.gemm.out = {0, 0, 2, 1};
  m.plan.kernels.push_back(kernel);
  m.call(0, {a, b}, {out}, {n});
  auto executor = must_load(m);
  HostTensor weight = *HostTensor::zeros(DType::kFloat32, {3, 2});
  for (int64_t i = 0; i < 6; ++i) weight.set(i, static_cast<double>(i));
  ASSERT_TRUE(executor->bind_weight(1, weight).ok());
  for (int64_t rows : {2, 0, 1}) {
    HostTensor x = *HostTensor::zeros(DType::kFloat32, {rows, 3});
    for (int64_t i = 0; i < rows * 3; ++i) x.set(i, 1);
    auto result = executor->run(std::vector<HostTensor>{x});
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->user.at(0).sizes(), (std::vector<int64_t>{rows, 2}));
    for (int64_t i = 0; i < rows; ++i) {
      EXPECT_EQ(result->user.at(0).get(2 * i), 6);
      EXPECT_EQ(result->user.at(0).get(2 * i + 1), 9);
    }
  }
  m.plan.kernels[0].gemm.a.row_stride = 4;
  auto leaves = must_load(m);
  ASSERT_TRUE(leaves->bind_weight(1, weight).ok());
  auto result = leaves->run(std::vector<HostTensor>{*HostTensor::zeros(DType::kFloat32, {4, 3})});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kCorrupt);
}

// Random plans of add, put (in place or not) and both over buffers of two sizes, run against a
// direct evaluation that knows nothing of memory.
struct RandomPlan {
  PlanMaker maker;
  std::vector<std::function<void(std::map<int, Values>&)>> steps;
  std::vector<int> outputs;
};

RandomPlan random_plan(Random& random) {
  RandomPlan result;
  PlanMaker& m = result.maker;
  constexpr int kSize = 5;
  std::vector<int> readable = {m.input({kSize}), m.input({kSize}, InputKind::kState)};
  int position = m.input({1}, InputKind::kUser, DType::kInt64);
  int add = m.kernel("add", Expr::symbol(0)), put = m.kernel("put", 1, 0), both = m.kernel("both");
  int calls = 3 + static_cast<int>(random.below(15));
  auto pick = [&] { return readable[random.below(readable.size())]; };
  for (int c = 0; c < calls; ++c) {
    bool last = c == calls - 1;
    int out = last                  ? m.mutate(1, {kSize})
              : random.chance(0.25) ? m.output({kSize})
                                    : m.temporary({kSize});
    int a = pick(), b = pick();
    uint64_t what = random.below(last ? 2 : 3);
    if (what == 0) {
      m.call(add, {a, b}, {out}, {kSize});
      result.steps.push_back([=](auto& v) {
        v[out] = v[a];
        for (size_t i = 0; i < kSize; ++i) v[out][i] += v[b][i];
      });
    } else if (what == 1) {
      m.call(put, {a, position, b}, {out}, {kSize});
      result.steps.push_back([=](auto& v) {
        float value = v[b][0];
        v[out] = v[a];
        v[out][2] += value;
      });
    } else {
      int second = m.temporary({kSize});
      m.call(both, {a}, {out, second}, {kSize});
      result.steps.push_back([=](auto& v) {
        v[out] = v[second] = v[a];
        for (size_t i = 0; i < kSize; ++i) v[out][i] += 1, v[second][i] -= 1;
      });
      readable.push_back(second);
    }
    readable.push_back(out);
    if (m.plan.buffers[static_cast<size_t>(out)].kind == BufferKind::kOutput && !last) {
      result.outputs.push_back(out);
    }
    if (last) result.outputs.push_back(out);
  }
  return result;
}

TEST_P(ExecutorTest, RandomPlansAgreeWithDirectEvaluation) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    RandomPlan plan = random_plan(random);
    for (bool guard : {false, true}) {
      auto executor = must_load(plan.maker, {guard});
      Values state = {1, 2, 3, 4, 5};
      ASSERT_TRUE(executor->set_state(1, tensor(state)).ok());
      for (int round = 0; round < 3; ++round) {
        std::map<int, Values> v;
        v[0] = Values(5, static_cast<float>(round));
        v[1] = state;
        for (const auto& step : plan.steps) step(v);
        auto result = executor->run(std::vector<HostTensor>{tensor(v[0]), index_tensor(2)});
        ASSERT_TRUE(result.ok()) << result.error().message;
        for (size_t k = 0; k + 1 < plan.outputs.size(); ++k) {
          ASSERT_EQ(values(result->user.at(k)), v[plan.outputs[k]]) << "seed " << seed;
        }
        state = v[plan.outputs.back()];
        ASSERT_EQ(values(*executor->state(1)), state) << "seed " << seed << " guard " << guard;
        Status guards = executor->check_guards();
        ASSERT_TRUE(guards.ok()) << guards.error().message << ", seed " << seed;
      }
    }
  }
}

// out = x + counted(w): the second call alone belongs to a run.
PlanMaker sum_with_counted(InputKind kind, bool keeps_symbol = false) {
  PlanMaker m;
  if (keeps_symbol) m.plan.symbols = {{1, 1000}};
  Expr n = keeps_symbol ? Expr::symbol(0) : Expr(4);
  int x = m.input({n});
  int w = m.input({n}, kind);
  int twice = m.temporary({n}), out = m.output({n});
  m.call(m.kernel("counted"), {w}, {twice}, {n});
  m.call(m.kernel("add", Expr::symbol(0)), {x, twice}, {out}, {n});
  return m;
}

TEST_P(ExecutorTest, WhatDependsOnWeightsAloneIsComputedWhenTheyAreBound) {
  for (bool guard : {false, true}) {
    auto executor = must_load(sum_with_counted(InputKind::kWeight), {guard});
    std::vector<HostTensor> inputs = {tensor({0, 1, 2, 3})};
    EXPECT_EQ(executor->prepare().error().code, Code::kInvalidInput);
    ASSERT_TRUE(executor->bind_weight(1, tensor({0, 10, 20, 30})).ok());
    ASSERT_TRUE(executor->prepare().ok());
    ASSERT_TRUE(executor->prepare().ok());
    Values first = values(executor->run(inputs)->user.at(0));
    EXPECT_EQ(Values(first.begin() + 1, first.end()), (Values{21, 42, 63}));
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(values(executor->run(inputs)->user.at(0)), first) << "guard " << guard;
      EXPECT_TRUE(executor->check_guards().ok());
    }
    ASSERT_TRUE(executor->bind_weight(1, tensor({0, 1, 1, 1})).ok());
    Values rebound = values(executor->run(inputs)->user.at(0));
    EXPECT_EQ(rebound, (Values{first[0] + 1, 3, 4, 5}));
    EXPECT_EQ(values(executor->run(inputs)->user.at(0)), rebound);
    EXPECT_GT(executor->prepare_ns(), 0);
    RunOutputs outputs;
    auto times = executor->run_calls_ns(inputs, outputs);
    ASSERT_EQ(times->size(), 2u);
    EXPECT_EQ(times->at(0), 0);
    EXPECT_EQ(values(outputs.user.at(0)), rebound);
  }
}

TEST_P(ExecutorTest, WhatAnotherExecutorPreparedIsUsedAndLeftAlone) {
  std::vector<HostTensor> inputs = {tensor({0, 1, 2, 3})};
  auto first = must_load(sum_with_counted(InputKind::kWeight));
  EXPECT_TRUE(first->prepared().empty());
  ASSERT_TRUE(first->bind_weight(1, tensor({0, 10, 20, 30})).ok());
  ASSERT_TRUE(first->prepare().ok());
  std::vector<ByteView> values_of_first = first->prepared();
  if (!first->device().uses_host_memory()) {
    EXPECT_TRUE(values_of_first.empty());
    return;
  }
  ASSERT_EQ(values_of_first.size(), 1u);
  auto owner = HostTensor::zeros(DType::kFloat32, {4}).value();
  std::copy(values_of_first[0].begin(), values_of_first[0].end(), owner.mutable_bytes().begin());
  const Bytes given(owner.bytes().begin(), owner.bytes().end());

  auto second = must_load(sum_with_counted(InputKind::kWeight));
  ASSERT_TRUE(second->bind_weight(1, tensor({0, 1, 1, 1})).ok());
  const ByteView whole = owner.bytes();
  for (const std::vector<ByteView>& wrong :
       {std::vector<ByteView>{}, {whole.first(12)}, {whole, whole}, {whole.subspan(4)}}) {
    EXPECT_EQ(second->use_prepared(wrong, nullptr).error().code, Code::kInvalidInput);
  }
  ASSERT_TRUE(second->use_prepared(std::vector<ByteView>{whole}, nullptr).ok());
  EXPECT_EQ(values(second->run(inputs)->user.at(0)), values(first->run(inputs)->user.at(0)));
  EXPECT_EQ(second->memory().prepacked, whole.size());
  // Other weights are computed elsewhere: what was given is read alone.
  ASSERT_TRUE(second->bind_weight(1, tensor({0, 2, 2, 2})).ok());
  const Values rebound = values(second->run(inputs)->user.at(0));
  EXPECT_EQ(Values(rebound.begin() + 1, rebound.end()), (Values{5, 6, 7}));
  EXPECT_TRUE(std::equal(given.begin(), given.end(), owner.bytes().begin()));

  auto guarded = must_load(sum_with_counted(InputKind::kWeight), {true});
  ASSERT_TRUE(guarded->bind_weight(1, tensor({0, 1, 1, 1})).ok());
  EXPECT_EQ(guarded->use_prepared(std::vector<ByteView>{whole}, nullptr).error().code,
            Code::kInvalidInput);
}

TEST_P(ExecutorTest, WhatDependsOnStatesOrSizesIsComputedInEveryRun) {
  std::vector<HostTensor> inputs = {tensor({0, 0, 0, 0})};
  auto stateful = must_load(sum_with_counted(InputKind::kState));
  ASSERT_TRUE(stateful->set_state(1, tensor({0, 1, 1, 1})).ok());
  float first = values(stateful->run(inputs)->user.at(0))[0];
  EXPECT_EQ(values(stateful->run(inputs)->user.at(0))[0], first + 1);
  EXPECT_EQ(stateful->prepare_ns(), 0);

  auto sized = must_load(sum_with_counted(InputKind::kWeight, true));
  ASSERT_TRUE(sized->bind_weight(1, tensor({0, 1, 1, 1})).ok());
  first = values(sized->run(inputs)->user.at(0))[0];
  EXPECT_EQ(values(sized->run(inputs)->user.at(0))[0], first + 1);
}

TEST_P(ExecutorTest, AnOutputIsWrittenInEveryRun) {
  PlanMaker m;
  int w = m.input({4}, InputKind::kWeight);
  int out = m.output({4});
  m.call(m.kernel("twice"), {w}, {out}, {4});
  auto executor = must_load(m);
  ASSERT_TRUE(executor->bind_weight(0, tensor({1, 2, 3, 4})).ok());
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(values(executor->run({})->user.at(0)), (Values{2, 4, 6, 8}));
  }
}

// A call that works in place must not take what every run reads, wherever the plan has the calls.
TEST_P(ExecutorTest, WorkInPlaceSparesWhatRunsRead) {
  for (bool at_load : {false, true}) {
    PlanMaker m;
    int x = m.input({4}), w = m.input({4}, InputKind::kWeight);
    int position = m.input({1}, at_load ? InputKind::kWeight : InputKind::kUser, DType::kInt64);
    int value = m.input({1}, InputKind::kWeight);
    int twice = m.temporary({4}), more = m.temporary({4});
    int sum = m.output({4}), out = m.output({4});
    m.call(m.kernel("twice"), {w}, {twice}, {4});
    m.call(m.kernel("add", Expr::symbol(0)), {x, twice}, {sum}, {4});
    m.call(m.kernel("put", 1, 0), {twice, position, value}, {more}, {4});
    m.call(m.kernel("add", Expr::symbol(0)), {x, more}, {out}, {4});
    auto executor = must_load(m);
    ASSERT_TRUE(executor->bind_weight(1, tensor({1, 2, 3, 4})).ok());
    ASSERT_TRUE(executor->bind_weight(3, tensor({100})).ok());
    std::vector<HostTensor> inputs = {tensor({0, 0, 0, 0})};
    if (at_load) {
      ASSERT_TRUE(executor->bind_weight(2, index_tensor(1)).ok());
    } else {
      inputs.push_back(index_tensor(1));
    }
    for (int k = 0; k < 3; ++k) {
      auto outputs = executor->run(inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.error().message;
      EXPECT_EQ(values(outputs->user.at(0)), (Values{2, 4, 6, 8}));
      EXPECT_EQ(values(outputs->user.at(1)), (Values{2, 104, 6, 8}));
    }
  }
}

TEST_P(ExecutorTest, WritingWhatWasComputedAtLoadIsSeen) {
  PlanMaker m;
  int x = m.input({4}), w = m.input({4}, InputKind::kWeight);
  int twice = m.temporary({4}), out = m.output({4});
  m.call(m.kernel("twice"), {w}, {twice}, {4});
  m.call(m.kernel("spoil_and_add"), {x, twice}, {out}, {4});
  auto executor = must_load(m, {true});
  ASSERT_TRUE(executor->bind_weight(1, tensor({1, 2, 3, 4})).ok());
  ASSERT_TRUE(executor->run(std::vector<HostTensor>{tensor({1, 1, 1, 1})}).ok());
  Status status = executor->check_guards();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kVerification);
  EXPECT_NE(status.error().message.find("buffer 2"), std::string::npos) << status.error().message;
}

INSTANTIATE_TEST_SUITE_P(CpuAndLate, ExecutorTest, testing::Bool());

}  // namespace
}  // namespace common
