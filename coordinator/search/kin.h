// Regions that differ in sizes alone, as those of a model at another batch or width: what was best
// for one is where the search of another begins.
#pragma once

#include <string>

#include "common/base/digest.h"
#include "common/plan/plan.h"
#include "coordinator/search/region_space.h"

namespace coordinator {

// The same for regions whose saturated e-graphs have the same classes of the same operations, and
// differ in shapes, constants and coordinates only. A gene then names the same choice in each.
// Rules are part of it by what they did, so a genome outlives a new compiler's epoch.
common::Digest kin_key(const RegionSpace& space, const common::Target& target,
                       const std::string& policy);

}  // namespace coordinator
