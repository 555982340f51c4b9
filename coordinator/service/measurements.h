// The store's measurements and findings as one job's search sees them: as they were when the job's
// search began, with a record of what the search was told.
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
#include "coordinator/service/findings.h"

namespace coordinator::service {

// What a search was told about kernels that earlier searches measured.
using KernelAnswers = std::map<common::Digest, int64_t>;
// And about regions and kernels that earlier searches came to the end with.
using FindingAnswers = std::map<common::Digest, Finding>;

// Thread-safe. A store that cannot be read knows nothing.
class JobMeasurements final : public MeasurementSource {
 public:
  // Measurements from `since_wall_ns` on are left out: what this job or others measure meanwhile
  // must not change its search's course. `known` was answered before and is answered again. Without
  // a store there is nothing else.
  // `device`: see device_name(). `tenant`: whose search it is.
  JobMeasurements(cache::Store* store, std::string device, std::string tenant,
                  int64_t since_wall_ns, KernelAnswers known, FindingAnswers known_findings = {})
      : store_(store),
        device_(std::move(device)),
        tenant_(std::move(tenant)),
        since_wall_ns_(since_wall_ns),
        answers_(std::move(known)),
        findings_(std::move(known_findings)) {}

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

  std::optional<Finding> finding(FindingKind kind, const common::Digest& key) const override {
    std::lock_guard lock(mutex_);
    if (auto it = findings_.find(key); it != findings_.end()) return it->second;
    if (store_ == nullptr) return std::nullopt;
    auto kept = load_finding(*store_, kind, key, tenant_);
    if (!kept || kept->when_wall_ns >= since_wall_ns_) return std::nullopt;
    findings_.emplace(key, kept->finding);
    fresh_findings_.emplace_back(key, kept->finding);
    return std::move(kept->finding);
  }

  // Answers since the last call that came from the store.
  std::vector<std::pair<common::Digest, int64_t>> take_fresh() {
    std::lock_guard lock(mutex_);
    return std::exchange(fresh_, {});
  }
  std::vector<std::pair<common::Digest, Finding>> take_fresh_findings() {
    std::lock_guard lock(mutex_);
    return std::exchange(fresh_findings_, {});
  }

 private:
  cache::Store* store_;
  const std::string device_, tenant_;
  const int64_t since_wall_ns_;
  mutable std::mutex mutex_;
  mutable KernelAnswers answers_;
  mutable FindingAnswers findings_;
  mutable std::vector<std::pair<common::Digest, int64_t>> fresh_;
  mutable std::vector<std::pair<common::Digest, Finding>> fresh_findings_;
};

}  // namespace coordinator::service
