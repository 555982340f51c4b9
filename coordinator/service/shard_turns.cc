#include "coordinator/service/shard_turns.h"

#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "common/wire/socket.h"

namespace coordinator::service {
namespace {

// How long a client waits that is sent away while its shard changes hands.
constexpr uint32_t kAskAgainMs = 500;
// For handing shards over when this coordinator stops; what it keeps lapses.
constexpr int64_t kLeaveMs = 3'000;
constexpr std::chrono::milliseconds kLeavePause{10};

common::Error handed_over() {
  return common::unavailable("another coordinator takes this model's shard; submit again");
}

}  // namespace

ShardTurns::ShardTurns(const ServiceOptions& options, const SharedTierSetup& shared,
                       const common::PublicKey& farm_key, const common::Incarnation& incarnation,
                       const common::Clock& clock)
    : clock_(clock) {
  if (!options.sharding.is_on) return;
  sharding_ = std::make_unique<Sharding>(options.sharding, shared.remote, engine_space(farm_key),
                                         incarnation, clock);
}

ShardTurns::~ShardTurns() {
  if (commits_ != nullptr) commits_->observe({});
}

common::Status ShardTurns::check(const ServiceOptions& options) {
  if (!options.sharding.is_on) return {};
  if (options.shared.address.empty()) {
    return common::invalid_input(
        "shards lie in a store that coordinators share; name it with --remote");
  }
  bool is_found = !options.sharding.advertise.empty() || common::is_local_endpoint(options.listen);
  if (is_found) return {};
  return common::invalid_input(
      "clients are sent from one coordinator to another; say where they find this one with "
      "--advertise tcp://HOST:PORT");
}

void ShardTurns::start(const ServiceOptions& options, const std::string& endpoint,
                       const std::optional<common::KeyPair>& keys, Commits& commits) {
  if (!sharding_) return;
  commits_ = &commits;
  commits.observe([&journals = sharding_->journals](std::span<const cache::Changes> changes) {
    journals.written(changes);
  });
  const std::string& advertised = options.sharding.advertise;
  sharding_->keeper.start(
      {advertised.empty() ? endpoint : advertised, keys ? keys->public_key : ""});
}

void ShardTurns::turn(JobTable& jobs, SharedTier& shared) {
  if (!sharding_) return;
  ShardKeeper& keeper = sharding_->keeper;
  std::vector<uint32_t> ending = keeper.to_end();
  std::bitset<common::kShardCount> served = keeper.served();
  std::bitset<common::kShardCount> lost = served_ & ~served;
  if (lost.any()) {
    jobs.end_shards([&](uint32_t shard) { return lost[shard]; }, handed_over(), kAskAgainMs);
  }
  served_ = served;
  for (ShardPreparation::Ready& ready : shared.preparation()->take_ready()) {
    jobs.take_over(ready.fence, std::move(ready.journals), [&jobs, &keeper, fence = ready.fence] {
      keeper.ready(fence);
      if (keeper.serves(fence.shard) == fence) return;
      auto is_lost = [&](uint32_t shard) { return shard == fence.shard; };
      jobs.end_shards(is_lost, handed_over(), kAskAgainMs);
    });
  }
  if (shared.is_pushing()) return;
  for (uint32_t shard : ending) {
    bool is_behind = shared.preparation()->is_behind(shard) || sharding_->journals.is_behind(shard);
    if (!is_behind) keeper.ended(shard);
  }
}

void ShardTurns::leave(JobTable& jobs, SharedTier& shared, Commits& commits, Outbox& outbox) {
  if (!sharding_) return;
  jobs.end_shards([](uint32_t) { return true; }, handed_over(), kAskAgainMs);
  int64_t end_ns = clock_.now_ns() + kLeaveMs * 1'000'000;
  while (!sharding_->keeper.leave() && clock_.now_ns() < end_ns) {
    commits.deliver();
    shared.deliver();
    turn(jobs, shared);
    outbox.flush();
    std::this_thread::sleep_for(kLeavePause);
  }
  sharding_->keeper.stop();
}

}  // namespace coordinator::service
