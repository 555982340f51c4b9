// Who is served next, within which limits, and at which size.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "farm_fixture.h"

namespace coordinator::farm {
namespace {

// Serves one task at a time on one worker and counts what each job got.
std::map<JobId, int> serve(Farm& farm, std::vector<Action> actions, int tasks) {
  std::map<JobId, int> served;
  std::deque<SendTask> sent;
  for (int i = 0; i < tasks; ++i) {
    for (const SendTask& send : only<SendTask>(actions)) sent.push_back(send);
    if (sent.empty()) break;
    SendTask task = sent.front();
    sent.pop_front();
    ++served[task.job];
    actions = farm.result(task.worker, task.task, task.epoch);
  }
  return served;
}

TEST(Farm, TenantsShareEquallyHoweverManyJobsTheyHave) {
  Farm farm;
  for (JobId id = 1; id <= 4; ++id) farm.job(id, id == 4 ? "small" : "large");
  for (TaskId id = 0; id < 400; ++id) farm.task(id, id % 4 + 1);
  auto served = serve(farm, farm.hello(5), 120);
  EXPECT_EQ(served[4], 60);
  for (JobId id = 1; id <= 3; ++id) EXPECT_EQ(served[id], 20);
}

TEST(Farm, JobsOfATenantShareByPriority) {
  Farm farm;
  farm.job(1, "team", 30);
  farm.job(2, "team", 10);
  for (TaskId id = 0; id < 200; ++id) farm.task(id, id % 2 + 1);
  auto served = serve(farm, farm.hello(5), 80);
  EXPECT_NEAR(served[1], 60, 1);
  EXPECT_NEAR(served[2], 20, 1);
}

TEST(Farm, CostlyTasksCountForMore) {
  Farm farm;
  farm.job(1, "a");
  farm.job(2, "b");
  for (TaskId id = 0; id < 200; ++id) farm.task(id, id % 2 + 1, "", "cpu", id % 2 == 0 ? 4 : 1);
  auto served = serve(farm, farm.hello(5), 100);
  EXPECT_NEAR(served[1], 20, 1);
  EXPECT_NEAR(served[2], 80, 1);
}

TEST(Farm, AJobThatIdledSavesNothingUp) {
  Farm farm;
  farm.job(1, "a");
  farm.job(2, "b");
  for (TaskId id = 0; id < 300; ++id) farm.task(id, 1);
  farm.task(999, 2);  // both are known before one of them idles
  ASSERT_EQ(serve(farm, farm.hello(5), 101)[2], 1);
  for (TaskId id = 1000; id < 1100; ++id) farm.task(id, 2);
  auto served = serve(farm, farm.on(LeaseReturned{5, 100, 1}), 60);
  EXPECT_NEAR(served[1], 30, 1);
  EXPECT_NEAR(served[2], 30, 1);
}

TEST(Farm, RefusesWhatIsOutOfBounds) {
  Config config;
  config.limits.tasks_max = 3;
  config.limits.tasks_per_job_max = 2;
  config.limits.jobs_max = 2;
  config.limits.workers_max = 1;
  config.limits.targets_max = 1;
  Farm farm(config);
  EXPECT_EQ(only<JobRefused>(farm.on(JobAdded{9, "", 1}))[0].refusal, Refusal::kInvalid);
  EXPECT_EQ(only<JobRefused>(farm.on(JobAdded{9, "t", 0}))[0].refusal, Refusal::kInvalid);
  farm.job(1);
  farm.job(2);
  EXPECT_EQ(only<JobRefused>(farm.on(JobAdded{3, "t", 1}))[0].refusal, Refusal::kFull);
  farm.task(1, 1);
  farm.task(2, 1);
  EXPECT_TRUE(farm.task(2, 1).empty()) << "the same task again";
  EXPECT_EQ(only<TaskRefused>(farm.task(3, 1))[0].refusal, Refusal::kFull) << "per job";
  EXPECT_EQ(only<TaskRefused>(farm.task(3, 2, "", "cuda"))[0].refusal, Refusal::kFull) << "targets";
  farm.task(3, 2);
  EXPECT_EQ(only<TaskRefused>(farm.task(4, 2))[0].refusal, Refusal::kFull) << "all";
  EXPECT_EQ(only<TaskRefused>(farm.task(5, 2, "", ""))[0].refusal, Refusal::kInvalid);
  EXPECT_EQ(only<WorkerRefused>(farm.hello(7, 1, ""))[0].refusal, Refusal::kInvalid);
  farm.hello(5);
  EXPECT_EQ(only<WorkerRefused>(farm.hello(6))[0].refusal, Refusal::kFull);
}

TEST(Farm, NextTimerIsWhenATickHasSomethingToDo) {
  Farm farm;
  EXPECT_FALSE(farm.scheduler.next_timer_ns().has_value());
  farm.hello(5);
  EXPECT_EQ(farm.scheduler.next_timer_ns(), (1000 + farm.config.times.heartbeat_timeout_ms) * kMs);
  farm.on(WorkerGone{5, 1, true});
  EXPECT_FALSE(farm.scheduler.next_timer_ns().has_value());
}

TEST(Farm, EverythingHasAName) {
  EXPECT_STREQ(outcome_name(TaskOutcome::kCompileError), "compile_error");
  EXPECT_STREQ(requeue_reason_name(RequeueReason::kLeaseExpired), "lease expired");
  EXPECT_STREQ(refusal_name(Refusal::kFull), "full");
}

// The size the farm must bear: 100,000 open tasks of 100 jobs on 500 workers. An event that scans
// tasks would take minutes here, against the limit that the test runner sets.
TEST(Farm, BearsAHundredThousandOpenTasks) {
  Scheduler scheduler{Config{}};
  constexpr TaskId kTasks = 100'000;
  for (JobId id = 1; id <= 100; ++id) {
    scheduler.on_event(JobAdded{id, "tenant" + std::to_string(id % 10), 10}, 0);
  }
  for (TaskId id = 0; id < kTasks; ++id) {
    TaskAdded task;
    task.task = id;
    task.job = id % 100 + 1;
    task.target = "cpu";
    task.run_limit_ms = 1000;
    task.fingerprint = common::digest_of(std::to_string(id));
    ASSERT_TRUE(scheduler.on_event(task, 0).empty());
  }
  EXPECT_EQ(scheduler.stats().tasks_open, kTasks);
  std::deque<SendTask> sent;
  auto take = [&](const std::vector<Action>& actions) {
    for (const SendTask& send : only<SendTask>(actions)) sent.push_back(send);
  };
  for (WorkerId id = 1; id <= 500; ++id) {
    take(scheduler.on_event(WorkerHello{id, 1, "cpu", 4}, 0));
  }
  TaskId committed = 0;
  for (int64_t now_ms = 0; !sent.empty(); ++now_ms) {
    SendTask task = sent.front();
    sent.pop_front();
    auto actions = scheduler.on_event(
        TaskResult{task.worker, task.task, task.epoch, TaskOutcome::kOk, 1}, now_ms);
    committed += count<TaskCommitted>(actions);
    take(actions);
  }
  EXPECT_EQ(committed, kTasks);
  scheduler.check_invariants();
}

}  // namespace
}  // namespace coordinator::farm
