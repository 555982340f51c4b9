// lfarm cache revoke: withdraws a plan from everyone.
#include <cstdio>
#include <memory>

#include "cache/store/store.h"
#include "clients/cli/access/farm_plans.h"
#include "clients/cli/access/plan_cache.h"
#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "common/plan/plan_ids.h"

namespace clients {
namespace {

using common::Digest;
using common::Result;

struct RevokeOptions {
  FarmOptions farm;
  std::string what;
  std::string reason = "revoked by hand";
};

// The full id that the digits begin, at the farm that is named or in this machine's cache.
Result<Digest> find_id(const RevokeOptions& options) {
  if (auto whole = Digest::parse(options.what)) return *whole;
  if (!options.farm.farm.empty()) {
    LFARM_ASSIGN_OR_RETURN(auto farm, connect_to_farm(options.farm));
    return id_at_farm(*farm, options.what);
  }
  LFARM_RETURN_IF_ERROR(common::check_plan_digits(options.what));
  LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.farm.state}));
  LFARM_ASSIGN_OR_RETURN(std::vector<cache::PlanListing> found, cache->find_by_id(options.what));
  if (found.empty()) return not_cached(options.what);
  std::vector<Digest> ids;
  for (const cache::PlanListing& one : found) ids.push_back(one.facts.plan_id);
  if (ids.size() > 1) return common::ambiguous_digits(options.what, ids);
  return ids[0];
}

// Without a farm, straight in the store: its next coordinator tells the clients.
Result<std::vector<Digest>> revoke_here(const RevokeOptions& options, const Digest& id) {
  std::vector<Digest> plans;
  {
    LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.farm.state}));
    LFARM_ASSIGN_OR_RETURN(std::vector<cache::PlanListing> found, cache->find_by_id(id.hex()));
    for (const cache::PlanListing& listing : found) plans.push_back(listing.facts.plan_id);
  }
  if (plans.empty()) plans.push_back(id);
  LFARM_ASSIGN_OR_RETURN(auto store, cache::Store::open(options.farm.state, writer_options()));
  for (const Digest& plan : plans) {
    LFARM_ASSIGN_OR_RETURN([[maybe_unused]] uint64_t removed, store->revoke(plan, options.reason));
  }
  return plans;
}

common::Status revoke(const RevokeOptions& options) {
  LFARM_ASSIGN_OR_RETURN(Digest id, find_id(options));
  bool has_farm = !options.farm.farm.empty() || FarmLock::holder({options.farm.state}).has_value();
  std::vector<Digest> plans;
  if (has_farm) {
    LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options.farm));
    LFARM_ASSIGN_OR_RETURN(plans, client->revoke(id, options.reason));
  } else {
    LFARM_ASSIGN_OR_RETURN(plans, revoke_here(options, id));
  }
  for (const Digest& plan : plans) std::printf("plan %s is revoked\n", plan.hex().c_str());
  return {};
}

}  // namespace

void declare_cache_revoke(CommandLine* line) {
  auto options = std::make_shared<RevokeOptions>();
  Command command = line->add(
      "cache revoke",
      "Withdraws a plan: the farm serves it no more and takes it out of the store that it shares\n"
      "with others, which withdraw it too; programs that run leave it within half a minute, other\n"
      "clients refuse their copies as soon as they have pulled anything. There is no way back.",
      [options] { return exit_code_of(revoke(*options)); });
  command
      .value("plan", &options->what, "PLAN|KEY",
             "The plan's id or a beginning of it, or the key of all tenants' plans under it")
      .required();
  command.value("--reason", &options->reason, "TEXT", "What who asks for it is told")
      .shows_default();
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
