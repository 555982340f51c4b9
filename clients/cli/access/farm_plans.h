// A farm's plans as its lists tell of them, by the first digits of their ids.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "clients/runtime/farm/farm_client.h"
#include "common/base/digest.h"
#include "common/base/result.h"

namespace clients {

common::Error not_cached(const std::string& what);

// {"total", "plans", "next"} of those whose plan id, plan key or graph hash begins with the digits;
// without any the page of all that is behind `after` (clients/cli/access/list_pages.h). A row has
// at least the texts "plan", "key" and "graph_hash". Takes the role read, as all lists of a farm
// do.
common::Result<nlohmann::ordered_json> list_farm_plans(FarmClient& farm, const std::string& digits,
                                                       const std::string& after = {});

struct FarmPlan {
  common::Digest id, key;
};
// The one that the digits name. kInvalidInput where there is none, or more than one.
common::Result<FarmPlan> plan_at_farm(FarmClient& farm, const std::string& digits);
// Its id. A full id is taken as it is, without asking.
common::Result<common::Digest> id_at_farm(FarmClient& farm, const std::string& digits);

}  // namespace clients
