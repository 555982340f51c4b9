// If these fail, a worker or client in a container starts more threads than it has processors, and
// every run waits for threads that do not run.
#include "common/process/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace common {
namespace {

TEST(Processors, TheAffinityMaskLimits) {
  int with_one = 0;
  std::thread limited([&] {
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) ++cpu;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    with_one = usable_processors();
  });
  limited.join();
  EXPECT_EQ(with_one, 1);
  EXPECT_GE(usable_processors(), 1);
}

TEST(Processors, AQuotaIsAShareOfEachPeriod) {
  EXPECT_EQ(quota_processors("150000 100000\n"), 1.5);
  EXPECT_EQ(quota_processors("50000\n 100000\n"), 0.5);
  EXPECT_EQ(quota_processors("max 100000\n"), std::nullopt);
  EXPECT_EQ(quota_processors("-1 100000"), std::nullopt);
  EXPECT_EQ(quota_processors("100000 0"), std::nullopt);
  EXPECT_EQ(quota_processors(""), std::nullopt);
}

}  // namespace
}  // namespace common
