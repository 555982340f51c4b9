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
    stats.add(value.size());
    return true;
  }));
  return stats;
}

}  // namespace

// Decides on an inventory that is older than what it changes, so each entry is looked at again, a
// few at a time, while no put goes on.
class Store::State::Collection {
 public:
  Collection(Store::State& state, Inventory inventory, uint64_t max_bytes)
      : state_(state), inventory_(std::move(inventory)), max_bytes_(max_bytes) {}

  Result<CollectReport> run() {
    std::vector<Digest> unused;
    for (const auto& [digest, blob] : inventory_.blobs) {
      if (blob.references == 0) unused.push_back(digest);
    }
    for (size_t k = 0; k < unused.size(); k += kAtATime) {
      std::span<const Digest> some(&unused[k], std::min(kAtATime, unused.size() - k));
      LFARM_RETURN_IF_ERROR(change([&] { return remove_blobs(some); }));
    }
    std::sort(inventory_.plans.begin(), inventory_.plans.end(),
              [](const Candidate& a, const Candidate& b) {
                if (a.last_used_wall_ns != b.last_used_wall_ns) {
                  return a.last_used_wall_ns < b.last_used_wall_ns;
                }
                return a.key < b.key;
              });
    bool is_done = false;
    for (size_t k = 0; k < inventory_.plans.size() && !is_done; k += kAtATime) {
      std::span<const Candidate> some(&inventory_.plans[k],
                                      std::min(kAtATime, inventory_.plans.size() - k));
      LFARM_RETURN_IF_ERROR(change([&] { return remove_plans(some, &is_done); }));
    }
    std::lock_guard lock(state_.commit);
    report_.bytes_kept = state_.counters.total_bytes();
    return report_;
  }

 private:
  // How many entries are changed under one lock.
  static constexpr size_t kAtATime = 64;

  template <class Body>
  Status change(Body&& body) {
    std::lock_guard lock(state_.commit);
    // Who asks for a blob waits for the lock, or has asked before.
    auto waiting = state_.waiting.hold();
    before_ = state_.counters;
    batch_ = {};
    removed_.clear();
    CollectReport reported = report_;
    Status status = body();
    if (status.ok()) status = state_.write_counted(batch_, before_);
    if (!status.ok()) {
      state_.counters = before_;
      report_ = reported;
      return status;
    }
    state_.intact.forget(removed_);
    return {};
  }

  // Blobs that wait for their plan can't be removed.
  bool is_waiting(const Digest& digest) const { return state_.waiting.holds(digest); }

  void remove_if_unused(const Digest& digest, const Blob& blob) {
    if (blob.references != 0 || is_waiting(digest)) return;
    state_.add_removal(batch_, digest, blob.bytes);
    removed_.push_back(digest);
    report_.blobs_removed += 1;
    report_.bytes_removed += blob.bytes;
  }

  Status remove_blobs(std::span<const Digest> digests) {
    for (const Digest& digest : digests) remove_if_unused(digest, inventory_.blobs[digest]);
    return {};
  }

  // Evicting plans on account of blobs that can't be removed gains nothing.
  uint64_t waiting_bytes() const {
    uint64_t bytes = 0;
    for (const auto& [digest, since] : state_.waiting.recent()) {
      auto blob = inventory_.blobs.find(digest);
      if (blob != inventory_.blobs.end()) bytes += blob->second.bytes;
    }
    return bytes;
  }

  Status remove_plans(std::span<const Candidate> plans, bool* is_done) {
    uint64_t bound = max_bytes_ + waiting_bytes();
    for (const Candidate& plan : plans) {
      *is_done = state_.counters.total_bytes() <= bound;
      if (*is_done) return {};
      auto record = state_.database->get(Family::kPlans, plan_key(plan.key));
      bool is_unreadable = !record.ok() && record.error().code == common::Code::kCorrupt;
      if (!record.ok() && !is_unreadable) return record.error();
      if (!is_unreadable && !*record) continue;
      auto header = is_unreadable ? std::nullopt : decode_plan_header(**record);
      if (header && header->created_wall_ns != plan.header.created_wall_ns) continue;
      state_.add_plan_removal(batch_, plan.key, plan.header, plan.record_bytes);
      report_.plans_removed += 1;
      report_.bytes_removed += plan.record_bytes;
      for (const Need& need : plan.header.needs) {
        auto blob = inventory_.blobs.find(need.digest);
        if (blob == inventory_.blobs.end()) continue;
        --blob->second.references;
        remove_if_unused(need.digest, blob->second);
      }
    }
    return {};
  }

  Store::State& state_;
  Inventory inventory_;
  uint64_t max_bytes_;
  CollectReport report_;
  Counters before_;
  Batch batch_;
  std::vector<Digest> removed_;
};

Result<CollectReport> Store::State::collect(uint64_t max_bytes) {
  std::lock_guard one(collecting);
  uses.flush(*database);
  {
    std::lock_guard lock(commit);
    waiting.begin_inventory(now());
  }
  auto inventory = take_inventory(*database);
  Result<CollectReport> report =
      inventory.ok() ? Collection(*this, std::move(inventory).value(), max_bytes).run()
                     : Result<CollectReport>(inventory.error());
  std::lock_guard lock(commit);
  waiting.end_inventory();
  return report;
}

Status Store::State::recount() {
  LFARM_ASSIGN_OR_RETURN(Inventory inventory, take_inventory(*database));
  LFARM_ASSIGN_OR_RETURN(auto revoked, revoked_plans());
  Counters before = counters;
  counters = {};
  for (const auto& [digest, blob] : inventory.blobs) {
    counters.kernels.add(blob.bytes);
  }
  for (const Candidate& plan : inventory.plans) {
    counters.plans.add(plan.record_bytes);
  }
  Batch batch;
  for (const auto& [plan_id, reason] : revoked) add_revocation(batch, plan_id, reason);
  LFARM_ASSIGN_OR_RETURN(auto revoked_at, database->get(Family::kMeta, kRevokedAtPrefix));
  if (!revoked.empty() && !revoked_at) {
    LFARM_RETURN_IF_ERROR(add_revocation_number(batch, {}));
  }
  for (const Candidate& plan : inventory.plans) {
    if (revoked.count(plan.header.plan_id) == 0) continue;
    add_plan_removal(batch, plan.key, plan.header, plan.record_bytes);
  }
  return write_counted(batch, before);
}

Status Store::State::recount_small() {
  std::lock_guard lock(measuring);
  SmallCounters before = small;
  LFARM_ASSIGN_OR_RETURN(small.measurements, measure_family(*database, Family::kMeasurements));
  LFARM_ASSIGN_OR_RETURN(small.negatives, measure_family(*database, Family::kNegatives));
  Batch batch;
  return write_small(batch, before, false);
}

bool Store::State::is_full() {
  if (options.max_bytes == 0) return false;
  std::lock_guard lock(commit);
  return counters.total_bytes() > std::max(collect_above, options.max_bytes);
}

bool Store::State::has_measurements_beyond() {
  if (options.max_measurements == 0) return false;
  std::lock_guard lock(measuring);
  return small.measurements.count > options.max_measurements;
}

Status Store::State::collect_if_full() {
  if (!is_full() && !has_measurements_beyond()) return {};
  if (!options.collects_in_background) return collect_now();
  collector.request();
  return {};
}

Status Store::State::collect_now() {
  if (has_measurements_beyond()) LFARM_RETURN_IF_ERROR(collect_measurements());
  if (!is_full()) return {};
  // Going a tenth below the bound spares the next puts a collection each.
  LFARM_ASSIGN_OR_RETURN(CollectReport report, collect(options.max_bytes / 10 * 9));
  {
    std::lock_guard lock(commit);
    // What could not be removed (blobs just put) must not cause a collection at every put.
    collect_above = counters.total_bytes() + options.max_bytes / 10;
  }
  common::log_debug(cat("store: evicted ", report.plans_removed, " plans and ",
                        report.blobs_removed, " kernels, ", report.bytes_kept, " bytes stay"));
  return {};
}

Status Store::State::collect_measurements() {
  std::lock_guard one(collecting);
  // Of all of them only the time is remembered.
  std::vector<int64_t> times;
  LFARM_RETURN_IF_ERROR(
      database->scan(Family::kMeasurements, {}, [&](std::string_view, std::string_view value) {
        auto measurement = decode_measurement(value);
        times.push_back(measurement ? measurement->when_wall_ns : 0);
        return true;
      }));
  uint64_t kept = options.max_measurements / 10 * 9;
  if (times.size() <= kept) return {};
  auto last_to_go = times.begin() + static_cast<ptrdiff_t>(times.size() - kept - 1);
  std::nth_element(times.begin(), last_to_go, times.end());
  int64_t until = *last_to_go;
  constexpr size_t kAtATime = 1024;
  std::string bound;
  while (true) {
    std::vector<std::pair<std::string, size_t>> going;
    LFARM_RETURN_IF_ERROR(database->scan_from(
        Family::kMeasurements, bound, [&](std::string_view key, std::string_view value) {
          auto measurement = decode_measurement(value);
          if (measurement && measurement->when_wall_ns > until) return true;
          going.emplace_back(key, value.size());
          return going.size() < kAtATime;
        }));
    if (going.empty()) return {};
    bound = going.back().first + '\0';
    std::lock_guard lock(measuring);
    SmallCounters before = small;
    Batch batch;
    for (const auto& [key, bytes] : going) {
      batch.remove(Family::kMeasurements, key);
      small.measurements.remove(bytes);
    }
    LFARM_RETURN_IF_ERROR(write_small(batch, before, false));
  }
}

Status Store::State::add_names() {
  // A few at a time, each a batch of its own: one that was done before is done again alike.
  constexpr size_t kAtATime = 256;
  std::string bound(kPlanPrefix);
  while (true) {
    std::vector<std::pair<std::string, std::string>> some;
    std::string last;
    LFARM_RETURN_IF_ERROR(database->scan_from(
        Family::kPlans, bound, [&](std::string_view key, std::string_view record) {
          if (!key.starts_with(kPlanPrefix) || some.size() >= kAtATime) return false;
          some.emplace_back(key, record);
          return true;
        }));
    if (some.empty()) break;
    std::lock_guard lock(commit);
    Counters before = counters;
    Batch batch;
    for (auto& [key, record] : some) {
      auto header = decode_plan_header(record);
      auto digest = trailing_digest(key);
      if (!header || !digest) continue;
      std::string bytes = record.substr(header->size);
      if (options.names_of) header->names = options.names_of(bytes);
      std::string renewed = encode_plan(*header, bytes);
      counters.plans.bytes += renewed.size() - record.size();
      batch.put(Family::kPlans, key, renewed);
      batch.put(Family::kPlans, name_key(header->plan_id, *digest), {});
      for (const Digest& name : header->names) {
        batch.put(Family::kPlans, name_key(name, *digest), {});
      }
    }
    LFARM_RETURN_IF_ERROR(write_counted(batch, before));
    bound = some.back().first + '\0';
  }
  return recount_small();
}

Result<CollectReport> Store::gc(uint64_t max_bytes) {
  LFARM_ASSIGN_OR_RETURN(CollectReport report, state_->collect(max_bytes));
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
  stats.misses = state.uses.misses();
  LFARM_ASSIGN_OR_RETURN(auto usages, tenant_usages());
  for (const auto& [tenant, usage] : usages) {
    stats.hits += usage.hits;
    stats.saved_ms += usage.saved_ms;
  }
  {
    std::lock_guard lock(state.measuring);
    stats.measurements = state.small.measurements;
    stats.negatives = state.small.negatives;
  }
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
