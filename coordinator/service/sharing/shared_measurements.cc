#include "coordinator/service/sharing/shared_measurements.h"

#include <utility>
#include <vector>

#include "cache/store/records.h"
#include "common/base/cat.h"
#include "coordinator/service/sharing/signed_notes.h"

namespace coordinator::service {

using cache::RemoteRecord;
using cache::StoredMeasurement;
using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

constexpr size_t kRecordBytesMax = size_t{4} << 20;
constexpr size_t kRecordsAtOnce = 16;
// Numbers of notes that are signed: behind those of ReplicaNotes.
constexpr uint64_t kFirstNote = 1'000;

void append_text(std::string& out, std::string_view text) {
  cache::append_u32(out, static_cast<uint32_t>(text.size()));
  out += text;
}

std::string entry_of(const std::string& key, const StoredMeasurement& time) {
  std::string entry;
  append_text(entry, key);
  append_text(entry, cache::encode_measurement(time));
  return entry;
}

}  // namespace

Digest SharedMeasurements::place_of(size_t record) const {
  return common::Hasher().text("measurements").data(own_->authority()).u64(record).finish();
}

Result<SharedMeasurements::Times> SharedMeasurements::open(size_t record,
                                                           std::string_view bytes) const {
  LFARM_ASSIGN_OR_RETURN(std::string_view values, open_notes(*own_, kFirstNote + record, bytes));
  Times times;
  cache::FieldReader reader(values);
  while (reader.ok() && !reader.done()) {
    std::string key(reader.take(reader.u32()));
    auto time = cache::decode_measurement(reader.take(reader.u32()));
    if (!reader.ok() || !time || key.size() < sizeof(Digest)) {
      return common::corrupt(cat("record ", record, " of measurements cannot be read"));
    }
    times.emplace(std::move(key), *time);
  }
  return times;
}

// ---- Leaving what is here ----------------------------------------------------------------------

Result<MovedMeasurements> SharedMeasurements::give() {
  MovedMeasurements moved;
  Times times;
  size_t record = 0;
  Status status;
  // The store has them in the order of their fingerprints.
  LFARM_RETURN_IF_ERROR(store_.for_each_measurement(
      [&](const Digest& fingerprint, std::string_view device, const StoredMeasurement& time) {
        auto its = static_cast<size_t>(fingerprint.bytes[0]);
        if (its != record && status.ok()) status = add(record, std::exchange(times, {}), moved);
        record = its;
        times.emplace(std::string(cache::key_of(fingerprint)).append(device), time);
      }));
  if (status.ok()) status = add(record, std::move(times), moved);
  if (!status.ok()) return status.error();
  return moved;
}

Status SharedMeasurements::add(size_t record, Times own, MovedMeasurements& moved) {
  if (own.empty()) return {};
  const Digest place = place_of(record);
  LFARM_ASSIGN_OR_RETURN(auto before, remote_.get(RemoteRecord::kMeasurements, place));
  auto there = before ? open(record, *before) : Result<Times>(Times());
  if (!there.ok()) there = Times();
  std::string values;
  for (const auto& [key, time] : *there) values += entry_of(key, time);
  uint64_t copied = 0;
  for (const auto& [key, time] : own) {
    if (there->contains(key)) continue;
    std::string entry = entry_of(key, time);
    if (values.size() + entry.size() > kRecordBytesMax) {
      ++moved.left;
      continue;
    }
    values += entry;
    ++copied;
  }
  if (copied == 0) return {};
  LFARM_ASSIGN_OR_RETURN(std::string bytes, sign_notes(*own_, kFirstNote + record, values));
  LFARM_RETURN_IF_ERROR(remote_.put(RemoteRecord::kMeasurements, place, bytes));
  LFARM_ASSIGN_OR_RETURN(auto after, remote_.get(RemoteRecord::kMeasurements, place));
  if (after != bytes) {
    return common::corrupt(
        cat("record ", record, " of measurements did not come back from ", remote_.address()));
  }
  moved.copied += copied;
  return {};
}

// ---- Taking what is there ----------------------------------------------------------------------

Result<MovedMeasurements> SharedMeasurements::take() {
  MovedMeasurements moved;
  for (size_t first = 0; first < kRecords; first += kRecordsAtOnce) {
    std::vector<Digest> places;
    for (size_t k = 0; k < kRecordsAtOnce; ++k) places.push_back(place_of(first + k));
    LFARM_ASSIGN_OR_RETURN(auto records, remote_.get_all(RemoteRecord::kMeasurements, places));
    for (size_t k = 0; k < records.size(); ++k) {
      if (!records[k]) continue;
      LFARM_ASSIGN_OR_RETURN(Times times, open(first + k, *records[k]));
      LFARM_RETURN_IF_ERROR(keep(times, moved));
    }
  }
  return moved;
}

Status SharedMeasurements::keep(const Times& times, MovedMeasurements& moved) {
  cache::Changes changes;
  for (const auto& [key, time] : times) {
    cache::FieldReader reader(key);
    const Digest fingerprint = reader.digest();
    std::string device(reader.rest());
    LFARM_ASSIGN_OR_RETURN(auto known, store_.get_measurement(fingerprint, device));
    if (!known) changes.measurements.push_back({fingerprint, std::move(device), time});
  }
  moved.copied += changes.measurements.size();
  if (changes.measurements.empty()) return {};
  return store_.commit(std::vector<cache::Changes>{std::move(changes)});
}

}  // namespace coordinator::service
