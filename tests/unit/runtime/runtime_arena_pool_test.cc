// Arenas that executors share: if these fail, a training step holds the memory of both its plans at
// once, or two runs at once write into one another's values.
#include <gtest/gtest.h>

#include "common/runtime/device/cpu_device.h"
#include "common/runtime/executor/arena_pool.h"
#include "common/runtime/executor/executor.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

TEST(ArenaPool, OneBlockDoesForRunsInTurn) {
  auto device = make_cpu_device();
  ArenaPool pool;
  auto large = pool.take(*device, 1000);
  ASSERT_TRUE(large.ok());
  std::byte* data = large->data();
  pool.give_back(std::move(*large));
  EXPECT_EQ(pool.kept_bytes(), 1000u);
  auto small = pool.take(*device, 10);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->data(), data);
  EXPECT_EQ(small->size(), 1000u);
  EXPECT_EQ(pool.kept_bytes(), 0u) << "the block is in use";
}

TEST(ArenaPool, RunsAtOnceHaveBlocksOfTheirOwn) {
  auto device = make_cpu_device();
  ArenaPool pool;
  auto one = pool.take(*device, 100), other = pool.take(*device, 200);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one->data(), other->data());
  pool.give_back(std::move(*other));
  pool.give_back(std::move(*one));
  EXPECT_EQ(pool.kept_bytes(), 200u) << "the larger is kept";
}

TEST(ArenaPool, WhatIsTooSmallIsGivenUp) {
  auto device = make_cpu_device();
  ArenaPool pool;
  auto small = pool.take(*device, 10);
  ASSERT_TRUE(small.ok());
  pool.give_back(std::move(*small));
  auto large = pool.take(*device, 20);
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(large->size(), 20u);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  pool.give_back(std::move(*large));
  pool.clear();
  EXPECT_EQ(pool.kept_bytes(), 0u);
}

constexpr const char* kKernels = R"(
KERNEL(twice) { for (int64_t i = 0; i < s[0]; ++i) ((float*)b[1])[i] = 2 * ((float*)b[0])[i]; }
)";

// Four times `size` numbers.
std::unique_ptr<Executor> make_executor(Device& device, const Bytes& object, int64_t size,
                                        std::shared_ptr<ArenaPool> pool) {
  PlanMaker m;
  int x = m.input({size}), between = m.temporary({size}), out = m.output({size});
  m.call(m.kernel("twice"), {x}, {between}, {size});
  m.call(m.kernel("twice"), {between}, {out}, {size});
  Plan plan = m.finish(object);
  plan.key.target = device.target();
  ExecutorOptions options;
  options.arenas = std::move(pool);
  auto executor = Executor::load(
      plan, [&](const Digest&) -> Result<ByteView> { return ByteView(object); }, device, options);
  EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
  return executor.ok() ? std::move(*executor) : nullptr;
}

TEST(ArenaPool, ExecutorsTakeTheirArenaForTheTimeOfARun) {
  Bytes object = compile_object(kKernels);
  auto device = make_cpu_device();
  auto pool = std::make_shared<ArenaPool>();
  auto forward = make_executor(*device, object, 1000, pool);
  auto backward = make_executor(*device, object, 3000, pool);
  ASSERT_TRUE(forward && backward);
  for (int step = 0; step < 3; ++step) {
    for (Executor* executor : {forward.get(), backward.get()}) {
      int64_t size = executor == forward.get() ? 1000 : 3000;
      auto x = HostTensor::zeros(DType::kFloat32, {size}).value();
      x.set(size - 1, step + 1);
      auto out = executor->run(std::vector<HostTensor>{x});
      ASSERT_TRUE(out.ok()) << out.error().message;
      EXPECT_EQ(out->user.at(0).get(size - 1), 4 * (step + 1));
      EXPECT_EQ(out->user.at(0).get(0), 0);
    }
  }
  EXPECT_GE(pool->kept_bytes(), 12000u);
  EXPECT_LT(pool->kept_bytes(), 16000u) << "one arena, and not one for each";
  EXPECT_EQ(backward->memory().arena, pool->kept_bytes());
  backward.reset();
  EXPECT_EQ(pool->kept_bytes(), 0u) << "its largest user is gone";
}

}  // namespace
}  // namespace common
