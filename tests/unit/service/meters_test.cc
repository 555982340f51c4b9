// What the coordinator counts: if these fail, a farm's metrics grow without bound, or say what did
// not happen.
#include "coordinator/service/observe/meters.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "common/base/cat.h"

namespace coordinator::service {
namespace {

using common::cat;

double sample(const Meters& meters, const std::string& name) {
  std::istringstream lines(meters.text({}));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + " ")) return std::stod(line.substr(name.size()));
  }
  return -1;
}

// Prometheus keeps every series that it has ever seen: ten thousand teams must not become as many.
TEST(Meters, TenantsBeyondTheBoundAreCountedTogether) {
  Meters meters;
  for (int k = 0; k < 1'000; ++k) meters.plan_asked(cat("team-", k), "hit");
  std::set<std::string> labels;
  std::istringstream lines(meters.text({}));
  for (std::string line; std::getline(lines, line);) {
    size_t at = line.find("tenant=\"");
    if (at == std::string::npos) continue;
    labels.insert(line.substr(at + 8, line.find('"', at + 8) - at - 8));
  }
  EXPECT_EQ(labels.size(), kTenantLabelsMax + 1);
  EXPECT_TRUE(labels.contains(kOtherTenants));
  EXPECT_EQ(sample(meters, "lfarm_plan_requests_total{result=\"hit\",tenant=\"other\"}"), 900);
  EXPECT_EQ(sample(meters, "lfarm_cache_hits_total{tenant=\"other\",tier=\"plans\"}"), 900);
  // Who has a label keeps it.
  meters.plan_asked("team-3", "hit");
  EXPECT_EQ(sample(meters, "lfarm_cache_hits_total{tenant=\"team-3\",tier=\"plans\"}"), 2);
}

TEST(Meters, TiersAreToldApart) {
  Meters meters;
  meters.plan_asked("a", "shared");
  meters.plan_asked("a", "miss");
  meters.found("a", CacheTier::kRegions, 3);
  meters.found("a", CacheTier::kKernels, 0);
  EXPECT_EQ(sample(meters, "lfarm_cache_hits_total{tenant=\"a\",tier=\"shared\"}"), 1);
  EXPECT_EQ(sample(meters, "lfarm_cache_hits_total{tenant=\"a\",tier=\"regions\"}"), 3);
  EXPECT_EQ(sample(meters, "lfarm_cache_hits_total{tenant=\"a\",tier=\"kernels\"}"), -1);
  EXPECT_EQ(sample(meters, "lfarm_cache_hits_total{tenant=\"a\",tier=\"plans\"}"), -1);
}

TEST(Meters, WhatWorkersTellOfATaskIsCounted) {
  Meters meters;
  common::TaskReport report;
  meters.task_ended(common::TaskOutcome::kWrong, report, {{"compile", 0, 5}, {"verify", 5, 250}});
  meters.task_ended(common::TaskOutcome::kOk, report,
                    {{"verify", 5, 250}, {"measure", 255, 40}, {"nap", 300, 1}});
  EXPECT_EQ(sample(meters, "lfarm_verify_seconds_count"), 2);
  EXPECT_DOUBLE_EQ(sample(meters, "lfarm_verify_seconds_sum"), 0.5);
  EXPECT_EQ(sample(meters, "lfarm_measure_seconds_bucket{le=\"0.03\"}"), 0);
  EXPECT_EQ(sample(meters, "lfarm_measure_seconds_bucket{le=\"0.1\"}"), 1);
  EXPECT_EQ(sample(meters, "lfarm_tasks_total{outcome=\"wrong\"}"), 1);
  meters.task_leased(true, 2);
  meters.task_leased(false, 100);
  EXPECT_EQ(sample(meters, "lfarm_leases_total"), 2);
  EXPECT_EQ(sample(meters, "lfarm_queue_seconds_sum"), 2);
}

// Alerts see the first step of what was there before it.
TEST(Meters, EndsAndReasonsAreThereFromTheStart) {
  Meters meters;
  EXPECT_EQ(sample(meters, "lfarm_jobs_total{end=\"failed\"}"), 0);
  EXPECT_EQ(sample(meters, "lfarm_tasks_requeued_total{reason=\"worker lost\"}"), 0);
  EXPECT_EQ(sample(meters, "lfarm_tasks_total{outcome=\"infra\"}"), 0);
}

}  // namespace
}  // namespace coordinator::service
