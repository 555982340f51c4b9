// What tests of the search share.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "common/base/random.h"
#include "coordinator/search/job_search.h"
#include "coordinator/search/space/region_space.h"

namespace coordinator {

// What earlier searches found, without their measurements.
class Memory final : public MeasurementSource {
 public:
  std::optional<int64_t> kernel_ns(const common::Digest&) const override { return std::nullopt; }
  std::optional<TuningRecord> record(TuningRecordKind, const common::Digest& key) const override {
    auto it = tuning_records.find(key);
    return it == tuning_records.end() ? std::nullopt : std::optional(it->second);
  }
  std::map<common::Digest, TuningRecord> tuning_records;
};

// As many mutations of the default; some may undo others.
inline Genome random_genome(RegionSpace& space, common::Random& random, uint64_t mutations) {
  Genome genome;
  for (uint64_t k = 0; k < mutations; ++k) {
    std::vector<Site> sites = space.decode(genome).sites;
    if (sites.empty()) break;
    const Site& site = sites[random.below(sites.size())];
    genome.set(site.name, site.values[random.below(site.values.size())]);
  }
  return genome;
}

}  // namespace coordinator
