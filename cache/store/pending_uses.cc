#include "cache/store/pending_uses.h"

#include <algorithm>
#include <string>

#include "common/base/log.h"

namespace cache {

using common::Digest;

namespace {

constexpr size_t kPendingUsesMax = 1024;

// A plan that was put anew since the pending uses was used then.
PlanUse sum_of(const PlanUse& written, const PlanUse& pending) {
  return {std::max(written.last_wall_ns, pending.last_wall_ns), written.uses + pending.uses};
}

PlanUse written_use(const Database& database, const Digest& key) {
  auto record = database.get(Family::kMeta, digest_key(kUsedPrefix, key));
  return record.ok() && *record ? decode_use(**record) : PlanUse();
}

}  // namespace

// Earlier versions counted hits and saved time in this record as well, before and behind the
// misses.
common::Status PendingUses::read(const Database& database) {
  LFARM_ASSIGN_OR_RETURN(auto record, database.get(Family::kMeta, kUsageKey));
  uint64_t misses = 0;
  if (record) {
    FieldReader fields(*record);
    fields.u64();
    misses = fields.u64();
  }
  std::lock_guard lock(mutex_);
  misses_ = misses;
  return {};
}

uint64_t PendingUses::misses() {
  std::lock_guard lock(mutex_);
  return misses_;
}

void PendingUses::note_miss() {
  std::lock_guard lock(mutex_);
  is_changed_ = true;
  ++misses_;
}

void PendingUses::note_hit(Database& database, const Digest& key, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  is_changed_ = true;
  if (database.read_only()) return;
  PlanUse& use = recent_[key];
  use.last_wall_ns = now_ns;
  ++use.uses;
  if (recent_.size() >= kPendingUsesMax) write(database);
}

void PendingUses::flush(Database& database) {
  if (database.read_only()) return;
  std::lock_guard lock(mutex_);
  if (is_changed_) write(database);
}

void PendingUses::add_to(std::unordered_map<Digest, PlanUse>& used) {
  std::lock_guard lock(mutex_);
  for (const auto& [key, use] : recent_) used[key] = sum_of(used[key], use);
}

std::optional<PlanUse> PendingUses::with_pending(const Digest& key,
                                                 std::optional<PlanUse> written) {
  std::lock_guard lock(mutex_);
  auto use = recent_.find(key);
  if (use == recent_.end()) return written;
  return sum_of(written.value_or(PlanUse()), use->second);
}

void PendingUses::write(Database& database) {
  Batch batch;
  for (const auto& [key, use] : recent_) {
    PlanUse all = sum_of(written_use(database, key), use);
    batch.put(Family::kMeta, digest_key(kUsedPrefix, key), encode_use(all));
  }
  recent_.clear();
  is_changed_ = false;
  std::string record;
  append_u64(record, 0);
  append_u64(record, misses_);
  append_u64(record, 0);
  batch.put(Family::kMeta, kUsageKey, record);
  // Losing the order of some uses is no reason to fail a lookup.
  if (auto status = database.write(batch, false); !status.ok()) {
    common::log_warning(status.error().message);
  }
}

uint64_t written_uses(const Database& database, const Digest& key) {
  return written_use(database, key).uses;
}

}  // namespace cache
