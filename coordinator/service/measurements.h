// The store's measurements as a search sees them: the kernels of one target.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "cache/store/store.h"
#include "coordinator/search/job_search.h"

namespace coordinator::service {

// Thread-safe. A store that cannot be read knows nothing.
class StoreMeasurements final : public MeasurementSource {
 public:
  StoreMeasurements(cache::Store& store, std::string target)
      : store_(store), target_(std::move(target)) {}

  std::optional<int64_t> kernel_ns(const common::Digest& kernel) const override {
    auto found = store_.get_measurement(kernel, target_);
    if (!found.ok() || !found->has_value()) return std::nullopt;
    return std::llround((*found)->ns);
  }

 private:
  cache::Store& store_;
  const std::string target_;
};

}  // namespace coordinator::service
