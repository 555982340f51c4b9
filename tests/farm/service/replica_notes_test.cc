// What a replica leaves for the next one, over a real redis-server: if these fail, a failover gives
// tenants their quotas anew, takes published plans back, and sends killers of workers out again.
#include "coordinator/service/sharing/replica_notes.h"

#include <gtest/gtest.h>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "coordinator/service/plans/stored_tuning_records.h"
#include "coordinator/service/plans/tenants.h"
#include "coordinator/service/signing/key_signer.h"
#include "tests/farm/service/redis_server.h"

namespace coordinator::service {
namespace {

using cache::RedisServer;
using common::digest_of;

// A replica's store, and what it takes to leave notes in it.
struct Replica {
  explicit Replica(const RedisServer& redis, const common::SigningKey& key)
      : folder(std::move(common::ScratchDirectory::create("replica")).value()),
        store(std::move(cache::Store::open(folder.path(), {})).value()),
        remote(options_for(redis)),
        notes(remote, *store, std::make_shared<KeySigner>(key)) {}
  static cache::RemoteOptions options_for(const RedisServer& redis) {
    cache::RemoteOptions options;
    options.address = cache::parse_remote_address(redis.address()).value();
    options.answer_ms = options.transfer_ms = 60'000;
    return options;
  }
  std::string named(std::string_view name) const {
    auto value = store->get_named(name);
    return value.ok() ? value->value_or("") : value.error().message;
  }
  void put(std::string_view name, std::string_view bytes) {
    ASSERT_TRUE(store->put_named(name, bytes).ok());
  }
  common::ScratchDirectory folder;
  std::unique_ptr<cache::Store> store;
  cache::RemoteStore remote;
  ReplicaNotes notes;
};

class ReplicaNotesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_there()) {
      GTEST_SKIP() << "no redis-server on this machine; .ci/packages.txt names its package";
    }
    redis_.emplace();
    key_ = std::move(common::load_or_create_signing_key(folder_.path() + "/key")).value();
    first_ = std::make_unique<Replica>(*redis_, key_);
    second_ = std::make_unique<Replica>(*redis_, key_);
  }
  static void leave(Replica& replica) {
    if (!replica.notes.is_pulled()) {
      ASSERT_TRUE(replica.notes.pull().ok());
    }
    common::Status left = replica.notes.push();
    ASSERT_TRUE(left.ok()) << left.error().message;
  }
  static ReplicaNotes::Usages take(Replica& replica) {
    auto taken = replica.notes.pull();
    EXPECT_TRUE(taken.ok()) << taken.error().message;
    return taken.ok() ? *taken : ReplicaNotes::Usages{};
  }
  uint64_t bytes_written(Replica& replica) {
    uint64_t before = replica.remote.health().bytes_out;
    leave(replica);
    return replica.remote.health().bytes_out - before;
  }

  common::ScratchDirectory folder_ =
      std::move(common::ScratchDirectory::create("replica-key")).value();
  common::SigningKey key_;
  std::optional<RedisServer> redis_;
  std::unique_ptr<Replica> first_, second_;
};

TEST_F(ReplicaNotesTest, TheNextReplicaTakesUpAllThatIsShared) {
  TenantUsage usage;
  usage.used_ms = 7'000;
  usage.hours[100] = 7'000;
  first_->put(cache::tenant_record_name("team-a"), encode_usage(usage));
  first_->put("published/key", "team-a team-b\n");
  first_->put("classes/key", "a class of machines\n");
  ASSERT_TRUE(first_->store->put_negative(digest_of("killer"), {"killed workers", 0}).ok());
  ASSERT_TRUE(first_->store->put_negative(digest_of("slow"), {"for now", 1}).ok());
  TuningRecord kernel{{40, 0}, 2.5, 0, 6, {}, {}};
  ASSERT_TRUE(
      keep_tuning_records(*first_->store, {{digest_of("kernel"), kernel}}, 5, "team-a").ok());
  leave(*first_);

  ReplicaNotes::Usages usages = take(*second_);
  ASSERT_EQ(usages.count("team-a"), 1u);
  EXPECT_EQ(usages["team-a"].used_ms, 7'000u);
  EXPECT_EQ(usages["team-a"].hours[100], 7'000u);
  EXPECT_EQ(second_->named("published/key"), "team-a team-b\n");
  EXPECT_EQ(second_->named("classes/key"), "") << "what is every replica's own";
  auto banned = second_->store->get_negative(digest_of("killer"));
  ASSERT_TRUE(banned.ok() && *banned);
  EXPECT_EQ((*banned)->reason, "killed workers");
  EXPECT_FALSE(second_->store->get_negative(digest_of("slow"))->has_value());
  auto kept =
      load_tuning_record(*second_->store, TuningRecordKind::kKernel, digest_of("kernel"), "team-b");
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->record.schedule, 6u);
}

TEST_F(ReplicaNotesTest, NothingIsOverwrittenBeforeItWasRead) {
  first_->put("published/key", "team-a *\n");
  leave(*first_);
  second_->put("published/key", "team-b *\n");
  ASSERT_TRUE(second_->notes.push().ok());
  Replica third(*redis_, key_);
  take(third);
  EXPECT_EQ(third.named("published/key"), "team-a *\n");
}

TEST_F(ReplicaNotesTest, PublicationsAddUpAndWithdrawnOnesStayWithdrawn) {
  second_->put("published/key", "team-a *\nteam-b team-c\n");
  first_->put("published/key", "team-a\nteam-d *\n");
  leave(*first_);
  take(*second_);
  EXPECT_EQ(second_->named("published/key"), "team-b team-c\nteam-a\nteam-d *\n");
}

TEST_F(ReplicaNotesTest, OnlyWhatChangedIsWritten) {
  for (int k = 0; k < 500; ++k) first_->put(common::cat("published/", k), "team-a *\n");
  uint64_t all = bytes_written(*first_);
  EXPECT_EQ(bytes_written(*first_), 0u);
  first_->put("published/7", "team-a team-b\n");
  uint64_t one = bytes_written(*first_);
  EXPECT_GT(one, 0u);
  EXPECT_LT(one, all / 50);
  // A replica that takes over does not write the same values again.
  take(*second_);
  EXPECT_EQ(bytes_written(*second_), 0u);
}

TEST_F(ReplicaNotesTest, WhatAnotherKeySignedIsPassedOver) {
  first_->put("published/key", "team-a *\n");
  leave(*first_);
  std::string name, bytes;
  for (uint64_t k = 0; k < 256 && bytes.empty(); ++k) {
    name = "lfarm:1:notes:" +
           common::Hasher().text("replica notes").data(key_.public_key()).u64(k).finish().hex();
    bytes = redis_->ask({"GET", name}).text;
  }
  ASSERT_FALSE(bytes.empty());
  bytes.back() = '#';
  redis_->ask({"SET", name, bytes});
  take(*second_);
  EXPECT_EQ(second_->named("published/key"), "");
  EXPECT_TRUE(second_->notes.is_pulled());
}

TEST_F(ReplicaNotesTest, AStoreThatIsAwayIsAskedAgain) {
  first_->put("published/key", "team-a *\n");
  leave(*first_);
  redis_->kill();
  EXPECT_FALSE(second_->notes.pull().ok());
  EXPECT_FALSE(second_->notes.is_pulled());
}

TEST(Tenants, AdoptTheLargerOfTwoReplicasNumbers) {
  auto folder = std::move(common::ScratchDirectory::create("tenants")).value();
  auto store = std::move(cache::Store::open(folder.path(), {})).value();
  Tenants tenants(*store);
  constexpr int64_t kHourNs = int64_t{3'600} * 1'000'000'000;
  tenants.charge("team-a", 500, 7 * kHourNs);
  TenantUsage theirs;
  theirs.used_ms = 900;
  theirs.hours = {{6, 500}, {7, 400}};
  tenants.adopt({{"team-a", theirs}});
  EXPECT_EQ(tenants.usage("team-a").used_ms, 900u);
  EXPECT_EQ(tenants.used_ms("team-a", 7 * kHourNs), 1'000u);
  EXPECT_EQ(tenants.take_changes().size(), 1u);
}

}  // namespace
}  // namespace coordinator::service
