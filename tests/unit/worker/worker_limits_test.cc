// How long candidates may be compiled and may run.
#include <gtest/gtest.h>

#include "worker/agent/pipeline/run_limits.h"

namespace worker {
namespace {

constexpr int64_t kLeaseMs = 500'000;
constexpr int64_t kMs = 1'000'000;

common::TaskPayload candidate(uint64_t give_up_ns) {
  common::TaskPayload task;
  task.kind = common::TaskKind::kCandidate;
  task.verify.seeds = {1, 2};
  task.verify.sizes = {{37}, {1}};
  task.measure.time_max_ms = 100;
  task.measure.give_up_ns = give_up_ns;
  return task;
}

int candidate_ms(uint64_t give_up_ns, int64_t left_ms = kLeaseMs) {
  return run_limits(candidate(give_up_ns), left_ms).candidate_ms;
}

TEST(RunLimits, AreAMultipleOfWhatIsTooSlow) {
  constexpr int64_t kCases = (2 + 4) * 2;
  constexpr int64_t kMeasured = kMeasureFactor * 100;
  EXPECT_EQ(candidate_ms(40 * kMs), kVerifyMsMin + kCases * kRunsPerCase * 41 + kMeasured);
  EXPECT_EQ(candidate_ms(20 * kMs) - candidate_ms(10 * kMs), kCases * kRunsPerCase * 10);
}

TEST(RunLimits, HaveAFloorAndACeiling) {
  EXPECT_GE(candidate_ms(1), kVerifyMsMin);
  EXPECT_EQ(candidate_ms(3'600'000 * kMs), kVerifyMsMax + kMeasureFactor * 100);
  EXPECT_EQ(candidate_ms(UINT64_MAX), kVerifyMsMax + kMeasureFactor * 100);
  EXPECT_EQ(candidate_ms(0), kVerifyMsMax + kMeasureFactor * 100) << "nobody knows the graph yet";
}

TEST(RunLimits, NeverOutlastTheLease) {
  EXPECT_EQ(candidate_ms(40 * kMs, 1'000), 1'000);
  EXPECT_EQ(run_limits(candidate(0), 1'000).total_ms, 1'000);
  EXPECT_EQ(compile_limit_ms(1'000), 1'000);
  EXPECT_EQ(compile_limit_ms(kLeaseMs), kCompileMsMax);
}

TEST(RunLimits, OnlyCandidatesAreCutShort) {
  common::TaskPayload task = candidate(1);
  for (auto kind : {common::TaskKind::kBaseline, common::TaskKind::kFinalist}) {
    task.kind = kind;
    EXPECT_EQ(run_limits(task, kLeaseMs).candidate_ms, kLeaseMs);
  }
}

}  // namespace
}  // namespace worker
