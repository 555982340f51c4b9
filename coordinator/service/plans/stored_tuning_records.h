// What searches found out about regions and kernels, kept in the store for the next ones.
//
// The store has a fixed number of places for them; a tuning record takes the place that its key
// gives, and with it that of whatever other tuning record was there: forgetting costs a search,
// nothing else. When a plan is revoked, all that its tenant's searches found before is forgotten,
// and those of the tenant use nothing that anybody found before: nobody knows which of it was at
// fault.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cache/store/store.h"
#include "coordinator/search/records/tuning_records.h"

namespace coordinator::service {

// The store's names of tuning records begin with one of these.
inline constexpr std::string_view kTuningRecordPrefixes[] = {"region-2/", "kernel-2/", "kin-2/"};

struct StoredTuningRecord {
  common::Digest key;
  int64_t when_wall_ns = 0;
  TuningRecord record;
};

std::string encode_tuning_record(const StoredTuningRecord& kept);
// Empty when the bytes cannot be read.
std::optional<StoredTuningRecord> decode_tuning_record(std::string_view bytes);

// For a search of `tenant`. Empty when nothing was found, or it cannot be read. Thread-safe.
std::optional<StoredTuningRecord> load_tuning_record(cache::Store& store, TuningRecordKind kind,
                                                     const common::Digest& key,
                                                     const std::string& tenant);
// Writes what is worth more than what is there: more effort, or as much and faster. Thread-safe.
common::Status keep_tuning_records(cache::Store& store,
                                   const std::map<common::Digest, TuningRecord>& found,
                                   int64_t now_wall_ns, const std::string& tenant);

}  // namespace coordinator::service
