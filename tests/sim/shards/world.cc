#include "tests/sim/shards/world.h"

#include <algorithm>
#include <utility>

namespace sim {

using cache::FenceAnswer;
using cache::FenceVerdict;
using common::cat;
using common::Fence;
using common::ShardLease;

namespace {

constexpr int64_t kFaultyMs = 300'000, kQuietMs = 200'000;
// Without new requests, so that what is under way ends.
constexpr int64_t kLastRequestMs = kFaultyMs + kQuietMs - 60'000;
constexpr uint32_t kNames = 400;
// Until whoever lost a shard to an accident of the server knows it at the latest: a renewal's time.
constexpr int64_t kWindowMs = 15'000;

}  // namespace

ShardsWorld::ShardsWorld(uint64_t seed, const ShardFaults& faults)
    : random_(seed), faults_(faults) {
  server_.is_flawed = faults.flawed;
  size_t count = 1 + random_.below(5);
  for (size_t k = 0; k < count; ++k) {
    coordinators_.push_back(std::make_unique<Coordinator>());
    coordinators_[k]->identity = cat("coordinator-", k);
    coordinators_[k]->clock_rate = 0.98 + 0.04 * random_.unit();
  }
}

void ShardsWorld::after(int64_t ms, std::function<void()> act) {
  events_.push({now_ms_ + ms, ++order_, std::move(act)});
}

void ShardsWorld::in_process(size_t k, int64_t ms, std::function<void(Coordinator&)> act) {
  after(ms, [this, k, life = coordinators_[k]->life, act = std::move(act)] {
    Coordinator& c = *coordinators_[k];
    if (c.life != life || !c.table) return;
    if (now_ms_ < c.paused_until_ms) return in_process(k, c.paused_until_ms - now_ms_, act);
    act(c);
  });
}

template <class Answer>
void ShardsWorld::ask(size_t k, std::function<Answer()> request,
                      std::function<void(Coordinator&, std::optional<Answer>)> done) {
  int64_t slow = now_ms_ < slow_until_ms_ ? 50 : 1;
  auto latency = [&] { return 1 + static_cast<int64_t>(random_.below(20)) * slow; };
  bool is_late = random_.chance(faults_.late);
  const int64_t patience_ms = faults_.patience_ms();
  int64_t there = is_late ? patience_ms + static_cast<int64_t>(random_.below(30'000)) : latency();
  int64_t back = latency();
  bool is_lost = random_.chance(faults_.lost), is_answer_lost = random_.chance(faults_.lost);
  auto answer = std::make_shared<std::optional<Answer>>();
  if (!is_lost) {
    after(there, [this, request = std::move(request), answer] {
      if (now_ms_ >= down_until_ms_) *answer = request();
    });
  }
  bool comes = !is_lost && !is_answer_lost && there + back < patience_ms;
  in_process(k, comes ? there + back : patience_ms,
             [answer, comes, done = std::move(done)](Coordinator& c) {
               done(c, comes ? *answer : std::nullopt);
             });
}

int64_t ShardsWorld::own_ns(const Coordinator& c) const {
  return static_cast<int64_t>(static_cast<double>(now_ms_) * c.clock_rate * 1e6);
}

bool ShardsWorld::serves(const Coordinator& c, uint32_t shard) const {
  auto served = c.served.find(shard);
  if (!c.table || served == c.served.end()) return false;
  return c.table->serves(shard, own_ns(c)) == served->second.fence;
}

void ShardsWorld::fail(const std::string& why) {
  if (report_.failure.empty()) report_.failure = cat("at ", now_ms_, " ms: ", why);
}

// ---- A coordinator -----------------------------------------------------------------------------

void ShardsWorld::start(size_t k) {
  Coordinator& c = *coordinators_[k];
  ++c.life;
  c.served.clear();
  c.is_leaving = false;
  coordinator::ShardTableOptions options;
  options.identity = c.identity;
  options.incarnation = {k + 1, c.life};
  options.last(faults_.lease_ms);
  c.table.emplace(options);
  turn(k);
}

void ShardsWorld::turn(size_t k) {
  using Leases = std::vector<ShardLease>;
  ask<Leases>(
      k, [this] { return server_.read_leases(); },
      [this, k](Coordinator& c, std::optional<Leases> leases) {
        if (leases) {
          c.table->saw(*leases, own_ns(c));
          write_leases(k);
        } else {
          in_process(k, faults_.patience_ms(), [this, k](Coordinator&) { turn(k); });
        }
      });
}

void ShardsWorld::write_leases(size_t k) {
  using Versions = std::vector<std::string>;
  Coordinator& c = *coordinators_[k];
  int64_t begun_ns = own_ns(c);
  std::vector<ShardLease> writes = c.table->writes(begun_ns);
  ask<Versions>(
      k, [this, writes] { return server_.write_leases(writes); },
      [this, k, writes, begun_ns](Coordinator& c, std::optional<Versions> versions) {
        if (versions) c.table->wrote(writes, *versions, begun_ns);
        tend_shards(k);
        if (c.is_leaving && c.table->held() == 0) {
          c.table.reset();
          return after(1 + static_cast<int64_t>(random_.below(60'000)), [this, k] { start(k); });
        }
        in_process(k, faults_.patience_ms(), [this, k](Coordinator&) { turn(k); });
      });
}

void ShardsWorld::tend_shards(size_t k) {
  Coordinator& c = *coordinators_[k];
  for (const Fence& fence : c.table->take_raises(own_ns(c))) {
    ask<FenceAnswer>(
        k, [this, fence] { return server_.raise(fence); },
        [this, k, fence](Coordinator& c, std::optional<FenceAnswer> answer) {
          bool is_taken = answer && answer->verdict == FenceVerdict::kTaken;
          if (is_taken) return take_over(k, fence);
          c.table->refused(fence, answer ? answer->there : fence);
        });
  }
  // What a client's write held up.
  std::vector<uint32_t> shards;
  for (const auto& [shard, served] : c.served) shards.push_back(shard);
  for (uint32_t shard : shards) {
    put_back(k, shard);
    probe(k, shard);
  }
  for (uint32_t shard : c.table->to_end()) {
    auto served = c.served.find(shard);
    bool is_idle = served == c.served.end() || !served->second.is_writing;
    if (!is_idle) continue;
    c.served.erase(shard);
    c.table->ended(shard);
  }
}

void ShardsWorld::put_back(size_t k, uint32_t shard) {
  Coordinator& c = *coordinators_[k];
  Served& served = c.served.at(shard);
  if (served.is_writing || served.to_put_back.empty() || !serves(c, shard)) return;
  uint32_t name = served.to_put_back.back();
  served.to_put_back.pop_back();
  ++report_.put_back;
  write(k, shard, name, c.records[shard][name], [this, k, shard] { put_back(k, shard); });
}

// A server that was set back is found out by shards that nobody writes to, as well.
void ShardsWorld::probe(size_t k, uint32_t shard) {
  const Served& served = coordinators_[k]->served.at(shard);
  if (served.is_writing) return;
  Fence fence = served.fence;
  uint64_t least = served.sequence;
  ask<cache::FenceState>(
      k, [this, fence] { return server_.shard_of(fence).state; },
      [fence, least](Coordinator& c, std::optional<cache::FenceState> there) {
        if (!there || (there->fence == fence && there->sequence >= least)) return;
        c.table->refused(fence, there->fence);
        auto served = c.served.find(fence.shard);
        if (served != c.served.end() && served->second.fence == fence) c.served.erase(served);
      });
}

// Reads what there is, after which the shard is served; what only this coordinator's disk has goes
// to the server first.
void ShardsWorld::take_over(size_t k, const Fence& fence) {
  using Seen = std::pair<ShardsServer::Shard, std::set<uint32_t>>;
  ask<Seen>(
      k,
      [this, fence] {
        return Seen{server_.shard_of(fence), server_.data.revoked};
      },
      [this, k, fence](Coordinator& c, std::optional<Seen> seen) {
        if (!seen || seen->first.state.fence != fence) return c.table->refused(fence, fence);
        c.revoked.insert(seen->second.begin(), seen->second.end());
        Records& own = c.records[fence.shard];
        Served served{fence, seen->first.state.sequence, false, {}};
        for (const auto& [name, value] : own) {
          auto there = seen->first.records.find(name);
          bool lacks = there == seen->first.records.end() || there->second < value;
          if (lacks) served.to_put_back.push_back(name);
        }
        for (const auto& [name, value] : seen->first.records) {
          own[name] = std::max(own[name], value);
        }
        c.served[fence.shard] = served;
        c.table->raised(fence);
        ++report_.taken_over;
        check_holders();
        put_back(k, fence.shard);
      });
}

void ShardsWorld::write(size_t k, uint32_t shard, uint32_t name, uint64_t value,
                        std::function<void()> on_taken) {
  Served& served = coordinators_[k]->served.at(shard);
  served.is_writing = true;
  Fence fence = served.fence;
  uint64_t sequence = served.sequence + 1;
  ask<FenceAnswer>(
      k,
      [=, this] {
        FenceAnswer answer = server_.write(fence, sequence, name, value);
        if (answer.verdict == FenceVerdict::kTaken) landed_.try_emplace(value, now_ms_);
        return answer;
      },
      [=, this](Coordinator& c, std::optional<FenceAnswer> answer) {
        auto served = c.served.find(shard);
        if (served == c.served.end() || served->second.fence != fence) return;
        served->second.is_writing = false;
        if (!answer) {
          ++report_.repeated;
          // Under the same number, for as long as the shard is served.
          if (c.table->serves(shard, own_ns(c)) == fence) {
            return write(k, shard, name, value, on_taken);
          }
          // It may still land: its number must never be another change's, so the fence ends here.
          c.served.erase(shard);
          return c.table->refused(fence, fence);
        }
        if (answer->verdict != FenceVerdict::kTaken) {
          c.served.erase(shard);
          return c.table->refused(fence, answer->there);
        }
        served->second.sequence = sequence;
        on_taken();
      });
}

// ---- Clients -----------------------------------------------------------------------------------

void ShardsWorld::request(size_t k) {
  in_process(k, 0, [this, k](Coordinator& c) {
    auto name = static_cast<uint32_t>(random_.below(kNames));
    if (!serves(c, shard_of(name))) return;
    uint64_t kind = random_.below(20);
    if (kind == 0 && name % 7 == 0) return revoke(k, name);
    if (kind < 8) return pull(k, name);
    bool is_free = !c.served.at(shard_of(name)).is_writing;
    if (is_free && now_ms_ < kLastRequestMs) publish(k, name);
  });
}

void ShardsWorld::publish(size_t k, uint32_t name) {
  uint64_t value = ++values_;
  coordinators_[k]->records[shard_of(name)][name] = value;
  write(k, shard_of(name), name, value, [this, name, value] {
    promised_[name] = {value, landed_.at(value)};
    ++report_.acknowledged;
  });
}

void ShardsWorld::revoke(size_t k, uint32_t name) {
  coordinators_[k]->revoked.insert(name);
  ask<bool>(
      k, [this, name] { return server_.data.revoked.insert(name), true; },
      [this, k, name](Coordinator& c, std::optional<bool> done) {
        if (!serves(c, shard_of(name))) return;
        if (!done) return revoke(k, name);
        revoked_.try_emplace(name, now_ms_);
        ++report_.revoked;
      });
}

void ShardsWorld::pull(size_t k, uint32_t name) {
  const Coordinator& c = *coordinators_[k];
  if (c.revoked.count(name) != 0) return;
  ++report_.served;
  auto revoked = revoked_.find(name);
  // A server that was set back may have lost the revocation, or made a second holder for a while.
  if (revoked != revoked_.end() && accident_ms_ < 0) fail(cat("revoked plan ", name, " is served"));
}

// ---- What goes wrong, and what must not --------------------------------------------------------

void ShardsWorld::set_back() {
  ++report_.accidents;
  accident_ms_ = now_ms_;
  bool is_empty = copies_.empty() || random_.chance(0.3);
  server_.data = is_empty ? ShardsServer::Data{} : copies_[random_.below(copies_.size())];
}

void ShardsWorld::misfortune() {
  if (now_ms_ >= kFaultyMs) return;
  after(1'000, [this] { misfortune(); });
  if (now_ms_ % 20'000 == 0) copies_.push_back(server_.data);
  int64_t long_ms = 1 + static_cast<int64_t>(random_.below(30'000));
  if (random_.chance(faults_.outage)) down_until_ms_ = now_ms_ + long_ms;
  if (random_.chance(faults_.slow)) slow_until_ms_ = now_ms_ + long_ms;
  if (random_.chance(faults_.restored)) set_back();
  size_t k = random_.below(coordinators_.size());
  Coordinator& c = *coordinators_[k];
  if (!c.table) return;
  if (random_.chance(faults_.crash)) {
    c.table.reset();
    after(1 + long_ms * 2, [this, k] { start(k); });
  } else if (random_.chance(faults_.pause)) {
    c.paused_until_ms = now_ms_ + long_ms * 4 / 3;
  } else if (random_.chance(faults_.leave)) {
    c.is_leaving = true;
    c.table->leave();
  }
}

void ShardsWorld::check_holders() {
  if (now_ms_ - accident_ms_ < kWindowMs) return;
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    auto holders = std::count_if(coordinators_.begin(), coordinators_.end(),
                                 [&](const auto& c) { return serves(*c, shard); });
    if (holders > 1) fail(cat("shard ", shard, " is served by ", holders, " coordinators"));
  }
}

void ShardsWorld::check_the_end() {
  std::vector<uint32_t> counts(coordinators_.size());
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    size_t holders = 0;
    for (size_t k = 0; k < coordinators_.size(); ++k) {
      const Coordinator& c = *coordinators_[k];
      if (!serves(c, shard)) continue;
      ++holders;
      ++counts[k];
      for (const auto& [name, value] : c.records.at(shard)) {
        if (server_.data.shards[shard].records[name] < value) {
          fail(cat("the holder of shard ", shard, " has ", name, ", and the server has not"));
        }
      }
    }
    if (holders != 1) fail(cat("in the end ", holders, " coordinators serve shard ", shard));
  }
  auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*most - *least > 1) fail(cat("shards are spread from ", *least, " to ", *most));
  for (const auto& [name, promise] : promised_) {
    if (server_.data.shards[shard_of(name)].records[name] >= promise.value) continue;
    ++report_.lost_with_the_server;
    if (accident_ms_ < promise.when_ms) fail(cat("what was promised of ", name, " is lost"));
  }
}

ShardReport ShardsWorld::run() {
  for (size_t k = 0; k < coordinators_.size(); ++k) {
    after(static_cast<int64_t>(random_.below(30'000)), [this, k] { start(k); });
  }
  misfortune();
  for (int64_t ms = 0; ms < kFaultyMs + kQuietMs; ms += 25) {
    after(ms, [this] { request(random_.below(coordinators_.size())); });
  }
  bool is_quiet = false;
  while (!events_.empty() && report_.failure.empty()) {
    Event event = events_.top();
    if (event.when_ms >= kFaultyMs + kQuietMs) break;
    events_.pop();
    now_ms_ = event.when_ms;
    if (!is_quiet && now_ms_ >= kFaultyMs) {
      is_quiet = true;
      bool is_flawed = faults_.flawed;
      faults_ = ShardFaults{};
      faults_.flawed = is_flawed;
    }
    event.act();
    if (!server_.breach.empty()) fail(server_.breach);
  }
  if (report_.failure.empty()) check_the_end();
  report_.stale = server_.stale;
  report_.behind = server_.behind;
  return report_;
}

}  // namespace sim
