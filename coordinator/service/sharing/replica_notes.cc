#include "coordinator/service/sharing/replica_notes.h"

#include <algorithm>
#include <iterator>

#include "cache/store/records.h"
#include "common/base/cat.h"
#include "common/base/log.h"
#include "coordinator/service/plans/plan_repository.h"
#include "coordinator/service/plans/priors.h"
#include "coordinator/service/plans/stored_tuning_records.h"
#include "coordinator/service/sharing/signed_notes.h"

namespace coordinator::service {

using cache::RemoteRecord;
using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

// Stands before a quarantined fingerprint, which is no named value of the store.
constexpr std::string_view kQuarantine = "quarantine/";
// What goes beyond stays here: tuning records, which come last.
constexpr size_t kRecordBytesMax = size_t{4} << 20;
constexpr size_t kRecordsAtOnce = 32;

constexpr std::string_view kPrefixes[] = {
    cache::kTenantPrefix,     kPublishedPrefix,         kPriorsPrefix,
    kTuningRecordPrefixes[0], kTuningRecordPrefixes[1], kTuningRecordPrefixes[2]};

bool is_shared(std::string_view name) {
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

void append_text(std::string& out, std::string_view text) {
  cache::append_u32(out, static_cast<uint32_t>(text.size()));
  out += text;
}

}  // namespace

Digest ReplicaNotes::place_of(size_t record) const {
  return common::Hasher().text("replica notes").data(own_->authority()).u64(record).finish();
}

Result<std::string> ReplicaNotes::signed_record(size_t record, const Values& values) const {
  std::string bytes;
  for (const Value& value : values) {
    append_text(bytes, value.name);
    append_text(bytes, value.bytes);
  }
  return sign_notes(*own_, record, bytes);
}

Result<ReplicaNotes::Values> ReplicaNotes::read(size_t record, std::string_view bytes) const {
  LFARM_ASSIGN_OR_RETURN(bytes, open_notes(*own_, record, bytes));
  Values values;
  cache::FieldReader reader(bytes);
  while (reader.ok() && !reader.done()) {
    Value value;
    value.name = reader.take(reader.u32());
    value.bytes = reader.take(reader.u32());
    values.push_back(std::move(value));
  }
  if (!reader.ok()) return common::corrupt("a replica's record cannot be read");
  return values;
}

// ---- Taking what is there ----------------------------------------------------------------------

// Of publications the owners that only this store names are added; all else is as the last replica
// left it, for it took what was there when it began.
Status ReplicaNotes::take(const Value& value, cache::Changes& changes, Usages& usages) {
  std::string_view name = value.name;
  if (name.starts_with(cache::kTenantPrefix)) {
    std::string tenant(name.substr(cache::kTenantPrefix.size()));
    usages[tenant] = cache::decode_usage(value.bytes);
    return {};
  }
  if (name.starts_with(kQuarantine)) {
    auto fingerprint = Digest::parse(name.substr(kQuarantine.size()));
    if (!fingerprint) return common::corrupt("a replica's record names no fingerprint");
    LFARM_ASSIGN_OR_RETURN(auto known, store_.get_negative(*fingerprint));
    return known ? Status() : store_.put_negative(*fingerprint, {value.bytes, 0});
  }
  if (!is_shared(name)) return common::corrupt("a replica's record has a value that is not shared");
  std::string bytes = value.bytes;
  if (name.starts_with(kPublishedPrefix)) {
    LFARM_ASSIGN_OR_RETURN(auto own, store_.get_named(name));
    bytes = merge_publications(bytes, own.value_or(""));
  }
  changes.named.push_back({value.name, std::move(bytes)});
  return {};
}

Result<ReplicaNotes::Usages> ReplicaNotes::pull() {
  Usages usages;
  cache::Changes changes;
  std::array<Digest, kRecords> found{};
  for (size_t first = 0; first < kRecords; first += kRecordsAtOnce) {
    std::vector<Digest> places;
    for (size_t k = 0; k < kRecordsAtOnce; ++k) places.push_back(place_of(first + k));
    LFARM_ASSIGN_OR_RETURN(auto records, remote_.get_all(RemoteRecord::kNotes, places));
    for (size_t k = 0; k < records.size(); ++k) {
      if (!records[k]) continue;
      auto values = read(first + k, *records[k]);
      if (!values.ok()) {
        common::log_warning(
            cat("the remote store at ", remote_.address(), ": ", values.error().message));
        continue;
      }
      found[first + k] = common::digest_of(*records[k]);
      for (const Value& value : *values) {
        LFARM_RETURN_IF_ERROR(take(value, changes, usages));
      }
    }
  }
  if (!changes.named.empty()) {
    LFARM_RETURN_IF_ERROR(store_.commit(std::vector<cache::Changes>{std::move(changes)}));
  }
  known_ = found;
  is_pulled_ = true;
  return usages;
}

// ---- Leaving what is here ----------------------------------------------------------------------

Result<std::vector<ReplicaNotes::Values>> ReplicaNotes::own_values() const {
  std::vector<Values> records(kRecords);
  std::vector<size_t> sizes(kRecords);
  auto add = [&](std::string_view name, std::string_view bytes) {
    size_t record = common::digest_of(name).prefix64() % kRecords;
    if (sizes[record] + bytes.size() > kRecordBytesMax) return;
    sizes[record] += bytes.size();
    records[record].push_back({std::string(name), std::string(bytes)});
  };
  LFARM_RETURN_IF_ERROR(
      store_.for_each_negative([&](const Digest& fingerprint, const cache::Negative& negative) {
        add(cat(kQuarantine, fingerprint.hex()), negative.reason);
      }));
  for (std::string_view prefix : kPrefixes) {
    LFARM_RETURN_IF_ERROR(store_.for_each_named(prefix, add));
  }
  return records;
}

Status ReplicaNotes::push() {
  if (!is_pulled_) return {};
  LFARM_ASSIGN_OR_RETURN(std::vector<Values> records, own_values());
  for (size_t k = 0; k < kRecords; ++k) {
    if (records[k].empty()) continue;
    LFARM_ASSIGN_OR_RETURN(std::string bytes, signed_record(k, records[k]));
    Digest content = common::digest_of(bytes);
    if (content == known_[k]) continue;
    LFARM_RETURN_IF_ERROR(remote_.put(RemoteRecord::kNotes, place_of(k), bytes));
    known_[k] = content;
  }
  return {};
}

}  // namespace coordinator::service
