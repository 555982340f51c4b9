// A shard's holder whose engine takes no writes: if these fail, a coordinator that cannot write
// keeps its shards for ever, and with them all submits of their models, or waits with all shards
// for one.
#include "coordinator/service/shards/shard_keeper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "common/base/cat.h"
#include "coordinator/service/shards/shard_journals.h"

namespace coordinator::service {
namespace {

using cache::FenceAnswer;
using cache::FenceState;
using common::Fence;
using common::Result;

constexpr int64_t kDurationMs = 800, kRetryMs = kDurationMs / 8;

class TestClock final : public common::Clock {
 public:
  int64_t now_ns() const override { return now_ns_; }
  void advance_ms(int64_t ms) { now_ns_ += ms * 1'000'000; }

 private:
  std::atomic<int64_t> now_ns_{1'000'000'000};
};

// Takes every write of a lease, and counts renewals.
class TestLeases final : public common::LeaseStore {
 public:
  Result<std::vector<common::ShardLease>> read() override {
    std::lock_guard lock(mutex_);
    std::vector<common::ShardLease> all;
    for (const auto& [name, lease] : leases_) all.push_back(lease);
    return all;
  }
  Result<std::vector<std::string>> write(std::span<const common::ShardLease> leases) override {
    std::lock_guard lock(mutex_);
    std::vector<std::string> versions;
    for (common::ShardLease lease : leases) {
      versions.push_back(common::cat("v", ++made_));
      lease.version = versions.back();
      leases_[lease.name] = lease;
    }
    ++writes_;
    written_.notify_all();
    return versions;
  }
  // Until leases were written `times` times more.
  void await_writes(int times) {
    std::unique_lock lock(mutex_);
    written_.wait(lock, [this, end = writes_ + times] { return writes_ >= end; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable written_;
  std::map<std::string, common::ShardLease> leases_;
  int made_ = 0, writes_ = 0;
};

// Raises every fence. What becomes of writes, the test says.
class TestEngine final : public cache::ShardEngine {
 public:
  Result<FenceAnswer> raise(const Fence& fence) override {
    std::lock_guard lock(mutex_);
    state_[fence.shard] = {fence, state_[fence.shard].sequence};
    return FenceAnswer{cache::FenceVerdict::kTaken, fence, state_[fence.shard].sequence};
  }
  Result<FenceAnswer> write(const Fence& fence, uint64_t sequence,
                            std::span<const cache::ShardChange>) override {
    ++writes;
    LFARM_RETURN_IF_ERROR(on_write());
    std::lock_guard lock(mutex_);
    state_[fence.shard] = {fence, sequence};
    return FenceAnswer{cache::FenceVerdict::kTaken, fence, sequence};
  }
  Result<FenceState> look(uint32_t shard) override {
    ++looks;
    std::shared_future<void> released;
    {
      std::lock_guard lock(mutex_);
      released = looks_until_;
    }
    if (released.valid()) released.wait();
    std::lock_guard lock(mutex_);
    return state_[shard];
  }
  Result<std::optional<std::string>> read(uint32_t, cache::ShardRecord,
                                          const common::Digest&) override {
    return std::optional<std::string>();
  }
  Result<std::vector<std::optional<std::string>>> read_all(
      uint32_t, cache::ShardRecord, std::span<const common::Digest> names) override {
    return std::vector<std::optional<std::string>>(names.size());
  }
  Result<uint64_t> count(uint32_t, cache::ShardRecord) override { return uint64_t{0}; }
  Result<cache::NamePage> names(uint32_t, cache::ShardRecord, const std::string&) override {
    return cache::NamePage();
  }

  // Looks that come from now on last until then.
  void hold_looks(std::shared_future<void> released) {
    std::lock_guard lock(mutex_);
    looks_until_ = std::move(released);
  }

  std::function<common::Status()> on_write = [] { return common::Status(); };
  std::atomic<int> writes = 0, looks = 0;

 private:
  std::mutex mutex_;
  std::shared_future<void> looks_until_;
  std::map<uint32_t, FenceState> state_;
};

class ShardKeeperTest : public testing::Test {
 protected:
  ShardKeeperTest() : keeper_(options(), leases_, engine_, clock_) {
    keeper_.start({"tcp://127.0.0.1:1", ""});
  }
  static ShardTableOptions options() {
    ShardTableOptions options;
    options.identity = "one";
    options.incarnation = {1, 1};
    options.last(kDurationMs);
    options.write_ms = kDurationMs;
    return options;
  }
  // The fence under which the shard is served, beside the other one, which is not `before`.
  Fence await_served(const Fence& before) {
    while (true) {
      for (const Fence& fence : keeper_.take_raised()) keeper_.ready(fence);
      auto fence = keeper_.serves(kShard);
      if (fence && *fence != before && keeper_.serves(kOther)) return *fence;
      leases_.await_writes(1);
    }
  }
  common::Status write(uint32_t shard = kShard) {
    cache::ShardChange change{cache::ShardRecord::kPlan, common::digest_of("name"), "bytes"};
    return keeper_.write(shard, std::span(&change, 1));
  }
  // The first write that comes waits for `released`; those after it are taken.
  void hold_first_write(const std::shared_future<void>& released) {
    engine_.writes = 0;
    engine_.on_write = [this, released, held = std::make_shared<std::atomic<bool>>(false)] {
      if (!held->exchange(true)) released.wait();
      return common::Status();
    };
  }

  static constexpr uint32_t kShard = 17, kOther = 18;
  static constexpr auto kPatience = std::chrono::minutes(5);
  TestClock clock_;
  TestLeases leases_;
  TestEngine engine_;
  ShardKeeper keeper_;
};

TEST_F(ShardKeeperTest, StepsDownWhereTheEngineTakesNoWriteInTime) {
  Fence first = await_served({});
  ASSERT_TRUE(write().ok());
  engine_.writes = 0;
  // Time goes on, and leases are renewed all the while.
  engine_.on_write = [this] {
    clock_.advance_ms(kRetryMs);
    leases_.await_writes(2);
    return common::Status(common::Error{common::Code::kTimedOut, "the disk is full"});
  };
  common::Status written = write();
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, common::Code::kUnavailable);
  EXPECT_EQ(engine_.writes, kDurationMs / kRetryMs);
  EXPECT_EQ(keeper_.counts().step_downs, 1U);
  EXPECT_FALSE(keeper_.serves(kShard) == first);
  // What was sent may land under the fence of before: the next one is another.
  engine_.on_write = [] { return common::Status(); };
  clock_.advance_ms(kRetryMs);
  Fence second = await_served(first);
  EXPECT_GT(second.transitions, first.transitions);
  EXPECT_TRUE(write().ok());
}

TEST_F(ShardKeeperTest, RepeatsAWriteWithinItsTime) {
  Fence first = await_served({});
  engine_.on_write = [this] {
    if (engine_.writes == 3) return common::Status();
    return common::Status(common::Error{common::Code::kTimedOut, "slow"});
  };
  EXPECT_TRUE(write().ok());
  EXPECT_EQ(engine_.writes, 3);
  EXPECT_EQ(keeper_.counts().step_downs, 0U);
  EXPECT_EQ(keeper_.serves(kShard), first);
}

TEST_F(ShardKeeperTest, AnEngineThatIsSlowHoldsUpNoRenewal) {
  Fence fence = await_served({});
  std::promise<void> release;
  engine_.hold_looks(release.get_future().share());
  const int before = engine_.looks;
  while (engine_.looks == before) clock_.advance_ms(kRetryMs), leases_.await_writes(2);
  // Several leases' time.
  for (int64_t ms = 0; ms < 4 * kDurationMs; ms += kRetryMs) {
    clock_.advance_ms(kRetryMs);
    leases_.await_writes(2);
  }
  EXPECT_EQ(engine_.looks, before + 1) << "it has not answered yet";
  EXPECT_EQ(keeper_.serves(kShard), fence);
  release.set_value();
}

TEST_F(ShardKeeperTest, AShardWhoseWriteTakesLongHoldsUpNoOther) {
  await_served({});
  std::promise<void> release;
  hold_first_write(release.get_future().share());
  auto slow = std::async(std::launch::async, [this] { return write(kShard).ok(); });
  while (engine_.writes == 0) std::this_thread::yield();
  auto other = std::async(std::launch::async, [this] { return write(kOther).ok(); });
  EXPECT_EQ(other.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(engine_.writes, 2);
  release.set_value();
  EXPECT_TRUE(other.get());
  EXPECT_TRUE(slow.get());
}

TEST_F(ShardKeeperTest, WritesOfOneShardComeOneAfterTheOther) {
  Fence fence = await_served({});
  std::promise<void> release;
  hold_first_write(release.get_future().share());
  auto slow = std::async(std::launch::async, [this] { return write(kShard).ok(); });
  while (engine_.writes == 0) std::this_thread::yield();
  auto next = std::async(std::launch::async, [this] { return write(kShard).ok(); });
  EXPECT_TRUE(write(kOther).ok());
  EXPECT_EQ(engine_.writes, 2) << "a shard's second write was sent beside its first";
  release.set_value();
  EXPECT_TRUE(slow.get());
  EXPECT_TRUE(next.get());
  auto there = engine_.look(kShard);
  ASSERT_TRUE(there.ok());
  EXPECT_EQ(there->fence, fence);
  EXPECT_EQ(there->sequence, 2U);
}

TEST_F(ShardKeeperTest, JournalsOfOtherShardsAreWrittenMeanwhile) {
  await_served({});
  std::promise<void> release;
  ShardJournals journals(keeper_, engine_);
  journals.begin("slow", kShard);
  journals.begin("other", kOther);
  hold_first_write(release.get_future().share());
  auto written = [&](const char* job, uint64_t sequence) {
    cache::Changes changes;
    changes.records.push_back({job, {sequence, "record"}});
    journals.written({&changes, 1});
  };
  written("slow", 0);
  while (engine_.writes == 0) std::this_thread::yield();
  written("other", 0);
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (journals.counts().segments == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(journals.counts().segments, 1U);
  EXPECT_TRUE(journals.is_behind(kShard));
  EXPECT_FALSE(journals.is_behind(kOther));
  release.set_value();
  while (journals.is_behind(kShard)) std::this_thread::yield();
  EXPECT_EQ(journals.counts().segments, 2U);
}

}  // namespace
}  // namespace coordinator::service
