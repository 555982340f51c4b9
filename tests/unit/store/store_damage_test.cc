// Damaged files and full disks under the store: if these fail, one bad sector costs the whole
// cache, or a disk that was full for a minute a restart.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "cache/store/database.h"
#include "cache/store/repair.h"
#include "store_testing.h"
#include "tests/unit/base/small_disk.h"

namespace cache {
namespace {

using common::cat;
using common::Code;
namespace fs = std::filesystem;

std::vector<fs::path> files(const std::string& directory, const std::string& what) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    std::string name = entry.path().filename();
    if (entry.is_regular_file() && name.find(what) != std::string::npos) found.push_back(name);
  }
  for (fs::path& name : found) name = directory / name;
  std::sort(found.begin(), found.end());
  return found;
}

// Flips a bit in the file itself, which stays open to whoever has it open.
void flip(const fs::path& file, size_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  char byte = 0;
  stream.get(byte);
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(static_cast<char>(byte ^ 0x10));
  ASSERT_TRUE(stream.good()) << file;
}

size_t position_in(const fs::path& file, std::string_view bytes) {
  return must(common::read_file(file)).find(bytes);
}

// The table that holds these bytes, and where.
std::pair<fs::path, size_t> find_in_tables(const std::string& directory, std::string_view bytes) {
  for (const fs::path& file : files(directory, ".sst")) {
    size_t at = position_in(file, bytes);
    if (at != std::string::npos) return {file, at};
  }
  throw std::runtime_error("no table holds the bytes");
}

class StoreDamageTest : public StoreTest {
 protected:
  static constexpr int kPlans = 12;
  // Kernels that don't compress, each a block of its own.
  static std::string kernel(int i) { return noise(20'000, 100 + static_cast<uint64_t>(i)); }
  static std::string plan_name(int i) { return cat("plan ", i); }

  void put_plans() {
    for (int i = 0; i < kPlans; ++i) {
      auto blob = must(store_->put_blob(kernel(i)));
      must(store_->put_plan(make_plan(plan_name(i), 5, {blob})));
    }
    std::vector<JobRecord> records{{0, "request"}, {1, "graph"}};
    must(store_->append_job("job", records, true));
    must(store_->put_named("name", "value"));
    must(store_->put_measurement(key("kernel"), "cpu", {10, 1, 2}));
  }
  // A store with the plans and nothing else.
  void begin_anew() {
    store_.reset();
    fs::remove_all(directory());
    reopen();
    put_plans();
  }
  // Everything into tables; the store is closed afterwards.
  void close_with_tables() {
    store_.reset();
    auto database = must(Database::open(directory(), {}));
    for (size_t f = 0; f < kFamilyCount; ++f) must(database->compact(static_cast<Family>(f)));
  }
  // The store as a process leaves it that was killed, and closed: what is closed in order keeps no
  // long log, and has tables.
  void kill_store() {
    fs::path copy = directory() + "-copy";
    fs::copy(directory(), copy);
    store_.reset();
    fs::remove_all(directory());
    fs::rename(copy, directory());
  }
  int served() {
    int count = 0;
    for (int i = 0; i < kPlans; ++i) {
      auto bundle = must(store_->get_bundle(key(plan_name(i))));
      if (!bundle) continue;
      EXPECT_EQ(bundle->blobs[0], kernel(i)) << i;
      ++count;
    }
    return count;
  }
  void expect_small_records() {
    EXPECT_EQ(must(store_->read_job("job")).size(), 2u);
    EXPECT_EQ(must(store_->get_named("name")), "value");
    EXPECT_EQ(must(store_->get_measurement(key("kernel"), "cpu"))->ns, 10);
  }
  void expect_counts(int plans) {
    auto stats = must(store_->stats());
    EXPECT_EQ(stats.plans.count, static_cast<uint64_t>(plans));
    EXPECT_EQ(stats.plans.count, must(store_->list_plans()).size());
  }
  // A plan that was lost is put again, as a farm does that compiled it again.
  void expect_healed(int i) {
    auto blob = must(store_->put_blob(kernel(i)));
    EXPECT_TRUE(must(store_->put_plan_if_better(make_plan(plan_name(i), 5, {blob}))));
    reopen();
    EXPECT_EQ(served(), kPlans);
    expect_counts(kPlans);
    expect_small_records();
  }
};

TEST_F(StoreDamageTest, ADamagedBlockCostsItsOwnEntriesOnly) {
  put_plans();
  close_with_tables();
  auto [table, at] = find_in_tables(directory(), kernel(3).substr(9'000, 64));
  flip(table, at);
  store_ = must(Store::open(directory(), options_));
  EXPECT_FALSE(must(store_->get_bundle(key(plan_name(3)))).has_value());
  EXPECT_EQ(served(), kPlans - 1);
  expect_small_records();
  expect_counts(kPlans - 1);
  EXPECT_EQ(store_->health().damaged_files, 1u);
  EXPECT_FALSE(fs::exists(table));
  expect_healed(3);
}

TEST_F(StoreDamageTest, DamageWhileTheStoreIsOpenIsMended) {
  put_plans();
  close_with_tables();
  store_ = must(Store::open(directory(), options_));
  EXPECT_EQ(served(), kPlans);
  auto [table, at] = find_in_tables(directory(), kernel(7).substr(9'000, 64));
  flip(table, at);
  EXPECT_FALSE(must(store_->get_bundle(key(plan_name(7)))).has_value());
  EXPECT_EQ(store_->health().damaged_files, 1u);
  EXPECT_EQ(served(), kPlans - 1);
  expect_healed(7);
}

TEST_F(StoreDamageTest, ACompactionThatMeetsDamageStopsNobody) {
  put_plans();
  close_with_tables();
  store_ = must(Store::open(directory(), options_));
  auto [table, at] = find_in_tables(directory(), kernel(5).substr(9'000, 64));
  flip(table, at);
  // All plans but those used last go, and the tables are rewritten.
  for (int i = 4; i < 8; ++i) must(store_->get_plan(key(plan_name(i))));
  (void)store_->gc(90'000);
  must(store_->put_named("later", "1"));
  must(store_->sync());
  EXPECT_EQ(store_->health().damaged_files, 1u);
  EXPECT_EQ(must(store_->get_named("later")), "1");
  reopen();
  EXPECT_EQ(must(store_->get_named("later")), "1");
  EXPECT_FALSE(must(store_->get_bundle(key(plan_name(5)))).has_value());
}

TEST_F(StoreDamageTest, TablesThatAreTruncatedEmptyOrGoneAreDoneWithout) {
  for (size_t left : {size_t{5'000}, size_t{0}, SIZE_MAX}) {
    store_.reset();
    fs::remove_all(directory());
    reopen();
    put_plans();
    close_with_tables();
    fs::path table = find_in_tables(directory(), kernel(3).substr(9'000, 64)).first;
    left == SIZE_MAX ? static_cast<void>(fs::remove(table)) : fs::resize_file(table, left);
    store_ = must(Store::open(directory(), options_));
    EXPECT_EQ(served(), 0) << left;
    expect_small_records();
    expect_counts(0);
    must(store_->put_blob(kernel(0)));
    must(store_->put_plan(make_plan(plan_name(0), 5, {common::digest_of(kernel(0))})));
    reopen();
    EXPECT_EQ(served(), 1) << left;
    expect_small_records();
  }
}

TEST_F(StoreDamageTest, WithoutItsHeadTheStoreIsRebuiltFromTablesAndLogs) {
  enum class Harm { kNoise, kCut, kGone };
  for (const char* part : {"MANIFEST", "CURRENT"}) {
    for (Harm harm : {Harm::kNoise, Harm::kCut, Harm::kGone}) {
      for (bool in_tables : {false, true}) {
        begin_anew();
        if (in_tables) close_with_tables();
        store_.reset();
        for (const fs::path& file : files(directory(), part)) {
          if (harm == Harm::kNoise) {
            must(common::write_file_atomic(file, common::as_bytes(noise(400, 9))));
          } else if (harm == Harm::kCut) {
            fs::resize_file(file, 3);
          } else {
            fs::remove(file);
          }
        }
        store_ = must(Store::open(directory(), options_));
        SCOPED_TRACE(cat(part, ' ', static_cast<int>(harm), ' ', in_tables));
        EXPECT_EQ(served(), kPlans);
        expect_small_records();
        expect_counts(kPlans);
        reopen();
        EXPECT_EQ(served(), kPlans);
      }
    }
  }
}

TEST_F(StoreDamageTest, ADamagedLogLosesOneRecordAndSaysSo) {
  put_plans();
  kill_store();
  std::string bytes = kernel(3).substr(9'000, 64);
  for (const fs::path& log : files(directory(), ".log")) {
    if (size_t at = position_in(log, bytes); at != std::string::npos) flip(log, at);
  }
  store_ = must(Store::open(directory(), options_));
  EXPECT_FALSE(must(store_->get_bundle(key(plan_name(3)))).has_value());
  // The records behind it are there: they had been acknowledged.
  EXPECT_GE(served(), kPlans - 3);
  expect_small_records();
  EXPECT_GE(store_->health().damaged_files, 1u);
}

TEST_F(StoreDamageTest, AKilledStoreWithoutItsHeadIsRebuiltFromItsLog) {
  for (const char* part : {"MANIFEST", "CURRENT"}) {
    SCOPED_TRACE(part);
    begin_anew();
    kill_store();
    for (const fs::path& file : files(directory(), part)) fs::remove(file);
    store_ = must(Store::open(directory(), options_));
    EXPECT_EQ(served(), kPlans);
    expect_small_records();
    expect_counts(kPlans);
  }
}

TEST_F(StoreDamageTest, SixteenBytesOfAKilledStoresLogCostNoMoreThanTheirRecord) {
  for (size_t tenth = 0; tenth < 10; ++tenth) {
    SCOPED_TRACE(tenth);
    begin_anew();
    kill_store();
    size_t harmed = 0;
    for (const fs::path& log : files(directory(), ".log")) {
      size_t size = fs::file_size(log);
      if (size < 20'000) continue;
      for (size_t k = 0; k < 16; ++k) flip(log, size * tenth / 10 + k);
      ++harmed;
    }
    ASSERT_GE(harmed, 1u);
    store_ = must(Store::open(directory(), options_));
    EXPECT_GE(served(), kPlans - 3);
    EXPECT_EQ(must(store_->get_named("name")), "value");
  }
}

TEST_F(StoreDamageTest, WhatNothingIsLeftOfBeginsEmpty) {
  put_plans();
  close_with_tables();
  for (const char* part : {".sst", "MANIFEST", "CURRENT", ".log"}) {
    for (const fs::path& file : files(directory(), part)) {
      must(common::write_file_atomic(file, common::as_bytes(noise(400, 9))));
    }
  }
  store_ = must(Store::open(directory(), options_));
  EXPECT_EQ(served(), 0);
  EXPECT_GE(store_->health().damaged_files, 1u);
  put_plans();
  reopen();
  EXPECT_EQ(served(), kPlans);
}

// Were it served again because the list of revocations is in the damaged table, a bad sector would
// undo what an administrator did.
TEST_F(StoreDamageTest, ARevokedPlanDoesNotComeBack) {
  put_plans();
  NewPlan revoked = make_plan(plan_name(2), 5, {common::digest_of(kernel(2))});
  must(store_->revoke(revoked.facts.plan_id, "unsafe"));
  close_with_tables();
  fs::path table =
      find_in_tables(directory(), cat("R", common::as_text(revoked.facts.plan_id.bytes))).first;
  fs::resize_file(table, 0);
  store_ = must(Store::open(directory(), options_));
  EXPECT_FALSE(must(store_->get_plan(key(plan_name(2)))).has_value());
  EXPECT_EQ(must(store_->revocations()), std::vector{revoked.facts.plan_id});
  EXPECT_EQ(store_->put_plan(revoked).error().code, Code::kVerification);
}

// ---- Full disks --------------------------------------------------------------------------------

TEST_F(StoreDamageTest, AFullDiskIsSaidSoAndOverWhenItIsOver) {
  common::SmallDisk disk(scratch_.path() + "/disk", size_t{24} << 20);
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  store_ = must(Store::open(disk.path() + "/state", options_));
  put_plans();
  EXPECT_EQ(store_->health().trouble, "");
  disk.fill();
  // Until a write no longer fits into what RocksDB has claimed already.
  common::Status status;
  for (uint64_t i = 2; status.ok() && i < 1000; ++i) {
    std::vector<JobRecord> record{{i, noise(50'000, i)}};
    status = store_->append_job("job 2", record, true);
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kUnavailable) << status.error().message;
  for (const std::string& part : std::vector<std::string>{disk.path() + "/state is full: 0.",
                                                          " MiB free, 1.", " MiB needed"}) {
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  }
  EXPECT_NE(store_->health().trouble.find("full"), std::string::npos);
  EXPECT_GE(store_->health().failed_writes, 1u);
  EXPECT_EQ(served(), kPlans);
  EXPECT_FALSE(store_->put_named("more", "1").ok());
  disk.make_room();
  must(store_->put_named("more", "1"));
  EXPECT_EQ(store_->health().trouble, "");
  EXPECT_EQ(served(), kPlans);
  store_ = nullptr;
  store_ = must(Store::open(disk.path() + "/state", options_));
  EXPECT_EQ(must(store_->get_named("more")), "1");
  EXPECT_EQ(served(), kPlans);
}

// Tables are written in the background, where no writer hears of a failure.
TEST_F(StoreDamageTest, AFlushThatFindsNoRoomStopsNobodyForGood) {
  common::SmallDisk disk(scratch_.path() + "/disk", size_t{64} << 20);
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  store_ = must(Store::open(disk.path() + "/state", options_));
  std::vector<uint64_t> acknowledged;
  auto write = [&](uint64_t i) {
    std::vector<JobRecord> record{{i, noise(200'000, i)}};
    bool ok = store_->append_job("job", record, false).ok();
    if (ok) acknowledged.push_back(i);
    return ok;
  };
  uint64_t i = 0;
  while (i < 1000 && write(i)) ++i;
  ASSERT_LT(i, 1000u);
  ASSERT_GT(acknowledged.size(), 50u);
  ASSERT_EQ(::mount("none", disk.path().c_str(), "tmpfs", MS_REMOUNT, "size=256m"), 0);
  for (++i; i < 1000 && acknowledged.size() < 400; ++i) EXPECT_TRUE(write(i)) << i;
  auto records = must(store_->read_job("job"));
  ASSERT_EQ(records.size(), acknowledged.size());
  for (size_t k = 0; k < records.size(); ++k) {
    ASSERT_EQ(records[k].sequence, acknowledged[k]);
    ASSERT_EQ(records[k].bytes, noise(200'000, acknowledged[k]));
  }
}

TEST_F(StoreDamageTest, AReadOnlyDiskServesReadersAndRefusesWriters) {
  common::SmallDisk disk(scratch_.path() + "/disk", size_t{24} << 20);
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  std::string state = disk.path() + "/state";
  store_ = must(Store::open(state, options_));
  put_plans();
  store_.reset();
  disk.set_read_only(true);
  auto writer = Store::open(state, options_);
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error().code, Code::kInvalidInput) << writer.error().message;
  EXPECT_NE(writer.error().message.find("cannot write " + state), std::string::npos);
  StoreOptions read_only = options_;
  read_only.read_only = true;
  store_ = must(Store::open(state, read_only));
  EXPECT_EQ(served(), kPlans);
}

}  // namespace
}  // namespace cache

int main(int argc, char** argv) {
  common::own_mounts();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
