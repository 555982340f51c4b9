// Donated inputs: if these fail, a run writes an input that it still reads or that nobody gave it,
// or training takes the memory of saved tensors twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "common/plan/spare_memory.h"
#include "common/runtime/device/cpu_device.h"
#include "common/runtime/executor/executor.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

constexpr int64_t kSize = 4096;
constexpr size_t kBytes = 4 * kSize;

TEST(SparePlaces, BlocksLieApartAndWhereTheyMay) {
  size_t placed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<LiveBlock> blocks(random.below(60));
    for (LiveBlock& block : blocks) {
      block.bytes = static_cast<size_t>(random.below(5000));
      block.first = static_cast<int>(random.below(40));
      block.last = block.first + static_cast<int>(random.below(8));
    }
    std::vector<LiveBlock> spare(random.below(10));
    for (LiveBlock& one : spare) {
      one.bytes = static_cast<size_t>(random.below(12000));
      one.first = static_cast<int>(random.below(40));
      one.last = one.first + static_cast<int>(random.below(40));
    }
    SparePlaces places = place_in_spare(blocks, spare, 64);
    ASSERT_EQ(places.spare.size(), blocks.size());
    for (size_t x = 0; x < blocks.size(); ++x) {
      if (places.spare[x] < 0) continue;
      ++placed;
      const LiveBlock& in = spare[static_cast<size_t>(places.spare[x])];
      EXPECT_EQ(places.offsets[x] % 64, 0u);
      ASSERT_LE(places.offsets[x] + blocks[x].bytes, in.bytes) << "seed " << seed;
      ASSERT_GE(blocks[x].first, in.first) << "seed " << seed;
      ASSERT_LE(blocks[x].last, in.last) << "seed " << seed;
      for (size_t y = 0; y < x; ++y) {
        if (places.spare[y] != places.spare[x]) continue;
        bool apart = blocks[x].last < blocks[y].first || blocks[y].last < blocks[x].first ||
                     places.offsets[x] + blocks[x].bytes <= places.offsets[y] ||
                     places.offsets[y] + blocks[y].bytes <= places.offsets[x];
        ASSERT_TRUE(apart) << "blocks " << x << " and " << y << " overlap, seed " << seed;
      }
    }
  }
  EXPECT_GT(placed, 1000u);
}

TEST(SparePlaces, AChainGoesThroughOneInput) {
  std::vector<LiveBlock> chain;
  for (int c = 1; c < 20; ++c) chain.push_back({1000, c, c + 1});
  SparePlaces places = place_in_spare(chain, std::vector<LiveBlock>{{2024, 1, 30}}, 64);
  EXPECT_EQ(std::count(places.spare.begin(), places.spare.end(), 0), 19);
}

constexpr const char* kKernels = R"(
#define F(k) ((float*)b[k])
KERNEL(twice) { for (int64_t i = 0; i < s[0]; ++i) F(1)[i] = 2 * F(0)[i]; }
KERNEL(add) { for (int64_t i = 0; i < s[0]; ++i) F(2)[i] = F(0)[i] + F(1)[i]; }
)";

HostTensor filled(float value) {
  auto tensor = HostTensor::zeros(DType::kFloat32, {kSize}).value();
  for (int64_t i = 0; i < kSize; ++i) tensor.set(i, value);
  return tensor;
}

bool is_filled(const HostTensor& tensor, float value) {
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (static_cast<float>(tensor.get(i)) != value) return false;
  }
  return true;
}

class Donation : public testing::Test {
 protected:
  static void SetUpTestSuite() { object = new Bytes(compile_object(kKernels)); }
  static void TearDownTestSuite() { delete object; }

  std::unique_ptr<Executor> load(PlanMaker maker, ExecutorOptions options = {}) {
    Plan plan = maker.finish(*object);
    plan.key.target = device_->target();
    auto source = [](const Digest&) -> Result<ByteView> { return ByteView(*object); };
    auto executor = Executor::load(plan, source, *device_, options);
    EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
    return executor.ok() ? std::move(*executor) : nullptr;
  }

  // As a backward graph reads saved tensors, the last layer's first:
  //   a = 2 early; c = 2 a; d = c + late; out = d + early, where `reads_early_again`, else d +
  //   late.
  static PlanMaker backward(bool reads_early_again = false) {
    PlanMaker m;
    int early = m.input({kSize}), late = m.input({kSize});
    int a = m.temporary({kSize}), c = m.temporary({kSize}), d = m.temporary({kSize});
    int out = m.output({kSize});
    int twice = m.kernel("twice"), add = m.kernel("add");
    m.call(twice, {early}, {a}, {kSize});
    m.call(twice, {a}, {c}, {kSize});
    m.call(add, {c, late}, {d}, {kSize});
    m.call(add, {d, reads_early_again ? early : late}, {out}, {kSize});
    return m;
  }

  static Bytes* object;
  std::unique_ptr<Device> device_ = make_cpu_device();
};
Bytes* Donation::object = nullptr;

TEST_F(Donation, OutputsHoldOtherValuesBeforeTheyAreWritten) {
  PlanMaker m;
  int x = m.input({kSize}), a = m.temporary({kSize}), b = m.temporary({kSize});
  int c = m.temporary({kSize}), out = m.output({kSize}), early = m.output({kSize});
  int twice = m.kernel("twice"), add = m.kernel("add");
  m.call(twice, {x}, {early}, {kSize});
  m.call(twice, {early}, {a}, {kSize});
  m.call(twice, {a}, {b}, {kSize});
  m.call(twice, {b}, {c}, {kSize});
  m.call(add, {c, early}, {out}, {kSize});
  auto executor = load(m);
  for (int run = 1; run < 3; ++run) {
    auto x1 = static_cast<float>(run);
    std::vector<HostTensor> inputs = {filled(x1)};
    auto result = executor->run(inputs);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_TRUE(is_filled(result->user.at(0), 18 * x1));
    EXPECT_TRUE(is_filled(result->user.at(1), 2 * x1)) << "written before the others need memory";
    EXPECT_TRUE(is_filled(inputs[0], x1));
  }
  EXPECT_EQ(executor->memory().arena, 2 * kBytes) << "b and c; a lies in out";
}

TEST_F(Donation, ValuesLieInInputsThatAreNeededNoMore) {
  auto plain = load(backward()), saving = load(backward());
  ASSERT_TRUE(saving->donate(0).ok());
  for (int run = 1; run < 4; ++run) {  // each run's inputs lie elsewhere
    auto x = static_cast<float>(run);
    std::vector<HostTensor> inputs = {filled(x), filled(10 * x)};
    auto expected = plain->run(inputs);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    EXPECT_TRUE(is_filled(inputs[0], x)) << "inputs that nobody donates stay";
    auto result = saving->run(inputs);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_TRUE(is_filled(expected->user.at(0), 24 * x));
    EXPECT_TRUE(is_filled(result->user.at(0), 24 * x));
    EXPECT_TRUE(is_filled(inputs[0], 4 * x)) << "the donated input holds c";
    EXPECT_TRUE(is_filled(inputs[1], 10 * x)) << "the other one was not donated";
  }
  EXPECT_EQ(plain->memory().arena, 2 * kBytes);
  EXPECT_EQ(saving->memory().arena, kBytes);
}

TEST_F(Donation, WhatIsReadAgainIsKeptUntilThen) {
  auto executor = load(backward(true));
  ASSERT_TRUE(executor->donate(0).ok());
  std::vector<HostTensor> inputs = {filled(1), filled(10)};
  auto result = executor->run(inputs);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(is_filled(result->user.at(0), 15));
  EXPECT_EQ(executor->memory().arena, 2 * kBytes) << "no value begins after its last use";
}

TEST_F(Donation, MayBeginBetweenRuns) {
  auto executor = load(backward());
  std::vector<HostTensor> inputs = {filled(1), filled(10)};
  ASSERT_TRUE(executor->run(inputs).ok());
  ASSERT_TRUE(executor->donate(0).ok());
  auto result = executor->run(inputs);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(is_filled(result->user.at(0), 24));
  EXPECT_TRUE(is_filled(inputs[0], 4));
}

TEST_F(Donation, InputsThatHaveToBeCopiedAreNotTouched) {
  auto executor = load(backward());
  ASSERT_TRUE(executor->donate(0).ok());
  std::vector<float> memory(kSize + 16, 1);
  auto address = reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float);
  std::byte* odd = reinterpret_cast<std::byte*>(memory.data() + (address % 16 == 0 ? 1 : 0));
  HostTensor unaligned = *HostTensor::wrap(DType::kFloat32, {kSize}, {odd, kBytes});
  auto result = executor->run(std::vector<HostTensor>{unaligned, filled(10)});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(is_filled(result->user.at(0), 24));
  EXPECT_TRUE(is_filled(unaligned, 1));
}

TEST_F(Donation, MutatedInputsGetTheirNewContent) {
  PlanMaker m = backward();
  m.plan.outputs[0] = {OutputKind::kMutate, -1, 0};
  auto executor = load(m);
  ASSERT_TRUE(executor->donate(0).ok());
  std::vector<HostTensor> inputs = {filled(1), filled(10)};
  auto result = executor->run(inputs);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->mutated.size(), 1u);
  EXPECT_TRUE(is_filled(result->mutated[0].value, 24));
  EXPECT_TRUE(is_filled(inputs[0], 1)) << "the caller writes it";
}

TEST_F(Donation, GuardedRunsWriteNoInput) {
  ExecutorOptions options;
  options.guard = true;
  auto executor = load(backward(), options);
  ASSERT_TRUE(executor->donate(0).ok());
  std::vector<HostTensor> inputs = {filled(1), filled(10)};
  ASSERT_TRUE(executor->run(inputs).ok());
  EXPECT_TRUE(executor->check_guards().ok());
  EXPECT_TRUE(is_filled(inputs[0], 1));
}

TEST_F(Donation, WhatIsNoUserInputIsRefused) {
  PlanMaker m = backward();
  m.plan.inputs[1].kind = InputKind::kWeight;
  auto executor = load(m);
  for (int position : {-1, 1, 2}) {
    auto status = executor->donate(position);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kInvalidInput);
  }
}

}  // namespace
}  // namespace common
