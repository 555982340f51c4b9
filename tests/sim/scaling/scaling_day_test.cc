// A day against the scaling rule: if these fail, the farm loses work when it shrinks, pays for
// workers that nobody wants, or the numbers in docs/measurements are not what they say.
#include "tests/sim/scaling/scaling_day.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace scaling {
namespace {

int64_t tasks_of(const std::vector<DayJob>& day) {
  return std::accumulate(day.begin(), day.end(), int64_t{0},
                         [](int64_t sum, const DayJob& job) { return sum + job.tasks; });
}

TEST(ScalingDay, NoTaskIsLostAndTheFarmGoesBackToNothing) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    DayOptions options;
    options.seed = seed;
    options.jobs = 120;
    std::vector<DayJob> day = generate_day(options);
    ScalingRule rule;
    DayResult result = replay_day(day, rule);
    EXPECT_EQ(result.tasks, tasks_of(day)) << seed;
    EXPECT_EQ(result.wait_s.size(), day.size()) << seed;
    EXPECT_EQ(result.workers_left, 0) << seed;
    EXPECT_GT(result.workers_peak, 1) << seed;
    EXPECT_LE(result.workers_peak, rule.workers_max) << seed;
    EXPECT_GE(result.worker_hours, result.ideal_hours) << seed;
  }
}

TEST(ScalingDay, ADayWithoutSubmitsCostsNothing) {
  DayResult result = replay_day({}, {});
  EXPECT_EQ(result.pods, 0);
  EXPECT_EQ(result.worker_hours, 0);
}

// By hand: one job of ten tasks of six seconds. The first look at the queue is at 3600 s, and so is
// the pod; it joins 150 s later, and works for a minute. Nothing is wanted from 3810 s on, and ten
// minutes after the last look that found something the pod ends.
TEST(ScalingDay, OneJobIsFollowedToTheSecond) {
  ScalingRule rule;
  rule.in_flight = 4;
  DayResult result = replay_day({{3600, 10, 6}}, rule);
  ASSERT_EQ(result.wait_s.size(), 1u);
  EXPECT_EQ(result.pods, 1);
  EXPECT_DOUBLE_EQ(result.wait_s[0], 150);
  EXPECT_DOUBLE_EQ(result.done_s[0], 210);
  EXPECT_NEAR(result.worker_hours * 3600, 210 + 600, 16);
  EXPECT_NEAR(result.ideal_hours * 3600, 60, 1e-6);
}

TEST(ScalingDay, AFixedFleetWaitsForNothingAndPaysForAll) {
  ScalingRule rule;
  rule.fixed = 4;
  DayResult result = replay_day({{3600, 10, 6}}, rule);
  EXPECT_DOUBLE_EQ(result.wait_s[0], rule.prepare_s);
  EXPECT_DOUBLE_EQ(result.worker_hours, 4 * 24);
}

// What stops in the middle of a task ends it first.
TEST(ScalingDay, ShrinkingReturnsLeasesAndEndsTasks) {
  std::vector<DayJob> day;
  for (int k = 0; k < 8; ++k) day.push_back({100.0, 40, 20});
  day.push_back({100, 400, 20});
  ScalingRule rule;
  rule.stabilize_s = 0;
  rule.searches_max = 9;
  DayResult result = replay_day(day, rule);
  EXPECT_EQ(result.tasks, tasks_of(day));
  EXPECT_GT(result.returned, 0);
}

TEST(ScalingDay, TheSameSeedIsTheSameDay) {
  EXPECT_EQ(generate_day({}), generate_day({}));
  DayOptions other;
  other.seed = 2;
  EXPECT_NE(generate_day(other), generate_day({}));
}

TEST(ScalingDay, ARecordedDayIsReadLineByLine) {
  auto day = parse_day("# my day\n7200 8 1.5\n\n60 4 0.25 # early\n");
  ASSERT_TRUE(day.ok()) << day.error().message;
  EXPECT_EQ(*day, (std::vector<DayJob>{{60, 4, 0.25}, {7200, 8, 1.5}}));
  for (const char* wrong : {"1 2", "1 2 3 4", "-1 2 3", "1 0 3", "90000 2 3", "a b c"}) {
    auto none = parse_day(wrong);
    ASSERT_FALSE(none.ok()) << wrong;
    EXPECT_NE(none.error().message.find("line 1"), std::string::npos);
  }
}

}  // namespace
}  // namespace scaling
