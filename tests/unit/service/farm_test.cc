// One test for each rule of leases, retries, quarantine and workers.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "farm_fixture.h"

namespace coordinator::farm {
namespace {

TEST(Farm, SendsATaskToAWorkerOfItsTargetAndCommitsItsResult) {
  Farm farm;
  farm.job(1);
  farm.hello(5, 1, "cuda");
  EXPECT_TRUE(farm.task(10).empty());
  auto sent = only<SendTask>(farm.hello(6, 1, "cpu"));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 6u);
  EXPECT_EQ(sent[0].task, 10u);
  EXPECT_EQ(sent[0].job, 1u);
  EXPECT_EQ(sent[0].epoch, 1u);
  EXPECT_EQ(sent[0].attempt, 1u);
  EXPECT_EQ(sent[0].payload, 1010u);
  EXPECT_EQ(sent[0].deadline_ns, (1000 + 1000 + farm.config.times.lease_slack_ms) * kMs);
  auto committed = only<TaskCommitted>(farm.result(6, 10, 1, TaskOutcome::kWrong, 77));
  ASSERT_EQ(committed.size(), 1u);
  EXPECT_EQ(committed[0].outcome, TaskOutcome::kWrong);
  EXPECT_EQ(committed[0].result, 77u);
  EXPECT_EQ(committed[0].worker, 6u);
  EXPECT_EQ(farm.scheduler.stats().tasks_open, 0u);
}

TEST(Farm, ATaskForOneWorkerWaitsForItAlone) {
  Farm farm;
  farm.job(1);
  farm.hello(1);
  farm.hello(2);
  farm.task(1);
  farm.task(2);  // both are busy
  TaskAdded added;
  added.task = 3;
  added.job = 1;
  added.target = "cpu";
  added.run_limit_ms = 1000;
  added.payload = 1003;
  added.only = 2;
  EXPECT_EQ(count<SendTask>(farm.on(added)), 0u);
  EXPECT_EQ(count<SendTask>(farm.result(1, 1, 1)), 0u) << "another worker has it";
  EXPECT_EQ(count<SendTask>(farm.pass(12'000, {{1, {}}, {2, {{2, 1, false}}}})), 0u);
  auto sent = only<SendTask>(farm.result(2, 2, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].task, 3u);
  EXPECT_EQ(sent[0].worker, 2u);
  // A failure of the worker's own brings it there again.
  auto again = only<SendTask>(farm.result(2, 3, sent[0].epoch, TaskOutcome::kInfra));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].worker, 2u);
}

TEST(Farm, ATaskForAWorkerThatIsGoneHoldsUpNoOther) {
  Farm farm;
  farm.job(1);
  farm.hello(1);
  TaskAdded added;
  added.task = 1;
  added.job = 1;
  added.target = "cpu";
  added.run_limit_ms = 1000;
  added.only = 9;
  EXPECT_EQ(count<SendTask>(farm.on(added)), 0u);
  EXPECT_EQ(count<SendTask>(farm.task(2)), 1u);
  farm.on(TaskWithdrawn{1});
  EXPECT_EQ(farm.scheduler.stats().tasks_open, 1u);
}

TEST(Farm, SaysWhatWaitsForAnyWorkerOfATarget) {
  Farm farm;
  farm.job(1);
  farm.hello(1);
  farm.task(1);
  EXPECT_EQ(farm.scheduler.tasks_waiting()["cpu"], 0u) << "it is leased";
  farm.task(2);
  farm.task(3);
  EXPECT_EQ(farm.scheduler.tasks_waiting()["cpu"], 2u);
  farm.hello(5, 1, "cuda");
  EXPECT_EQ(farm.scheduler.tasks_waiting()["cuda"], 0u);
  farm.hello(2, 2);
  EXPECT_EQ(farm.scheduler.tasks_waiting()["cpu"], 0u);
  farm.hello(3);
  TaskAdded parked;
  parked.task = 4;
  parked.job = 1;
  parked.target = "cpu";
  parked.run_limit_ms = 1000;
  parked.only = 1;
  farm.on(parked);
  EXPECT_EQ(farm.scheduler.tasks_waiting()["cpu"], 0u)
      << "it waits for worker 1, the third is idle";
  EXPECT_EQ(farm.scheduler.stats().tasks_open, 4u);
}

TEST(Farm, NeverExceedsTheSlotsOfferedAndFollowsTheirChanges) {
  Farm farm;
  farm.job(1);
  for (TaskId id = 1; id <= 6; ++id) farm.task(id);
  EXPECT_EQ(count<SendTask>(farm.hello(5, 2)), 2u);
  EXPECT_EQ(count<SendTask>(farm.on(WorkerCredit{5, 1, 3})), 1u);
  EXPECT_EQ(count<SendTask>(farm.on(WorkerCredit{5, 1, 3})), 0u) << "the same credit again";
  EXPECT_EQ(count<SendTask>(farm.on(WorkerCredit{5, 1, 1})), 0u);
  EXPECT_EQ(count<SendTask>(farm.result(5, 1, 1)), 0u);
  EXPECT_EQ(count<SendTask>(farm.result(5, 2, 1)), 0u);
  EXPECT_EQ(count<SendTask>(farm.result(5, 3, 1)), 1u);
}

TEST(Farm, SpreadsWorkOverTheLeastLoadedWorkers) {
  Farm farm;
  farm.job(1);
  farm.hello(5, 4);
  farm.hello(6, 4);
  std::map<WorkerId, int> tasks;
  for (TaskId id = 1; id <= 6; ++id) ++tasks[only<SendTask>(farm.task(id))[0].worker];
  EXPECT_EQ(tasks[5], 3);
  EXPECT_EQ(tasks[6], 3);
}

TEST(Farm, RefusesResultsOfOldEpochsForeignWorkersAndDuplicates) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.hello(6);
  farm.task(10);
  EXPECT_EQ(count<StaleResult>(farm.result(6, 10, 1)), 1u) << "not its lease";
  EXPECT_EQ(count<StaleResult>(farm.result(5, 10, 2)), 1u) << "an epoch never granted";
  farm.on(WorkerGone{5, 1, false});  // requeued to 6 under epoch 2
  auto stale = farm.result(5, 10, 1);
  EXPECT_EQ(count<StaleResult>(stale), 1u);
  EXPECT_EQ(count<TaskCommitted>(stale), 0u);
  EXPECT_EQ(count<TaskCommitted>(farm.result(6, 10, 2)), 1u);
  auto again = farm.result(6, 10, 2);
  EXPECT_EQ(count<TaskCommitted>(again), 0u);
  EXPECT_EQ(count<StaleResult>(again), 1u);
}

TEST(Farm, SilentWorkersAreLostAndTheirTasksMove) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10);
  EXPECT_TRUE(farm.pass(9000, {}).empty());
  farm.hello(6);
  auto lost = farm.pass(1000, {});
  ASSERT_EQ(count<WorkerLost>(lost), 1u);
  EXPECT_EQ(only<TaskRequeued>(lost)[0].reason, RequeueReason::kWorkerLost);
  auto sent = only<SendTask>(lost);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].worker, 6u);
  EXPECT_EQ(sent[0].epoch, 2u);
  EXPECT_EQ(sent[0].attempt, 2u);
  EXPECT_EQ(count<WorkerUnknown>(farm.beat(5)), 1u);
}

TEST(Farm, HeartbeatsExtendALeaseUpToTheTasksDeadlineOnly) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  auto sent = only<SendTask>(farm.task(10));
  auto alive = farm.pass(30'000, {{5, {{10, 1, false}}}});
  EXPECT_EQ(count<TaskRequeued>(alive), 0u) << "lease_ms is 15 s, but the worker names the lease";
  auto over = farm.pass(1'000, {{5, {{10, 1, false}}}});
  EXPECT_GE(farm.now_ms * kMs, sent[0].deadline_ns);
  ASSERT_EQ(count<TaskRequeued>(over), 1u);
  EXPECT_EQ(only<TaskRequeued>(over)[0].reason, RequeueReason::kLeaseExpired);
  EXPECT_EQ(count<RevokeLease>(over), 1u);
}

TEST(Farm, ALeaseTheWorkerNeverNamesExpiresEarly) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10);
  EXPECT_EQ(count<TaskRequeued>(farm.pass(14'000, {{5, {}}})), 0u);
  EXPECT_EQ(count<TaskRequeued>(farm.pass(1'000, {{5, {}}})), 1u);
}

TEST(Farm, ARevokedLeaseHoldsItsSlotUntilTheWorkerGivesItUp) {
  Farm farm;
  farm.job(1);
  farm.job(2);
  farm.hello(5);
  farm.task(10, 1);
  EXPECT_EQ(count<RevokeLease>(farm.on(JobCancelled{1})), 1u);
  EXPECT_EQ(count<SendTask>(farm.task(20, 2)), 0u);
  farm.now_ms += 5000;
  auto still = farm.beat(5, {{10, 1, true}});
  EXPECT_EQ(count<RevokeLease>(still), 1u) << "said again while the worker holds it";
  EXPECT_EQ(count<SendTask>(still), 0u);
  EXPECT_EQ(count<SendTask>(farm.on(LeaseReturned{5, 10, 1})), 1u);
}

TEST(Farm, AWithdrawnTaskIsDroppedWhereverItIs) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10);
  farm.task(11);
  EXPECT_TRUE(farm.on(TaskWithdrawn{11}).empty()) << "it waited";
  auto leased = farm.on(TaskWithdrawn{10});
  EXPECT_EQ(count<RevokeLease>(leased), 1u);
  EXPECT_EQ(count<TaskFailedInfra>(leased), 0u);
  EXPECT_TRUE(farm.on(TaskWithdrawn{10}).empty());
  EXPECT_EQ(count<StaleResult>(farm.on(TaskResult{5, 10, 1, TaskOutcome::kOk, 7})), 1u);
  EXPECT_EQ(count<SendTask>(farm.task(12)), 1u) << "the job goes on";
}

TEST(Farm, ARevokedLeaseIsForgottenAfterTheWorkerStoppedNamingIt) {
  Farm farm;
  farm.job(1);
  farm.job(2);
  farm.hello(5);
  farm.task(10, 1);
  farm.on(JobCancelled{1});
  farm.task(20, 2);
  EXPECT_EQ(count<SendTask>(farm.beat(5)), 0u) << "may have left before the lease arrived";
  farm.now_ms += farm.config.times.settle_ms;
  EXPECT_EQ(count<SendTask>(farm.beat(5)), 1u);
}

TEST(Farm, LeasesOfAnEarlierCoordinatorAreRevokedAndCountAsSlots) {
  Farm farm;
  farm.job(1);
  farm.hello(5, 2);
  auto revoked = only<RevokeLease>(farm.beat(5, {{99, 3, true}}, 2));
  ASSERT_EQ(revoked.size(), 1u);
  EXPECT_EQ(revoked[0].task, 99u);
  EXPECT_EQ(count<SendTask>(farm.task(1)), 1u);
  EXPECT_EQ(count<SendTask>(farm.task(2)), 0u);
}

TEST(Farm, ATaskMayStartAtALaterEpochAfterARestart) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  TaskAdded task;
  task.task = 10;
  task.job = 1;
  task.target = "cpu";
  task.run_limit_ms = 100;
  task.first_epoch = 1'000'001;
  EXPECT_EQ(only<SendTask>(farm.on(task))[0].epoch, 1'000'001u);
  EXPECT_EQ(count<StaleResult>(farm.result(5, 10, 1)), 1u);
  EXPECT_EQ(count<TaskCommitted>(farm.result(5, 10, 1'000'001)), 1u);
}

TEST(Farm, InfraFailuresAreRetriedOnAnotherWorker) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10);
  farm.hello(6, 0);
  auto failed = farm.result(5, 10, 1, TaskOutcome::kInfra);
  EXPECT_EQ(count<TaskCommitted>(failed), 0u);
  EXPECT_EQ(only<TaskRequeued>(failed)[0].reason, RequeueReason::kInfra);
  EXPECT_EQ(only<SendTask>(failed)[0].worker, 5u) << "6 takes no work, so there is no other";
  farm.on(WorkerCredit{6, 1, 1});
  auto moved = farm.result(5, 10, 2, TaskOutcome::kInfra);
  EXPECT_EQ(only<SendTask>(moved)[0].worker, 6u);
}

TEST(Farm, ATaskWaitsForAnotherWorkerButNotForEver) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.hello(6);
  farm.task(10);
  farm.task(11);
  auto failed = farm.result(5, 10, 1, TaskOutcome::kInfra);
  EXPECT_EQ(count<SendTask>(failed), 0u) << "6 is busy, 5 has failed it";
  auto freed = only<SendTask>(farm.result(6, 11, 1));
  ASSERT_EQ(freed.size(), 1u);
  EXPECT_EQ(freed[0].task, 10u);
  EXPECT_EQ(freed[0].worker, 6u);

  farm.task(12);  // to 5
  farm.result(5, 12, 1, TaskOutcome::kInfra);
  auto later =
      only<SendTask>(farm.pass(farm.config.times.elsewhere_ms, {{5, {}}, {6, {{10, 2, true}}}}));
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].worker, 5u) << "6 stayed busy";
}

TEST(Farm, GivesATaskUpAfterTooManyInfraFailures) {
  Config config;
  config.infra_failures_max = 3;
  config.strikes_max = 100;
  Farm farm(config);
  farm.job(1);
  farm.hello(5);
  farm.task(10);
  farm.result(5, 10, 1, TaskOutcome::kInfra);
  farm.result(5, 10, 2, TaskOutcome::kInfra);
  auto last = farm.result(5, 10, 3, TaskOutcome::kInfra);
  ASSERT_EQ(count<TaskFailedInfra>(last), 1u);
  EXPECT_EQ(only<TaskFailedInfra>(last)[0].failures, 3u);
  EXPECT_EQ(count<TaskCommitted>(last), 0u);
  EXPECT_EQ(farm.scheduler.stats().tasks_open, 0u);
}

TEST(Farm, StopsAJobOfWhichNothingButFailuresOfWorkersIsHeard) {
  Config config;
  config.infra_failures_max = 1;
  config.given_up_max = 2;
  config.strikes_max = 100;
  Farm farm(config);
  farm.job(1);
  farm.job(2);
  farm.hello(5, 2);
  for (TaskId task : {10, 11, 12, 13, 14}) farm.task(task);
  farm.task(20, 2);
  EXPECT_EQ(count<JobStopped>(farm.result(5, 10, 1, TaskOutcome::kInfra)), 0u);
  // A verdict between them: the farm can do its work.
  EXPECT_EQ(count<TaskCommitted>(farm.result(5, 11, 1, TaskOutcome::kWrong)), 1u);
  EXPECT_EQ(count<JobStopped>(farm.result(5, 12, 1, TaskOutcome::kInfra)), 0u);
  auto last = farm.result(5, 13, 1, TaskOutcome::kInfra);
  ASSERT_EQ(count<JobStopped>(last), 1u);
  EXPECT_EQ(only<JobStopped>(last)[0].job, 1u);
  EXPECT_EQ(only<JobStopped>(last)[0].given_up, 2u);
  EXPECT_EQ(farm.scheduler.stats().tasks_open, 1u);  // the other job's
  auto refused = only<TaskRefused>(farm.task(15));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].refusal, Refusal::kCancelled);
}

TEST(Farm, SuspendsAWorkerThatKeepsFailing) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10);
  farm.result(5, 10, 1, TaskOutcome::kInfra);
  farm.result(5, 10, 2, TaskOutcome::kInfra);
  auto third = farm.result(5, 10, 3, TaskOutcome::kInfra);
  EXPECT_EQ(count<WorkerSuspended>(third), 1u);
  EXPECT_EQ(count<SendTask>(third), 0u);
  EXPECT_EQ(count<SendTask>(farm.tick_after(farm.config.times.suspend_ms_min)), 1u);
  auto fourth = only<WorkerSuspended>(farm.result(5, 10, 4, TaskOutcome::kInfra));
  ASSERT_EQ(fourth.size(), 1u);
  EXPECT_EQ(fourth[0].until_ns, (farm.now_ms + 2 * farm.config.times.suspend_ms_min) * kMs);
}

TEST(Farm, AVerdictEndsAWorkersRowOfFailures) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  for (TaskId id = 1; id <= 8; id += 2) {
    farm.task(id);
    EXPECT_EQ(count<WorkerSuspended>(farm.result(5, id, 1, TaskOutcome::kInfra)), 0u);
    EXPECT_EQ(count<TaskCommitted>(farm.result(5, id, 2, TaskOutcome::kCompileError)), 1u);
  }
}

TEST(Farm, ACrashIsConfirmedOnAnotherWorkerAndThenQuarantined) {
  Farm farm;
  farm.job(1);
  farm.job(2);
  farm.hello(5);
  farm.hello(6);
  farm.task(10, 1, "killer");
  farm.task(11, 1, "bystander");
  farm.task(12, 2, "killer");
  auto first = farm.result(5, 10, 1, TaskOutcome::kCrash);
  EXPECT_EQ(count<TaskCommitted>(first), 0u);
  EXPECT_EQ(only<TaskRequeued>(first)[0].reason, RequeueReason::kUnconfirmedCrash);
  farm.result(6, 11, 1);
  auto second = farm.result(6, 10, 2, TaskOutcome::kHang, 9);
  ASSERT_EQ(count<CandidateQuarantined>(second), 1u);
  auto committed = only<TaskCommitted>(second);
  ASSERT_EQ(committed.size(), 2u) << "the other job's task with it";
  EXPECT_EQ(committed[0].task, 10u);
  EXPECT_EQ(committed[0].outcome, TaskOutcome::kCrash);
  EXPECT_EQ(committed[0].result, 9u);
  EXPECT_EQ(committed[1].task, 12u);
  EXPECT_EQ(committed[1].outcome, TaskOutcome::kCrash);
  EXPECT_EQ(committed[1].result, 0u);
  auto later = only<TaskCommitted>(farm.task(13, 2, "killer"));
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].outcome, TaskOutcome::kCrash);
  EXPECT_EQ(count<SendTask>(farm.task(14, 2, "bystander")), 1u);
}

TEST(Farm, ASickWorkersCrashReportDoesNotCondemnACandidate) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.hello(6);
  farm.task(10, 1, "healthy");
  auto moved = only<SendTask>(farm.result(5, 10, 1, TaskOutcome::kCrash));
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].worker, 6u);
  auto verdict = only<TaskCommitted>(farm.result(6, 10, 2, TaskOutcome::kOk));
  ASSERT_EQ(verdict.size(), 1u);
  EXPECT_EQ(verdict[0].outcome, TaskOutcome::kOk);
}

TEST(Farm, AloneAWorkersCrashReportIsTheVerdict) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10, 1, "killer");
  auto verdict = farm.result(5, 10, 1, TaskOutcome::kHang, 3);
  ASSERT_EQ(count<TaskCommitted>(verdict), 1u);
  EXPECT_EQ(only<TaskCommitted>(verdict)[0].outcome, TaskOutcome::kHang);
  EXPECT_EQ(count<CandidateQuarantined>(verdict), 0u);
  farm.task(11, 1, "killer");
  EXPECT_EQ(count<CandidateQuarantined>(farm.result(5, 11, 1, TaskOutcome::kCrash)), 0u)
      << "one worker killed twice is one worker";
}

TEST(Farm, WorkersLostWhileExecutingACandidateQuarantineIt) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10, 1, "killer");
  farm.beat(5, {{10, 1, true}});
  farm.on(WorkerGone{5, 1, false});
  farm.hello(6);
  farm.beat(6, {{10, 2, true}});
  auto lost = farm.on(WorkerGone{6, 1, false});
  EXPECT_EQ(count<CandidateQuarantined>(lost), 1u);
  ASSERT_EQ(count<TaskCommitted>(lost), 1u);
  EXPECT_EQ(only<TaskCommitted>(lost)[0].outcome, TaskOutcome::kCrash);
}

TEST(Farm, CandidatesThatWereNotExecutingAreNotBlamed) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10, 1, "innocent");
  farm.beat(5, {{10, 1, false}});
  farm.on(WorkerGone{5, 1, false});
  farm.hello(6);
  farm.beat(6, {{10, 2, true}});
  farm.on(WorkerGone{6, 1, true});
  farm.hello(7);
  auto lost = farm.on(WorkerGone{7, 1, false});
  EXPECT_EQ(count<CandidateQuarantined>(lost), 0u);
  EXPECT_EQ(count<TaskRequeued>(lost), 1u);
}

TEST(Farm, ManyLossesAtOnceAreTheNetworksFault) {
  Farm farm;
  farm.job(1);
  for (WorkerId id = 1; id <= 6; ++id) farm.hello(id);
  for (TaskId id = 1; id <= 6; ++id) farm.task(id, 1, "shared kernel");
  for (WorkerId id = 1; id <= 6; ++id) farm.beat(id, {{id, 1, false}});
  // The first two losses cannot be told from deaths; they execute nothing here.
  farm.beat(5, {{5, 1, true}});
  farm.beat(6, {{6, 1, true}});
  auto lost = farm.pass(11'000, {});
  EXPECT_EQ(count<WorkerLost>(lost), 6u);
  EXPECT_EQ(count<CandidateQuarantined>(lost), 0u);
}

TEST(Farm, ACandidateThatHangsTheWorkerItselfIsBlamed) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10, 1, "killer");
  farm.pass(31'000, {{5, {{10, 1, true}}}});
  farm.hello(6);
  auto all = farm.pass(40'000, {{5, {{10, 1, true}}}, {6, {{10, 2, true}}}});
  EXPECT_EQ(count<CandidateQuarantined>(all), 1u);
  EXPECT_EQ(count<TaskCommitted>(all), 1u);
}

TEST(Farm, AFingerprintCanBeBannedByHand) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10, 1, "killer");
  auto banned = farm.on(FingerprintBanned{candidate("killer")});
  EXPECT_EQ(count<CandidateQuarantined>(banned), 1u);
  EXPECT_EQ(count<TaskCommitted>(banned), 1u);
  EXPECT_EQ(count<RevokeLease>(banned), 1u);
  EXPECT_TRUE(farm.on(FingerprintBanned{candidate("killer")}).empty());
}

TEST(Farm, ADrainingWorkerFinishesOrReturnsItsLeasesAndGetsNoMore) {
  Farm farm;
  farm.job(1);
  farm.hello(5, 2);
  farm.task(10);
  farm.task(11);
  EXPECT_EQ(count<WorkerDrained>(farm.on(WorkerDrain{5, 1})), 0u);
  EXPECT_EQ(count<SendTask>(farm.task(12)), 0u);
  EXPECT_EQ(count<TaskCommitted>(farm.result(5, 10, 1)), 1u);
  auto returned = farm.on(LeaseReturned{5, 11, 1});
  EXPECT_EQ(count<WorkerDrained>(returned), 1u);
  EXPECT_EQ(count<SendTask>(returned), 0u);
  EXPECT_EQ(count<WorkerDrained>(farm.on(WorkerDrain{5, 1})), 1u) << "asked again, told again";
  EXPECT_EQ(count<SendTask>(farm.on(WorkerCredit{5, 1, 4})), 0u);
  farm.on(WorkerGone{5, 1, true});
  EXPECT_EQ(count<SendTask>(farm.hello(6, 2)), 2u);
}

TEST(Farm, ReturnedLeasesAreNoInfraFailures) {
  Config config;
  config.infra_failures_max = 1;
  Farm farm(config);
  farm.job(1);
  farm.hello(5);
  farm.hello(6);
  farm.task(10);
  auto returned = farm.on(LeaseReturned{5, 10, 1});
  EXPECT_EQ(count<TaskFailedInfra>(returned), 0u);
  EXPECT_EQ(only<SendTask>(returned)[0].worker, 6u);
  EXPECT_EQ(count<TaskRequeued>(farm.on(LeaseReturned{5, 10, 1})), 0u) << "a duplicate";
}

TEST(Farm, ARestartedWorkerLosesWhatItsEarlierProcessHeld) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10);
  auto restarted = farm.hello(5, 1, "cpu", 2);
  ASSERT_EQ(count<WorkerLost>(restarted), 1u);
  EXPECT_TRUE(only<WorkerLost>(restarted)[0].restarted);
  ASSERT_EQ(count<SendTask>(restarted), 1u);
  EXPECT_EQ(only<SendTask>(restarted)[0].epoch, 2u);
  EXPECT_TRUE(farm.hello(5, 9, "cpu", 1).empty()) << "an old message";
  EXPECT_TRUE(farm.on(WorkerCredit{5, 1, 9}).empty());
  EXPECT_TRUE(farm.on(WorkerGone{5, 1, false}).empty());
  EXPECT_EQ(count<WorkerUnknown>(farm.on(WorkerCredit{5, 3, 9})), 1u) << "its hello got lost";
}

TEST(Farm, HelloAgainChangesNothing) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10);
  EXPECT_TRUE(farm.hello(5).empty());
  EXPECT_EQ(count<TaskCommitted>(farm.result(5, 10, 1)), 1u);
}

TEST(Farm, CancellingAJobRevokesItsLeasesAndCommitsNothing) {
  Farm farm;
  farm.job(1);
  farm.hello(5, 2);
  for (TaskId id = 1; id <= 4; ++id) farm.task(id);
  auto cancelled = farm.on(JobCancelled{1});
  EXPECT_EQ(count<RevokeLease>(cancelled), 2u);
  EXPECT_EQ(count<TaskCommitted>(cancelled), 0u);
  EXPECT_EQ(farm.scheduler.stats().tasks_open, 0u);
  auto stale = farm.result(5, 1, 1);
  EXPECT_EQ(count<StaleResult>(stale), 1u);
  EXPECT_EQ(count<TaskCommitted>(stale), 0u);
  EXPECT_EQ(only<TaskRefused>(farm.task(9))[0].refusal, Refusal::kCancelled);
  farm.on(JobRemoved{1});
  EXPECT_EQ(only<TaskRefused>(farm.task(9))[0].refusal, Refusal::kUnknown);
  EXPECT_EQ(farm.scheduler.stats().jobs, 0u);
}

TEST(Farm, TellsAJobThatNoWorkerHasItsTarget) {
  Farm farm;
  farm.job(1);
  farm.hello(5, 1, "cpu");
  farm.task(10, 1, "", "cuda:sm_90");
  int64_t grace = farm.config.times.no_worker_grace_ms;
  EXPECT_EQ(count<NoWorkerForTarget>(farm.pass(grace - 1, {{5, {}}})), 0u);
  auto told = only<NoWorkerForTarget>(farm.pass(1, {{5, {}}}));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].job, 1u);
  EXPECT_EQ(told[0].target, "cuda:sm_90");
  EXPECT_EQ(farm.scheduler.jobs()[0].targets_without_worker.size(), 1u);
  EXPECT_EQ(count<NoWorkerForTarget>(farm.pass(2 * grace, {{5, {}}})), 0u) << "once";
  auto came = farm.hello(6, 1, "cuda:sm_90");
  EXPECT_EQ(count<NoWorkerCleared>(came), 1u);
  EXPECT_EQ(count<SendTask>(came), 1u);
}

TEST(Farm, WorkersThatLeaveOrOfferNothingAreNoWorkers) {
  Farm farm;
  farm.job(1);
  farm.hello(5, 1);
  farm.task(10);
  farm.task(11);
  farm.on(WorkerDrain{5, 1});
  farm.hello(6, 0);
  auto told = farm.pass(farm.config.times.no_worker_grace_ms, {{5, {{10, 1, true}}}, {6, {}}});
  EXPECT_EQ(count<NoWorkerForTarget>(told), 0u) << "heartbeats of 6 offer a slot";
  Farm idle;
  idle.job(1);
  idle.hello(6, 0);
  idle.task(10);
  auto all = idle.pass(idle.config.times.no_worker_grace_ms, {});
  EXPECT_EQ(count<NoWorkerForTarget>(all), 1u);
  auto cancelled = idle.on(JobCancelled{1});
  EXPECT_EQ(count<NoWorkerCleared>(cancelled), 1u);
}

TEST(Farm, AStalledCoordinatorDoesNotDeclareItsWorkersDead) {
  Farm farm;
  farm.job(1);
  farm.hello(5);
  farm.task(10);
  farm.pass(2000, {{5, {{10, 1, true}}}});
  EXPECT_TRUE(farm.tick_after(60'000).empty()) << "the process slept for a minute";
  EXPECT_EQ(count<TaskCommitted>(farm.result(5, 10, 1)), 1u);
  EXPECT_EQ(count<WorkerLost>(farm.pass(farm.config.times.heartbeat_timeout_ms, {})), 1u);
}

}  // namespace
}  // namespace coordinator::farm
