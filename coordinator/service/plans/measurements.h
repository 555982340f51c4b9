// The store's measurements and tuning records as one job's search sees them: as they were when the
// job's search began, with a record of what the search was told.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/store.h"
#include "coordinator/search/job_search.h"
#include "coordinator/service/plans/stored_tuning_records.h"

namespace coordinator::service {

// What a search was told about kernels that earlier searches measured.
using KernelAnswers = std::map<common::Digest, int64_t>;
// And about regions and kernels that earlier searches came to the end with.
using TuningRecordAnswers = std::map<common::Digest, TuningRecord>;

// Thread-safe. A store that cannot be read knows nothing.
class JobMeasurements final : public MeasurementSource {
 public:
  // Measurements from `since_wall_ns` on are left out: what this job or others measure meanwhile
  // must not change its search's course. `known` was answered before and is answered again. Without
  // a store there is nothing else.
  // `device`: see device_name(). `tenant`: whose search it is.
  JobMeasurements(cache::Store* store, std::string device, std::string tenant,
                  int64_t since_wall_ns, KernelAnswers known,
                  TuningRecordAnswers known_records = {})
      : store_(store),
        device_(std::move(device)),
        tenant_(std::move(tenant)),
        since_wall_ns_(since_wall_ns),
        answers_(std::move(known)),
        tuning_records_(std::move(known_records)) {}

  std::optional<int64_t> kernel_ns(const common::Digest& kernel) const override {
    std::lock_guard lock(mutex_);
    if (auto it = answers_.find(kernel); it != answers_.end()) return it->second;
    if (store_ == nullptr) return std::nullopt;
    auto found = store_->get_measurement(kernel, device_);
    if (!found.ok() || !found->has_value()) return std::nullopt;
    if ((*found)->when_wall_ns >= since_wall_ns_) return std::nullopt;
    int64_t ns = std::llround((*found)->ns);
    answers_.emplace(kernel, ns);
    fresh_.emplace_back(kernel, ns);
    return ns;
  }

  std::optional<TuningRecord> record(TuningRecordKind kind,
                                     const common::Digest& key) const override {
    std::lock_guard lock(mutex_);
    if (auto it = tuning_records_.find(key); it != tuning_records_.end()) return it->second;
    if (store_ == nullptr) return std::nullopt;
    auto kept = load_tuning_record(*store_, kind, key, tenant_);
    if (!kept || kept->when_wall_ns >= since_wall_ns_) return std::nullopt;
    tuning_records_.emplace(key, kept->record);
    fresh_tuning_records_.emplace_back(key, kept->record);
    return std::move(kept->record);
  }

  // Answers since the last call that came from the store.
  std::vector<std::pair<common::Digest, int64_t>> take_fresh() {
    std::lock_guard lock(mutex_);
    return std::exchange(fresh_, {});
  }
  std::vector<std::pair<common::Digest, TuningRecord>> take_fresh_tuning_records() {
    std::lock_guard lock(mutex_);
    return std::exchange(fresh_tuning_records_, {});
  }

 private:
  cache::Store* store_;
  const std::string device_, tenant_;
  const int64_t since_wall_ns_;
  mutable std::mutex mutex_;
  mutable KernelAnswers answers_;
  mutable TuningRecordAnswers tuning_records_;
  mutable std::vector<std::pair<common::Digest, int64_t>> fresh_;
  mutable std::vector<std::pair<common::Digest, TuningRecord>> fresh_tuning_records_;
};

}  // namespace coordinator::service
