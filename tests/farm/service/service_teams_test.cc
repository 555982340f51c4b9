// Teams on one farm, and winners that outlive a compiler: if these fail, tenants use more than they
// may, see what is not theirs, or lose their plans when the compiler changes.
#include <filesystem>
#include <fstream>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/plan/seal.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/plans/recipe.h"
#include "coordinator/service/plans/tenants.h"
#include "tests/farm/service/redis_server.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::Digest;

class ServiceTeamsTest : public ServiceTest {
 protected:
  ServiceTeamsTest() {
    options_.access.secure = true;
    std::filesystem::create_directories(options_.state);
    hand_ = grant("workers", "worker");
  }
  // Writes the allow-list with these lines after the keys' own; for the next start.
  void list(const std::string& lines) {
    policies_ = lines;
    write();
  }
  common::KeyPair grant(const std::string& tenant, const std::string& roles) {
    common::KeyPair keys = common::make_key_pair();
    keys_ += cat(keys.public_key, ' ', tenant, ' ', roles, '\n');
    write();
    return keys;
  }
  common::ClientKeys at_farm(const common::KeyPair& keys) const { return {keys, public_key()}; }
  std::unique_ptr<FakeClient> client(const common::KeyPair& keys) {
    return std::make_unique<FakeClient>(endpoint(), at_farm(keys));
  }
  // The answer to a submit with a worker that does what it is told.
  common::PlanReady plan_of(FakeClient& asker, FakeWorker& worker, const common::Graph& graph,
                            common::Submit request = ServiceTest::request()) {
    size_t plans = asker.count<common::PlanReady>();
    asker.submit(graph, std::move(request));
    EXPECT_TRUE(converse({&asker, &worker}, [&] {
      return asker.count<common::PlanReady>() > plans || asker.count<common::JobFailed>() > 0;
    }));
    EXPECT_EQ(asker.count<common::JobFailed>(), 0u)
        << (asker.count<common::JobFailed>() ? asker.last<common::JobFailed>()->message : "");
    return asker.count<common::PlanReady>() > plans ? *asker.last<common::PlanReady>()
                                                    : common::PlanReady{};
  }
  static common::Plan content(const FakeClient& client) {
    const common::Packet* packet = client.plan();
    auto outer = common::decode_sealed(packet->blob.bytes).value();
    return common::decode_plan(common::decode_grant(outer.bytes).value().plan).value();
  }
  template <class Message>
  void ask(FakeClient& asker, const Message& message) {
    EXPECT_TRUE(converse({&asker}, [&] { return asker.last<common::Welcome>() != nullptr; }));
    asker.socket().speak(common::kProtocolVersion);
    size_t before = asker.count<common::PlansChanged>() + asker.count<common::JobFailed>() +
                    asker.count<common::Refused>();
    asker.send(message);
    EXPECT_TRUE(converse({&asker}, [&] {
      return asker.count<common::PlansChanged>() + asker.count<common::JobFailed>() +
                 asker.count<common::Refused>() >
             before;
    }));
  }
  // A farm that has found one plan and stopped.
  common::PlanReady find_and_stop(const common::KeyPair& tenant, bool one_object = false) {
    start();
    common::PlanReady found;
    {
      FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
      worker.one_object = one_object;
      auto first = client(tenant);
      found = plan_of(*first, worker, scripted_graph(8));
    }
    stop();
    return found;
  }
  // How the store's plans were made.
  std::vector<Digest> recipes() const {
    std::vector<Digest> found;
    auto store = cache::Store::open(options_.state).value();
    std::vector<cache::PlanListing> plans = store->list_plans().value();
    for (const cache::PlanListing& listing : plans) {
      cache::StoredPlan plan = store->get_plan(listing.facts.key).value().value();
      for (const Digest& need : plan.needs) {
        if (is_recipe(common::as_bytes(*store->get_blob(need).value()))) found.push_back(need);
      }
    }
    return found;
  }
  common::KeyPair hand_;  // a worker's

 private:
  void write() { std::ofstream(options_.state + "/allow", std::ios::trunc) << keys_ << policies_; }
  std::string keys_, policies_;
};

TEST_F(ServiceTeamsTest, APlanSaysWhoMadeItWhenAndWithWhat) {
  common::KeyPair a = grant("team-a", "submit,read");
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
  worker.use_toolchain("clang 99");
  auto first = client(a);
  plan_of(*first, worker, scripted_graph(8));
  common::Provenance provenance = content(*first).provenance;
  EXPECT_EQ(provenance.tenant, "team-a");
  EXPECT_EQ(provenance.submitter, common::key_id_of(a.public_key));
  EXPECT_EQ(provenance.toolchain, "clang 99");
  EXPECT_EQ(provenance.farm, "test-farm");
  EXPECT_EQ(provenance.worker, "w1");
  EXPECT_GT(provenance.created_ns, 0);
  std::string text = common::print(content(*first));
  EXPECT_NE(text.find("toolchain clang 99\n"), std::string::npos) << text;
  EXPECT_NE(text.find("tenant    team-a\n"), std::string::npos) << text;
}

TEST_F(ServiceTeamsTest, WhoHasUsedItsQuotaGetsNoSearchAndStillItsPlans) {
  common::KeyPair a = grant("team-a", "submit,read"), b = grant("team-b", "submit,read");
  list("tenant team-a quota=60\n");
  find_and_stop(a);
  {
    // What was used is in the store; as much as the quota allows, a while ago.
    auto store = cache::Store::open(options_.state).value();
    TenantUsage usage =
        cache::decode_usage(store->get_named(cache::tenant_record_name("team-a")).value().value());
    EXPECT_FALSE(usage.hours.empty());
    usage.hours[usage.hours.rbegin()->first] += 60'000;
    ASSERT_TRUE(store->put_named(cache::tenant_record_name("team-a"), encode_usage(usage)).ok());
    ASSERT_TRUE(store->sync().ok());
  }
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
  auto first = client(a), second = client(b);
  first->submit(scripted_graph(16), request());
  ASSERT_TRUE(converse({first.get()}, [&] { return first->count<common::JobFailed>() > 0; }));
  EXPECT_EQ(first->last<common::JobFailed>()->code, common::Code::kUnavailable);
  EXPECT_NE(first->last<common::JobFailed>()->message.find("of its 60 worker-seconds"),
            std::string::npos)
      << first->last<common::JobFailed>()->message;
  // A hit costs no worker anything, and the other team is not concerned.
  auto again = client(a);
  EXPECT_EQ(plan_of(*again, worker, scripted_graph(8)).cache, common::CacheOutcome::kHit);
  EXPECT_NE(plan_of(*second, worker, scripted_graph(16)).cache, common::CacheOutcome::kHit);
  auto reader = client(a);
  reader->send(common::StatusRequest{7, common::StatusTopic::kCache});
  ASSERT_TRUE(converse({reader.get()}, [&] { return reader->last<common::StatusReply>(); }));
  std::string json = reader->last<common::StatusReply>()->json;
  EXPECT_NE(json.find("\"team-a\":{\"quota_s\":60,"), std::string::npos) << json;
  EXPECT_NE(json.find("\"hits\":1"), std::string::npos) << json;
  EXPECT_EQ(json.find("team-b"), std::string::npos) << json;
}

TEST_F(ServiceTeamsTest, ASearchThatUsesUpTheQuotaEndsWithTheBestSoFar) {
  common::KeyPair a = grant("team-a", "submit,read");
  list("tenant team-a quota=60\n");
  start();
  stop();
  {
    auto store = cache::Store::open(options_.state).value();
    TenantUsage usage;
    usage.hours[common::wall_clock_ns() / 1'000'000'000 / 3600] = 59'999;
    ASSERT_TRUE(store->put_named(cache::tenant_record_name("team-a"), encode_usage(usage)).ok());
    ASSERT_TRUE(store->sync().ok());
  }
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 1, at_farm(hand_));
  worker.answers_max = 3;
  auto first = client(a);
  first->submit(scripted_graph(8), request(1000));
  // The task that is held takes the last millisecond, however fast this machine is.
  // On a busy machine one of those before may have.
  ASSERT_TRUE(converse({first.get(), &worker}, [&] {
    return worker.tasks.size() > 3 || first->last<common::PlanReady>() != nullptr;
  }));
  int64_t since = common::SteadyClock().now_ns();
  ASSERT_TRUE(converse({first.get(), &worker},
                       [&] { return common::SteadyClock().now_ns() - since > 5'000'000; }));
  worker.answers_max = SIZE_MAX;
  worker.release();
  ASSERT_TRUE(converse({first.get(), &worker}, [&] {
    return first->last<common::PlanReady>() != nullptr || first->count<common::JobFailed>() > 0;
  }));
  ASSERT_NE(first->last<common::PlanReady>(), nullptr);
  EXPECT_NE(first->last<common::PlanReady>()->note.find("ended early: tenant team-a"),
            std::string::npos)
      << first->last<common::PlanReady>()->note;
  EXPECT_LT(first->last<common::PlanReady>()->candidates, 1000u);
}

TEST_F(ServiceTeamsTest, APublishedPlanSavesTheOthersSearchAndTellsNothingOfWhose) {
  common::KeyPair a = grant("team-a", "submit,read,publish"), b = grant("team-b", "submit,read");
  common::KeyPair c = grant("team-c", "submit,read");
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
  auto first = client(a), second = client(b), third = client(c);
  common::PlanReady mine = plan_of(*first, worker, scripted_graph(8));
  // Who has not the role is refused, and who has no such plan cannot give it.
  ask(*second, common::PublishPlan{1, mine.plan_key, {}, false});
  EXPECT_EQ(second->count<common::Refused>(), 1u);
  ask(*first, common::PublishPlan{2, common::digest_of("none"), {}, false});
  EXPECT_EQ(first->count<common::JobFailed>(), 1u);
  ask(*first, common::PublishPlan{3, mine.plan_key, {"team-b"}, false});
  ASSERT_EQ(first->count<common::PlansChanged>(), 1u);
  EXPECT_EQ(first->last<common::PlansChanged>()->plans, std::vector<Digest>{mine.plan});

  common::PlanReady theirs = plan_of(*second, worker, scripted_graph(8));
  EXPECT_EQ(theirs.cache, common::CacheOutcome::kHit);
  EXPECT_EQ(theirs.plan_key, mine.plan_key);
  EXPECT_NE(theirs.plan, mine.plan);
  EXPECT_EQ(counters_->searches.load(), 1);
  common::Plan copy = content(*second), original = content(*first);
  EXPECT_EQ(copy.objects, original.objects);
  EXPECT_EQ(copy.provenance.tenant, "");
  EXPECT_EQ(copy.provenance.submitter, "");
  EXPECT_TRUE(copy.provenance.origin.plan.is_zero());
  std::string bytes(common::as_text(second->plan()->blob.bytes));
  EXPECT_EQ(bytes.find("team-a"), std::string::npos);
  EXPECT_EQ(bytes.find(common::key_id_of(a.public_key)), std::string::npos);
  for (const common::GraphInput& input : copy.inputs) EXPECT_EQ(input.name, "");
  // The third team was not named.
  EXPECT_NE(plan_of(*third, worker, scripted_graph(8)).cache, common::CacheOutcome::kHit);
}

// A replica has the keys of the one before it, the allow-list and a store of its own.
TEST_F(ServiceTeamsTest, AReplicaThatTakesOverKnowsQuotasAndWhomPlansArePublishedTo) {
  if (!cache::RedisServer::is_there()) {
    GTEST_SKIP() << "no redis-server on this machine; .ci/packages.txt names its package";
  }
  cache::RedisServer redis;
  options_.shared.address = redis.address();
  options_.shared.wait_ms = 30'000;  // a busy machine is no sick store
  common::KeyPair a = grant("team-a", "submit,read,publish"), b = grant("team-b", "submit,read");
  start();
  stop();
  {
    TenantUsage usage;
    usage.used_ms = 7'000;
    auto store = cache::Store::open(options_.state).value();
    ASSERT_TRUE(store->put_named(cache::tenant_record_name("team-a"), encode_usage(usage)).ok());
    ASSERT_TRUE(store->sync().ok());
  }
  start();
  common::PlanReady mine;
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
    auto first = client(a);
    mine = plan_of(*first, worker, scripted_graph(8));
    ask(*first, common::PublishPlan{3, mine.plan_key, {"team-b"}, false});
    ASSERT_EQ(first->count<common::PlansChanged>(), 1u);
  }
  stop();
  auto used = [&] {
    auto store = cache::Store::open(options_.state).value();
    return store->tenant_usages().value()["team-a"].used_ms;
  };
  uint64_t used_ms = used();
  ASSERT_GE(used_ms, 7'000u);

  std::string before = options_.state;
  options_.state = before + "-of-the-next";
  std::filesystem::create_directories(options_.state);
  for (const char* name : {"allow", "farm.key", "signing.key"}) {
    std::filesystem::copy_file(before + '/' + name, options_.state + '/' + name);
  }
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
  auto second = client(b);
  common::PlanReady theirs = plan_of(*second, worker, scripted_graph(8));
  EXPECT_EQ(theirs.cache, common::CacheOutcome::kHit);
  EXPECT_EQ(theirs.plan_key, mine.plan_key);
  EXPECT_EQ(counters_->searches.load(), 1);
  second.reset();
  stop();
  EXPECT_GE(used(), used_ms);
}

TEST_F(ServiceTeamsTest, ATenantsPolicySharesItsPlans) {
  common::KeyPair a = grant("team-a", "submit,read"), b = grant("team-b", "submit,read");
  common::KeyPair c = grant("team-c", "submit,read");
  list("tenant team-a share=team-b\ntenant team-b share=farm\n");
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
  auto first = client(a), second = client(b), third = client(c);
  plan_of(*first, worker, scripted_graph(8));
  EXPECT_EQ(plan_of(*second, worker, scripted_graph(8)).cache, common::CacheOutcome::kHit);
  // What team-b got is not team-b's to share on.
  EXPECT_NE(plan_of(*third, worker, scripted_graph(8)).cache, common::CacheOutcome::kHit);
  plan_of(*second, worker, scripted_graph(16));
  EXPECT_EQ(plan_of(*third, worker, scripted_graph(16)).cache, common::CacheOutcome::kHit);
}

TEST_F(ServiceTeamsTest, AWinnerOfAnEarlierEpochIsMadeAnewAndServedFirst) {
  common::KeyPair a = grant("team-a", "submit,read");
  common::PlanReady before = find_and_stop(a);
  options_.epoch = "next";
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
  worker.object_salt = "another compiler";
  worker.use_toolchain("clang 100");
  auto first = client(a);
  EXPECT_EQ(first->count<common::PlanReady>(), 0u);
  common::Submit only = request();
  only.only_reverify = true;
  common::PlanReady after = plan_of(*first, worker, scripted_graph(8), only);
  EXPECT_NE(after.plan_key, before.plan_key);
  EXPECT_NE(after.plan, before.plan);
  EXPECT_NE(after.note.find("made anew"), std::string::npos) << after.note;
  common::Plan plan = content(*first);
  EXPECT_EQ(plan.key.epoch, "next");
  EXPECT_EQ(plan.provenance.origin.found_epoch, std::string(common::kCompilerEpoch));
  EXPECT_EQ(plan.provenance.origin.plan, before.plan);
  EXPECT_EQ(plan.provenance.toolchain, "clang 100");
  // It is a plan like any other, and outlives the next change too.
  auto again = client(a);
  EXPECT_EQ(plan_of(*again, worker, scripted_graph(8)).cache, common::CacheOutcome::kHit);
}

TEST_F(ServiceTeamsTest, TheSearchGoesOnFromAWinnerMadeAnew) {
  common::KeyPair a = grant("team-a", "submit,read");
  find_and_stop(a);
  options_.epoch = "next";
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
  auto first = client(a);
  common::PlanReady ready = plan_of(*first, worker, scripted_graph(8), request(20));
  // Whichever was faster: a scripted search is as short as a task.
  if (!ready.note.empty()) {
    EXPECT_NE(ready.note.find("the search goes on"), std::string::npos) << ready.note;
  }
  // The search of the new epoch runs to its end all the same.
  ASSERT_TRUE(converse({first.get(), &worker}, [&] {
    first->send(common::StatusRequest{9, common::StatusTopic::kStatus});
    auto* status = first->last<common::StatusReply>();
    return status != nullptr && status->json.find("\"jobs\":0") != std::string::npos;
  }));
  EXPECT_EQ(counters_->searches.load(), 2);
}

TEST_F(ServiceTeamsTest, AWrongWinnerIsNotServedAndTheSearchFindsAnother) {
  common::KeyPair a = grant("team-a", "submit,read");
  start();
  common::Bytes winner;
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
    auto first = client(a);
    plan_of(*first, worker, scripted_graph(8));
    winner = worker.tasks.back().payload;
  }
  stop();
  options_.epoch = "next";
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
  // The old winner comes before the new search's own finalist, which is the same program.
  worker.judge = [&winner, seen = false](const common::Task& task) mutable {
    if (task.payload != winner || std::exchange(seen, true)) return common::TaskOutcome::kOk;
    return common::TaskOutcome::kWrong;
  };
  auto first = client(a);
  first->submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({first.get(), &worker},
                       [&] { return first->last<common::PlanReady>() != nullptr; }));
  EXPECT_EQ(first->last<common::PlanReady>()->note, "");
  EXPECT_EQ(content(*first).provenance.origin.found_epoch, "");
}

TEST_F(ServiceTeamsTest, AllWinnersAreMadeAnewOnRequest) {
  common::KeyPair a = grant("team-a", "submit,read"), b = grant("team-b", "submit,read");
  common::KeyPair boss = grant("operators", "admin,read");
  start();
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
    auto first = client(a), second = client(b);
    plan_of(*first, worker, scripted_graph(8));
    plan_of(*first, worker, scripted_graph(16));
    plan_of(*second, worker, scripted_graph(8));
  }
  stop();
  options_.epoch = "next";
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
  auto first = client(a), admin = client(boss);
  ask(*first, common::Reverify{1});
  ASSERT_EQ(first->count<common::PlansChanged>(), 1u);
  EXPECT_EQ(first->last<common::PlansChanged>()->plans.size(), 2u);
  ask(*admin, common::Reverify{2});
  ASSERT_EQ(admin->count<common::PlansChanged>(), 1u);
  EXPECT_GE(admin->last<common::PlansChanged>()->plans.size(), 1u);
  ASSERT_TRUE(converse({admin.get(), &worker}, [&] {
    if (worker.answered < 3) return false;
    size_t before = admin->count<common::PlansChanged>();
    admin->send(common::Reverify{3});
    converse({admin.get(), &worker}, [&] { return admin->count<common::PlansChanged>() > before; });
    return admin->last<common::PlansChanged>()->plans.empty() && worker.held.empty();
  }));
  auto second = client(b);
  EXPECT_EQ(plan_of(*second, worker, scripted_graph(8)).cache, common::CacheOutcome::kHit);
  EXPECT_EQ(counters_->searches.load(), 3);
}

TEST_F(ServiceTeamsTest, ANewToolchainIsReasonEnough) {
  common::KeyPair a = grant("team-a", "submit,read");
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, at_farm(hand_));
  worker.use_toolchain("clang 99");
  auto first = client(a);
  common::PlanReady before = plan_of(*first, worker, scripted_graph(8));
  ask(*first, common::Reverify{1});
  EXPECT_TRUE(first->last<common::PlansChanged>()->plans.empty());
  worker.bye();
  FakeWorker newer(endpoint(), "w2", kTestTarget, 2, at_farm(hand_));
  newer.use_toolchain("clang 100");
  newer.object_salt = "100";
  ASSERT_TRUE(converse({&worker, &newer, first.get()}, [&] {
    size_t plans = first->count<common::PlanReady>();
    first->send(common::PullPlan{9, before.plan_key});
    converse({&worker, &newer, first.get()},
             [&] { return first->count<common::PlanReady>() > plans; });
    return content(*first).provenance.toolchain == "clang 100";
  }));
}

TEST_F(ServiceTeamsTest, HowAPlanIsMadeIsNotForClients) {
  common::KeyPair a = grant("team-a", "submit,read");
  find_and_stop(a);
  std::vector<Digest> recipe = recipes();
  ASSERT_EQ(recipe.size(), 1u);
  start();
  auto first = client(a);
  ask(*first, common::BlobRequest{recipe[0]});
  EXPECT_EQ(first->count<common::Refused>(), 1u);
  EXPECT_EQ(first->count<common::Blob>(), 0u);
}

// Compiled kernels are shared: other programs of the search may be made of the plan's objects.
TEST_F(ServiceTeamsTest, APlanIsMadeAnewFromItsOwnProgram) {
  common::KeyPair a = grant("team-a", "submit,read");
  find_and_stop(a, true);
  std::vector<Digest> recipe = recipes();
  ASSERT_EQ(recipe.size(), 1u);
  auto store = cache::Store::open(options_.state).value();
  auto made = decode_recipe(common::as_bytes(*store->get_blob(recipe[0]).value()));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(common::decode_task_payload(made->payload).value().kind, common::TaskKind::kFinalist);
}

}  // namespace
}  // namespace coordinator::service
