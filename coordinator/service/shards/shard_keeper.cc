#include "coordinator/service/shards/shard_keeper.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace coordinator::service {

using cache::FenceAnswer;
using cache::FenceVerdict;
using common::cat;
using common::Fence;
using common::Status;

namespace {

constexpr std::chrono::milliseconds kWritePause{50};
constexpr int64_t kNsPerMs = 1'000'000;
// Between looks at what the engine has.
constexpr int64_t kLookNs = 1'000'000'000;

common::Error lost(uint32_t shard) {
  return common::unavailable(cat("shard ", shard, " was lost while it was written to"));
}

}  // namespace

ShardKeeper::ShardKeeper(ShardTableOptions options, common::LeaseStore& leases,
                         cache::ShardEngine& engine, const common::Clock& clock)
    : leases_(leases), engine_(engine), clock_(clock), table_(std::move(options)) {}

ShardKeeper::~ShardKeeper() { stop(); }

void ShardKeeper::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread* thread : {&renewing_, &tending_}) {
    if (thread->joinable()) thread->join();
  }
}

void ShardKeeper::start(common::ServedAt at) {
  table_.be_found(std::move(at));
  renewing_ = std::thread([this] { renew(); });
  tending_ = std::thread([this] { tend_engine(); });
}

std::chrono::milliseconds ShardKeeper::pause() const {
  return std::chrono::milliseconds(std::max<int64_t>(1, table_.options().retry_ms / 2));
}

// ---- Leases ------------------------------------------------------------------------------------

void ShardKeeper::renew() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    Status tended = tend_leases();
    lock.lock();
    std::string trouble = tended.ok() ? "" : tended.error().message;
    if (trouble != counts_.trouble) {
      trouble.empty() ? common::log_info("shards' leases are tended again")
                      : common::log_warning(cat("shards' leases cannot be tended: ", trouble));
    }
    counts_.trouble = std::move(trouble);
    if (table_.has_raises(clock_.now_ns())) wake_.notify_all();
    wake_.wait_for(lock, pause(), [this] { return stopping_; });
  }
}

void ShardKeeper::tend_engine() {
  int64_t look_ns = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::vector<Fence> fences = table_.take_raises(clock_.now_ns());
    lock.unlock();
    for (const Fence& fence : fences) raise(fence);
    if (clock_.now_ns() >= look_ns) {
      look();
      look_ns = clock_.now_ns() + kLookNs;
    }
    lock.lock();
    wake_.wait_for(lock, pause(),
                   [this] { return stopping_ || table_.has_raises(clock_.now_ns()); });
  }
}

Status ShardKeeper::tend_leases() {
  LFARM_ASSIGN_OR_RETURN(std::vector<common::ShardLease> all, leases_.read());
  std::vector<common::ShardLease> writes;
  int64_t begun_ns = clock_.now_ns();
  {
    std::lock_guard lock(mutex_);
    table_.saw(all, begun_ns);
    writes = table_.writes(begun_ns);
  }
  LFARM_ASSIGN_OR_RETURN(std::vector<std::string> versions, leases_.write(writes));
  std::lock_guard lock(mutex_);
  table_.wrote(writes, versions, begun_ns);
  return {};
}

void ShardKeeper::raise(const Fence& fence) {
  auto answer = engine_.raise(fence);
  std::lock_guard lock(mutex_);
  if (!answer.ok()) {
    common::log_warning(cat("shard ", fence.shard, " is not raised: ", answer.error().message));
    return table_.refused(fence, fence);
  }
  if (answer->verdict != FenceVerdict::kTaken) return table_.refused(fence, answer->there);
  writings_[fence.shard] = {fence, answer->sequence};
  raised_.push_back(fence);
}

// Whether the engine still has every change, of shards that nobody writes to as well.
void ShardKeeper::look() {
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    std::optional<Writing> before;
    {
      std::lock_guard lock(mutex_);
      before = writing_of(shard);
    }
    if (!before) continue;
    auto there = engine_.look(shard);
    if (!there.ok()) return;
    bool has_all = there->fence == before->fence && there->sequence >= before->sequence;
    if (has_all) continue;
    bool is_behind = !is_before(before->fence, there->fence);
    refuse(before->fence, {is_behind ? FenceVerdict::kBehind : FenceVerdict::kStale, there->fence,
                           there->sequence});
  }
}

// ---- Writes ------------------------------------------------------------------------------------

std::optional<ShardKeeper::Writing> ShardKeeper::writing_of(uint32_t shard) const {
  auto writing = writings_.find(shard);
  if (writing == writings_.end()) return std::nullopt;
  if (table_.writes_under(shard, clock_.now_ns()) != writing->second.fence) return std::nullopt;
  return writing->second;
}

void ShardKeeper::refuse(const Fence& fence, const FenceAnswer& answer) {
  std::lock_guard lock(mutex_);
  ++(answer.verdict == FenceVerdict::kBehind ? counts_.behind : counts_.stale);
  common::log_warning(cat("shard ", fence.shard, " is taken anew: the engine is ",
                          answer.verdict == FenceVerdict::kBehind
                              ? "behind, and gets back what this coordinator has"
                              : "another coordinator's"));
  table_.refused(fence, answer.there);
  writings_.erase(fence.shard);
}

// What was sent may still land: whoever serves the shard next does so under another fence. Holds
// the mutex.
void ShardKeeper::give_up(const Fence& fence) {
  table_.refused(fence, fence);
  writings_.erase(fence.shard);
}

Status ShardKeeper::write(uint32_t shard, std::span<const cache::ShardChange> changes) {
  auto fence = holds(shard);
  if (!fence) return common::unavailable(cat("shard ", shard, " is another coordinator's"));
  return write_under(*fence, changes);
}

Status ShardKeeper::write_under(const Fence& fence, std::span<const cache::ShardChange> changes) {
  const uint32_t shard = fence.shard;
  std::lock_guard one(one_write_.at(shard));
  std::optional<Writing> mine;
  {
    std::lock_guard lock(mutex_);
    mine = writing_of(shard);
    if (mine && mine->fence != fence) mine.reset();
    if (mine) now_writing_.set(shard);
  }
  if (!mine) return common::unavailable(cat("shard ", shard, " is another coordinator's"));
  Status written = write_until_taken(*mine, changes);
  std::lock_guard lock(mutex_);
  now_writing_.reset(shard);
  return written;
}

Status ShardKeeper::write_until_taken(const Writing& mine,
                                      std::span<const cache::ShardChange> changes) {
  const Fence& fence = mine.fence;
  const int64_t patience_ms = table_.options().write_ms;
  const int64_t end_ns = clock_.now_ns() + patience_ms * kNsPerMs;
  while (true) {
    auto answer = engine_.write(fence, mine.sequence + 1, changes);
    if (answer.ok() && answer->verdict != FenceVerdict::kTaken) {
      refuse(fence, *answer);
      return lost(fence.shard);
    }
    std::unique_lock lock(mutex_);
    auto now = writing_of(fence.shard);
    bool is_held = now && now->fence == fence;
    if (answer.ok()) {
      if (is_held) writings_[fence.shard].sequence = mine.sequence + 1;
      ++counts_.writes;
      return {};
    }
    bool is_late = clock_.now_ns() >= end_ns;
    if (!is_held || stopping_ || is_late) {
      if (is_held && !stopping_) {
        ++counts_.step_downs;
        common::log_warning(cat("steps down from shard ", fence.shard,
                                ": the engine has taken no write for ", patience_ms,
                                " ms, the last time because ", answer.error().message));
      }
      give_up(fence);
      return lost(fence.shard);
    }
    wake_.wait_for(lock, kWritePause, [this] { return stopping_; });
  }
}

// ---- Whoever serves ----------------------------------------------------------------------------

std::optional<Fence> ShardKeeper::serves(uint32_t shard) const {
  std::lock_guard lock(mutex_);
  return table_.serves(shard, clock_.now_ns());
}

std::optional<Fence> ShardKeeper::holds(uint32_t shard) const {
  std::lock_guard lock(mutex_);
  return table_.writes_under(shard, clock_.now_ns());
}

std::bitset<common::kShardCount> ShardKeeper::served() const {
  std::lock_guard lock(mutex_);
  std::bitset<common::kShardCount> served;
  int64_t now_ns = clock_.now_ns();
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    served[shard] = table_.serves(shard, now_ns).has_value();
  }
  return served;
}

std::optional<common::ServedAt> ShardKeeper::served_by_other(uint32_t shard) const {
  std::lock_guard lock(mutex_);
  return table_.served_by_other(shard);
}

std::vector<ServingCoordinator> ShardKeeper::coordinators() const {
  std::lock_guard lock(mutex_);
  return table_.coordinators(clock_.now_ns());
}

std::vector<Fence> ShardKeeper::take_raised() {
  std::lock_guard lock(mutex_);
  return std::exchange(raised_, {});
}

void ShardKeeper::ready(const Fence& fence) {
  std::lock_guard lock(mutex_);
  table_.raised(fence);
}

std::vector<uint32_t> ShardKeeper::to_end() const {
  std::lock_guard lock(mutex_);
  std::vector<uint32_t> ending = table_.to_end();
  std::erase_if(ending, [this](uint32_t shard) { return now_writing_[shard]; });
  return ending;
}

void ShardKeeper::ended(uint32_t shard) {
  std::lock_guard lock(mutex_);
  if (!now_writing_[shard]) table_.ended(shard);
}

bool ShardKeeper::leave() {
  std::lock_guard lock(mutex_);
  table_.leave();
  return table_.held() == 0;
}

void ShardKeeper::note_redirect() {
  std::lock_guard lock(mutex_);
  ++counts_.redirects;
}

ShardCounts ShardKeeper::counts() const {
  std::lock_guard lock(mutex_);
  ShardCounts counts = counts_;
  int64_t now_ns = clock_.now_ns();
  counts.held = table_.held();
  counts.members = table_.members(now_ns);
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    counts.served += table_.serves(shard, now_ns) ? 1 : 0;
  }
  return counts;
}

}  // namespace coordinator::service
