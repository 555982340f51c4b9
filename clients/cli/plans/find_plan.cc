#include "clients/cli/plans/find_plan.h"

#include <vector>

#include "clients/cli/access/plan_cache.h"
#include "clients/cli/access/plan_source.h"
#include "common/base/cat.h"
#include "common/plan/plan_ids.h"

namespace clients {

using common::cat;
using common::Result;

namespace {

common::Status check_digits(const std::string& id) {
  if (!id.empty() && id.find_first_not_of("0123456789abcdef") == std::string::npos) return {};
  return common::invalid_input(cat("'", id, "' is neither a file nor the id of a plan, whose ",
                                   "first digits are enough; 'lfarm cache ls' lists all"));
}

Result<FoundPlan> plan_of_farm(const FarmOptions& options, const std::string& id) {
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options));
  LFARM_ASSIGN_OR_RETURN(common::Digest digest, id_at_farm(*client, id));
  LFARM_ASSIGN_OR_RETURN(auto blob, client->blob(digest));
  if (!blob) return not_cached(id);
  LFARM_ASSIGN_OR_RETURN(PlanTrust trusted, client->trust());
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, open_signed_plan(blob->bytes, trusted));
  return FoundPlan{digest, std::move(plan)};
}

}  // namespace

Result<FoundPlan> plan_of_id(const FarmOptions& options, const std::string& id) {
  LFARM_RETURN_IF_ERROR(check_digits(id));
  if (!options.farm.empty()) return plan_of_farm(options, id);
  LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.state}));
  LFARM_ASSIGN_OR_RETURN(cache::PlanListing found, listing_of_id(*cache, id));
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, cache->read(found));
  return FoundPlan{found.facts.plan_id, std::move(plan)};
}

Result<cache::PlanListing> listing_of_id(PlanCache& cache, const std::string& id) {
  LFARM_RETURN_IF_ERROR(check_digits(id));
  LFARM_ASSIGN_OR_RETURN(std::vector<cache::PlanListing> found, cache.find_by_id(id));
  if (found.empty()) return not_cached(id);
  if (found.size() > 1) {
    std::vector<common::Digest> ids;
    for (const cache::PlanListing& one : found) ids.push_back(one.facts.plan_id);
    return common::ambiguous_digits(id, ids);
  }
  return found[0];
}

}  // namespace clients
