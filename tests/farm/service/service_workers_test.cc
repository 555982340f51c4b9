// The coordinator over real sockets: if these fail, what workers do not answer is lost, or what
// they answer wrongly is believed.
#include <gtest/gtest.h>

#include "common/wire/ir_codec.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using common::TaskOutcome;

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
  worker.use_toolchain("cc 1");
  worker.objects_refused = 1;
  // A compiler that never gives the same bytes twice, and is another one at last.
  worker.judge = [&worker](const common::Task&) {
    if (worker.answered == 7) worker.use_toolchain("cc 2");
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
  EXPECT_EQ(plan->provenance.toolchain, "cc 2");
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

}  // namespace
}  // namespace coordinator::service
