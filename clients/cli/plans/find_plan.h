// Plans by the ids that people give, from the cache of a state directory or from a farm.
#pragma once

#include <string>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/farm_plans.h"
#include "clients/cli/access/plan_cache.h"
#include "common/base/result.h"
#include "common/plan/plan.h"

namespace clients {

// A plan and the id by which users know it: the digest of its signed bytes.
struct FoundPlan {
  common::Digest id;
  common::Plan plan;
};

// The verified plan whose plan id, plan key or graph hash begins with these digits, in the cache or
// at the farm that the options name. kInvalidInput when there is none, or more than one, or the
// text is no such digits: callers have looked for a file of that name before.
common::Result<FoundPlan> plan_of_id(const FarmOptions& options, const std::string& id);

// The one plan of the cache, whose ever it is, that these digits name as above.
common::Result<cache::PlanListing> listing_of_id(PlanCache& cache, const std::string& id);

}  // namespace clients
