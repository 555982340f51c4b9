#include <algorithm>
#include <span>
#include <utility>

#include "cache/store/inventory.h"
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

Result<FamilyStats> measure_family(const Database& database, Family family) {
  FamilyStats stats;
  LFARM_RETURN_IF_ERROR(database.scan(family, {}, [&](std::string_view, std::string_view value) {
    stats.add(value.size());
    return true;
  }));
  return stats;
}

}  // namespace

// Decides on counts that are older than what it changes, so each entry is looked at again, a few at
// a time, while no put goes on. Remembers at most `collects_at_once` blobs and as many plans: a
// larger store is read several times.
class Store::State::Collection {
 public:
  Collection(Store::State& state, uint64_t max_bytes) : state_(state), max_bytes_(max_bytes) {}

  Result<CollectReport> run() {
    LFARM_RETURN_IF_ERROR(remove_unneeded());
    LFARM_RETURN_IF_ERROR(evict());
    std::lock_guard lock(state_.commit);
    report_.bytes_kept = state_.counters.total_bytes();
    return report_;
  }

 private:
  // How many entries are changed under one lock.
  static constexpr size_t kAtATime = 64;

  size_t at_once() const { return std::max<size_t>(1, state_.options.collects_at_once); }

  // From here on blobs that plans come to need are not removed, whatever was counted.
  void begin_inventory() {
    std::lock_guard lock(state_.commit);
    state_.waiting.begin_inventory(state_.now());
  }

  // Some blobs at a time, in the order of their digests.
  Status remove_unneeded() {
    std::optional<Digest> last;
    while (true) {
      begin_inventory();
      LFARM_ASSIGN_OR_RETURN(blobs_, BlobCounts::after(*state_.database, last, at_once()));
      if (blobs_.all().empty()) return {};
      LFARM_RETURN_IF_ERROR(blobs_.count(*state_.database));
      last = blobs_.all().back().digest;
      std::span<const CountedBlob> rest = blobs_.all();
      while (!rest.empty()) {
        LFARM_RETURN_IF_ERROR(change([&] { return remove_some(rest); }));
      }
    }
  }

  // Some plans at a time, those first that were used longest ago. As many at most as there were.
  Status evict() {
    uint64_t left = 0;
    {
      std::lock_guard lock(state_.commit);
      left = state_.counters.plans.count;
    }
    bool is_done = false;
    while (left > 0 && !is_done && is_above()) {
      begin_inventory();
      LFARM_ASSIGN_OR_RETURN(std::vector<AgedPlan> plans,
                             oldest_plans(*state_.database, std::min<uint64_t>(left, at_once())));
      LFARM_ASSIGN_OR_RETURN(std::vector<Digest> needs,
                             needs_of(*state_.database, plans, at_once()));
      LFARM_ASSIGN_OR_RETURN(blobs_, BlobCounts::of(*state_.database, std::move(needs)));
      LFARM_RETURN_IF_ERROR(blobs_.count(*state_.database));
      const uint64_t before = report_.plans_removed;
      for (size_t k = 0; k < plans.size() && !is_done; k += kAtATime) {
        std::span<const AgedPlan> some(&plans[k], std::min(kAtATime, plans.size() - k));
        LFARM_RETURN_IF_ERROR(change([&] { return remove_plans(some, &is_done); }));
      }
      const uint64_t removed = report_.plans_removed - before;
      if (removed == 0) return {};
      left -= removed;
    }
    return {};
  }

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
    if (status.ok() && report_ == reported) return {};
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
  void remove_if_unused(const CountedBlob& blob) {
    if (blob.references != 0 || state_.waiting.holds(blob.digest)) return;
    state_.add_removal(batch_, blob.digest, blob.bytes);
    removed_.push_back(blob.digest);
    report_.blobs_removed += 1;
    report_.bytes_removed += blob.bytes;
  }

  // Takes blobs from the front until some are to be removed.
  Status remove_some(std::span<const CountedBlob>& rest) {
    while (!rest.empty() && removed_.size() < kAtATime) {
      remove_if_unused(rest.front());
      rest = rest.subspan(1);
    }
    return {};
  }

  // Under waiting.hold(). Evicting plans on account of blobs that can't be removed gains nothing.
  bool is_beyond() const {
    const uint64_t bytes = state_.counters.total_bytes();
    return bytes > max_bytes_ && bytes - max_bytes_ > state_.waiting.bytes();
  }

  bool is_above() {
    std::lock_guard lock(state_.commit);
    auto waiting = state_.waiting.hold();
    return is_beyond();
  }

  Status remove_plans(std::span<const AgedPlan> plans, bool* is_done) {
    for (const AgedPlan& plan : plans) {
      *is_done = !is_beyond();
      if (*is_done) return {};
      auto record = state_.database->get(Family::kPlans, plan_key(plan.key));
      bool is_unreadable = !record.ok() && record.error().code == common::Code::kCorrupt;
      if (!record.ok() && !is_unreadable) return record.error();
      if (!is_unreadable && !*record) continue;
      const size_t record_bytes = is_unreadable ? 0 : (*record)->size();
      auto header = is_unreadable ? std::nullopt : decode_plan_header(**record);
      if (header && header->created_wall_ns != plan.created_wall_ns) continue;
      const PlanHeader removed = std::move(header).value_or(PlanHeader());
      state_.add_plan_removal(batch_, plan.key, removed, record_bytes);
      report_.plans_removed += 1;
      report_.bytes_removed += record_bytes;
      for (const Need& need : removed.needs) {
        CountedBlob* blob = blobs_.find(need.digest);
        if (blob == nullptr || blob->references == 0) continue;
        --blob->references;
        remove_if_unused(*blob);
      }
    }
    return {};
  }

  Store::State& state_;
  const uint64_t max_bytes_;
  BlobCounts blobs_;
  CollectReport report_;
  Counters before_;
  Batch batch_;
  std::vector<Digest> removed_;
};

Result<CollectReport> Store::State::collect(uint64_t max_bytes) {
  std::lock_guard one(collecting);
  uses.flush(*database);
  Result<CollectReport> report = Collection(*this, max_bytes).run();
  std::lock_guard lock(commit);
  waiting.end_inventory();
  return report;
}

Status Store::State::recount() {
  struct Revoked {
    Digest key;
    PlanHeader header;
    size_t record_bytes = 0;
  };
  LFARM_ASSIGN_OR_RETURN(auto revoked, revoked_plans());
  Counters counted;
  LFARM_RETURN_IF_ERROR(
      database->scan(Family::kMeta, kBlobPrefix, [&](std::string_view key, std::string_view note) {
        if (trailing_digest(key)) counted.kernels.add(decode_note(note).bytes);
        return true;
      }));
  std::vector<Revoked> back;  // that a repair has brought back
  LFARM_RETURN_IF_ERROR(database->scan(
      Family::kPlans, kPlanPrefix, [&](std::string_view key, std::string_view record) {
        auto digest = trailing_digest(key);
        if (!digest) return true;
        counted.plans.add(record.size());
        auto header = decode_plan_header(record);
        if (header && revoked.count(header->plan_id) != 0) {
          back.push_back({*digest, std::move(*header), record.size()});
        }
        return true;
      }));
  Counters before = std::exchange(counters, counted);
  Batch batch;
  for (const auto& [plan_id, reason] : revoked) add_revocation(batch, plan_id, reason);
  LFARM_ASSIGN_OR_RETURN(auto revoked_at, database->get(Family::kMeta, kRevokedAtPrefix));
  if (!revoked.empty() && !revoked_at) {
    LFARM_RETURN_IF_ERROR(add_revocation_number(batch, {}));
  }
  for (const Revoked& plan : back) {
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
