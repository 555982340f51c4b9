// Kin: regions that differ in sizes alone, as those of a model at another batch or width. The
// search of one begins with the best genome of another.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/digest.h"
#include "common/plan/plan.h"
#include "coordinator/search/job_search.h"
#include "coordinator/search/records/tuning_records.h"
#include "coordinator/search/space/region_space.h"

namespace coordinator {

// The same for regions whose saturated e-graphs have the same classes of the same operations, and
// differ in shapes, constants and coordinates only. A gene then names the same choice in each.
// Rules are part of it by what they did, so a genome outlives a new compiler's epoch.
// Empty `machine`: the class is not known.
common::Digest kin_key(const RegionSpace& space, const common::Target& target,
                       const std::string& policy, const std::string& machine = {});

// The best genome of the region's kin on the machine class; where there is none, that of any class,
// without its time and its effort, which say nothing about this class.
std::optional<TuningRecord> find_kin(const MeasurementSource& source, const RegionSpace& space,
                                     const SearchOptions& options);
// Stores `record` under the kin key of its machine class, and its genome alone under that of any.
void add_kin(const RegionSpace& space, const SearchOptions& options, TuningRecord record,
             std::map<common::Digest, TuningRecord>& all);

}  // namespace coordinator
