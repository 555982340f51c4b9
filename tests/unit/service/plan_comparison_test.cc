// A coordinator's own plans and those of an engine, over a real redis-server: if these fail, a
// coordinator with many plans serves nothing until it has read them all, or an engine that has lost
// plans never gets them back.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cache/engine/name_walk.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/plan/seal.h"
#include "common/shard/shard.h"
#include "coordinator/service/plans/owned_plan.h"
#include "coordinator/service/sharing/peer_plans.h"
#include "coordinator/service/sharing/shard_preparation.h"
#include "coordinator/service/signing/key_signer.h"
#include "tests/farm/service/redis_server.h"
#include "tests/unit/clients/sealed_plan.h"
#include "tests/unit/store/s3_server.h"

namespace coordinator::service {
namespace {

using cache::RedisServer;
using common::cat;
using common::Digest;
using common::digest_of;

constexpr const char* kTenant = "team";
constexpr int kPlans = 600;  // more than are compared at a time

template <class T>
T must(common::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}
void must(const common::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error().message);
}

cache::RemoteOptions remote_at(const std::string& address) {
  cache::RemoteOptions options;
  options.address = must(cache::parse_remote_address(address));
  options.answer_ms = options.transfer_ms = 60'000;
  return options;
}

common::Plan plan(int number, int64_t best_ns) {
  common::Plan plan = common::chain_plan(2);
  plan.key.graph_hash = digest_of(cat("graph", number));
  plan.provenance.best_ns = best_ns;
  return plan;
}

PlanPlace place_of(int number) {
  common::Plan its = plan(number, 1);
  return {kTenant, its.key.digest(), its.provenance.machine, its.key.graph_hash};
}

// What of a coordinator has plans and shares them.
class Coordinator {
 public:
  Coordinator(const std::string& name, const std::string& address, const common::SigningKey& key,
              const std::optional<cache::S3Options>& objects = std::nullopt)
      : folder_(must(common::ScratchDirectory::create(name))),
        store_(must(cache::Store::open(folder_.path(), {}))),
        tenants_(*store_),
        signer_(std::make_shared<KeySigner>(key)),
        plans_(*store_, signer_, tenants_),
        remote_(remote_at(address)),
        sharding_(options(name), remote_at(address), engine_space(key.public_key()),
                  common::Incarnation::draw(), clock_),
        records_(remote_, objects, &sharding_),
        peers_(remote_, records_, *store_, plans_, {signer_, {}}, 1'000),
        preparation_(sharding_, peers_, clock_, [](const PeerPlans::News&) {}) {
    for (const char* object : {"object0", "object1"}) must(store_->put_blob(object));
    must(plans_.load_revocations());
    must(peers_.load());
  }
  static ShardingOptions options(const std::string& name) {
    ShardingOptions options;
    options.is_on = true;
    options.identity = name;
    options.duration_ms = 9'000;  // long enough for a busy machine to renew
    return options;
  }
  void keep(int begin, int end, int64_t best_ns) {
    for (int k = begin; k < end; ++k) must(plans_.keep(kTenant, plan(k, best_ns), {}));
  }
  int64_t best_ns(int number) {
    auto found = must(store_->get_plan(place_of(number).digest(), cache::Lookup::kInspect));
    return found ? found->facts.best_ns : 0;
  }
  int64_t best_ns_there(int number) {
    auto bytes = must(records_.get(place_of(number)));
    return bytes ? must(decode_owned(*bytes)).plan.provenance.best_ns : 0;
  }
  // Serves all shards; calls `ready` of each before it serves it.
  template <class Ready>
  void serve(const Ready& ready) {
    sharding_.keeper.start({"tcp://127.0.0.1:1", ""});
    while (sharding_.keeper.counts().served < common::kShardCount) {
      turn();
      for (const ShardPreparation::Ready& one : preparation_.take_ready()) {
        ready(one.fence.shard);
        sharding_.keeper.ready(one.fence);
      }
    }
  }
  void turn() {
    preparation_.deliver();
    preparation_.turn(clock_.now_ns());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  bool is_comparing() const {
    for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
      if (preparation_.is_comparing(shard)) return true;
    }
    return false;
  }
  uint64_t plans_there() {
    uint64_t plans = 0;
    for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
      plans += must(sharding_.engine.count(shard, cache::ShardRecord::kPlan));
    }
    return plans;
  }
  ShardPreparation& preparation() { return preparation_; }
  PeerPlans& peers() { return peers_; }

 private:
  common::ScratchDirectory folder_;
  std::unique_ptr<cache::Store> store_;
  common::SteadyClock clock_;
  Tenants tenants_;
  SharedSigner signer_;
  PlanRepository plans_;
  cache::RemoteStore remote_;
  Sharding sharding_;
  PlanRecords records_;
  PeerPlans peers_;
  ShardPreparation preparation_;
};

class PlanComparisonTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_there()) {
      GTEST_SKIP() << "no redis-server on this machine; .ci/packages.txt names its package";
    }
    redis_.emplace();
    key_ = must(common::load_or_create_signing_key(folder_.path() + "/key"));
  }

  common::ScratchDirectory folder_ = must(common::ScratchDirectory::create("farm-key"));
  common::SigningKey key_;
  std::optional<RedisServer> redis_;
};

// With an object store beside the engine.
class ObjectStoreTest : public PlanComparisonTest {
 protected:
  int64_t objects_in_engine() {
    return redis_->ask({"EVAL", "return #redis.call('keys', ARGV[1])", "0", "lfarm:1:object:*"})
        .integer;
  }
  // Of a plan that only `from` has had.
  bool comes_to_another(const std::optional<cache::S3Options>& objects, int number) {
    Coordinator other("other", redis_->address(), key_, objects);
    return other.peers().fetch(place_of(number)) && other.best_ns(number) == 1'000;
  }
  cache::S3Server object_store_;
};

TEST_F(PlanComparisonTest, ShardsAreServedBeforeTheirPlansAreCompared) {
  Coordinator one("one", redis_->address(), key_);
  one.keep(0, kPlans, 1'000);
  int ready = 0;
  one.serve([&](uint32_t shard) {
    ++ready;
    EXPECT_TRUE(one.preparation().is_comparing(shard)) << "an old plan may be served as the best";
    EXPECT_FALSE(one.preparation().is_behind(shard)) << "the shard could not be handed over";
  });
  EXPECT_EQ(ready, static_cast<int>(common::kShardCount));
  while (one.is_comparing()) one.turn();
  EXPECT_EQ(one.plans_there(), static_cast<uint64_t>(kPlans));
  for (int k : {0, 1, kPlans - 1}) EXPECT_EQ(one.best_ns_there(k), 1'000) << k;
}

TEST_F(PlanComparisonTest, TheFasterPlanComesIntoBoth) {
  {
    Coordinator before("before", redis_->address(), key_);
    before.keep(0, 40, 2'000);
    before.serve([](uint32_t) {});
    while (before.is_comparing()) before.turn();
    EXPECT_EQ(before.plans_there(), 40U);
  }
  Coordinator after("after", redis_->address(), key_);
  after.keep(0, 20, 3'000);
  after.keep(20, 60, 1'000);
  // Leases of the one before lapse.
  after.serve([](uint32_t) {});
  while (after.is_comparing()) after.turn();
  for (int k = 0; k < 60; ++k) {
    int64_t best_ns = k < 20 ? 2'000 : 1'000;
    EXPECT_EQ(after.best_ns(k), best_ns) << k;
    EXPECT_EQ(after.best_ns_there(k), best_ns) << k;
  }
}

// A request for a plan that has not been compared yet.
TEST_F(PlanComparisonTest, OnePlanIsComparedAhead) {
  Coordinator one("one", redis_->address(), key_);
  one.keep(0, 3, 1'000);
  one.serve([](uint32_t) {});
  must(one.peers().compare(place_of(2)));
  EXPECT_EQ(one.best_ns_there(2), 1'000);
  // A place of which nobody has a plan.
  must(one.peers().compare(place_of(7)));
  EXPECT_EQ(one.best_ns_there(7), 0);
}

// What an engine has lost, of one shard only.
TEST_F(PlanComparisonTest, PlansOfOtherShardsAreLeft) {
  Coordinator one("one", redis_->address(), key_);
  one.keep(0, kPlans, 1'000);
  one.serve([](uint32_t) {});
  while (one.is_comparing()) one.turn();
  int other = 1;
  while (place_of(other).shard() == place_of(0).shard()) ++other;
  for (int k : {0, other}) {
    std::string key =
        cat("lfarm:2:{", engine_space(key_.public_key()), '.', place_of(k).shard(), "}:plan");
    std::string name = place_of(k).digest().hex();
    ASSERT_EQ(redis_->ask({"HDEL", key, name}).integer, 1);
    EXPECT_EQ(one.best_ns_there(k), 0);
  }
  PeerPlans::Shards shards;
  shards.set(place_of(0).shard());
  std::optional<Digest> last;
  int pages = 0;
  do {
    last = must(one.peers().compare_some(shards, last));
    pages += last ? 1 : 0;
  } while (last);
  EXPECT_EQ(pages, (kPlans + 255) / 256);
  EXPECT_EQ(one.best_ns_there(0), 1'000);
  EXPECT_EQ(one.best_ns_there(other), 0);
}

TEST_F(ObjectStoreTest, ObjectsLieThereAndPlansInTheEngine) {
  Coordinator one("one", redis_->address(), key_, object_store_.options());
  one.keep(0, 4, 1'000);
  one.serve([](uint32_t) {});
  while (one.is_comparing()) one.turn();
  EXPECT_EQ(one.plans_there(), 4U);
  EXPECT_EQ(object_store_.objects(), 2U);
  EXPECT_EQ(objects_in_engine(), 0);
  EXPECT_TRUE(comes_to_another(object_store_.options(), 3));
  EXPECT_FALSE(comes_to_another(std::nullopt, 3)) << "objects were in the engine, too";
}

TEST_F(ObjectStoreTest, ObjectsOfBeforeAreReadWhereTheyAreAndBrought) {
  {
    Coordinator before("before", redis_->address(), key_);
    before.keep(0, 4, 1'000);
    before.serve([](uint32_t) {});
    while (before.is_comparing()) before.turn();
  }
  EXPECT_EQ(objects_in_engine(), 2);
  EXPECT_TRUE(comes_to_another(object_store_.options(), 3));
  Coordinator after("after", redis_->address(), key_, object_store_.options());
  after.keep(0, 4, 1'000);
  after.serve([](uint32_t) {});
  while (after.is_comparing()) after.turn();
  EXPECT_EQ(object_store_.objects(), 2U);
}

// The plan is offered again when the store is back, and nobody is given half of it meanwhile.
TEST_F(ObjectStoreTest, APlanWhoseObjectsAreNotTakenIsNotInTheEngine) {
  Coordinator one("one", redis_->address(), key_, object_store_.options());
  one.keep(0, 1, 1'000);
  one.serve([](uint32_t) {});
  object_store_.refuse("PUT", 503, "SlowDown");
  common::Status offered = one.peers().offer(place_of(0));
  EXPECT_TRUE(is_away(offered));
  EXPECT_EQ(one.plans_there(), 0U);
  object_store_.refuse_no_more();
  while (one.is_comparing()) one.turn();
  EXPECT_EQ(one.plans_there(), 1U);
  EXPECT_EQ(one.best_ns_there(0), 1'000);
}

}  // namespace
}  // namespace coordinator::service
