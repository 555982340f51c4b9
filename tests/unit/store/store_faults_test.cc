// Damage, full disks, foreign processes and sudden death: what the store answers then.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iostream>

#include "cache/store/database.h"
#include "common/process/subprocess.h"
#include "store_testing.h"

namespace cache {
namespace {

using common::cat;
using common::Code;
using common::digest_of;

// Flips one bit in the middle of every copy of `bytes` in files with this extension.
int flip_on_disk(const std::string& directory, const std::string& extension,
                 const std::string& bytes) {
  int flipped = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != extension) continue;
    std::string content = must(common::read_file(entry.path()));
    size_t at = content.find(bytes);
    if (at == std::string::npos) continue;
    for (; at != std::string::npos; at = content.find(bytes, at + 1)) {
      content[at + bytes.size() / 2] ^= 0x10;
      ++flipped;
    }
    must(common::write_file_atomic(entry.path(), common::as_bytes(content)));
  }
  return flipped;
}

class StoreFaultsTest : public StoreTest {
 protected:
  // Changes the closed store beneath its interface.
  template <class Change>
  void behind_its_back(Change change) {
    store_.reset();
    {
      auto database = must(Database::open(directory(), {}));
      Batch batch;
      change(*database, batch);
      must(database->write(batch, true));
    }
    store_ = must(Store::open(directory(), options_));
  }
};

TEST_F(StoreFaultsTest, ABlobWithForeignBytesIsReportedAndRemoved) {
  auto digest = must(store_->put_blob("right"));
  behind_its_back([&](Database&, Batch& batch) {
    batch.put(Family::kKernels, common::as_text(digest.bytes), "wrong");
  });
  auto damaged = store_->get_blob(digest);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, Code::kCorrupt);
  EXPECT_EQ(must(store_->get_blob(digest)), std::nullopt);
  EXPECT_EQ(must(store_->stats()).kernels.count, 0u);
  must(store_->put_blob("right"));
  EXPECT_EQ(must(store_->get_blob(digest)), "right");
  EXPECT_EQ(must(store_->stats()).kernels.bytes, 5u);
}

TEST_F(StoreFaultsTest, PuttingABlobAgainHealsIt) {
  auto digest = must(store_->put_blob("right"));
  behind_its_back([&](Database&, Batch& batch) {
    batch.put(Family::kKernels, common::as_text(digest.bytes), "wrong");
  });
  must(store_->put_blob("right"));
  EXPECT_EQ(must(store_->get_blob(digest)), "right");
  EXPECT_EQ(must(store_->stats()).kernels.count, 1u);
}

TEST_F(StoreFaultsTest, APlanWhoseBlobVanishedOrChangedIsNeverServed) {
  auto vanished = must(store_->put_blob("vanishes"));
  auto changed = must(store_->put_blob("changes"));
  auto fine = must(store_->put_blob("stays"));
  must(store_->put_plan(make_plan("a", 5, {fine, vanished})));
  must(store_->put_plan(make_plan("b", 5, {changed, fine})));
  must(store_->put_plan(make_plan("c", 5, {fine})));
  behind_its_back([&](Database&, Batch& batch) {
    batch.remove(Family::kKernels, common::as_text(vanished.bytes));
    batch.put(Family::kKernels, common::as_text(changed.bytes), "changed");
  });
  // A compare-and-set against a plan that can't be served succeeds even when it is slower.
  EXPECT_FALSE(must(store_->get_plan(key("a"))).has_value());
  EXPECT_FALSE(must(store_->get_bundle(key("b"))).has_value());
  EXPECT_TRUE(must(store_->get_plan(key("c"))).has_value());
  EXPECT_EQ(must(store_->list_plans()).size(), 1u);
  EXPECT_TRUE(must(store_->plans_of_graph(make_plan("a", 5, {}).facts.graph_hash)).empty());
  EXPECT_EQ(must(store_->stats()).misses, 2u);
}

TEST_F(StoreFaultsTest, AnUnusablePlanGivesWayToASlowerOne) {
  auto blob = must(store_->put_blob("vanishes"));
  must(store_->put_plan(make_plan("a", 5, {blob})));
  behind_its_back([&](Database&, Batch& batch) {
    batch.remove(Family::kKernels, common::as_text(blob.bytes));
  });
  EXPECT_TRUE(must(store_->put_plan_if_better(make_plan("a", 50, {}, "slower but whole"))));
  EXPECT_EQ(must(store_->get_plan(key("a")))->bytes, "slower but whole");
}

TEST_F(StoreFaultsTest, AMalformedPlanRecordIsAMiss) {
  must(store_->put_plan(make_plan("a", 5, {})));
  behind_its_back([&](Database& database, Batch& batch) {
    std::string record_key = "P" + std::string(common::as_text(key("a").bytes));
    std::string record = *must(database.get(Family::kPlans, record_key));
    batch.put(Family::kPlans, record_key, record.substr(0, record.size() - 1));
  });
  EXPECT_FALSE(must(store_->get_plan(key("a"))).has_value());
  EXPECT_TRUE(must(store_->list_plans()).empty());
  EXPECT_TRUE(must(store_->put_plan_if_better(make_plan("a", 50, {}))));
}

// Without the time that the search took and without names, which later records have.
TEST_F(StoreFaultsTest, PlansOfTheFirstRecordVersionAreServed) {
  NewPlan plan = make_plan("a", 5, {}, "written long ago");
  plan.facts.search_ms = 9;
  must(store_->put_plan(plan));
  behind_its_back([&](Database& database, Batch& batch) {
    std::string record_key = "P" + std::string(common::as_text(key("a").bytes));
    std::string record = *must(database.get(Family::kPlans, record_key));
    record[0] = 1;
    record.erase(1 + 2 * 32 + 2 * 8, 8);
    record.erase(1 + 2 * 32 + 2 * 8 + 4 + 8, 4);
    batch.put(Family::kPlans, record_key, record);
  });
  auto stored = must(store_->get_plan(key("a")));
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->bytes, "written long ago");
  EXPECT_EQ(stored->facts.best_ns, 5);
  EXPECT_EQ(stored->facts.search_ms, 0);
}

TEST_F(StoreFaultsTest, BitsFlippedInATableAreNoticed) {
  std::string bytes = noise(20'000, 5);
  auto blob = must(store_->put_blob(bytes));
  std::string plan_bytes = noise(20'000, 6);
  must(store_->put_plan(make_plan("a", 5, {blob})));
  must(store_->put_plan(make_plan("b", 5, {}, plan_bytes)));
  behind_its_back([&](Database& database, Batch&) {
    must(database.compact(Family::kKernels));
    must(database.compact(Family::kPlans));
  });
  store_.reset();
  ASSERT_GE(flip_on_disk(directory(), ".sst", bytes.substr(9'000, 64)), 1);
  ASSERT_GE(flip_on_disk(directory(), ".sst", plan_bytes.substr(9'000, 64)), 1);
  store_ = must(Store::open(directory(), options_));
  EXPECT_FALSE(must(store_->get_plan(key("a"))).has_value());
  // The log may have it, too, in which case it is back as it was.
  auto back = must(store_->get_plan(key("b")));
  EXPECT_TRUE(!back || back->bytes == plan_bytes);
  EXPECT_EQ(must(store_->get_blob(blob)), std::nullopt);  // removed with the plan
  must(store_->put_blob(bytes));
  must(store_->put_plan(make_plan("a", 5, {blob})));
  EXPECT_EQ(must(store_->get_bundle(key("a")))->blobs[0], bytes);
}

TEST_F(StoreFaultsTest, BitsFlippedInTheLogNeverServeAPlan) {
  must(store_->put_named("before", "the damage"));
  std::string bytes = noise(20'000, 5);
  auto blob = must(store_->put_blob(bytes));
  must(store_->put_plan(make_plan("a", 5, {blob})));
  store_.reset();
  ASSERT_GE(flip_on_disk(directory(), ".log", bytes.substr(9'000, 64)), 1);
  store_ = must(Store::open(directory(), options_));
  EXPECT_EQ(must(store_->get_named("before")), "the damage");
  EXPECT_FALSE(must(store_->get_plan(key("a"))).has_value());
  EXPECT_EQ(must(store_->get_blob(blob)), std::nullopt);
}

TEST_F(StoreFaultsTest, ADamagedDatabaseIsNotServedByReaders) {
  must(store_->put_named("a", "b"));
  store_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(directory())) {
    if (entry.path().filename().string().rfind("MANIFEST", 0) != 0) continue;
    must(common::write_file_atomic(entry.path(), common::as_bytes(noise(400, 9))));
  }
  StoreOptions read_only;
  read_only.read_only = true;
  auto opened = Store::open(directory(), read_only);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kCorrupt) << opened.error().message;
  EXPECT_NE(opened.error().message.find(directory()), std::string::npos);
  EXPECT_NE(opened.error().message.find("a farm that starts on it mends it"), std::string::npos);
}

TEST_F(StoreFaultsTest, AFormatOfTheFutureIsRefused) {
  store_.reset();
  {
    auto database = must(Database::open(directory(), {}));
    Batch batch;
    batch.put(Family::kMeta, "F", std::string("\x63\0\0\0", 4));
    must(database->write(batch, true));
  }
  auto opened = Store::open(directory(), options_);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kUnsupported);
}

TEST_F(StoreFaultsTest, ADirectoryThatCannotBeMadeIsNamed) {
  std::string file = scratch_.path() + "/plain";
  must(common::write_file_atomic(file, common::as_bytes("not a directory")));
  for (const std::string& path : {file, file + "/below"}) {
    auto opened = Store::open(path, options_);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, Code::kInvalidInput) << opened.error().message;
    EXPECT_NE(opened.error().message.find(path), std::string::npos);
  }
  StoreOptions read_only;
  read_only.read_only = true;
  auto missing = Store::open(scratch_.path() + "/missing", read_only);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() + "/missing"));
}

TEST_F(StoreFaultsTest, ReadOnlyStoresFollowTheWriter) {
  auto blob = must(store_->put_blob("kernel"));
  must(store_->put_plan(make_plan("a", 5, {blob})));
  StoreOptions options;
  options.read_only = true;
  auto reader = must(Store::open(directory(), options));
  EXPECT_EQ(must(reader->get_bundle(key("a")))->blobs[0], "kernel");
  EXPECT_EQ(must(reader->stats()).plans.count, 1u);
  auto refused = reader->put_blob("no");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidInput);
  EXPECT_FALSE(reader->put_plan(make_plan("b", 1, {})).ok());

  must(store_->put_plan(make_plan("b", 5, {blob})));
  must(reader->refresh());
  EXPECT_TRUE(must(reader->get_plan(key("b"))).has_value());
  EXPECT_EQ(must(reader->stats()).plans.count, 2u);
  // Tables that the writer replaces stay readable.
  must(store_->gc(0));
  EXPECT_TRUE(must(reader->get_bundle(key("b"))).has_value());
  must(reader->refresh());
  EXPECT_FALSE(must(reader->get_plan(key("b"))).has_value());
  store_.reset();
  EXPECT_FALSE(must(reader->get_plan(key("a"))).has_value());
  EXPECT_TRUE(Store::open(directory(), options).ok());
}

TEST_F(StoreFaultsTest, TheSameProcessCannotOpenTwice) {
  auto second = Store::open(directory(), options_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_NE(second.error().message.find("this process"), std::string::npos);
  // Asking for the owner must not have released the lock.
  auto third = Store::open(directory(), options_);
  EXPECT_FALSE(third.ok());
}

TEST_F(StoreFaultsTest, AWriteThatFailsChangesNothingAndPasses) {
  must(store_->put_named("before", "1"));
  auto previous_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ::getrlimit(RLIMIT_FSIZE, &old_limit);
  rlimit tight = old_limit;
  tight.rlim_cur = 64 << 10;
  ::setrlimit(RLIMIT_FSIZE, &tight);
  auto refused = store_->put_blob(noise(200'000, 1));
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  ::signal(SIGXFSZ, previous_handler);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnavailable) << refused.error().message;
  EXPECT_NE(refused.error().message.find(directory()), std::string::npos);
  EXPECT_EQ(must(store_->stats()).kernels.count, 0u);
  EXPECT_FALSE(must(store_->get_blob(digest_of(noise(200'000, 1)))).has_value());
  // With room again the same store goes on, even where RocksDB itself would not.
  must(store_->sync());
  auto digest = must(store_->put_blob(noise(200'000, 1)));
  must(store_->put_plan(make_plan("a", 1, {digest})));
  reopen();
  EXPECT_TRUE(must(store_->get_bundle(key("a"))).has_value());
  EXPECT_EQ(must(store_->get_named("before")), "1");
}

// --- Other processes: this binary started again with a role ------------------------------------

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() { LFARM_CHECK(::pipe(ends) == 0, std::strerror(errno)); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
};

common::Subprocess start_role(const std::string& role, const std::string& directory,
                              const Pipe& output) {
  common::SpawnOptions options;
  options.arguments = {"/proc/self/exe", role, directory};
  options.stdout_fd = output.ends[1];
  return must(common::Subprocess::start(options));
}

std::string read_line(const Pipe& pipe) {
  std::string line;
  char byte = 0;
  while (::read(pipe.ends[0], &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

TEST_F(StoreFaultsTest, AnotherProcessLearnsWhoHoldsTheDirectory) {
  Pipe output;
  auto child = start_role("--try", directory(), output);
  std::string answer = read_line(output);
  EXPECT_NE(answer.find("in use by another lfarm process"), std::string::npos) << answer;
  EXPECT_NE(answer.find(directory()), std::string::npos);
  EXPECT_EQ(child.wait(600'000)->code, 4);
  store_.reset();
  auto again = start_role("--try", directory(), output);
  EXPECT_EQ(read_line(output), "opened");
  EXPECT_EQ(again.wait(600'000)->code, 0);
}

TEST_F(StoreFaultsTest, WhatWasAcknowledgedSurvivesAKill) {
  store_.reset();
  Pipe output;
  auto child = start_role("--write", directory(), output);
  uint64_t acknowledged = 0;
  while (acknowledged < 50) acknowledged = std::stoull(read_line(output));
  child.send_signal(SIGKILL);
  ASSERT_EQ(child.wait(600'000)->signal, SIGKILL);
  store_ = must(Store::open(directory(), options_));
  auto records = must(store_->read_job("job"));
  ASSERT_GE(records.size(), acknowledged);
  for (uint64_t i = 1; i <= acknowledged; ++i) {
    EXPECT_EQ(records[i - 1].sequence, i);
    auto bundle = must(store_->get_bundle(key(cat("p", i))));
    ASSERT_TRUE(bundle.has_value()) << i;
    EXPECT_EQ(bundle->blobs[0], cat("kernel ", i));
  }
  auto stats = must(store_->stats());
  EXPECT_EQ(stats.plans.count, must(store_->list_plans()).size());
}

int run_role(const std::string& role, const std::string& directory) {
  auto opened = Store::open(directory);
  if (role == "--try") {
    std::cout << (opened.ok() ? "opened" : opened.error().message) << std::endl;
    if (opened.ok()) return 0;
    return opened.error().code == Code::kUnavailable ? 4 : 1;
  }
  auto store = must(std::move(opened));
  for (uint64_t i = 1;; ++i) {
    auto blob = must(store->put_blob(cat("kernel ", i)));
    must(store->put_plan(make_plan(cat("p", i), 1, {blob})));
    std::vector<JobRecord> record{{i, "record"}};
    must(store->append_job("job", record, true));
    std::cout << i << std::endl;
  }
}

}  // namespace
}  // namespace cache

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]).rfind("--", 0) == 0) {
    return cache::run_role(argv[1], argv[2]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
