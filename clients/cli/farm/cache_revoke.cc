// lfarm cache revoke: withdraws a plan from everyone.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "cache/store/store.h"
#include "clients/cli/access/farm_plans.h"
#include "clients/cli/access/plan_cache.h"
#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/plan/plan_ids.h"

namespace clients {
namespace {

using common::cat;
using common::Digest;
using common::Result;

struct RevokeOptions {
  FarmOptions farm;
  std::string what;
  std::string reason = "revoked by hand";
  std::string worker, toolchain, since, until;  // of a rule

  bool has_rule() const {
    return !worker.empty() || !toolchain.empty() || !since.empty() || !until.empty();
  }
};

// "2026-11-26" or "2026-11-26T14:30", in UTC, as nanoseconds since 1970.
Result<int64_t> parse_time(const std::string& text, const char* option) {
  for (const char* format : {"%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
    std::tm parts{};
    const char* end = ::strptime(text.c_str(), format, &parts);
    if (end != nullptr && *end == '\0') return int64_t{::timegm(&parts)} * 1'000'000'000;
  }
  return common::invalid_input(
      cat(option, " '", text, "' is no time; write 2026-11-26 or 2026-11-26T14:30, in UTC"));
}

Result<common::RevocationRule> rule_of(const RevokeOptions& options) {
  common::RevocationRule rule{options.worker, options.toolchain, 0, common::wall_clock_ns()};
  if (!options.since.empty()) {
    LFARM_ASSIGN_OR_RETURN(rule.from_ns, parse_time(options.since, "--since"));
  }
  if (!options.until.empty()) {
    LFARM_ASSIGN_OR_RETURN(int64_t until_ns, parse_time(options.until, "--until"));
    rule.until_ns = std::min(rule.until_ns, until_ns);
  }
  if (rule.from_ns <= rule.until_ns) return rule;
  return common::invalid_input("--since is after --until, or in the future");
}

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

common::Status revoke_by_rule(const RevokeOptions& options) {
  LFARM_ASSIGN_OR_RETURN(common::RevocationRule rule, rule_of(options));
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options.farm));
  LFARM_ASSIGN_OR_RETURN(std::vector<Digest> plans,
                         client->revoke(common::RevokePlan{0, {}, options.reason, rule}));
  for (const Digest& plan : plans) std::printf("plan %s is revoked\n", plan.hex().c_str());
  std::printf("%zu plans of the farm are revoked, and all others that were made so\n",
              plans.size());
  return {};
}

common::Status revoke(const RevokeOptions& options) {
  if (options.has_rule() != options.what.empty()) {
    return common::invalid_input(
        "say which plan is revoked, or what made those that are: --worker, --toolchain, --since, "
        "--until");
  }
  if (options.has_rule()) return revoke_by_rule(options);
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
  command.value("plan", &options->what, "PLAN|KEY",
                "The plan's id or a beginning of it, or the key of all tenants' plans under it");
  command.heading("Plans by what made them, of a farm that runs");
  command.value("--worker", &options->worker, "NAME",
                "Those that this worker measured and made the machine code of");
  command.value("--toolchain", &options->toolchain, "TEXT",
                "Those whose toolchain's name holds this text, such as 'clang 14'");
  command.value("--since", &options->since, "TIME",
                "Those that were made since, such as 2026-11-26T14:30, in UTC");
  command.value("--until", &options->until, "TIME",
                "Those that were made until then, or until now");
  command.heading("Options");
  command.value("--reason", &options->reason, "TEXT", "What who asks for it is told")
      .shows_default();
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
