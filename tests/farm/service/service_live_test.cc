// Plans while a search goes on, and searches that go on from a plan: if these fail, clients wait
// for the end of a search, stay with the first plan that anybody asked for, or a farm that tells
// thousands of clients of a plan does nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/plans/plan_watches.h"
#include "coordinator/service/signing/key_signer.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::Digest;
using common::PlanNews;
using common::PlanReady;
using common::Standing;

common::PlanKey key_of(const common::Graph& graph) {
  return common::plan_key_of(graph, {kTestTarget}, std::string(common::kDefaultPolicy));
}

class ServiceLiveTest : public ServiceTest {
 protected:
  ServiceLiveTest() {
    counters_->hands_out = true;
    options_.times.news_ms = 1;
  }
  // What the farm answers to a pull of the graph's plan: its packet.
  common::Packet pull(FakeClient& client, common::PullPlan ask,
                      std::vector<FakePeer*> others = {}) {
    ask.request_id = ++pulls_;
    ask.plan_key = key_of(graph_).digest();
    size_t before = answers(client);
    others.push_back(&client);
    // Before it the client speaks the oldest version, in which there are no news.
    EXPECT_TRUE(converse(others, [&] { return client.last<common::Welcome>() != nullptr; }));
    client.send(ask);
    EXPECT_TRUE(converse(others, [&] { return answers(client) > before; }));
    for (auto it = client.inbox.rbegin(); it != client.inbox.rend(); ++it) {
      if (is_answer(*it)) return *it;
    }
    return {};
  }
  // Pulls until the graph's plan has this standing.
  PlanReady pull_until(Standing standing, FakeClient& client, FakeWorker& worker) {
    int64_t end_ns = common::SteadyClock().now_ns() + int64_t{60'000'000'000};
    while (common::SteadyClock().now_ns() < end_ns) {
      common::Packet packet = pull(client, {}, {&worker});
      auto* ready = std::get_if<PlanReady>(&packet.message);
      if (ready != nullptr && ready->standing == standing) return *ready;
    }
    ADD_FAILURE() << "no such plan came";
    return {};
  }
  // Submits and waits for the plan.
  PlanReady found(FakeClient& client, FakeWorker& worker, const common::Submit& ask) {
    size_t before = client.count<PlanReady>();
    client.submit(graph_, ask);
    EXPECT_TRUE(converse({&client, &worker}, [&] { return client.count<PlanReady>() > before; }));
    return client.last<PlanReady>() != nullptr ? *client.last<PlanReady>() : PlanReady();
  }

  common::Graph graph_ = scripted_graph(4);

 private:
  static bool is_answer(const common::Packet& packet) {
    return std::holds_alternative<PlanReady>(packet.message) ||
           std::holds_alternative<common::PlanMissing>(packet.message);
  }
  static size_t answers(const FakeClient& client) {
    return static_cast<size_t>(std::count_if(client.inbox.begin(), client.inbox.end(), is_answer));
  }
  uint64_t pulls_ = 1000;
};

TEST_F(ServiceLiveTest, ThePlainPlanIsThereWhileTheSearchGoesOn) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.answers_max = 1;
  FakeClient submitter(endpoint()), reader(endpoint());
  submitter.submit(graph_, request(6));
  ASSERT_TRUE(converse({&worker, &submitter}, [&] { return worker.answered == 1; }));
  PlanReady plain = pull_until(Standing::kInterim, reader, worker);
  EXPECT_EQ(plain.best_ns, plain.baseline_ns);
  // It ends nothing: whoever waits goes on to wait, and whoever submits joins the search.
  EXPECT_EQ(submitter.count<PlanReady>(), 0u);
  FakeClient second(endpoint());
  second.submit(graph_, request(6));
  ASSERT_TRUE(
      converse({&worker, &second}, [&] { return second.last<common::Accepted>() != nullptr; }));
  EXPECT_TRUE(second.last<common::Accepted>()->joined);

  worker.release();
  ASSERT_TRUE(converse({&worker, &submitter, &second},
                       [&] { return submitter.plan() != nullptr && second.plan() != nullptr; }));
  const auto& final = std::get<PlanReady>(submitter.plan()->message);
  EXPECT_EQ(final.standing, Standing::kFinal);
  EXPECT_NE(final.plan, plain.plan);
  EXPECT_EQ(pull_until(Standing::kFinal, reader, worker).plan, final.plan);
  EXPECT_EQ(counters_->searches, 1);
}

TEST_F(ServiceLiveTest, WhoWatchesIsToldAndGetsOnlyWhatIsNew) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.answers_max = 1;
  FakeClient watcher(endpoint()), submitter(endpoint()), other(endpoint());
  common::PullPlan ask;
  ask.watch = true;
  ASSERT_TRUE(std::holds_alternative<common::PlanMissing>(pull(watcher, ask).message));
  submitter.submit(graph_, request(6));
  std::vector<FakePeer*> all = {&worker, &submitter, &watcher, &other};
  ASSERT_TRUE(converse(all, [&] { return watcher.last<PlanNews>() != nullptr; }));
  PlanNews plain = *watcher.last<PlanNews>();
  EXPECT_EQ(plain.standing, Standing::kInterim);
  EXPECT_EQ(plain.plan_key, key_of(graph_).digest());

  ask.known = plain.plan;
  common::Packet same = pull(watcher, ask, {&worker});
  ASSERT_TRUE(std::holds_alternative<PlanReady>(same.message));
  EXPECT_EQ(std::get<PlanReady>(same.message).standing, Standing::kInterim);
  EXPECT_FALSE(same.blob) << "the plan came again";

  worker.release();
  ASSERT_TRUE(converse(all, [&] {
    return submitter.plan() != nullptr && watcher.last<PlanNews>()->standing == Standing::kFinal;
  }));
  const auto& final = std::get<PlanReady>(submitter.plan()->message);
  EXPECT_EQ(watcher.last<PlanNews>()->plan, final.plan);
  common::Packet fresh = pull(watcher, ask, {&worker});
  EXPECT_EQ(std::get<PlanReady>(fresh.message).plan, final.plan);
  EXPECT_TRUE(fresh.blob);
  EXPECT_EQ(other.count<PlanNews>(), 0u) << "it did not ask";
}

TEST_F(ServiceLiveTest, NewsOfOnePlanAreBoundedInRate) {
  options_.times.news_ms = 60'000;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient watcher(endpoint()), submitter(endpoint());
  common::PullPlan ask;
  ask.watch = true;
  pull(watcher, ask);
  submitter.submit(graph_, request(32));
  ASSERT_TRUE(converse({&worker, &submitter, &watcher}, [&] {
    return submitter.plan() != nullptr && watcher.count<PlanNews>() > 0;
  }));
  watcher.send(common::Ping{1});
  ASSERT_TRUE(
      converse({&worker, &watcher}, [&] { return watcher.last<common::Pong>() != nullptr; }));
  EXPECT_EQ(watcher.count<PlanNews>(), 1u);
}

TEST_F(ServiceLiveTest, ARestartInTheMiddleGoesOnAfterAnInterimPlan) {
  start();
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget);
    worker.answers_max = 1;
    FakeClient submitter(endpoint()), reader(endpoint());
    submitter.submit(graph_, request(6));
    ASSERT_TRUE(converse({&worker, &submitter}, [&] { return worker.answered == 1; }));
    pull_until(Standing::kInterim, reader, worker);
  }
  stop();
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient reader(endpoint());
  PlanReady final = pull_until(Standing::kFinal, reader, worker);
  EXPECT_EQ(final.candidates, 6u);
  for (const common::Task& task : worker.tasks) {
    auto payload = common::decode_task_payload(task.payload);
    ASSERT_TRUE(payload.ok());
    EXPECT_NE(payload->kind, common::TaskKind::kBaseline) << "it was measured again";
  }
}

TEST_F(ServiceLiveTest, AnInterimPlanOfALostSearchIsNoHit) {
  expire_quickly();
  start();
  FakeClient submitter(endpoint()), reader(endpoint());
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget);
    worker.answers_max = 1;
    submitter.submit(graph_, request(6));
    ASSERT_TRUE(converse({&worker, &submitter}, [&] { return worker.answered == 1; }));
    pull_until(Standing::kInterim, reader, worker);
  }
  ASSERT_TRUE(
      converse({&submitter}, [&] { return submitter.last<common::JobFailed>() != nullptr; }));
  FakeWorker worker(endpoint(), "w2", kTestTarget);
  PlanReady final = found(submitter, worker, request(6));
  EXPECT_EQ(final.standing, Standing::kFinal);
  EXPECT_EQ(counters_->searches, 2);
  EXPECT_EQ(counters_->incumbents, 1) << "what the lost search had found is compared with";
}

TEST_F(ServiceLiveTest, WhoAsksForMoreThanAPlanWasGivenSearchesOnFromIt) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  auto ask = [&](uint64_t candidates, uint64_t ms = 0, uint64_t seed = 0, bool force = false) {
    common::Submit submit = request(candidates);
    submit.budget_ms = ms;
    submit.seed = seed;
    submit.force = force;
    return found(client, worker, submit).cache == common::CacheOutcome::kHit;
  };
  EXPECT_FALSE(ask(2));
  EXPECT_TRUE(ask(2));
  EXPECT_TRUE(ask(1));
  EXPECT_TRUE(ask(2, 5'000)) << "a search without a limit in time was given more";
  EXPECT_TRUE(ask(0)) << "no budget: what there is";
  EXPECT_EQ(counters_->searches, 1);
  EXPECT_FALSE(ask(64));
  EXPECT_EQ(counters_->searches, 2);
  EXPECT_EQ(counters_->incumbents, 1);
  EXPECT_TRUE(ask(64));
  EXPECT_TRUE(ask(2));
  EXPECT_FALSE(ask(64, 0, 7)) << "another seed";
  EXPECT_TRUE(ask(64, 0, 7));
  EXPECT_TRUE(ask(64)) << "the first seed's search is forgotten";
  EXPECT_FALSE(ask(0, 50)) << "a time and no number";
  EXPECT_TRUE(ask(0, 50));
  EXPECT_FALSE(ask(64, 0, 0, true)) << "forced";
  EXPECT_EQ(counters_->searches, 5);
  EXPECT_EQ(counters_->incumbents, 4);
}

TEST_F(ServiceLiveTest, WhatASearchWasGivenOutlivesARestart) {
  start();
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget);
    FakeClient client(endpoint());
    found(client, worker, request(64));
  }
  stop();
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  FakeClient client(endpoint());
  EXPECT_EQ(found(client, worker, request(64)).cache, common::CacheOutcome::kHit);
  EXPECT_NE(found(client, worker, request(65)).cache, common::CacheOutcome::kHit);
}

TEST_F(ServiceLiveTest, ALargerSubmitFollowsTheSmallerSearchThatIsUnderWay) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.answers_max = 0;
  FakeClient small(endpoint()), large(endpoint());
  small.submit(graph_, request(2));
  ASSERT_TRUE(converse({&worker, &small}, [&] { return !worker.tasks.empty(); }));
  large.submit(graph_, request(16));
  large.send(common::Ping{1});
  ASSERT_TRUE(converse({&worker, &large}, [&] { return large.last<common::Pong>() != nullptr; }));
  worker.release();
  ASSERT_TRUE(converse({&worker, &small, &large},
                       [&] { return small.plan() != nullptr && large.plan() != nullptr; }));
  EXPECT_EQ(std::get<PlanReady>(small.plan()->message).candidates, 2u);
  EXPECT_EQ(std::get<PlanReady>(large.plan()->message).candidates, 16u);
  EXPECT_EQ(counters_->searches, 2);
  EXPECT_EQ(counters_->incumbents, 1);
}

// ---- Ten thousand watchers ---------------------------------------------------------------------

class Watches : public testing::Test {
 protected:
  void keep(int64_t best_ns) {
    common::Plan plan = plan_;
    plan.provenance.best_ns = best_ns;
    auto kept = repository_.keep("team", plan, {});
    ASSERT_TRUE(kept.ok()) << kept.error().message;
  }
  common::ScratchDirectory state_ = common::ScratchDirectory::create("watches").value();
  common::WireContext context_;
  common::RouterSocket router_ =
      common::RouterSocket::bind(context_, {"tcp://127.0.0.1:*"}).value();
  std::unique_ptr<cache::Store> store_ = cache::Store::open(state_.path(), {}).value();
  Tenants tenants_{*store_};
  PlanRepository repository_{*store_, std::make_shared<KeySigner>(common::make_signing_key()),
                             tenants_};
  Outbox outbox_{router_, size_t{1} << 20};
  common::SteadyClock clock_;
  PlanWatches watches_{repository_, outbox_, clock_, 0, 65'536};
  common::Plan plan_ = [] {
    common::Plan plan;
    plan.key = key_of(scripted_graph(4));
    return plan;
  }();
};

// No peer is there, so that each is forgotten when its turn to be told comes.
TEST_F(Watches, AChangeIsOneFanOutInBoundedTurns) {
  constexpr size_t kPeers = 10'000;
  constexpr size_t kAtOnce = 1'024;
  common::PullPlan ask;
  ask.plan_key = plan_.key.digest();
  for (size_t k = 0; k < kPeers; ++k) watches_.watch(cat("peer ", k), "team", ask, {});
  watches_.watch("elsewhere", "others", ask, {});
  watches_.turn();
  EXPECT_EQ(watches_.fan_outs(), 0u);
  keep(100);
  keep(90);
  size_t turns = 0;
  do {
    watches_.turn();
    ++turns;
    EXPECT_EQ(watches_.peers(), kPeers + 1 - std::min(kPeers, turns * kAtOnce));
  } while (watches_.is_busy() && turns < 100);
  EXPECT_EQ(turns, kPeers / kAtOnce + 1);
  EXPECT_EQ(watches_.fan_outs(), 1u) << "both changes in one";
  EXPECT_EQ(watches_.peers(), 1u) << "another tenant's was told";
}

TEST_F(Watches, WhoAskedLongestAgoMakesRoom) {
  PlanWatches few(repository_, outbox_, clock_, 0, 4);
  common::PullPlan ask;
  ask.plan_key = plan_.key.digest();
  for (int k = 0; k < 100; ++k) {
    few.watch(cat("peer ", k), "team", ask, {});
    EXPECT_LE(few.peers(), 4u);
  }
}

}  // namespace
}  // namespace coordinator::service
