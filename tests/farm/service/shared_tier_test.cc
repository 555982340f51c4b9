// Farms that share a store, over a real redis-server: if these fail, farms search for what others
// have found, wait for a store that is sick, or give their clients what nobody they trust made.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/base/secret_file.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/plan/seal.h"
#include "common/wire/ir_codec.h"
#include "tests/farm/service/redis_server.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using cache::RedisServer;
using Json = nlohmann::json;

// A coordinator with a scripted search, a worker and a client.
class Farm {
 public:
  explicit Farm(const std::string& name, const std::string& remote)
      : scratch_(must(common::ScratchDirectory::create(name))) {
    options.state = scratch_.path() + "/state";
    must(common::make_directories(options.state));
    key_ = must(common::load_or_create_signing_key(options.state + "/signing.key"));
    options.listen = "tcp://127.0.0.1:*";
    options.name = name;
    options.times.heartbeat_ms = 1'000;
    options.farm.times.heartbeat_timeout_ms = 60'000;
    options.times.no_worker_grace_ms = 60'000;
    options.farm.times.settle_ms = 100;
    options.times.progress_ms = 1;
    options.create_search = scripted_searches(counters);
    options.shared.address = remote;
    // Tests of the limit say so: a busy machine is no sick store.
    options.shared.wait_ms = 30'000;
  }
  ~Farm() { stop(); }

  void start() {
    service_ = must(Service::create(options));
    thread_ = std::thread([this] { (void)service_->run(); });
    worker.emplace(service_->endpoint(), common::cat(options.name, "-worker"), kTestTarget);
    worker->object_salt = options.name;
    client.emplace(service_->endpoint());
  }
  void stop() {
    if (!thread_.joinable()) return;
    client.reset();
    worker.reset();
    service_->stop();
    thread_.join();
    service_.reset();
  }
  void trust(const Farm& other) { options.shared.trusted.push_back(other.public_key()); }
  // Before it starts: it becomes a replica of the other.
  void use_key_of(const Farm& other) {
    auto from = other.options.state + "/signing.key", to = options.state + "/signing.key";
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
    key_ = other.key_;
  }
  common::PublicKey public_key() const { return key_.public_key(); }
  const common::SigningKey& key() const { return key_; }

  bool converse_until(const std::function<bool()>& done, int64_t patience_ms = 600'000) {
    return converse({&*worker, &*client}, done, patience_ms);
  }
  // The plan for the scripted graph, pulled or found.
  bool submit(int64_t size) {
    size_t before = client->count<common::PlanReady>();
    client->submit(scripted_graph(size), request());
    return converse_until([&] { return client->count<common::PlanReady>() > before; });
  }
  static common::Submit request() {
    common::Submit submit;
    submit.target = kTestTarget;
    submit.budget_candidates = 6;
    return submit;
  }
  Json status(common::StatusTopic topic) {
    size_t before = client->count<common::StatusReply>();
    client->send(common::StatusRequest{99, topic});
    bool there = converse_until([&] { return client->count<common::StatusReply>() > before; });
    return there ? Json::parse(client->last<common::StatusReply>()->json) : Json();
  }
  Json remote() { return status(common::StatusTopic::kCache)["remote"]; }
  bool remote_becomes(const char* field, uint64_t least) {
    auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (std::chrono::steady_clock::now() < end) {
      if (remote().value(field, uint64_t{0}) >= least) return true;
    }
    return false;
  }

  std::shared_ptr<ScriptCounters> counters = std::make_shared<ScriptCounters>();
  ServiceOptions options;
  std::optional<FakeWorker> worker;
  std::optional<FakeClient> client;

 private:
  template <class T>
  static T must(common::Result<T> result) {
    if (!result.ok()) throw std::runtime_error(result.error().message);
    return std::move(result).value();
  }
  static void must(const common::Status& status) {
    if (!status.ok()) throw std::runtime_error(status.error().message);
  }
  common::ScratchDirectory scratch_;
  common::SigningKey key_;
  std::unique_ptr<Service> service_;
  std::thread thread_;
};

class SharedTierTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_there()) {
      GTEST_SKIP() << "no redis-server on this machine; .ci/packages.txt names its package";
    }
    redis_.emplace();
    first_.emplace("farm-a", redis_->address());
    second_.emplace("farm-b", redis_->address());
    first_->trust(*second_);
    second_->trust(*first_);
  }
  // The first farm searches, and stops half-way; the second was asked for the same.
  void let_the_second_wait() {
    first_->start();
    second_->start();
    first_->worker->answers_max = 1;
    first_->client->submit(scripted_graph(8), Farm::request());
    ASSERT_TRUE(first_->converse_until([&] { return first_->worker->answered == 1; }));
    second_->client->submit(scripted_graph(8), Farm::request());
    ASSERT_TRUE(second_->converse_until([&] {
      const auto* progress = second_->client->last<common::Progress>();
      return progress != nullptr && progress->stage == "another farm searches";
    }));
  }
  // Where the claim on what the farms are asked for stands in the store.
  static std::string search_name() {
    common::PlanKey key{common::graph_hash(scripted_graph(8)),
                        {kTestTarget},
                        std::string(common::kDefaultPolicy),
                        std::string(common::kCompilerEpoch)};
    common::Digest place = common::place_of(common::kLocalTenant, key.digest());
    return common::cat("lfarm:1:search:", place.hex());
  }
  static std::string list_name(const common::PublicKey& farm) {
    return common::cat("lfarm:1:revocations:",
                       common::Hasher().text("revocations of").data(farm).finish().hex());
  }
  std::optional<RedisServer> redis_;
  std::optional<Farm> first_, second_;
};

TEST_F(SharedTierTest, WhatOneFarmFoundAnotherGivesItsClientsUnderItsOwnSignature) {
  first_->start();
  second_->start();
  ASSERT_TRUE(first_->submit(8));
  ASSERT_TRUE(first_->remote_becomes("offered", 1));

  ASSERT_TRUE(second_->submit(8));
  EXPECT_EQ(second_->counters->searches, 0);
  EXPECT_EQ(second_->worker->tasks.size(), 0u);
  const auto& ready = *second_->client->last<common::PlanReady>();
  EXPECT_EQ(ready.cache, common::CacheOutcome::kHit);
  auto outer = common::decode_sealed(second_->client->plan()->blob.bytes);
  ASSERT_TRUE(outer.ok());
  EXPECT_TRUE(common::check_signature(*outer, second_->public_key()).ok());
  auto plan = common::decode_plan(common::decode_grant(outer->bytes).value().plan);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->provenance.farm, "farm-a");
  ASSERT_FALSE(plan->objects.empty());
  for (const common::Digest& object : plan->objects) {
    second_->client->send(common::BlobRequest{object});
  }
  EXPECT_TRUE(second_->converse_until(
      [&] { return second_->client->count<common::Blob>() == plan->objects.size(); }));
  EXPECT_EQ(second_->remote()["hits"], 1);
  EXPECT_EQ(second_->status(common::StatusTopic::kStatus)["remote"], "ok");

  // Now it is the second farm's own, whatever becomes of the store.
  redis_->kill();
  ASSERT_TRUE(second_->submit(8));
  EXPECT_EQ(second_->counters->searches, 0);
}

TEST_F(SharedTierTest, APullLooksThereToo) {
  first_->start();
  second_->start();
  ASSERT_TRUE(first_->submit(8));
  ASSERT_TRUE(first_->remote_becomes("offered", 1));
  common::Digest key = first_->client->last<common::PlanReady>()->plan_key;
  second_->client->send(common::PullPlan{7, key});
  second_->client->send(common::PullPlan{8, common::digest_of("nobody's")});
  ASSERT_TRUE(second_->converse_until([&] {
    return second_->client->last<common::PlanReady>() != nullptr &&
           second_->client->last<common::PlanMissing>() != nullptr;
  }));
  EXPECT_EQ(second_->client->last<common::PlanReady>()->request_id, 7u);
  EXPECT_EQ(second_->client->last<common::PlanMissing>()->request_id, 8u);
}

TEST_F(SharedTierTest, OneFarmSearchesAndTheOtherWaitsForIt) {
  second_->options.shared.claim_ms = 2'000;  // looks every 200 ms
  ASSERT_NO_FATAL_FAILURE(let_the_second_wait());
  first_->worker->release();
  ASSERT_TRUE(first_->converse_until([&] { return first_->client->plan() != nullptr; }));
  ASSERT_TRUE(second_->converse_until([&] { return second_->client->plan() != nullptr; }));
  EXPECT_EQ(second_->client->last<common::PlanReady>()->cache, common::CacheOutcome::kHit);
  EXPECT_EQ(second_->counters->searches, 0);
  EXPECT_EQ(second_->worker->tasks.size(), 0u);
}

TEST_F(SharedTierTest, AFarmThatDiesWhileItSearchesIsReplaced) {
  first_->options.shared.claim_ms = 4'000;
  second_->options.shared.claim_ms = 4'000;
  ASSERT_NO_FATAL_FAILURE(let_the_second_wait());
  // A farm that stops gives its claim back; one that died has left it, and renews it no more.
  std::string claim = redis_->ask({"GET", search_name()}).text;
  ASSERT_NE(claim, "");
  first_->stop();
  redis_->ask({"SET", search_name(), claim, "PX", "4000"});
  ASSERT_TRUE(second_->converse_until([&] { return second_->client->plan() != nullptr; }));
  EXPECT_EQ(second_->counters->searches, 1);
}

TEST_F(SharedTierTest, AFarmThatStopsGivesItsClaimsBack) {
  // Renewed every 20 s: what is left of one outlasts the patience below.
  first_->options.shared.claim_ms = second_->options.shared.claim_ms = 60'000;
  ASSERT_NO_FATAL_FAILURE(let_the_second_wait());
  ASSERT_NE(redis_->ask({"GET", search_name()}).text, "");
  first_->stop();
  ASSERT_TRUE(second_->converse_until([&] { return second_->client->plan() != nullptr; }, 35'000));
  EXPECT_EQ(second_->counters->searches, 1);
}

TEST_F(SharedTierTest, AJobThatFailsGivesItsClaimBack) {
  first_->start();
  second_->start();
  first_->worker->judge = [](const common::Task&) { return common::TaskOutcome::kWrong; };
  first_->client->submit(scripted_graph(8), Farm::request());
  ASSERT_TRUE(
      first_->converse_until([&] { return first_->client->last<common::JobFailed>() != nullptr; }));
  ASSERT_TRUE(second_->submit(8));
  EXPECT_EQ(second_->counters->searches, 1);
}

TEST_F(SharedTierTest, AClaimThatNobodyTrustedMadeHoldsUpNoOne) {
  redis_->ask({"SET", search_name(), std::string(104, 'x')});
  second_->start();
  ASSERT_TRUE(second_->submit(8));
  EXPECT_EQ(second_->counters->searches, 1);
}

// ---- Stores that are sick ----------------------------------------------------------------------

TEST_F(SharedTierTest, AStoreThatDiesCostsNoRequest) {
  first_->start();
  ASSERT_TRUE(first_->submit(8));
  ASSERT_TRUE(first_->remote_becomes("offered", 1));
  redis_->kill();
  for (int64_t size = 9; size < 13; ++size) ASSERT_TRUE(first_->submit(size));
  EXPECT_EQ(first_->counters->searches, 5);
  EXPECT_NE(first_->status(common::StatusTopic::kStatus)["remote"], "ok");
  EXPECT_GT(first_->remote()["failures"], 0);

  // It comes back with nothing, and is used again.
  redis_->start();
  int64_t size = 20;
  auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (first_->remote()["state"] != "ok" && std::chrono::steady_clock::now() < end) {
    ASSERT_TRUE(first_->submit(size++));
  }
  EXPECT_EQ(first_->remote()["state"], "ok");
}

TEST_F(SharedTierTest, AStoreThatStopsAnsweringCostsItsLimitAndNoMore) {
  first_->options.shared.wait_ms = 50;
  first_->start();
  redis_->pause();
  for (int64_t size = 8; size < 12; ++size) ASSERT_TRUE(first_->submit(size));
  EXPECT_EQ(first_->counters->searches, 4);
  EXPECT_NE(first_->remote()["state"], "ok");
  redis_->go_on();
}

TEST_F(SharedTierTest, AFullStoreIsStillReadFrom) {
  first_->start();
  second_->start();
  ASSERT_TRUE(first_->submit(8));
  ASSERT_TRUE(first_->remote_becomes("offered", 1));
  redis_->ask({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  redis_->ask({"CONFIG", "SET", "maxmemory", "1"});
  ASSERT_TRUE(second_->submit(9));
  EXPECT_EQ(second_->counters->searches, 1);
  ASSERT_TRUE(second_->submit(8));
  EXPECT_EQ(second_->counters->searches, 1);
  EXPECT_EQ(second_->remote()["hits"], 1);
  std::string state = second_->remote()["state"];
  EXPECT_EQ(state.find("takes no plans: OOM"), 0u) << state;
}

TEST_F(SharedTierTest, AWrongPasswordIsSaidAndCostsNothing) {
  redis_->ask({"CONFIG", "SET", "requirepass", "right"});
  std::string path = first_->options.state + "/password";
  ASSERT_TRUE(common::create_secret_file(path, "wrong\n").ok());
  first_->options.shared.password_file = path;
  first_->start();
  ASSERT_TRUE(first_->submit(8));
  EXPECT_EQ(first_->counters->searches, 1);
  std::string state = first_->remote()["state"];
  EXPECT_NE(state.find("WRONGPASS"), std::string::npos) << state;
  EXPECT_EQ(state.find("right"), std::string::npos);

  std::string good = second_->options.state + "/password";
  ASSERT_TRUE(common::create_secret_file(good, "right\n").ok());
  second_->options.shared.password_file = good;
  second_->start();
  ASSERT_TRUE(second_->submit(8));
  EXPECT_TRUE(second_->remote_becomes("offered", 1));
}

// ---- Stores that lie ---------------------------------------------------------------------------

class LyingStoreTest : public SharedTierTest {
 protected:
  // What the first farm has shared, for the tests to damage.
  void share() {
    first_->start();
    ASSERT_TRUE(first_->submit(8));
    ASSERT_TRUE(first_->remote_becomes("offered", 1));
    const auto& ready = *first_->client->last<common::PlanReady>();
    signed_ = common::to_bytes(first_->client->plan()->blob.bytes);
    auto outer = common::decode_sealed(signed_);
    grant_ = common::decode_grant(outer->bytes).value();
    plan_ = common::decode_plan(grant_.plan).value();
    plan_name_ =
        common::cat("lfarm:1:plan:", common::place_of(common::kLocalTenant, ready.plan_key).hex());
  }
  void put(std::string_view bytes) { redis_->ask({"SET", plan_name_, bytes}); }
  void put(const common::SigningKey& key, const common::PlanGrant& grant) {
    put(common::as_text(
        common::encode_sealed(common::sign_plan(key, common::encode_grant(grant)))));
  }
  // The second farm believes none of it, says so, and searches.
  void expect_refused() {
    second_->start();
    ASSERT_TRUE(second_->submit(8));
    EXPECT_EQ(second_->counters->searches, 1);
    EXPECT_EQ(second_->remote()["hits"], 0);
    EXPECT_GE(second_->remote()["refused"], 1);
    EXPECT_EQ(second_->remote()["state"], "ok");
  }
  common::Bytes signed_;
  common::PlanGrant grant_;
  common::Plan plan_;
  std::string plan_name_;
};

TEST_F(LyingStoreTest, AnObjectWithOtherBytes) {
  share();
  std::string name = common::cat("lfarm:1:object:", plan_.objects.at(0).hex());
  ASSERT_EQ(redis_->ask({"EXISTS", name}).integer, 1);
  redis_->ask({"SET", name, "other code"});
  expect_refused();
}

TEST_F(LyingStoreTest, AFarmThatIsNotTrusted) {
  share();
  put(common::make_signing_key(), grant_);
  expect_refused();
}

TEST_F(LyingStoreTest, APlanThatWasChangedAfterItWasSigned) {
  share();
  common::Bytes changed = signed_;
  changed[changed.size() / 2] ^= std::byte{1};
  put(common::as_text(changed));
  expect_refused();
}

TEST_F(LyingStoreTest, AnotherTenantsPlan) {
  share();
  put(first_->key(), {"another-tenant", grant_.plan});
  expect_refused();
}

TEST_F(LyingStoreTest, AnotherModelsPlan) {
  share();
  common::Plan other = plan_;
  other.key.graph_hash = common::digest_of("another graph");
  put(first_->key(), {grant_.tenant, common::encode_plan(other)});
  expect_refused();
}

TEST_F(LyingStoreTest, WhatIsNoPlanAtAll) {
  share();
  put("no plan");
  expect_refused();
}

// What the server's own policy drops makes a plan a miss, and the next search mends it.
TEST_F(LyingStoreTest, AnObjectThatWasDroppedIsAMissAndComesBack) {
  share();
  std::string name = common::cat("lfarm:1:object:", plan_.objects.at(0).hex());
  redis_->ask({"DEL", name});
  second_->start();
  ASSERT_TRUE(second_->submit(8));
  EXPECT_EQ(second_->counters->searches, 1);
  EXPECT_EQ(second_->remote()["refused"], 0);
  EXPECT_TRUE(second_->remote_becomes("offered", 1));
}

// ---- Revocations -------------------------------------------------------------------------------

TEST_F(SharedTierTest, WhatOneFarmRevokesTheOtherWithdraws) {
  second_->options.shared.revocations_ms = 20;
  first_->start();
  second_->start();
  ASSERT_TRUE(first_->submit(8));
  ASSERT_TRUE(first_->remote_becomes("offered", 1));
  ASSERT_TRUE(second_->submit(8));
  common::PlanReady ours = *second_->client->last<common::PlanReady>();
  common::PlanReady theirs = *first_->client->last<common::PlanReady>();
  EXPECT_NE(ours.plan, theirs.plan);

  first_->client->send(common::RevokePlan{5, theirs.plan, "it is wrong"});
  ASSERT_TRUE(first_->converse_until(
      [&] { return first_->client->last<common::PlanRevoked>() != nullptr; }));
  ASSERT_TRUE(second_->remote_becomes("revoked", 1));
  second_->client->send(common::PullPlan{9, ours.plan_key});
  ASSERT_TRUE(second_->converse_until(
      [&] { return second_->client->last<common::PlanMissing>() != nullptr; }));

  // Also where somebody puts it back, and after a restart with a store that knows no list.
  std::string name =
      common::cat("lfarm:1:plan:", common::place_of(common::kLocalTenant, ours.plan_key).hex());
  auto is_gone = [&] { return redis_->ask({"EXISTS", name}).integer == 0; };
  auto put_back = [&] {
    redis_->ask({"SET", name, common::as_text(first_->client->plan()->blob.bytes)});
  };
  EXPECT_TRUE(second_->converse_until(is_gone));
  second_->stop();
  put_back();
  std::string list = list_name(first_->public_key());
  ASSERT_EQ(redis_->ask({"EXISTS", list}).integer, 1);
  redis_->ask({"DEL", list});
  second_->start();
  EXPECT_TRUE(second_->converse_until(is_gone));
  put_back();
  ASSERT_TRUE(second_->submit(8));
  EXPECT_EQ(second_->counters->searches, 1);
  EXPECT_GE(second_->remote()["refused"], 1) << second_->remote();
}

TEST_F(SharedTierTest, AnUnreadableListLosesNoOthersRevocations) {
  second_->options.shared.revocations_ms = 20;
  Farm third("farm-c", redis_->address());
  second_->trust(third);
  first_->start();
  second_->start();
  ASSERT_TRUE(first_->submit(8));
  ASSERT_TRUE(first_->remote_becomes("offered", 1));
  ASSERT_TRUE(second_->submit(8));
  // Not even a string: the server refuses to read it.
  redis_->ask({"LPUSH", list_name(third.public_key()), "x"});
  common::Digest theirs = first_->client->last<common::PlanReady>()->plan;
  first_->client->send(common::RevokePlan{5, theirs, "it is wrong"});
  EXPECT_TRUE(first_->converse_until(
      [&] { return first_->client->last<common::PlanRevoked>() != nullptr; }));
  EXPECT_TRUE(second_->remote_becomes("revoked", 1));
}

// Replicas sign with one key, and each has a store of its own.
TEST_F(SharedTierTest, WhatOneReplicaRevokesNoOtherServesOrForgets) {
  Farm replica("farm-a", redis_->address());
  replica.use_key_of(*first_);
  first_->options.shared.revocations_ms = replica.options.shared.revocations_ms = 20;
  first_->start();
  replica.start();
  ASSERT_TRUE(first_->submit(8));
  ASSERT_TRUE(first_->submit(9));
  ASSERT_TRUE(first_->remote_becomes("offered", 2));
  ASSERT_TRUE(replica.submit(8));
  ASSERT_TRUE(replica.submit(9));
  auto revoke = [](Farm& farm, const common::Digest& plan) {
    size_t before = farm.client->count<common::PlanRevoked>();
    farm.client->send(common::RevokePlan{5, plan, "it is wrong"});
    return farm.converse_until([&] { return farm.client->count<common::PlanRevoked>() > before; });
  };
  common::PlanReady nine = *replica.client->last<common::PlanReady>();
  ASSERT_TRUE(revoke(*first_, nine.plan));
  ASSERT_TRUE(replica.remote_becomes("revoked", 1));
  replica.client->send(common::PullPlan{9, nine.plan_key});
  ASSERT_TRUE(replica.converse_until(
      [&] { return replica.client->last<common::PlanMissing>() != nullptr; }));
  // The second one's own revocation adds to the shared list.
  common::Digest eight{}, eight_key{};
  for (const common::Packet& packet : replica.client->inbox) {
    const auto* ready = std::get_if<common::PlanReady>(&packet.message);
    if (ready == nullptr || ready->plan == nine.plan) continue;
    eight = ready->plan;
    eight_key = ready->plan_key;
  }
  ASSERT_TRUE(revoke(replica, eight));
  auto listed = [&](const common::Digest& plan) {
    auto shared = redis_->ask({"GET", list_name(first_->public_key())});
    auto outer = common::decode_sealed(common::as_bytes(shared.text));
    auto list = outer.ok() ? common::decode_revocations(outer->bytes) : outer.error();
    return list.ok() && list->holds(plan);
  };
  auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (!listed(eight) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(listed(eight));
  EXPECT_TRUE(listed(nine.plan));
  // From there the first one learns to serve it no more.
  uint64_t request = 10;
  while (first_->client->last<common::PlanMissing>() == nullptr &&
         std::chrono::steady_clock::now() < end) {
    size_t before = first_->client->inbox.size();
    first_->client->send(common::PullPlan{++request, eight_key});
    ASSERT_TRUE(first_->converse_until([&] { return first_->client->inbox.size() > before; }));
  }
  EXPECT_NE(first_->client->last<common::PlanMissing>(), nullptr);
}

}  // namespace
}  // namespace coordinator::service
