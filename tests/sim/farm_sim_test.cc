// Simulation of the farm. Goal: no order of messages, losses, deaths, pauses and disk faults makes
// the farm lose a job or a task, commit one twice, believe an old result, overfill a worker, be
// unfair, leave a job waiting, or serve a plan that was withdrawn, whoever of several replicas
// leads. Method: each seed draws a farm, its jobs and a mixture of faults; an auditor checks the
// scheduler's rules after every event, a ledger what was promised to clients and searches over all
// restarts; when the faults stop, everything must end. Messages also overtake one another, which
// one TCP connection would not let them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/cat.h"
#include "common/base/hash64.h"
#include "farm_world.h"

namespace sim {
namespace {

// Printed by the signal handler when a check inside the scheduler aborts.
char reproduction[256];

void print_reproduction(int) {
  ssize_t ignored = write(STDERR_FILENO, reproduction, std::strlen(reproduction));
  (void)ignored;
}

void add(Report& sum, const Report& one) {
  sum.events += one.events;
  sum.committed += one.committed;
  sum.given_up += one.given_up;
  sum.stale += one.stale;
  sum.quarantined += one.quarantined;
  sum.no_worker += one.no_worker;
  sum.overfull += one.overfull;
  sum.damaged += one.damaged;
  sum.undecodable += one.undecodable;
  sum.torn += one.torn;
  sum.jobs_done += one.jobs_done;
  sum.jobs_failed += one.jobs_failed;
  sum.jobs_stopped += one.jobs_stopped;
  sum.failovers += one.failovers;
  sum.revoked += one.revoked;
  sum.shared += one.shared;
  sum.fair_choices += one.fair_choices;
  sum.longest_ms = std::max(sum.longest_ms, one.longest_ms);
  sum.trace = common::combine64(sum.trace, one.trace);
}

Faults everything(common::Random& random) {
  Faults faults;
  auto sometimes = [&random](double most) { return random.chance(0.4) ? random.unit() * most : 0; };
  faults.drop = sometimes(0.2);
  faults.duplicate = sometimes(0.3);
  faults.corrupt = sometimes(0.05);
  faults.long_delay = sometimes(0.3);
  faults.crash = sometimes(0.05);
  faults.freeze = sometimes(0.03);
  faults.partition = sometimes(0.03);
  faults.drain = sometimes(0.05);
  faults.infra = sometimes(0.3);
  faults.cancel = sometimes(0.05);
  faults.restart = sometimes(0.05);
  faults.stall = sometimes(0.03);
  faults.failover = sometimes(0.05);
  faults.outage = sometimes(0.05);
  faults.revoke = sometimes(0.3);
  faults.slow_write = sometimes(0.3);
  faults.failed_write = sometimes(0.3);
  faults.full_disk = sometimes(0.03);
  faults.late_workers = random.chance(0.3);
  faults.bad_candidates = random.chance(0.7);
  faults.sick_target = random.chance(0.1);
  faults.is_large = random.chance(0.02);
  return faults;
}

Report simulate(uint64_t seed, bool verbose, Defect defect = Defect::kNone) {
  common::Random random(seed * 7919);
  return World(seed, everything(random), verbose, defect).run();
}

class FarmSim : public testing::Test {
 protected:
  FarmSim() { std::signal(SIGABRT, print_reproduction); }

  // Runs `draw`'s faults for these seeds, or for the one in LFARM_SIM_SEED with its whole trace.
  template <class Draw>
  Report run(uint64_t first, uint64_t last, Draw draw) {
    const char* chosen = std::getenv("LFARM_SIM_SEED");
    single_ = chosen != nullptr;
    if (single_) first = last = std::strtoull(chosen, nullptr, 10);
    Report sum;
    for (uint64_t seed = first; seed <= last; ++seed) {
      std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
      std::snprintf(reproduction, sizeof reproduction,
                    "reproduce with: LFARM_SIM_SEED=%llu test_farm_sim --gtest_filter=FarmSim.%s\n",
                    static_cast<unsigned long long>(seed), name.c_str());
      common::Random random(seed * 7919);
      Report report = World(seed, draw(random), single_).run();
      add(sum, report);
      if (!report.failure.empty()) {
        ADD_FAILURE() << report.failure << "\n" << reproduction;
        break;
      }
    }
    std::printf(
        "%zu events: %zu committed, %zu given up, %zu stale, %zu quarantined, %zu told; %zu jobs "
        "done, %zu failed, %zu stopped; %zu failovers, %zu revoked, %zu from another replica; %zu "
        "messages damaged, %zu undecodable; %zu torn records; "
        "%zu shares compared; at most %lld ms\n",
        sum.events, sum.committed, sum.given_up, sum.stale, sum.quarantined, sum.no_worker,
        sum.jobs_done, sum.jobs_failed, sum.jobs_stopped, sum.failovers, sum.revoked, sum.shared,
        sum.damaged, sum.undecodable, sum.torn, sum.fair_choices,
        static_cast<long long>(sum.longest_ms));
    return sum;
  }

  // Half of ten thousand seeds, and the proof that each kind of trouble came up.
  void survive(uint64_t first, uint64_t last) {
    Report sum = run(first, last, everything);
    if (single_) return;
    size_t seeds = last - first + 1;
    EXPECT_GT(sum.committed, 20 * seeds);
    EXPECT_GT(sum.stale, seeds);
    EXPECT_GT(sum.quarantined, seeds / 4);
    EXPECT_GT(sum.no_worker, seeds / 8);
    EXPECT_GT(sum.jobs_done, seeds);
    EXPECT_GT(sum.jobs_failed, seeds / 8);
    EXPECT_GT(sum.jobs_stopped, seeds / 32);
    EXPECT_GT(sum.damaged, seeds);
    EXPECT_GT(sum.undecodable, seeds / 8);
    EXPECT_GT(sum.torn, seeds / 128);
    EXPECT_GT(sum.failovers, seeds / 8);
    EXPECT_GT(sum.revoked, seeds / 16);
    EXPECT_GT(sum.shared, seeds / 32);
    EXPECT_GT(sum.fair_choices, 20 * seeds);
  }

  // One chosen seed need not show every kind of trouble.
  bool single_ = false;
};

TEST_F(FarmSim, SurvivesEverythingAtOnce) { survive(1, 5'000); }
TEST_F(FarmSim, SurvivesEverythingAtOnceAgain) { survive(5'001, 10'000); }

// Without message loss and reordering, a worker never gets a task for which it has no slot, though
// jobs are cancelled and leases revoked under it.
TEST_F(FarmSim, NeverOverfillsAWorkerOnAnOrderlyNetwork) {
  Report sum = run(1, 500, [](common::Random& random) {
    Faults faults;
    faults.in_order = true;
    faults.cancel = random.unit() * 0.3;
    faults.drain = random.unit() * 0.05;
    faults.infra = random.unit() * 0.3;
    return faults;
  });
  EXPECT_EQ(sum.overfull, 0u);
}

TEST_F(FarmSim, LosesNothingOnAQuietFarm) {
  Report sum = run(1, 50, [](common::Random&) {
    Faults faults;
    faults.bad_candidates = false;
    return faults;
  });
  EXPECT_EQ(sum.given_up, 0u);
  EXPECT_EQ(sum.stale, 0u);
  EXPECT_EQ(sum.quarantined, 0u);
  EXPECT_EQ(sum.jobs_failed, 0u);
}

// A job whose target has only workers that never judge anything does not go on for ever.
TEST_F(FarmSim, StopsJobsOfASickTarget) {
  Report sum = run(1, 100, [](common::Random& random) {
    Faults faults;
    faults.sick_target = true;
    faults.restart = random.chance(0.3) ? 0.02 : 0;
    return faults;
  });
  if (!single_) {
    EXPECT_GT(sum.jobs_stopped, 50u);
  }
}

TEST_F(FarmSim, TheSameSeedGivesTheSameActions) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Report first = simulate(seed, false);
    Report second = simulate(seed, false);
    EXPECT_EQ(first.trace, second.trace) << "seed " << seed;
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
    EXPECT_NE(first.trace, simulate(seed + 1, false).trace);
  }
}

// Every rule is kept by checks that can fail: each deliberate mistake is noticed, soon, and the
// seed that shows it shows it again.
TEST_F(FarmSim, NoticesEveryDefect) {
  constexpr uint64_t kSeeds = 5000;
  for (int d = 1; d < static_cast<int>(Defect::kEnd); ++d) {
    auto defect = static_cast<Defect>(d);
    uint64_t seed = 1;
    Report report = simulate(seed, false, defect);
    while (report.failure.empty() && seed < kSeeds) report = simulate(++seed, false, defect);
    ASSERT_FALSE(report.failure.empty()) << "nobody noticed that the farm " << defect_name(defect);
    std::printf("%-42s seed %3llu: %s\n", defect_name(defect),
                static_cast<unsigned long long>(seed), report.failure.c_str());
    Report again = simulate(seed, false, defect);
    EXPECT_EQ(again.failure, report.failure);
    EXPECT_EQ(again.trace, report.trace);
  }
}

// Jobs that always have work, random costs and priorities, random durations: after every task
// granted, no two jobs of a tenant and no two tenants are further apart than the bound.
TEST_F(FarmSim, SharesWithinTheBound) {
  constexpr uint32_t kCostMax = 8;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    common::Random random(seed);
    Scheduler scheduler{Config{}};
    struct Share {
      uint64_t tenant;
      double weight;
      double served = 0;
    };
    std::map<JobId, Share> jobs;
    std::map<uint64_t, double> tenants;
    std::map<TaskId, std::pair<JobId, uint32_t>> tasks;
    std::vector<SendTask> running;
    JobId job_count = 2 + random.below(6);
    auto add_task = [&](JobId job) {
      TaskAdded task;
      task.task = tasks.size() + 1;
      task.job = job;
      task.target = "cpu";
      task.run_limit_ms = 1000;
      task.cost = static_cast<uint32_t>(1 + random.below(kCostMax));
      tasks[task.task] = {job, task.cost};
      return scheduler.on_event(task, 0);
    };
    for (JobId job = 1; job <= job_count; ++job) {
      uint32_t priority = static_cast<uint32_t>(1 + random.below(20));
      uint64_t tenant = random.below(3);
      jobs[job] = {tenant, static_cast<double>(priority)};
      tenants[tenant] = 0;
      scheduler.on_event(JobAdded{job, common::cat("tenant", tenant), priority}, 0);
      for (int i = 0; i < 3; ++i) add_task(job);
    }
    auto granted = [&](const std::vector<Action>& actions) {
      for (const Action& action : actions) {
        auto* sent = std::get_if<SendTask>(&action);
        if (sent == nullptr) continue;
        running.push_back(*sent);
        auto [job, cost] = tasks.at(sent->task);
        jobs.at(job).served += cost / jobs.at(job).weight;
        tenants.at(jobs.at(job).tenant) += cost;
      }
    };
    granted(scheduler.on_event(WorkerHello{1, 1, "cpu", 1}, 0));
    for (int step = 0; step < 500; ++step) {
      ASSERT_EQ(running.size(), 1u);
      SendTask done = running.back();
      running.pop_back();
      // The job gets a new task before its old one ends, so that it always has work.
      granted(add_task(done.job));
      granted(scheduler.on_event(
          TaskResult{done.worker, done.task, done.epoch, TaskOutcome::kOk, 1}, 0));
      for (const auto& [a, one] : jobs) {
        for (const auto& [b, other] : jobs) {
          if (one.tenant != other.tenant) continue;
          ASSERT_LE(one.served - other.served, kCostMax / one.weight + kCostMax / other.weight)
              << "seed " << seed << ": jobs " << a << " and " << b;
        }
      }
      for (const auto& [a, one] : tenants) {
        for (const auto& [b, other] : tenants) ASSERT_LE(one - other, 2 * kCostMax);
      }
    }
  }
}

}  // namespace
}  // namespace sim
