// What earlier searches measured, as a search asks for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/base/digest.h"
#include "coordinator/search/records/tuning_records.h"

namespace coordinator {

// One question to a source: a kernel's measurement by its fingerprint, or a tuning record.
struct MeasurementQuestion {
  bool is_kernel = false;
  TuningRecordKind kind{};  // of a record
  common::Digest key;
};

// Measurements of earlier searches, by kernel fingerprint, and what they came to in the end.
class MeasurementSource {
 public:
  virtual ~MeasurementSource() = default;
  virtual std::optional<int64_t> kernel_ns(const common::Digest& kernel) const = 0;
  // Under a region_key(), whole_key(), kernel_key() or kin_key().
  virtual std::optional<TuningRecord> record(TuningRecordKind kind,
                                             const common::Digest& key) const = 0;
  // Whether each question takes a round trip to another process: then whoever has several
  // prefetches them together, and asks as if he had not.
  virtual bool is_remote() const { return false; }
  virtual void prefetch(std::span<const MeasurementQuestion> /*questions*/) const {}
};

}  // namespace coordinator
