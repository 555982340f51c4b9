// The engines of shards: if these fail, a coordinator that lost a shard overwrites what its
// successor wrote, an acknowledged change is lost without anybody's notice, or two coordinators
// hold one shard. One suite for all engines; that on a server needs redis-server.
#include "cache/engine/shard_engine.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "cache/engine/embedded_engine.h"
#include "cache/engine/engine_leases.h"
#include "cache/engine/name_walk.h"
#include "cache/engine/remote_engine.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/shard/shard.h"
#include "tests/farm/service/redis_server.h"

namespace cache {
namespace {

using common::cat;
using common::Digest;
using common::digest_of;
using common::Fence;
using common::Incarnation;
using common::ShardLease;

const Digest kName = digest_of("a plan's name");

RemoteOptions patient(const std::string& address) {
  RemoteOptions options;
  auto parsed = parse_remote_address(address);
  if (!parsed.ok()) throw std::runtime_error(parsed.error().message);
  options.address = *parsed;
  options.answer_ms = 600'000;
  options.transfer_ms = 600'000;
  options.retry.first_ms = 0;
  options.retry.last_ms = 0;
  return options;
}

// An engine, and what to do to have it back as it was at an earlier time.
class Bench {
 public:
  virtual ~Bench() = default;
  virtual ShardEngine& engine() = 0;
  virtual bool is_there() const { return true; }
};

class EmbeddedBench final : public Bench {
 public:
  EmbeddedBench() {
    auto made = common::ScratchDirectory::create("engine");
    if (!made.ok()) throw std::runtime_error(made.error().message);
    scratch_.emplace(std::move(made).value());
    auto opened = Store::open(scratch_->path() + "/state");
    if (!opened.ok()) throw std::runtime_error(opened.error().message);
    store_ = std::move(opened).value();
    engine_.emplace(*store_);
  }
  ShardEngine& engine() override { return *engine_; }

 private:
  std::optional<common::ScratchDirectory> scratch_;
  std::unique_ptr<Store> store_;
  std::optional<EmbeddedEngine> engine_;
};

class RemoteBench final : public Bench {
 public:
  RemoteBench() {
    if (!RedisServer::is_there()) return;
    server_.emplace();
    store_.emplace(patient(server_->address()));
    engine_.emplace(*store_, RemoteEngineOptions{"test", 0});
  }
  bool is_there() const override { return server_.has_value(); }
  ShardEngine& engine() override { return *engine_; }

 private:
  std::optional<RedisServer> server_;
  std::optional<RemoteStore> store_;
  std::optional<RemoteEngine> engine_;
};

struct EngineKind {
  const char* name;
  std::unique_ptr<Bench> (*make)();
};
const EngineKind kEngines[] = {
    {"Embedded", []() -> std::unique_ptr<Bench> { return std::make_unique<EmbeddedBench>(); }},
    {"Remote", []() -> std::unique_ptr<Bench> { return std::make_unique<RemoteBench>(); }},
};

class ShardEngineTest : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    bench_ = GetParam().make();
    if (!bench_->is_there()) {
      GTEST_SKIP() << "no redis-server on this machine; .ci/packages.txt names its package";
    }
  }
  ShardEngine& engine() { return bench_->engine(); }
  FenceAnswer raise(const Fence& fence) {
    auto answer = engine().raise(fence);
    EXPECT_TRUE(answer.ok()) << answer.error().message;
    return answer.ok() ? *answer : FenceAnswer{FenceVerdict::kBehind, {}, 0};
  }
  FenceAnswer write(const Fence& fence, uint64_t sequence, std::optional<std::string_view> bytes,
                    const Digest& name = kName) {
    ShardChange change{ShardRecord::kPlan, name, bytes};
    auto answer = engine().write(fence, sequence, {&change, 1});
    EXPECT_TRUE(answer.ok()) << answer.error().message;
    return answer.ok() ? *answer : FenceAnswer{};
  }
  std::string read(uint32_t shard, const Digest& name = kName) {
    auto bytes = engine().read(shard, ShardRecord::kPlan, name);
    EXPECT_TRUE(bytes.ok());
    return bytes.ok() ? bytes->value_or("none") : "error";
  }
  std::unique_ptr<Bench> bench_;
};

INSTANTIATE_TEST_SUITE_P(Engines, ShardEngineTest, testing::ValuesIn(kEngines),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(ShardEngineTest, TheHolderWritesInOrder) {
  Fence fence{17, 1, Incarnation::draw()};
  FenceAnswer raised = raise(fence);
  EXPECT_EQ(raised.verdict, FenceVerdict::kTaken);
  EXPECT_EQ(raised.sequence, 0U);
  EXPECT_EQ(write(fence, 1, "first").verdict, FenceVerdict::kTaken);
  EXPECT_EQ(read(17), "first");
  EXPECT_EQ(write(fence, 2, "second").verdict, FenceVerdict::kTaken);
  EXPECT_EQ(read(17), "second");
  EXPECT_EQ(read(18), "none") << "a shard shows another one's records";
  EXPECT_EQ(write(fence, 3, std::nullopt).verdict, FenceVerdict::kTaken);
  EXPECT_EQ(read(17), "none");
  EXPECT_EQ(raise(fence).sequence, 3U);
}

TEST_P(ShardEngineTest, ARepeatedWriteIsTakenOnce) {
  Fence fence{3, 5, Incarnation::draw()};
  raise(fence);
  write(fence, 1, "first");
  write(fence, 2, "second");
  EXPECT_EQ(write(fence, 2, "second").verdict, FenceVerdict::kTaken);
  // What was on its way while its sender had already sent the next one.
  EXPECT_EQ(write(fence, 1, "first").verdict, FenceVerdict::kStale);
  EXPECT_EQ(read(3), "second");
}

TEST_P(ShardEngineTest, AnEarlierHolderIsStale) {
  Fence old{9, 1, Incarnation::draw()}, next{9, 2, Incarnation::draw()};
  raise(old);
  write(old, 1, "old");
  FenceAnswer raised = raise(next);
  EXPECT_EQ(raised.verdict, FenceVerdict::kTaken);
  EXPECT_EQ(raised.sequence, 1U) << "a holder goes on where the one before it ended";
  FenceAnswer refused = write(old, 2, "late");
  EXPECT_EQ(refused.verdict, FenceVerdict::kStale);
  EXPECT_EQ(refused.there, next);
  EXPECT_EQ(raise(old).verdict, FenceVerdict::kStale);
  EXPECT_EQ(read(9), "old");
  EXPECT_EQ(write(next, 2, "new").verdict, FenceVerdict::kTaken);
}

// As after a Lease was deleted, from when on transitions count anew.
TEST_P(ShardEngineTest, EqualTransitionsOfAnotherProcessAreStale) {
  Fence one{9, 4, Incarnation::draw()}, other{9, 4, Incarnation::draw()};
  raise(one);
  EXPECT_EQ(raise(other).verdict, FenceVerdict::kStale);
  EXPECT_EQ(write(other, 1, "other").verdict, FenceVerdict::kStale);
  EXPECT_EQ(write(one, 1, "one").verdict, FenceVerdict::kTaken);
}

TEST_P(ShardEngineTest, AGapSaysThatTheEngineIsBehind) {
  Fence fence{0, 1, Incarnation::draw()};
  EXPECT_EQ(write(fence, 1, "unraised").verdict, FenceVerdict::kBehind);
  raise(fence);
  write(fence, 1, "first");
  FenceAnswer behind = write(fence, 3, "third");
  EXPECT_EQ(behind.verdict, FenceVerdict::kBehind);
  EXPECT_EQ(behind.sequence, 1U);
  EXPECT_EQ(read(0), "first");
  auto looked = engine().look(0);
  ASSERT_TRUE(looked.ok());
  EXPECT_EQ(looked->fence, fence);
  EXPECT_EQ(looked->sequence, 1U);
  EXPECT_EQ(engine().look(1)->sequence, 0U);
}

TEST_P(ShardEngineTest, AWriteIsWhole) {
  Fence fence{5, 1, Incarnation::draw()};
  raise(fence);
  std::vector<ShardChange> changes;
  std::string binary("\0\t\n\xff=-", 6);
  for (int k = 0; k < 200; ++k) {
    changes.push_back({ShardRecord::kPlan, digest_of(cat("plan ", k)), binary});
    if (k % 4 == 0) changes.push_back({ShardRecord::kJob, digest_of(cat("job ", k)), "job"});
  }
  auto answer = engine().write(fence, 1, changes);
  ASSERT_TRUE(answer.ok() && answer->verdict == FenceVerdict::kTaken);
  EXPECT_EQ(all_names(engine(), 5, ShardRecord::kPlan)->size(), 200U);
  EXPECT_EQ(all_names(engine(), 5, ShardRecord::kJob)->size(), 50U);
  EXPECT_TRUE(all_names(engine(), 6, ShardRecord::kPlan)->empty());
  EXPECT_EQ(read(5, digest_of("plan 199")), binary);
  write(fence, 2, std::nullopt, digest_of("plan 7"));
  EXPECT_EQ(all_names(engine(), 5, ShardRecord::kPlan)->size(), 199U);
}

TEST_P(ShardEngineTest, ManyAreReadTogether) {
  Fence fence{5, 1, Incarnation::draw()};
  raise(fence);
  write(fence, 1, "one", digest_of("one"));
  write(fence, 2, "two", digest_of("two"));
  const Digest names[] = {digest_of("two"), digest_of("none"), digest_of("one")};
  auto all = engine().read_all(5, ShardRecord::kPlan, names);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(*all, (std::vector<std::optional<std::string>>{"two", std::nullopt, "one"}));
  EXPECT_TRUE(engine().read_all(5, ShardRecord::kPlan, {})->empty());
  EXPECT_EQ(engine().count(5, ShardRecord::kPlan).value(), 2U);
  EXPECT_EQ(engine().count(6, ShardRecord::kPlan).value(), 0U);
}

// Enough come and go that a server's table grows and shrinks between pages.
TEST_P(ShardEngineTest, PagesNameWhatStaysOnceWhilePlansComeAndGo) {
  constexpr int kStay = 2'000, kGo = 20'000;
  Fence fence{7, 1, Incarnation::draw()};
  raise(fence);
  uint64_t sequence = 0;
  auto change = [&](const std::string& kind, int count, std::optional<std::string_view> bytes) {
    std::vector<ShardChange> changes;
    for (int k = 0; k < count; ++k) {
      changes.push_back({ShardRecord::kPlan, digest_of(cat(kind, k)), bytes});
      if (changes.size() < ShardEngine::kChangesMax && k + 1 < count) continue;
      auto answer = engine().write(fence, ++sequence, changes);
      ASSERT_TRUE(answer.ok() && answer->verdict == FenceVerdict::kTaken);
      changes.clear();
    }
  };
  change("stays ", kStay, "plan");
  NameWalk walk(engine(), 7, ShardRecord::kPlan);
  std::map<Digest, int> named;
  int pages = 0;
  for (; !walk.is_done(); ++pages) {
    auto names = walk.next();
    ASSERT_TRUE(names.ok()) << names.error().message;
    for (const Digest& name : *names) ++named[name];
    if (pages == 2) change("comes ", kGo, "plan");
    if (pages == 5) change("comes ", kGo, std::nullopt);
  }
  EXPECT_GT(pages, 5) << "one call names everything";
  for (int k = 0; k < kStay; ++k) EXPECT_EQ(named[digest_of(cat("stays ", k))], 1) << k;
  for (const auto& [name, times] : named) EXPECT_EQ(times, 1) << name.hex();
}

TEST_P(ShardEngineTest, RacingHoldersNeverInterleave) {
  // Each raises and writes as long as it is allowed to; no write of a lower fence follows a higher.
  constexpr int kHolders = 4, kRounds = 50;
  std::atomic<uint64_t> transitions{0}, taken{0};
  std::vector<std::thread> holders;
  for (int k = 0; k < kHolders; ++k) {
    holders.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        Fence mine{1, ++transitions, Incarnation::draw()};
        auto raised = engine().raise(mine);
        if (!raised.ok() || raised->verdict != FenceVerdict::kTaken) continue;
        uint64_t next = raised->sequence;
        for (int k = 0; k < 3; ++k) {
          std::string bytes = cat(mine.transitions);
          ShardChange change{ShardRecord::kPlan, kName, bytes};
          auto answer = engine().write(mine, ++next, {&change, 1});
          if (!answer.ok() || answer->verdict != FenceVerdict::kTaken) break;
          ++taken;
        }
      }
    });
  }
  for (std::thread& holder : holders) holder.join();
  Fence last{1, transitions + 1, Incarnation::draw()};
  EXPECT_EQ(raise(last).sequence, taken) << "a write was taken twice, or lost";
}

// Of a socket that was bound and closed: nobody gets it again at once.
int free_port() {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  ::close(fd);
  return ntohs(address.sin_port);
}

// ---- On a server that others restart -----------------------------------------------------------

class RemoteEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_there()) {
      GTEST_SKIP() << "no redis-server on this machine; .ci/packages.txt names its package";
    }
  }
  static FenceVerdict write(RemoteEngine& engine, const Fence& fence, uint64_t sequence) {
    ShardChange change{ShardRecord::kPlan, kName, "bytes"};
    auto answer = engine.write(fence, sequence, {&change, 1});
    EXPECT_TRUE(answer.ok()) << answer.error().message;
    return answer.ok() ? answer->verdict : FenceVerdict::kTaken;
  }
};

TEST_F(RemoteEngineTest, AnEngineThatComesBackEmptyIsBehind) {
  RedisServer server;
  RemoteStore store(patient(server.address()));
  RemoteEngine engine(store, {"test", 0});
  Fence fence{2, 7, Incarnation::draw()};
  ASSERT_EQ(engine.raise(fence)->verdict, FenceVerdict::kTaken);
  EXPECT_EQ(write(engine, fence, 1), FenceVerdict::kTaken);
  server.kill();
  server.start();
  // The script has gone with it, too.
  EXPECT_EQ(write(engine, fence, 2), FenceVerdict::kBehind);
  // The holder takes the shard anew, and what it has is put back.
  fence.transitions = 8;
  auto raised = engine.raise(fence);
  ASSERT_TRUE(raised.ok());
  EXPECT_EQ(raised->sequence, 0U);
  EXPECT_EQ(write(engine, fence, 1), FenceVerdict::kTaken);
}

TEST_F(RemoteEngineTest, AnEngineRestoredFromAnOlderCopyIsBehind) {
  RedisServer server;
  RemoteStore store(patient(server.address()));
  RemoteEngine engine(store, {"test", 0});
  Fence fence{2, 7, Incarnation::draw()};
  ASSERT_EQ(engine.raise(fence)->verdict, FenceVerdict::kTaken);
  EXPECT_EQ(write(engine, fence, 1), FenceVerdict::kTaken);
  EXPECT_EQ(write(engine, fence, 2), FenceVerdict::kTaken);
  std::string key = "lfarm:2:{test.2}:fence";
  std::string of_then = server.ask({"GET", key}).text;
  EXPECT_EQ(write(engine, fence, 3), FenceVerdict::kTaken);
  // A copy of the same holder's time.
  server.ask({"SET", key, of_then});
  EXPECT_EQ(write(engine, fence, 4), FenceVerdict::kBehind);
  // One of the holder before.
  std::string of_before = cat("6 ", Incarnation::draw().hex(), " 1");
  server.ask({"SET", key, of_before});
  EXPECT_EQ(write(engine, fence, 4), FenceVerdict::kBehind);
}

TEST_F(RemoteEngineTest, AnAnswerWaitsForReplicas) {
  std::string port = cat(free_port());
  RedisServer server({"--port", port});
  RemoteOptions options = patient(server.address());
  options.answer_ms = 2'000;  // half of it is waited for replicas, of which there are none
  RemoteStore store(options);
  RemoteEngine engine(store, {"test", 1});
  const Fence fence{2, 7, Incarnation::draw()};
  auto raised = engine.raise(fence);
  ASSERT_FALSE(raised.ok());
  EXPECT_EQ(raised.error().code, common::Code::kUnavailable);
  RedisServer replica({"--replicaof", "127.0.0.1", port});
  while (server.ask({"WAIT", "1", "100"}).integer < 1) {
  }
  RemoteStore patient_store(patient(server.address()));
  RemoteEngine again(patient_store, {"test", 1});
  EXPECT_EQ(again.raise(fence)->verdict, FenceVerdict::kTaken);
  EXPECT_EQ(write(again, fence, 1), FenceVerdict::kTaken);
  std::string key = "lfarm:2:{test.2}:fence";
  EXPECT_EQ(replica.ask({"GET", key}).text, cat(common::text_of(fence), " 1"));
}

TEST_F(RemoteEngineTest, ADamagedFenceIsNoFence) {
  RedisServer server;
  RemoteStore store(patient(server.address()));
  RemoteEngine engine(store, {"test", 0});
  server.ask({"SET", "lfarm:2:{test.2}:fence", "nonsense"});
  EXPECT_FALSE(engine.raise({2, 7, Incarnation::draw()}).ok());
  EXPECT_TRUE(engine.raise({3, 7, Incarnation::draw()}).ok());
}

TEST_F(RemoteEngineTest, ALeaseIsReplacedByWhoHasReadIt) {
  RedisServer server;
  RemoteStore store(patient(server.address()));
  EngineLeases leases(store, "test"), others(store, "other");
  ShardLease mine{"shard-3", "a", 1, 15'000, {"tcp://10.0.0.1:7070", "key"}, ""};
  ShardLease member{"member-a", "a", 0, 15'000, {}, ""};
  auto written = leases.write(std::vector{mine, member});
  ASSERT_TRUE(written.ok());
  ASSERT_FALSE((*written)[0].empty());
  // Who believes that there is none is too late.
  EXPECT_EQ(leases.write(std::vector{mine}).value()[0], "");
  mine.version = (*written)[0];
  auto all = leases.read();
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 2U);
  EXPECT_TRUE(std::find(all->begin(), all->end(), mine) != all->end());
  EXPECT_TRUE(others.read()->empty());
  mine.holder = "b";
  mine.transitions = 2;
  EXPECT_NE(leases.write(std::vector{mine}).value()[0], "");
  EXPECT_EQ(leases.write(std::vector{mine}).value()[0], "") << "an old version was replaced";
  member.holder.clear();
  member.version = (*written)[1];
  EXPECT_NE(leases.write(std::vector{member}).value()[0], "");
  EXPECT_EQ(leases.read()->size(), 1U) << "a lease of nobody is not removed";
}

TEST(Shards, ModelsSpreadOverShards) {
  std::vector<int> count(common::kShardCount);
  for (int k = 0; k < 6'400; ++k) ++count[common::shard_of("tenant", digest_of(cat("graph ", k)))];
  for (int c : count) {
    EXPECT_GT(c, 50);
    EXPECT_LT(c, 150);
  }
  EXPECT_NE(
      common::shard_of("tenant", digest_of("a")) == common::shard_of("other", digest_of("a")) &&
          common::shard_of("tenant", digest_of("b")) == common::shard_of("other", digest_of("b")),
      true);
}

TEST(Shards, JobNumbersGrowAndSayTheirShard) {
  uint64_t last = 0;
  for (uint32_t shard : {5U, 5U, 4U, 0U, 63U, 63U, 0U}) {
    uint64_t next = common::job_number_after(last, shard);
    EXPECT_GT(next, last);
    EXPECT_LE(next, last + common::kShardCount);
    EXPECT_EQ(common::shard_of_job(next), shard);
    last = next;
  }
}

TEST(Fences, TextIsReadBack) {
  Fence fence{4, 12, Incarnation::draw()};
  EXPECT_EQ(common::parse_fence(4, common::text_of(fence)), fence);
  EXPECT_FALSE(common::parse_fence(4, "12"));
  EXPECT_FALSE(common::parse_fence(4, "12 abc"));
  EXPECT_FALSE(common::parse_fence(4, cat("-1 ", fence.incarnation.hex())));
  EXPECT_FALSE(common::parse_fence(4, cat("99999999999999999999 ", fence.incarnation.hex())));
}

}  // namespace
}  // namespace cache
