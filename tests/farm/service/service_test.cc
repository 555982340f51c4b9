// The coordinator over real sockets: if these fail, clients wait for ever, searches are done twice,
// or plans reach clients incomplete or unsigned.
#include <gtest/gtest.h>

#include "common/ir/hlir/graph_hash.h"
#include "common/wire/ir_codec.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

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
