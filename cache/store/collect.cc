#include <algorithm>
#include <array>

#include "cache/store/repair.h"
#include "cache/store/store_state.h"
#include "common/base/cat.h"
#include "common/base/log.h"

namespace cache {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

struct Candidate {
  Digest key;
  PlanHeader header;
  uint64_t record_bytes = 0;
  int64_t last_used_wall_ns = 0;
};

struct Blob {
  uint64_t bytes = 0;
  uint64_t references = 0;
};

// Everything a collection decides on, read in one pass over small keys; kernels stay unread.
struct Inventory {
  std::vector<Candidate> plans;
  std::unordered_map<Digest, Blob> blobs;
};

Result<Inventory> take_inventory(const Database& database) {
  Inventory inventory;
  std::unordered_map<Digest, int64_t> used;
  LFARM_RETURN_IF_ERROR(
      database.scan(Family::kMeta, kBlobPrefix, [&](std::string_view key, std::string_view value) {
        if (auto digest = trailing_digest(key)) {
          inventory.blobs[*digest].bytes = decode_note(value).bytes;
        }
        return true;
      }));
  LFARM_RETURN_IF_ERROR(
      database.scan(Family::kMeta, kUsedPrefix, [&](std::string_view key, std::string_view value) {
        if (auto digest = trailing_digest(key)) {
          used[*digest] = static_cast<int64_t>(FieldReader(value).u64());
        }
        return true;
      }));
  LFARM_RETURN_IF_ERROR(database.scan(
      Family::kPlans, kPlanPrefix, [&](std::string_view key, std::string_view record) {
        auto digest = trailing_digest(key);
        if (!digest) return true;
        Candidate plan;
        plan.key = *digest;
        plan.record_bytes = record.size();
        // A malformed record has no last use and is the first to go.
        if (auto header = decode_plan_header(record)) {
          plan.header = std::move(*header);
          auto use = used.find(plan.key);
          plan.last_used_wall_ns = use == used.end() ? plan.header.created_wall_ns : use->second;
        }
        inventory.plans.push_back(std::move(plan));
        return true;
      }));
  for (const Candidate& plan : inventory.plans) {
    for (const Need& need : plan.header.needs) {
      auto blob = inventory.blobs.find(need.digest);
      if (blob != inventory.blobs.end()) ++blob->second.references;
    }
  }
  return inventory;
}

Result<FamilyStats> measure_family(const Database& database, Family family) {
  FamilyStats stats;
  LFARM_RETURN_IF_ERROR(database.scan(family, {}, [&](std::string_view, std::string_view value) {
    stats.count += 1;
    stats.bytes += value.size();
    return true;
  }));
  return stats;
}

}  // namespace

Result<CollectReport> Store::State::collect(uint64_t max_bytes) {
  flush_usage();
  LFARM_ASSIGN_OR_RETURN(Inventory inventory, take_inventory(*database));
  CollectReport report;
  Counters before = counters;
  Batch batch;
  std::vector<Digest> removed;
  int64_t recent_from = now() - kRecentBlobNs;
  std::erase_if(recent_blobs, [&](const auto& entry) { return entry.second < recent_from; });
  auto remove_if_unused = [&](const Digest& digest, const Blob& blob) {
    if (blob.references != 0 || recent_blobs.count(digest) != 0) return;
    add_removal(batch, digest, blob.bytes);
    removed.push_back(digest);
    report.bytes_removed += blob.bytes;
  };
  // Blobs that wait for their plan can't be removed; evicting plans on their account gains nothing.
  uint64_t waiting_bytes = 0;
  for (const auto& [digest, blob] : inventory.blobs) {
    remove_if_unused(digest, blob);
    if (recent_blobs.count(digest) != 0) waiting_bytes += blob.bytes;
  }
  std::sort(inventory.plans.begin(), inventory.plans.end(),
            [](const Candidate& a, const Candidate& b) {
              if (a.last_used_wall_ns != b.last_used_wall_ns) {
                return a.last_used_wall_ns < b.last_used_wall_ns;
              }
              return a.key < b.key;
            });
  for (const Candidate& plan : inventory.plans) {
    if (counters.total_bytes() <= max_bytes + waiting_bytes) break;
    add_plan_removal(batch, plan.key, plan.header, plan.record_bytes);
    report.plans_removed += 1;
    report.bytes_removed += plan.record_bytes;
    for (const Need& need : plan.header.needs) {
      auto blob = inventory.blobs.find(need.digest);
      if (blob == inventory.blobs.end()) continue;
      --blob->second.references;
      remove_if_unused(need.digest, blob->second);
    }
  }
  report.blobs_removed = removed.size();
  report.bytes_kept = counters.total_bytes();
  LFARM_RETURN_IF_ERROR(write_counted(batch, before));
  forget_blobs(removed);
  return report;
}

Status Store::State::recount() {
  LFARM_ASSIGN_OR_RETURN(Inventory inventory, take_inventory(*database));
  LFARM_ASSIGN_OR_RETURN(auto revoked, revoked_plans());
  Counters before = counters;
  counters = {};
  for (const auto& [digest, blob] : inventory.blobs) {
    counters.kernels.count += 1;
    counters.kernels.bytes += blob.bytes;
  }
  for (const Candidate& plan : inventory.plans) {
    counters.plans.count += 1;
    counters.plans.bytes += plan.record_bytes;
  }
  Batch batch;
  for (const auto& [plan_id, reason] : revoked) add_revocation(batch, plan_id, reason);
  LFARM_ASSIGN_OR_RETURN(auto revoked_at, database->get(Family::kMeta, kRevokedAtKey));
  if (!revoked.empty() && !revoked_at) add_revocation_time(batch);
  for (const Candidate& plan : inventory.plans) {
    if (revoked.count(plan.header.plan_id) == 0) continue;
    add_plan_removal(batch, plan.key, plan.header, plan.record_bytes);
  }
  return write_counted(batch, before);
}

Status Store::State::collect_if_full() {
  if (options.max_bytes == 0) return {};
  std::lock_guard lock(commit);
  if (counters.total_bytes() <= std::max(collect_above, options.max_bytes)) return {};
  // Going a tenth below the bound spares the next puts a collection each.
  LFARM_ASSIGN_OR_RETURN(CollectReport report, collect(options.max_bytes / 10 * 9));
  // What could not be removed (blobs just put) must not cause a collection at every put.
  collect_above = counters.total_bytes() + options.max_bytes / 10;
  common::log_debug(cat("store: evicted ", report.plans_removed, " plans and ",
                        report.blobs_removed, " kernels, ", report.bytes_kept, " bytes stay"));
  return {};
}

Result<CollectReport> Store::gc(uint64_t max_bytes) {
  CollectReport report;
  {
    std::lock_guard lock(state_->commit);
    LFARM_ASSIGN_OR_RETURN(report, state_->collect(max_bytes));
  }
  if (report.bytes_removed == 0) return report;
  for (Family family : {Family::kKernels, Family::kPlans, Family::kMeta}) {
    LFARM_RETURN_IF_ERROR(state_->database->compact(family));
  }
  return report;
}

Result<StoreStats> Store::stats() {
  State& state = *state_;
  StoreStats stats;
  {
    std::lock_guard lock(state.commit);
    stats.plans = state.counters.plans;
    stats.kernels = state.counters.kernels;
  }
  {
    std::lock_guard lock(state.usage);
    stats.misses = state.misses;
  }
  LFARM_ASSIGN_OR_RETURN(auto usages, tenant_usages());
  for (const auto& [tenant, usage] : usages) {
    stats.hits += usage.hits;
    stats.saved_ms += usage.saved_ms;
  }
  LFARM_ASSIGN_OR_RETURN(stats.measurements,
                         measure_family(*state.database, Family::kMeasurements));
  LFARM_ASSIGN_OR_RETURN(stats.negatives, measure_family(*state.database, Family::kNegatives));
  LFARM_ASSIGN_OR_RETURN(stats.jobs, measure_family(*state.database, Family::kJobs));
  stats.disk_bytes = state.database->disk_bytes();
  stats.damaged_files = quarantined_files(state.directory);
  return stats;
}

std::vector<StatsField> fields(const StoreStats& stats) {
  return {{"plans", stats.plans},
          {"kernels", stats.kernels},
          {"measurements", stats.measurements},
          {"negatives", stats.negatives},
          {"jobs", stats.jobs},
          {"hits", stats.hits},
          {"misses", stats.misses},
          {"saved_ms", stats.saved_ms},
          {"disk_bytes", stats.disk_bytes},
          {"damaged_files", stats.damaged_files}};
}

}  // namespace cache
