// What earlier searches measured, as a search asks for it.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/digest.h"
#include "coordinator/search/records/tuning_records.h"

namespace coordinator {

// Measurements of earlier searches, by kernel fingerprint, and what they came to in the end.
class MeasurementSource {
 public:
  virtual ~MeasurementSource() = default;
  virtual std::optional<int64_t> kernel_ns(const common::Digest& kernel) const = 0;
  // Under a region_key(), whole_key(), kernel_key() or kin_key().
  virtual std::optional<TuningRecord> record(TuningRecordKind kind,
                                             const common::Digest& key) const = 0;
};

}  // namespace coordinator
