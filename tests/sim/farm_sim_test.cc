// Simulation of the farm. Goal: no order of messages, losses and deaths makes the scheduler lose a
// task, commit one twice, believe an old result, overfill a worker or leave a job waiting. Method:
// each seed draws a farm, its jobs and a mixture of faults; an auditor checks the rules after every
// event; when the faults stop, all tasks must end. Messages also overtake one another, which one
// TCP connection would not let them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/cat.h"
#include "farm_world.h"

namespace sim {
namespace {

// Printed by the signal handler when a check inside the scheduler aborts.
char reproduction[256];

void print_reproduction(int) {
  ssize_t ignored = write(STDERR_FILENO, reproduction, std::strlen(reproduction));
  (void)ignored;
}

class FarmSim : public testing::Test {
 protected:
  FarmSim() { std::signal(SIGABRT, print_reproduction); }

  // Runs `draw`'s faults for `seeds` seeds, or for the one in LFARM_SIM_SEED with its whole trace.
  template <class Draw>
  Report run(uint64_t seeds, Draw draw) {
    const char* chosen = std::getenv("LFARM_SIM_SEED");
    uint64_t first = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 1;
    uint64_t last = chosen != nullptr ? first : seeds;
    Report sum;
    for (uint64_t seed = first; seed <= last; ++seed) {
      std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
      std::snprintf(reproduction, sizeof reproduction,
                    "reproduce with: LFARM_SIM_SEED=%llu test_farm_sim --gtest_filter=FarmSim.%s\n",
                    static_cast<unsigned long long>(seed), name.c_str());
      common::Random random(seed * 7919);
      Report report = World(seed, draw(random), chosen != nullptr).run();
      sum.events += report.events;
      sum.committed += report.committed;
      sum.given_up += report.given_up;
      sum.stale += report.stale;
      sum.quarantined += report.quarantined;
      sum.no_worker += report.no_worker;
      sum.overfull += report.overfull;
      sum.trace = common::combine64(sum.trace, report.trace);
      if (!report.failure.empty()) {
        ADD_FAILURE() << report.failure << "\n" << reproduction;
        break;
      }
    }
    std::printf("%zu events: %zu committed, %zu given up, %zu stale, %zu quarantined, %zu told\n",
                sum.events, sum.committed, sum.given_up, sum.stale, sum.quarantined, sum.no_worker);
    single_ = chosen != nullptr;
    return sum;
  }
  // One chosen seed need not show every kind of trouble.
  bool single_ = false;
};

Faults everything(common::Random& random) {
  Faults faults;
  auto sometimes = [&random](double most) { return random.chance(0.5) ? random.unit() * most : 0; };
  faults.drop = sometimes(0.2);
  faults.duplicate = sometimes(0.3);
  faults.long_delay = sometimes(0.3);
  faults.crash = sometimes(0.05);
  faults.partition = sometimes(0.03);
  faults.drain = sometimes(0.05);
  faults.infra = sometimes(0.3);
  faults.cancel = sometimes(0.1);
  faults.restart = sometimes(0.05);
  faults.late_workers = random.chance(0.3);
  faults.bad_candidates = random.chance(0.7);
  return faults;
}

TEST_F(FarmSim, SurvivesEverythingAtOnce) {
  Report sum = run(2000, everything);
  if (single_) return;
  EXPECT_GT(sum.committed, 50'000u);
  EXPECT_GT(sum.stale, 1'000u);
  EXPECT_GT(sum.quarantined, 500u);
  EXPECT_GT(sum.no_worker, 500u);
}

// Without message loss and reordering, a worker never gets a task for which it has no slot, though
// jobs are cancelled and leases revoked under it.
TEST_F(FarmSim, NeverOverfillsAWorkerOnAnOrderlyNetwork) {
  Report sum = run(500, [](common::Random& random) {
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
  Report sum = run(50, [](common::Random&) {
    Faults faults;
    faults.bad_candidates = false;
    return faults;
  });
  EXPECT_EQ(sum.given_up, 0u);
  EXPECT_EQ(sum.stale, 0u);
  EXPECT_EQ(sum.quarantined, 0u);
}

TEST_F(FarmSim, TheSameSeedGivesTheSameActions) {
  Report first = run(20, everything);
  Report second = run(20, everything);
  EXPECT_EQ(first.trace, second.trace);
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
