// Copies of a store that is at work, and putting them back. If these fail, an accident costs more
// than the time since the last copy, or a plan that was revoked is served again.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cache/store/backup.h"
#include "tests/unit/store/store_testing.h"

namespace cache {
namespace {

using common::cat;

class StoreBackupTest : public StoreTest {
 protected:
  void put(int from, int to) {
    for (int k = from; k < to; ++k) {
      auto blob = must(store_->put_blob(cat("kernel ", k)));
      must(store_->put_plan(make_plan(cat("p", k), 1, {blob}, cat("plan ", k))));
    }
  }
  bool has(int k) { return must(store_->get_bundle(key(cat("p", k)))).has_value(); }
  std::string copies() const { return scratch_.path() + "/copies"; }
  RestoreReport restore(const std::string& copy) {
    store_.reset();
    RestoreReport report = must(restore_store(copy, directory(), options_));
    reopen();
    return report;
  }
};

TEST_F(StoreBackupTest, WhatWasThereComesBackAndWhatWasRevokedDoesNot) {
  put(0, 20);
  std::string copy = must(backup_store(*store_, copies(), 1000, 3));
  EXPECT_EQ(last_backup_wall_ns(copies()), 1000);
  put(20, 30);
  auto revoked = make_plan("p7", 1, {}, "plan 7").facts.plan_id;
  EXPECT_EQ(must(store_->revoke(revoked, "wrong")), 1u);
  must(store_->put_named("kept", "by the store that is replaced"));
  std::ofstream(directory() + "/farm.key") << "a key";

  RestoreReport report = restore(copy);
  EXPECT_EQ(report.plans, 19u);
  EXPECT_EQ(report.revocations, 1u);
  for (int k = 0; k < 30; ++k) EXPECT_EQ(has(k), k < 20 && k != 7) << k;
  EXPECT_TRUE(must(store_->revocation(revoked)).has_value());
  EXPECT_FALSE(store_->put_plan(make_plan("p7", 1, {}, "plan 7")).ok());
  EXPECT_TRUE(std::filesystem::exists(directory() + "/farm.key"));
  // What was there can be put back in turn.
  report = restore(report.replaced);
  EXPECT_EQ(report.revocations, 0u);
  for (int k = 0; k < 30; ++k) EXPECT_EQ(has(k), k != 7) << k;
  EXPECT_EQ(must(store_->get_named("kept")), "by the store that is replaced");
}

TEST_F(StoreBackupTest, TheLatestCopiesAreKept) {
  for (int64_t when : {10, 9, 200, 1000}) {
    put(0, 1);
    must(backup_store(*store_, copies(), when, 2));
  }
  auto kept = backups_in(copies());
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_TRUE(kept[0].ends_with("/store-200"));
  EXPECT_TRUE(kept[1].ends_with("/store-1000"));
  EXPECT_FALSE(backup_store(*store_, copies(), 1000, 2).ok()) << "a copy was written over";
}

// Each copy is a store as it was at one moment: with every plan its kernels.
TEST_F(StoreBackupTest, CopiesAreWholeWhileTheStoreIsWritten) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int k = 0; !stop; ++k) put(k, k + 1);
  });
  for (int64_t when = 1; when <= 5; ++when) must(backup_store(*store_, copies(), when, 10));
  stop = true;
  writer.join();
  for (const std::string& copy : backups_in(copies())) {
    auto store = must(Store::open(copy));
    for (const PlanListing& plan : must(store->list_plans())) {
      EXPECT_TRUE(must(store->get_bundle(plan.facts.key)).has_value());
    }
  }
}

TEST_F(StoreBackupTest, NothingIsTouchedWhenTheCopyIsNone) {
  put(0, 3);
  store_.reset();
  std::filesystem::create_directories(copies());
  auto refused = restore_store(copies(), directory(), options_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, common::Code::kInvalidInput);
  reopen();
  EXPECT_TRUE(has(2));
  // Nor while a process writes to it.
  std::string copy = must(backup_store(*store_, copies(), 1, 1));
  auto busy = restore_store(copy, directory(), options_);
  ASSERT_FALSE(busy.ok());
  EXPECT_EQ(busy.error().code, common::Code::kUnavailable);
  EXPECT_TRUE(has(2));
}

}  // namespace
}  // namespace cache
