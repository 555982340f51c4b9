// The coordinator over real sockets: if these fail, clients wait for ever, searches are done twice,
// or plans reach clients incomplete or unsigned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/inspect/replay.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using common::TaskOutcome;

// The plan within what the farm signed; the signature is not looked at.
common::Result<common::Plan> granted_plan(common::ByteView signed_plan) {
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(signed_plan));
  LFARM_ASSIGN_OR_RETURN(common::PlanGrant grant, common::decode_grant(outer.bytes));
  return common::decode_plan(grant.plan);
}

TEST_F(ServiceTest, ASubmittedGraphBecomesASignedPlanWithItsObjects) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  uint64_t id = client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));

  const auto* accepted = client.last<common::Accepted>();
  ASSERT_NE(accepted, nullptr);
  EXPECT_FALSE(accepted->joined);
  const auto& ready = *client.last<common::PlanReady>();
  EXPECT_EQ(ready.request_id, id);
  EXPECT_EQ(ready.job_id, accepted->job_id);
  EXPECT_EQ(ready.cache, common::CacheOutcome::kMiss);
  EXPECT_EQ(ready.candidates, 6u);
  EXPECT_GT(ready.best_ns, 0u);
  EXPECT_GT(ready.baseline_ns, 0u);
  EXPECT_EQ(ready.breakdown.front().stage, "admit");
  EXPECT_EQ(worker.tasks.size(), 6u);
  EXPECT_GT(client.count<common::Progress>(), 0u);

  auto outer = common::decode_sealed(client.plan()->blob.bytes);
  ASSERT_TRUE(outer.ok()) << outer.error().message;
  const auto* welcome = client.last<common::Welcome>();
  EXPECT_TRUE(common::check_signature(*outer, welcome->signing_key).ok());
  auto plan = common::decode_plan(common::decode_grant(outer->bytes).value().plan);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->key.graph_hash, common::graph_hash(scripted_graph(8)));
  EXPECT_EQ(plan->key.target.name, kTestTarget);
  EXPECT_EQ(plan->provenance.farm, "test-farm");
  EXPECT_EQ(plan->provenance.worker, "w1");
  EXPECT_EQ(plan->key.digest(), ready.plan_key);
  for (const common::Digest& object : plan->objects) client.send(common::BlobRequest{object});
  client.send(common::BlobRequest{ready.plan});
  EXPECT_TRUE(converse({&client},
                       [&] { return client.count<common::Blob>() == plan->objects.size() + 1; }));
}

TEST_F(ServiceTest, ASecondSubmitAndAPullAreHits) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  common::PlanReady first = *client.last<common::PlanReady>();
  size_t tasks = worker.tasks.size();

  uint64_t id = client.submit(scripted_graph(8), request(), false);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.count<common::PlanReady>() == 2; }));
  common::PlanReady second = *client.last<common::PlanReady>();
  EXPECT_EQ(second.request_id, id);
  EXPECT_EQ(second.cache, common::CacheOutcome::kHit);
  EXPECT_EQ(second.job_id, 0u);
  EXPECT_EQ(second.plan, first.plan);
  EXPECT_EQ(second.baseline_ns, first.baseline_ns);
  EXPECT_EQ(second.candidates, first.candidates);
  EXPECT_TRUE(client.plan()->blob);

  client.send(common::PullPlan{77, first.plan_key});
  client.send(common::PullPlan{78, common::digest_of("another key")});
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::PlanMissing>() != nullptr; }));
  EXPECT_EQ(client.last<common::PlanMissing>()->request_id, 78u);
  EXPECT_EQ(client.last<common::PlanReady>()->request_id, 77u);
  EXPECT_EQ(client.last<common::PlanReady>()->plan, first.plan);
  EXPECT_EQ(worker.tasks.size(), tasks);
  EXPECT_EQ(counters_->searches, 1);
}

TEST_F(ServiceTest, ClientsOfOneGraphShareOneSearch) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.answers_max = 1;
  FakeClient first(endpoint());
  first.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &first}, [&] { return worker.answered == 1; }));
  FakeClient second(endpoint());
  second.submit(scripted_graph(8), request(), false);
  ASSERT_TRUE(converse({&worker, &first, &second}, [&] {
    return first.last<common::Accepted>() != nullptr && second.last<common::Accepted>() != nullptr;
  }));
  EXPECT_TRUE(second.last<common::Accepted>()->joined);
  EXPECT_EQ(second.last<common::Accepted>()->job_id, first.last<common::Accepted>()->job_id);
  worker.release();
  ASSERT_TRUE(converse({&worker, &first, &second},
                       [&] { return first.plan() != nullptr && second.plan() != nullptr; }));
  EXPECT_EQ(first.last<common::PlanReady>()->plan, second.last<common::PlanReady>()->plan);
  EXPECT_EQ(second.count<common::BlobRequest>(), 0u);
  EXPECT_EQ(counters_->searches, 1);
}

TEST_F(ServiceTest, AGraphThatIsNotSentIsAskedFor) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request(), false);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  EXPECT_EQ(client.count<common::BlobRequest>(), 1u);

  client.gives_graphs = false;
  client.submit(scripted_graph(9), request(), false);
  ASSERT_TRUE(
      converse({&worker, &client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kInvalidInput);
}

TEST_F(ServiceTest, AGraphUnderAnotherHashIsRefused) {
  start();
  FakeClient client(endpoint());
  common::Submit wrong = request();
  wrong.graph_hash = common::digest_of("another graph");
  client.submit(scripted_graph(8), wrong);
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kInvalidInput);
  EXPECT_EQ(client.count<common::Accepted>(), 0u);
  EXPECT_EQ(counters_->searches, 0);
}

TEST_F(ServiceTest, ALaterSearchReusesMeasurements) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  common::Submit other = request();
  other.policy = "relaxed";  // another plan key over the same kernels
  client.submit(scripted_graph(8), other);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.count<common::PlanReady>() == 2; }));
  EXPECT_EQ(client.last<common::PlanReady>()->cache, common::CacheOutcome::kPartial);
}

TEST_F(ServiceTest, TasksOfADeadWorkerMoveToAnother) {
  expire_quickly();
  start();
  FakeClient client(endpoint());
  auto doomed = std::make_unique<FakeWorker>(endpoint(), "doomed", kTestTarget);
  doomed->answers_max = 1;
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({doomed.get(), &client}, [&] { return doomed->tasks.size() >= 3; }));
  doomed.reset();
  FakeWorker heir(endpoint(), "heir", kTestTarget);
  ASSERT_TRUE(converse({&heir, &client}, [&] { return client.plan() != nullptr; }));
  // The one result of the dead worker counts.
  EXPECT_GE(heir.answered, 5u);
  EXPECT_EQ(client.last<common::PlanReady>()->candidates, 6u);
}

TEST_F(ServiceTest, AWorkerThatForgotItsLeasesGetsThemAgain) {
  expire_quickly();
  start();
  FakeClient client(endpoint());
  auto before = std::make_unique<FakeWorker>(endpoint(), "w1", kTestTarget);
  before->answers_max = 0;
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({before.get(), &client}, [&] { return before->tasks.size() == 2; }));
  before.reset();
  // Under the same name and never silent for long: only its heartbeats tell that the leases are
  // lost.
  FakeWorker after(endpoint(), "w1", kTestTarget);
  ASSERT_TRUE(converse({&after, &client}, [&] { return client.plan() != nullptr; }));
  EXPECT_GE(after.answered, 6u);
}

TEST_F(ServiceTest, TwoWorkersOfOneNameDoNotTakeTurns) {
  start();
  FakeWorker first(endpoint(), "twin", kTestTarget);
  ASSERT_TRUE(converse({&first}, [&] { return first.welcomes == 1; }));
  FakeWorker second(endpoint(), "twin", kTestTarget);
  ASSERT_TRUE(converse({&first, &second}, [&] { return second.welcomes == 1; }));
  for (int i = 0; i < 3; ++i) first.credit(1);
  ASSERT_TRUE(converse({&first, &second}, [&] { return first.refusals >= 3; }));
  EXPECT_EQ(first.welcomes, 1u);
  EXPECT_EQ(second.refusals, 0u);
}

TEST_F(ServiceTest, WithoutAWorkerTheClientLearnsWhy) {
  expire_quickly();
  start();
  FakeClient client(endpoint());
  FakeWorker other(endpoint(), "w1", "cpu-other");
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(
      converse({&client, &other}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kUnavailable);
  EXPECT_NE(client.last<common::JobFailed>()->message.find("no worker for target cpu-test"),
            std::string::npos);
}

TEST_F(ServiceTest, WithoutATargetTheFirstWorkerDecides) {
  start();
  FakeClient client(endpoint());
  common::Submit any = request();
  any.target.clear();
  any.max_wait_ms = 20'000;
  client.submit(scripted_graph(8), any);
  client.send(common::StatusRequest{1, common::StatusTopic::kStatus});
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::StatusReply>() != nullptr; }));
  EXPECT_NE(client.last<common::StatusReply>()->json.find("\"waiting_submits\":1"),
            std::string::npos);
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));

  any.max_wait_ms = 1;
  worker.bye();
  client.submit(scripted_graph(8), any);  // any target's plan is a hit
  client.submit(scripted_graph(9), any);
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->request_id, 3u);
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kUnavailable);
  EXPECT_EQ(client.last<common::PlanReady>()->request_id, 2u);
  EXPECT_EQ(client.last<common::PlanReady>()->cache, common::CacheOutcome::kHit);
}

TEST_F(ServiceTest, AFamilyIsTheTargetOfItsWorkers) {
  expire_quickly();
  start();
  FakeClient client(endpoint());
  FakeWorker cpu(endpoint(), "w1", kTestTarget);
  common::Submit gpu = request();
  gpu.target = "cuda";
  client.submit(scripted_graph(8), gpu);
  ASSERT_TRUE(
      converse({&client, &cpu}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kUnavailable);
  std::string why = client.last<common::JobFailed>()->message;
  EXPECT_NE(why.find("no worker for target cuda"), std::string::npos) << why;
  EXPECT_NE(why.find(kTestTarget), std::string::npos) << "the farm's own targets: " << why;

  gpu.max_wait_ms = 60'000;
  client.submit(scripted_graph(8), gpu);
  FakeWorker worker(endpoint(), "w2", "cuda-sm_90a");
  ASSERT_TRUE(converse({&client, &cpu, &worker}, [&] { return client.plan() != nullptr; }));
  EXPECT_TRUE(cpu.tasks.empty());
  auto plan = granted_plan(client.plan()->blob.bytes);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->key.target.name, "cuda-sm_90a");

  // A plan for one target is none for another.
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(
      converse({&client, &cpu, &worker}, [&] { return client.count<common::PlanReady>() == 2; }));
  EXPECT_EQ(client.last<common::PlanReady>()->cache, common::CacheOutcome::kMiss);
  EXPECT_FALSE(cpu.tasks.empty());
  plan = granted_plan(client.plan()->blob.bytes);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->key.target.name, kTestTarget);

  // Without the worker its plan is there still; with two kinds of it the client must say which.
  worker.bye();
  client.submit(scripted_graph(8), gpu);
  ASSERT_TRUE(converse({&client, &cpu}, [&] { return client.count<common::PlanReady>() == 3; }));
  EXPECT_EQ(client.last<common::PlanReady>()->cache, common::CacheOutcome::kHit);
  FakeWorker other(endpoint(), "w3", "cuda-sm_80"), another(endpoint(), "w4", "cuda-sm_90a");
  ASSERT_TRUE(converse({&other, &another}, [&] { return other.welcomes + another.welcomes == 2; }));
  client.submit(scripted_graph(9), gpu);
  ASSERT_TRUE(converse({&client, &cpu}, [&] { return client.count<common::JobFailed>() == 2; }));
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kInvalidInput);
  EXPECT_NE(client.last<common::JobFailed>()->message.find("cuda-sm_80, cuda-sm_90a"),
            std::string::npos);
}

TEST_F(ServiceTest, AJobIsCancelledByItsOnlyClientAlone) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.answers_max = 1;
  FakeClient first(endpoint());
  FakeClient second(endpoint());
  first.submit(scripted_graph(8), request());
  second.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &first, &second}, [&] {
    return worker.tasks.size() >= 2 && first.last<common::Accepted>() != nullptr &&
           second.last<common::Accepted>() != nullptr;
  }));
  uint64_t job = first.last<common::Accepted>()->job_id;
  first.send(common::CancelJob{job});
  ASSERT_TRUE(
      converse({&worker, &first}, [&] { return first.last<common::JobFailed>() != nullptr; }));
  EXPECT_TRUE(worker.revoked.empty());
  second.send(common::CancelJob{job});
  ASSERT_TRUE(converse({&worker, &second}, [&] {
    return second.last<common::JobFailed>() != nullptr && !worker.revoked.empty();
  }));
  second.send(common::CancelJob{job});
  ASSERT_TRUE(converse({&second}, [&] { return second.last<common::Refused>() != nullptr; }));
  EXPECT_EQ(second.last<common::Refused>()->code, common::Code::kInvalidInput);
}

TEST_F(ServiceTest, ATimeBudgetEndsTheSearch) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  common::Submit timed = request(0);
  timed.budget_ms = 200;
  client.submit(scripted_graph(8), timed);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  EXPECT_EQ(counters_->finished_early, 1);
  EXPECT_GE(client.last<common::PlanReady>()->elapsed_ms, 200u);
}

// A replica of the same name, with a state directory of its own, takes over while the only slot is
// filled: it must neither count that slot against the worker for ever nor take the old result.
TEST_F(ServiceTest, AReplicaThatTakesOverGetsTheWorkersSlotsAndNoStaleResults) {
  options_.listen = "ipc://" + options_.state + ".socket";
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 1);
  worker.answers_max = 0;
  FakeClient before(endpoint());
  before.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &before}, [&] { return worker.tasks.size() == 1; }));
  std::string first_id = before.last<common::Welcome>()->coordinator_id;
  stop();
  options_.state += "-replica";
  start();
  size_t welcomes = worker.welcomes;
  ASSERT_TRUE(converse({&worker}, [&] { return worker.welcomes > welcomes; }));
  FakeClient after(endpoint());
  after.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &after}, [&] { return worker.tasks.size() == 2; }));
  EXPECT_EQ(worker.revoked.size(), 1u);
  EXPECT_NE(worker.tasks[0].lease.task_id, worker.tasks[1].lease.task_id);
  EXPECT_NE(worker.tasks[0].lease.epoch, worker.tasks[1].lease.epoch);
  worker.release();  // answers what the first one sent, too
  ASSERT_TRUE(converse({&worker, &after}, [&] { return after.plan() != nullptr; }));
  EXPECT_EQ(after.last<common::PlanReady>()->candidates, 6u);
  EXPECT_NE(after.last<common::Welcome>()->coordinator_id, first_id);
}

TEST_F(ServiceTest, WhatIsOpenWhenTheTimeIsOverIsGivenUp) {
  counters_->keeps_baseline = true;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.answers_max = 1;  // the baseline
  FakeClient client(endpoint());
  common::Submit timed = request(0);
  timed.budget_ms = 200;
  client.submit(scripted_graph(8), timed);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  EXPECT_EQ(worker.answered, 1u);
  EXPECT_GE(worker.revoked.size(), 1u);
  EXPECT_GE(client.last<common::PlanReady>()->elapsed_ms, 200u);
}

TEST_F(ServiceTest, ObjectsThatTheWorkerLostAreMadeAgain) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.objects_refused = 1;
  // A compiler that never gives the same bytes twice.
  worker.judge = [&worker](const common::Task&) {
    worker.object_salt += '+';
    return TaskOutcome::kOk;
  };
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  EXPECT_EQ(worker.answered, 7u);
  auto outer = common::decode_sealed(client.plan()->blob.bytes);
  auto plan = common::decode_plan(common::decode_grant(outer->bytes).value().plan);
  ASSERT_TRUE(plan.ok());
  client.send(common::BlobRequest{plan->objects.at(0)});
  EXPECT_TRUE(converse({&client}, [&] { return client.count<common::Blob>() == 1; }));
}

TEST_F(ServiceTest, ObjectsLostForGoodFailTheJob) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.objects_refused = SIZE_MAX;
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(
      converse({&worker, &client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kUnavailable);
  EXPECT_EQ(worker.answered, 7u);
}

TEST_F(ServiceTest, AWrongFinalistFailsTheJob) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.judge = [](const common::Task& task) {
    auto payload = common::decode_task_payload(task.payload);
    return payload->kind == common::TaskKind::kFinalist ? TaskOutcome::kWrong : TaskOutcome::kOk;
  };
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(
      converse({&worker, &client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kVerification);
}

TEST_F(ServiceTest, AResultThatSpeaksOfOtherKernelsIsNotBelieved) {
  start();
  FakeClient client(endpoint());
  FakeWorker liar(endpoint(), "liar", kTestTarget, 1);
  liar.answers_max = 1;
  liar.tamper = [](common::TaskReport& report) {
    report.kernels[0].fingerprint = common::digest_of("another kernel");
  };
  client.submit(scripted_graph(8), request(1));
  ASSERT_TRUE(converse({&liar, &client}, [&] { return liar.tasks.size() == 2; }));
  EXPECT_EQ(liar.tasks[0].lease.task_id, liar.tasks[1].lease.task_id);
  liar.bye();
  FakeWorker honest(endpoint(), "honest", kTestTarget);
  ASSERT_TRUE(converse({&honest, &client}, [&] { return client.plan() != nullptr; }));
  auto outer = common::decode_sealed(client.plan()->blob.bytes);
  auto plan = common::decode_plan(common::decode_grant(outer->bytes).value().plan);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->provenance.worker, "honest");
}

TEST_F(ServiceTest, AWorkerWithoutCreditGetsNoTasks) {
  start();
  FakeClient client(endpoint());
  FakeWorker worker(endpoint(), "w1", kTestTarget, 3);
  worker.answers_max = 0;
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &client}, [&] { return worker.tasks.size() == 3; }));
  // Two leases come back without credit: one slot in use, none free.
  for (size_t i = 0; i < 2; ++i) {
    worker.held.erase(worker.tasks[i].lease);
    worker.send(common::LeaseReturned{worker.tasks[i].lease});
  }
  client.send(common::StatusRequest{1, common::StatusTopic::kWorkers});
  ASSERT_TRUE(
      converse({&worker, &client}, [&] { return client.last<common::StatusReply>() != nullptr; }));
  common::Task last = worker.tasks.back();
  EXPECT_EQ(worker.tasks.size(), 3u);
  worker.credit(1);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return worker.tasks.size() == 4; }));
}

TEST_F(ServiceTest, UnknownConnectionsAreAskedForTheirHello) {
  start();
  FakeClient client(endpoint());
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::Welcome>() != nullptr; }));
  class Stranger final : public FakePeer {
   public:
    using FakePeer::FakePeer;
    std::vector<common::Packet> inbox;

   private:
    void on(const common::Packet& packet) override { inbox.push_back(packet); }
  } stranger(endpoint());
  stranger.send(common::Ping{5});
  stranger.send(common::PullPlan{1, common::digest_of("key")});
  ASSERT_TRUE(converse({&stranger}, [&] { return stranger.inbox.size() == 2; }));
  EXPECT_EQ(std::get<common::Pong>(stranger.inbox[0].message).number, 5u);
  EXPECT_EQ(std::get<common::Refused>(stranger.inbox[1].message).code, common::Code::kUnavailable);
  client.send(common::Credit{1});
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::Refused>() != nullptr; }));
}

TEST_F(ServiceTest, ManyClientsOfANewGraphStartOneSearch) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  std::vector<std::unique_ptr<FakeClient>> clients;
  std::vector<FakePeer*> peers{&worker};
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<FakeClient>(endpoint()));
    clients.back()->submit(scripted_graph(8), request(), i % 2 == 0);
    peers.push_back(clients.back().get());
  }
  ASSERT_TRUE(converse(peers, [&] {
    return std::all_of(clients.begin(), clients.end(),
                       [](const auto& client) { return client->plan() != nullptr; });
  }));
  EXPECT_EQ(counters_->searches, 1);
  EXPECT_EQ(worker.answered, 6u);
}

TEST_F(ServiceTest, JobsBeyondTheBoundWaitTheirTurn) {
  options_.limits.searches_max = 1;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.answers_max = 0;
  FakeClient client(endpoint());
  for (int64_t size = 1; size <= 3; ++size) client.submit(scripted_graph(size), request());
  ASSERT_TRUE(converse({&worker, &client}, [&] {
    return client.count<common::Accepted>() == 3 && worker.tasks.size() == 2;
  }));
  EXPECT_EQ(counters_->searches, 1);
  worker.release();
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.count<common::PlanReady>() == 3; }));
  EXPECT_EQ(counters_->searches, 3);
}

common::Graph two_layers() {
  common::GraphBuilder b;
  common::NodeId h = b.input(common::InputKind::kUser, common::DType::kFloat32, {8, 16}, "x");
  for (int layer = 0; layer < 2; ++layer) {
    common::NodeId y = h;
    for (common::UnaryOp op : {common::UnaryOp::kTanh, common::UnaryOp::kSigmoid}) {
      common::NodeId w =
          b.input(common::InputKind::kWeight, common::DType::kFloat32, {16, 16}, "w");
      y = b.unary(op, b.matmul(y, w));
    }
    h = b.binary(common::BinaryOp::kSub, y, b.reduce(common::ReduceOp::kMax, y, {1}, true));
  }
  b.output(h);
  return b.finish();
}

TEST_F(ServiceTest, TheRealSearchFindsAPlan) {
  options_.create_search = JobSearch::create;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 4);
  FakeClient client(endpoint());
  client.submit(two_layers(), request(24));
  ASSERT_TRUE(converse({&worker, &client}, [&] {
    return client.plan() != nullptr || client.last<common::JobFailed>() != nullptr;
  }));
  ASSERT_NE(client.plan(), nullptr) << client.last<common::JobFailed>()->message;
  EXPECT_LE(client.last<common::PlanReady>()->candidates, 24u);
  EXPECT_LE(client.last<common::PlanReady>()->best_ns,
            client.last<common::PlanReady>()->baseline_ns);
}

// The second job begins with the first one's priors and measurements.
TEST_F(ServiceTest, AJobIsReplayedFromItsJournal) {
  options_.create_search = JobSearch::create;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 4);
  FakeClient client(endpoint());
  client.submit(two_layers(), request(24));
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  size_t before = worker.tasks.size();
  common::Submit other = request(40);
  other.policy = "relaxed";
  other.seed = 3;
  other.in_flight = 20;
  client.submit(two_layers(), other);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.count<common::PlanReady>() == 2; }));
  farm::JobId job = client.last<common::PlanReady>()->job_id;
  EXPECT_EQ(client.last<common::PlanReady>()->cache, common::CacheOutcome::kPartial);
  stop();

  auto store = cache::Store::open(options_.state);
  ASSERT_TRUE(store.ok()) << store.error().message;
  auto replay = replay_job(**store, job, JobSearch::create);
  ASSERT_TRUE(replay.ok()) << replay.error().message;
  EXPECT_EQ(replay->difference, "");
  EXPECT_EQ(replay->job.start->in_flight, 20);
  EXPECT_FALSE(replay->job.start->priors.empty());
  EXPECT_FALSE(replay->job.answers.empty());
  std::multiset<common::Digest> sent, replayed;
  for (size_t k = before; k < worker.tasks.size(); ++k) {
    auto payload = common::decode_task_payload(worker.tasks[k].payload);
    ASSERT_TRUE(payload.ok());
    if (payload->kind == common::TaskKind::kComparison) continue;
    sent.insert(common::program_fingerprint(payload->program));
  }
  for (const ReplayedCandidate& candidate : replay->candidates) {
    EXPECT_FALSE(candidate.task.origin.empty());
    replayed.insert(candidate.task.fingerprint);
  }
  EXPECT_EQ(replayed, sent);
  auto again = replay_job(**store, job, JobSearch::create);
  ASSERT_TRUE(again.ok());
  ASSERT_EQ(again->candidates.size(), replay->candidates.size());
  for (size_t k = 0; k < again->candidates.size(); ++k) {
    EXPECT_EQ(again->candidates[k].task.fingerprint, replay->candidates[k].task.fingerprint);
    EXPECT_EQ(again->candidates[k].task.predicted_ns, replay->candidates[k].task.predicted_ns);
  }

  // Each of these lies about what happened.
  auto records = (*store)->read_job(common::cat("job-", job));
  ASSERT_TRUE(records.ok());
  auto is_result = [](const cache::JobRecord& record) {
    return record.sequence > 1 && std::isdigit(static_cast<unsigned char>(record.bytes[0])) != 0;
  };
  auto first = std::find_if(records->begin(), records->end(), is_result) - records->begin();
  auto at = static_cast<size_t>(first);
  auto replay_of = [&](std::vector<cache::JobRecord> changed) {
    EXPECT_TRUE((*store)->remove_job(common::cat("job-", job)).ok());
    EXPECT_TRUE((*store)->append_job(common::cat("job-", job), changed, false).ok());
    auto result = replay_job(**store, job, JobSearch::create);
    return result.ok() ? result->difference : result.error().message;
  };
  std::vector<cache::JobRecord> lost = *records, damaged = *records, faster = *records;
  lost.erase(lost.begin() + first);
  EXPECT_NE(replay_of(lost), "");
  damaged[at].bytes.resize(damaged[at].bytes.size() / 2);
  EXPECT_NE(replay_of(damaged), "");
  for (cache::JobRecord& record : faster) {
    // The kind and the fingerprint of one result, with another's times.
    if (is_result(record))
      record.bytes.replace(66, std::string::npos, records->back().bytes, 66, std::string::npos);
  }
  EXPECT_NE(replay_of(faster), "");
  EXPECT_EQ(replay_of(*records), "");
}

TEST_F(ServiceTest, AJobThatOutlivedItsCoordinatorIsReplayedToo) {
  options_.create_search = JobSearch::create;
  start();
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget, 4);
    worker.answers_max = 15;
    FakeClient client(endpoint());
    client.submit(two_layers(), request(40));
    ASSERT_TRUE(converse({&worker, &client}, [&] {
      const auto* progress = client.last<common::Progress>();
      return progress != nullptr && progress->candidates_done == 15;
    }));
  }
  stop();
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2);
  FakeClient client(endpoint());
  client.submit(two_layers(), request(40));
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  // The first fifteen were not measured again; a comparison is no candidate.
  EXPECT_EQ(worker.answered, 26u);
  farm::JobId job = client.last<common::PlanReady>()->job_id;
  stop();
  auto store = cache::Store::open(options_.state);
  ASSERT_TRUE(store.ok()) << store.error().message;
  auto replay = replay_job(**store, job, JobSearch::create);
  ASSERT_TRUE(replay.ok()) << replay.error().message;
  EXPECT_EQ(replay->difference, "");
  EXPECT_EQ(replay->candidates.size(), 40u);
}

TEST_F(ServiceTest, APolicyThatIsNoneIsRefused) {
  start();
  FakeClient client(endpoint());
  common::Submit sloppy = request();
  sloppy.policy = "sloppy";
  client.submit(scripted_graph(8), sloppy);
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kInvalidInput);
  EXPECT_NE(client.last<common::JobFailed>()->message.find("sloppy"), std::string::npos);
}

TEST_F(ServiceTest, EveryStatusTopicIsAnswered) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.answers_max = 1;
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({&worker, &client}, [&] { return worker.tasks.size() >= 2; }));
  const char* expected[] = {"\"workers\":1", "\"worker\":\"w1\"", "\"phase\":\"searching\"",
                            "\"measurements\":", "{\"total\":0,\"plans\":[]}"};
  for (int topic = 0; topic < 5; ++topic) {
    size_t replies = client.count<common::StatusReply>();
    client.send(common::StatusRequest{static_cast<uint64_t>(topic),
                                      static_cast<common::StatusTopic>(topic)});
    ASSERT_TRUE(converse({&worker, &client},
                         [&] { return client.count<common::StatusReply>() > replies; }));
    EXPECT_NE(client.last<common::StatusReply>()->json.find(expected[topic]), std::string::npos)
        << client.last<common::StatusReply>()->json;
  }
}

TEST_F(ServiceTest, ClientsAreToldWhenTheFarmStopsAndTheJobGoesOn) {
  start();
  auto worker = std::make_unique<FakeWorker>(endpoint(), "w1", kTestTarget);
  worker->answers_max = 3;
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({worker.get(), &client}, [&] { return worker->tasks.size() == 5; }));
  stop();
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kUnavailable);
  EXPECT_NE(client.last<common::JobFailed>()->message.find("shutting down"), std::string::npos);
  uint64_t job = client.last<common::JobFailed>()->job_id;
  worker.reset();

  start();
  FakeWorker next(endpoint(), "w2", kTestTarget);
  FakeClient again(endpoint());
  again.submit(scripted_graph(8), request(), false);
  ASSERT_TRUE(converse({&next, &again}, [&] { return again.plan() != nullptr; }));
  EXPECT_EQ(next.answered, 3u);  // the other three results were in the journal
  if (const auto* accepted = again.last<common::Accepted>()) {
    EXPECT_EQ(accepted->job_id, job);
    EXPECT_TRUE(accepted->joined);
  }
}

}  // namespace
}  // namespace coordinator::service
