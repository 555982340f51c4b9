// If these fail, a launch on a processor loses units, waits for threads that have nothing to do, or
// lets a thread work on after it has returned.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>

#include "common/runtime/device/cpu_device_pool.h"

namespace common {
namespace {

struct CountedRun {
  std::atomic<int> own{0}, calls{0}, late{0};
  std::atomic<bool> is_over{false};

  static void work(void* context, int member) {
    auto* self = static_cast<CountedRun*>(context);
    if (self->is_over.load()) self->late.fetch_add(1);
    if (member == 0) self->own.fetch_add(1);
    self->calls.fetch_add(1);
  }
};

// More threads than there are processors, so that some begin late or not at all.
TEST(CpuPool, NobodyWorksOnARunThatHasReturned) {
  constexpr int kThreads = 9;
  constexpr size_t kRuns = 20'000;
  // On a busy machine all these runs may be over before a helper gets a processor.
  for (int helped = 0; helped == 0;) {
    auto runs = std::make_unique<std::array<CountedRun, kRuns>>();
    {
      CpuPool pool(kThreads);
      for (CountedRun& run : *runs) {
        ASSERT_TRUE(pool.try_run(CountedRun::work, &run));
        run.is_over.store(true);
      }
    }
    for (const CountedRun& run : *runs) {
      ASSERT_EQ(run.own.load(), 1);
      ASSERT_EQ(run.late.load(), 0);
      ASSERT_LE(run.calls.load(), kThreads);
      helped += run.calls.load() - 1;
    }
  }
}

// A job whose caller goes on until a helper has come, and whose helpers then take their time.
struct SlowHelper {
  std::atomic<bool> has_begun{false}, has_ended{false};

  static void work(void* context, int member) {
    auto* self = static_cast<SlowHelper*>(context);
    if (member == 0) {
      while (!self->has_begun.load()) std::this_thread::yield();
      return;
    }
    self->has_begun.store(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    self->has_ended.store(true);
  }
};

TEST(CpuPool, ARunEndsAfterTheHelpersThatBegan) {
  CpuPool pool(2);
  SlowHelper job;
  ASSERT_TRUE(pool.try_run(SlowHelper::work, &job));
  EXPECT_TRUE(job.has_ended.load());
  EXPECT_EQ(pool.stalls(), 1u) << "and says that it waited";
}

TEST(CpuPool, OneRunAtATime) {
  CpuPool pool(2);
  struct Nested {
    CpuPool* pool;
    bool has_run = true;
    static void work(void* context, int member) {
      auto* self = static_cast<Nested*>(context);
      CountedRun inner;
      if (member == 0) self->has_run = self->pool->try_run(CountedRun::work, &inner);
    }
  } nested{&pool};
  ASSERT_TRUE(pool.try_run(Nested::work, &nested));
  EXPECT_FALSE(nested.has_run);
}

}  // namespace
}  // namespace common
