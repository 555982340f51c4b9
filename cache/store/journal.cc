#include <algorithm>

#include "cache/store/store_state.h"
#include "common/base/cat.h"

namespace cache {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

constexpr uint64_t kNoSequence = std::numeric_limits<uint64_t>::max();

std::string named_key(std::string_view name) { return std::string(kNamedPrefix).append(name); }

std::string measurement_key(const Digest& fingerprint, std::string_view device) {
  std::string key(key_of(fingerprint));
  key += device;
  return key;
}

// Empty when the record is malformed.
std::optional<Negative> decode_negative(std::string_view record) {
  FieldReader fields(record);
  Negative negative;
  negative.expires_wall_ns = static_cast<int64_t>(fields.u64());
  negative.reason = std::string(fields.rest());
  return fields.ok() ? std::optional(std::move(negative)) : std::nullopt;
}

Status check_job_name(std::string_view job) {
  if (!job.empty() && job.size() <= 255) return {};
  return common::invalid_input(
      cat("a job name has ", job.size(), " bytes: give it between 1 and 255"));
}

}  // namespace

Status Store::State::add_measurement(Batch& batch, const Changes::Measured& measured,
                                     std::unordered_set<std::string>& keys) {
  std::string key = measurement_key(measured.fingerprint, measured.device);
  if (keys.count(key) != 0) return {};
  LFARM_ASSIGN_OR_RETURN(auto existing, database->get(Family::kMeasurements, key));
  if (existing && decode_measurement(*existing)) return {};
  std::string record = encode_measurement(measured.measurement);
  if (existing) small.measurements.remove(existing->size());
  small.measurements.add(record.size());
  batch.put(Family::kMeasurements, key, record);
  keys.insert(std::move(key));
  return {};
}

Result<bool> Store::put_measurement(const Digest& fingerprint, std::string_view device,
                                    const StoredMeasurement& measurement) {
  {
    std::lock_guard lock(state_->measuring);
    Batch batch;
    std::unordered_set<std::string> keys;
    Changes::Measured measured{fingerprint, std::string(device), measurement};
    SmallCounters before = state_->small;
    LFARM_RETURN_IF_ERROR(state_->add_measurement(batch, measured, keys));
    if (keys.empty()) return false;
    LFARM_RETURN_IF_ERROR(state_->write_small(batch, before, false));
  }
  LFARM_RETURN_IF_ERROR(state_->collect_if_full());
  return true;
}

Result<std::optional<StoredMeasurement>> Store::get_measurement(const Digest& fingerprint,
                                                                std::string_view device) {
  LFARM_ASSIGN_OR_RETURN(auto record, state_->database->get(Family::kMeasurements,
                                                            measurement_key(fingerprint, device)));
  if (!record) return std::optional<StoredMeasurement>();
  return decode_measurement(*record);
}

Status Store::for_each_measurement(
    const std::function<void(const Digest& fingerprint, std::string_view device,
                             const StoredMeasurement& measurement)>& visit) {
  return state_->database->scan(Family::kMeasurements, {},
                                [&](std::string_view key, std::string_view value) {
                                  FieldReader fields(key);
                                  Digest fingerprint = fields.digest();
                                  auto measurement = decode_measurement(value);
                                  if (fields.ok() && measurement)
                                    visit(fingerprint, fields.rest(), *measurement);
                                  return true;
                                });
}

Status Store::put_negative(const Digest& fingerprint, const Negative& negative) {
  std::string record;
  append_u64(record, static_cast<uint64_t>(negative.expires_wall_ns));
  record += negative.reason;
  std::lock_guard lock(state_->measuring);
  SmallCounters before = state_->small;
  FamilyStats& counted = state_->small.negatives;
  LFARM_ASSIGN_OR_RETURN(auto existing,
                         state_->database->get(Family::kNegatives, key_of(fingerprint)));
  if (existing) counted.remove(existing->size());
  counted.add(record.size());
  Batch batch;
  batch.put(Family::kNegatives, key_of(fingerprint), record);
  return state_->write_small(batch, before, false);
}

Result<std::optional<Negative>> Store::get_negative(const Digest& fingerprint) {
  LFARM_ASSIGN_OR_RETURN(auto record,
                         state_->database->get(Family::kNegatives, key_of(fingerprint)));
  if (!record) return std::optional<Negative>();
  auto negative = decode_negative(*record);
  bool is_over =
      negative && negative->expires_wall_ns != 0 && negative->expires_wall_ns <= state_->now();
  return is_over ? std::optional<Negative>() : negative;
}

Status Store::for_each_negative(
    const std::function<void(const Digest& fingerprint, const Negative& negative)>& visit) {
  return state_->database->scan(
      Family::kNegatives, {}, [&](std::string_view key, std::string_view value) {
        auto fingerprint = trailing_digest(key);
        auto negative = decode_negative(value);
        bool stays = fingerprint && negative && negative->expires_wall_ns == 0;
        if (stays) visit(*fingerprint, *negative);
        return true;
      });
}

Status Store::State::add_record(Batch& batch, std::string_view job, const JobRecord& record,
                                std::unordered_set<std::string>& keys) {
  std::string key = job_key(job, record.sequence);
  LFARM_ASSIGN_OR_RETURN(auto existing, database->get(Family::kJobs, key));
  if (existing || keys.count(key) != 0) {
    return common::invalid_input(cat("the journal of job ", job, " already has record ",
                                     record.sequence, ": read it and continue after its end"));
  }
  batch.put(Family::kJobs, key, record.bytes);
  keys.insert(std::move(key));
  return {};
}

Status Store::append_job(std::string_view job, std::span<const JobRecord> records, bool durable) {
  LFARM_RETURN_IF_ERROR(check_job_name(job));
  Batch batch;
  std::unordered_set<std::string> keys;
  for (const JobRecord& record : records) {
    LFARM_RETURN_IF_ERROR(state_->add_record(batch, job, record, keys));
  }
  return state_->database->write(batch, durable);
}

Status Store::commit(std::span<const Changes> group) {
  State& state = *state_;
  {
    std::lock_guard lock(state.measuring);
    SmallCounters before = state.small;
    Batch batch;
    auto status = state.add_changes(batch, group);
    if (!status.ok()) {
      state.small = before;
      return status;
    }
    LFARM_RETURN_IF_ERROR(state.write_small(batch, before, true));
  }
  return state.collect_if_full();
}

Status Store::State::add_changes(Batch& batch, std::span<const Changes> group) {
  std::unordered_set<std::string> measured, added;
  for (const Changes& changes : group) {
    for (const Changes::Record& record : changes.records) {
      LFARM_RETURN_IF_ERROR(check_job_name(record.job));
      LFARM_RETURN_IF_ERROR(add_record(batch, record.job, record.record, added));
    }
    for (const Changes::Measured& measurement : changes.measurements) {
      LFARM_RETURN_IF_ERROR(add_measurement(batch, measurement, measured));
    }
    for (const Changes::Named& named : changes.named) {
      batch.put(Family::kMeta, named_key(named.name), named.bytes);
    }
    for (const std::string& job : changes.removed_jobs) {
      LFARM_RETURN_IF_ERROR(check_job_name(job));
      LFARM_RETURN_IF_ERROR(add_job_removal(batch, job, kNoSequence, added));
    }
  }
  return {};
}

Result<std::vector<JobRecord>> Store::read_job(std::string_view job) {
  LFARM_RETURN_IF_ERROR(check_job_name(job));
  std::vector<JobRecord> records;
  LFARM_RETURN_IF_ERROR(state_->database->scan(
      Family::kJobs, job_prefix(job), [&](std::string_view key, std::string_view value) {
        if (auto parsed = parse_job_key(key)) {
          records.push_back({parsed->sequence, std::string(value)});
        }
        return true;
      }));
  return records;
}

Result<std::vector<std::string>> Store::open_jobs() {
  std::vector<std::string> jobs;
  std::string bound;
  while (true) {
    LFARM_ASSIGN_OR_RETURN(auto key, state_->database->key_at_or_after(Family::kJobs, bound));
    if (!key) return jobs;
    if (auto parsed = parse_job_key(*key)) {
      // The journal of one job is skipped without reading it.
      bound = job_key(parsed->job, std::numeric_limits<uint64_t>::max());
      jobs.emplace_back(parsed->job);
    } else {
      bound = *key;
    }
    bound += '\0';
  }
}

Status Store::State::add_job_removal(Batch& batch, std::string_view job, uint64_t below,
                                     const std::unordered_set<std::string>& keys) {
  std::string prefix = job_prefix(job);
  for (const std::string& key : keys) {
    if (key.compare(0, prefix.size(), prefix) == 0) batch.remove(Family::kJobs, key);
  }
  return database->scan(Family::kJobs, prefix, [&](std::string_view key, std::string_view) {
    auto parsed = parse_job_key(key);
    if (!parsed || (below != kNoSequence && parsed->sequence >= below)) return false;
    batch.remove(Family::kJobs, key);
    return true;
  });
}

Status Store::remove_job(std::string_view job, uint64_t below) {
  LFARM_RETURN_IF_ERROR(check_job_name(job));
  Batch batch;
  LFARM_RETURN_IF_ERROR(state_->add_job_removal(batch, job, below, {}));
  return state_->database->write(batch, false);
}

Status Store::put_named(std::string_view name, std::string_view bytes) {
  Batch batch;
  batch.put(Family::kMeta, named_key(name), bytes);
  return state_->database->write(batch, false);
}

Result<std::optional<std::string>> Store::get_named(std::string_view name) {
  return state_->database->get(Family::kMeta, named_key(name));
}

Status Store::for_each_named(
    std::string_view prefix,
    const std::function<void(std::string_view name, std::string_view bytes)>& visit) {
  return state_->database->scan(Family::kMeta, named_key(prefix),
                                [&](std::string_view key, std::string_view bytes) {
                                  visit(key.substr(kNamedPrefix.size()), bytes);
                                  return true;
                                });
}

Status Store::scan_named(
    std::string_view prefix, std::string_view after,
    const std::function<bool(std::string_view name, std::string_view bytes)>& visit) {
  const std::string folder = named_key(prefix);
  std::string from = folder;
  if (!after.empty()) from.append(after).push_back('\0');
  return state_->database->scan_from(
      Family::kMeta, from, [&](std::string_view key, std::string_view bytes) {
        return key.starts_with(folder) && visit(key.substr(kNamedPrefix.size()), bytes);
      });
}

Result<std::map<std::string, TenantUsage>> Store::tenant_usages() {
  std::map<std::string, TenantUsage> usages;
  LFARM_RETURN_IF_ERROR(
      for_each_named(kTenantPrefix, [&](std::string_view name, std::string_view record) {
        usages.emplace(name.substr(kTenantPrefix.size()), decode_usage(record));
      }));
  return usages;
}

}  // namespace cache
