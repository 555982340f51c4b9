// Plans by the ids that people give, from the cache of a state directory or from a farm.
#pragma once

#include <string>

#include "clients/cli/farm_options.h"
#include "common/base/result.h"
#include "common/plan/plan.h"

namespace clients {

// Whether the text may be an id, or the beginning of one.
bool is_hexadecimal(const std::string& text);

common::Error not_cached(const std::string& what);

// The verified plan whose plan id, plan key or graph hash begins with these digits; of a farm, the
// one with this plan id in full. kInvalidInput when there is none, or more than one.
common::Result<common::Plan> plan_of_id(const FarmOptions& options, const std::string& id);

}  // namespace clients
