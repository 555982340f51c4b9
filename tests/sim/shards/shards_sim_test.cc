// Simulation of shards. Goal: whatever happens to coordinators and to the server that holds their
// leases and records, no shard has two holders, nothing that was promised is lost, no old write
// lands, no revoked plan is served, and in the end the shards are spread evenly over who lives.
// Method: each seed draws coordinators, whose clocks differ, and a mixture of faults: messages that
// are lost or arrive too late, crashes, pauses longer than a lease, a server that is slow, gone,
// empty or restored from an older copy. Only with the last two may anything be lost, and only what
// no holder's disk has.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/base/cat.h"
#include "tests/sim/shards/world.h"

namespace sim {
namespace {

ShardFaults faults_of(uint64_t seed, bool sets_back) {
  common::Random random(seed ^ 0x5a5a);
  auto sometimes = [&random](double most) { return random.chance(0.5) ? random.unit() * most : 0; };
  ShardFaults faults;
  faults.lost = sometimes(0.2);
  faults.late = sometimes(0.1);
  faults.crash = sometimes(0.03);
  faults.pause = sometimes(0.03);
  faults.leave = sometimes(0.02);
  faults.outage = sometimes(0.02);
  faults.slow = sometimes(0.02);
  if (sets_back) faults.restored = random.unit() * 0.02;
  faults.lease_ms = seed % 2 == 0 ? 3'000 : 15'000;
  return faults;
}

struct Sum {
  ShardReport all;
  int failed = 0;
};

// Runs the seeds, or the one in LFARM_SIM_SEED. LFARM_SIM_SEEDS times as many as are asked for.
Sum run_seeds(uint64_t first, uint64_t count, bool sets_back, bool flawed = false) {
  const char* chosen = std::getenv("LFARM_SIM_SEED");
  if (chosen != nullptr) first = std::strtoull(chosen, nullptr, 10), count = 1;
  if (const char* times = std::getenv("LFARM_SIM_SEEDS"))
    count *= std::strtoull(times, nullptr, 10);
  Sum sum;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    ShardFaults faults = faults_of(seed, sets_back);
    faults.flawed = flawed;
    ShardReport one = ShardsWorld(seed, faults).run();
    if (!one.failure.empty()) {
      ++sum.failed;
      EXPECT_TRUE(flawed) << one.failure << "\n  LFARM_SIM_SEED=" << seed
                          << " build/tests/test_shards_sim --gtest_filter="
                          << testing::UnitTest::GetInstance()->current_test_info()->name();
    }
    sum.all.acknowledged += one.acknowledged;
    sum.all.repeated += one.repeated;
    sum.all.stale += one.stale;
    sum.all.behind += one.behind;
    sum.all.taken_over += one.taken_over;
    sum.all.accidents += one.accidents;
    sum.all.put_back += one.put_back;
    sum.all.revoked += one.revoked;
    sum.all.served += one.served;
    sum.all.lost_with_the_server += one.lost_with_the_server;
  }
  return sum;
}

void tell(const Sum& sum) {
  const ShardReport& all = sum.all;
  std::printf(
      "%llu acknowledged, %llu repeated, %llu stale, %llu behind, %llu taken over, %llu "
      "accidents, %llu put back, %llu revoked, %llu served, %llu lost with the server\n",
      static_cast<unsigned long long>(all.acknowledged),
      static_cast<unsigned long long>(all.repeated), static_cast<unsigned long long>(all.stale),
      static_cast<unsigned long long>(all.behind), static_cast<unsigned long long>(all.taken_over),
      static_cast<unsigned long long>(all.accidents), static_cast<unsigned long long>(all.put_back),
      static_cast<unsigned long long>(all.revoked), static_cast<unsigned long long>(all.served),
      static_cast<unsigned long long>(all.lost_with_the_server));
}

TEST(ShardsSim, NothingIsLostWhileTheServerKeepsWhatItHas) {
  constexpr uint64_t kSeeds = 40;
  Sum sum = run_seeds(1, kSeeds, false);
  tell(sum);
  if (std::getenv("LFARM_SIM_SEED") != nullptr) return;
  EXPECT_GT(sum.all.acknowledged, kSeeds * 1'000);
  EXPECT_GT(sum.all.repeated, kSeeds);
  EXPECT_GT(sum.all.stale, kSeeds / 10);
  EXPECT_GT(sum.all.taken_over, kSeeds * 100);
  EXPECT_GT(sum.all.revoked, kSeeds);
  EXPECT_EQ(sum.all.behind, 0U);
  EXPECT_EQ(sum.all.lost_with_the_server, 0U);
}

TEST(ShardsSim, AServerThatIsSetBackGetsBackWhatHoldersHave) {
  constexpr uint64_t kSeeds = 40;
  Sum sum = run_seeds(100'001, kSeeds, true);
  tell(sum);
  if (std::getenv("LFARM_SIM_SEED") != nullptr) return;
  EXPECT_GT(sum.all.accidents, kSeeds);
  EXPECT_GT(sum.all.behind, kSeeds);
  EXPECT_GT(sum.all.put_back, kSeeds);
}

// A coordinator with no other time than that of its turns, and with a server that always answers.
struct Alone {
  Alone(ShardsServer& server, const std::string& identity, uint64_t life) : server(server) {
    coordinator::ShardTableOptions options;
    options.identity = identity;
    options.incarnation = {1, life};
    options.last(kLeaseMs);
    table.emplace(options);
  }
  // Its renewals reach the server, and the answers it, unless `hears` is false.
  void turn(int64_t now_ms, bool hears = true) {
    const int64_t now_ns = now_ms * 1'000'000;
    table->saw(server.read_leases(), now_ns);
    std::vector<common::ShardLease> writes = table->writes(now_ns);
    std::vector<std::string> versions = server.write_leases(writes);
    if (!hears) return;
    table->wrote(writes, versions, now_ns);
    for (const common::Fence& fence : table->take_raises(now_ns)) {
      if (server.raise(fence).verdict == cache::FenceVerdict::kTaken) table->raised(fence);
    }
    for (uint32_t shard : table->to_end()) table->ended(shard);
  }
  uint32_t served(int64_t now_ms) const {
    uint32_t count = 0;
    for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
      count += table->serves(shard, now_ms * 1'000'000) ? 1 : 0;
    }
    return count;
  }
  static constexpr int64_t kLeaseMs = 3'000, kTurnMs = 100;
  ShardsServer& server;
  std::optional<coordinator::ShardTable> table;
};

// Two that have half of the shards each, and the time by which they have.
struct Pair {
  Pair() : a(server, "a", 1), b(server, "b", 2) {
    for (; now_ms < 20 * Alone::kLeaseMs; now_ms += Alone::kTurnMs) {
      a.turn(now_ms);
      b.turn(now_ms);
    }
  }
  ShardsServer server;
  Alone a, b;
  int64_t now_ms = 0;
};

TEST(ShardsSim, ShardsOfWhoIsKilledAreOthersAfterALease) {
  Pair pair;
  ASSERT_EQ(pair.a.served(pair.now_ms), 32U);
  ASSERT_EQ(pair.b.served(pair.now_ms), 32U);
  const int64_t killed_ms = pair.now_ms - Alone::kTurnMs;  // its last turn
  while (pair.b.served(pair.now_ms) == 32U) pair.b.turn(pair.now_ms += Alone::kTurnMs);
  EXPECT_EQ(pair.b.served(pair.now_ms), common::kShardCount) << "all at once";
  // Its last renewal was before that turn by up to the pause between renewals.
  EXPECT_GE(pair.now_ms - killed_ms, Alone::kLeaseMs * 7 / 8 - Alone::kTurnMs);
  EXPECT_LE(pair.now_ms - killed_ms, Alone::kLeaseMs + Alone::kTurnMs);
}

// Each millisecond between the last renewal that was answered and the takeover. Renewals whose
// answers are lost keep others from taking over, and do not count for the holder.
TEST(ShardsSim, WhoCannotRenewStopsBeforeOthersTakeOver) {
  for (int64_t unheard_ms : {0, 1'000, 4'000}) {
    Pair pair;
    const int64_t heard_ms = pair.now_ms - Alone::kTurnMs;
    int64_t stopped_ms = 0, taken_ms = 0;
    for (int64_t ms = pair.now_ms; taken_ms == 0; ++ms) {
      if (stopped_ms == 0 && pair.a.served(ms) == 0) stopped_ms = ms;
      bool is_turn = ms % Alone::kTurnMs == 0;
      if (is_turn && ms < heard_ms + unheard_ms) pair.a.turn(ms, false);
      if (is_turn) pair.b.turn(ms);
      if (pair.b.served(ms) > 32U) taken_ms = ms;
    }
    ASSERT_NE(stopped_ms, 0) << unheard_ms;
    EXPECT_LE(stopped_ms - heard_ms, Alone::kLeaseMs * 5 / 6) << unheard_ms;
    EXPECT_GE(taken_ms - stopped_ms, Alone::kLeaseMs / 6 - Alone::kTurnMs) << unheard_ms;
  }
}

TEST(ShardsSim, AServerThatWasAwayCostsNobodyItsShards) {
  Pair pair;
  const int64_t now_ms = pair.now_ms + 11'000;
  EXPECT_EQ(pair.a.served(now_ms) + pair.b.served(now_ms), 0U) << "nobody has renewed";
  pair.b.turn(now_ms);  // which looks first
  EXPECT_EQ(pair.b.served(now_ms), 32U) << "its own";
  pair.a.turn(now_ms + Alone::kTurnMs);
  EXPECT_EQ(pair.a.served(now_ms + Alone::kTurnMs), 32U);
}

// Each look counts, for two renewals at most.
TEST(ShardsSim, WhoLooksSeldomTakesOverLate) {
  Pair pair;
  int looks = 0;
  while (pair.b.served(pair.now_ms) <= 32U && looks < 100) {
    pair.b.turn(pair.now_ms += 20 * Alone::kLeaseMs);
    ++looks;
  }
  EXPECT_EQ(looks, 4);
}

TEST(ShardsSim, WhoIsStartedAgainTakesItsShardsAtOnce) {
  ShardsServer server;
  Alone killed(server, "a", 1), other(server, "b", 2);
  int64_t now_ms = 0;
  for (; now_ms < 60'000; now_ms += Alone::kTurnMs) {
    killed.turn(now_ms);
    other.turn(now_ms);
  }
  ASSERT_EQ(killed.served(now_ms), 32U);
  const common::Fence before = [&] {
    for (uint32_t shard = 0;; ++shard) {
      if (auto fence = killed.table->serves(shard, now_ms * 1'000'000)) return *fence;
    }
  }();
  Alone again(server, "a", 3);
  again.turn(now_ms);
  EXPECT_EQ(again.served(now_ms), 32U);
  EXPECT_EQ(other.served(now_ms), 32U);
  // What the earlier process had sent, or sends since it lives on, changes nothing.
  EXPECT_EQ(server.write(before, 1, 7, 7).verdict, cache::FenceVerdict::kStale);
  killed.turn(now_ms += Alone::kTurnMs);
  EXPECT_EQ(killed.served(now_ms), 0U);
  again.turn(now_ms);
  EXPECT_EQ(again.served(now_ms), 32U);
  // Another's are not taken before they lapse.
  Alone third(server, "c", 4);
  third.turn(now_ms);
  EXPECT_EQ(third.served(now_ms), 0U);
}

TEST(ShardsSim, AServerWithoutFencesIsFoundOut) {
  Sum sum = run_seeds(200'001, 40, false, true);
  EXPECT_GT(sum.failed, 4);
}

}  // namespace
}  // namespace sim
