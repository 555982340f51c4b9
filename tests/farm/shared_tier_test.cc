// Farms that share a store, over a real redis-server: if these fail, farms search for what others
// have found, wait for a store that is sick, or give their clients what nobody they trust made.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/plan/seal.h"
#include "common/wire/ir_codec.h"
#include "tests/farm/redis_server.h"
#include "tests/farm/service_farm.h"

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
    options.heartbeat_ms = 1'000;
    options.farm.heartbeat_timeout_ms = 60'000;
    options.no_worker_grace_ms = 60'000;
    options.farm.settle_ms = 100;
    options.progress_ms = 1;
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
  common::PublicKey public_key() const { return key_.public_key(); }
  const common::SigningKey& key() const { return key_; }

  bool converse_until(const std::function<bool()>& done) {
    return converse({&*worker, &*client}, done);
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
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
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
  auto outer = common::decode_signed_plan(second_->client->plan()->blob.bytes);
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

}  // namespace
}  // namespace coordinator::service
