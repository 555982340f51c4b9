#include "clients/cli/access/farm_plans.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/cat.h"
#include "common/plan/plan_ids.h"

namespace clients {

using common::cat;
using common::Digest;
using common::Result;
using Json = nlohmann::ordered_json;

common::Error not_cached(const std::string& what) {
  return common::invalid_input(cat("no plan for ", what, " is cached; 'lfarm cache ls' lists all"));
}

Result<Json> list_farm_plans(FarmClient& farm, const std::string& digits,
                             const std::string& after) {
  if (!digits.empty()) LFARM_RETURN_IF_ERROR(common::check_plan_digits(digits));
  LFARM_ASSIGN_OR_RETURN(std::string text, farm.status(common::StatusTopic::kPlans, digits, after));
  Json json = Json::parse(text, nullptr, false);
  auto is_row = [](const Json& row) {
    auto has = [&row](const char* name) {
      auto id = row.find(name);
      return id != row.end() && id->is_string() && Digest::parse(id->get<std::string>());
    };
    return row.is_object() && has("plan") && has("key") && has("graph_hash");
  };
  auto rows = json.is_object() ? json.find("plans") : json.end();
  if (rows == json.end() || !rows->is_array() || !std::all_of(rows->begin(), rows->end(), is_row)) {
    return common::corrupt("the farm's answer is no list of plans");
  }
  return json;
}

Result<FarmPlan> plan_at_farm(FarmClient& farm, const std::string& digits) {
  LFARM_ASSIGN_OR_RETURN(Json list, list_farm_plans(farm, digits));
  std::vector<FarmPlan> found;
  std::vector<Digest> ids;
  for (const Json& row : list["plans"]) {
    auto digest = [&row](const char* name) { return *Digest::parse(row[name].get<std::string>()); };
    found.push_back({digest("plan"), digest("key")});
    ids.push_back(found.back().id);
  }
  if (found.empty()) return not_cached(digits);
  if (found.size() > 1) return common::ambiguous_digits(digits, ids);
  return found[0];
}

Result<Digest> id_at_farm(FarmClient& farm, const std::string& digits) {
  if (auto whole = Digest::parse(digits)) return *whole;
  LFARM_ASSIGN_OR_RETURN(FarmPlan found, plan_at_farm(farm, digits));
  return found.id;
}

}  // namespace clients
