// lfarm plan explain: why two models, or a model and a plan, do not share a plan.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "clients/cli/access/plan_cache.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/plans/find_plan.h"
#include "clients/cli/plans/key_difference.h"
#include "clients/pt2/translate.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::Result;

struct ExplainOptions {
  FarmOptions farm;
  std::string a, b;
  common::PlanPolicy policy;
};

Result<KeyParts> parts_of_argument(const ExplainOptions& options, const std::string& what) {
  std::error_code ignored;
  if (std::filesystem::exists(what, ignored)) {
    LFARM_ASSIGN_OR_RETURN(Model model, load_model(what));
    LFARM_ASSIGN_OR_RETURN(common::Target target, target_of(options.farm));
    return parts_of(what, common::plan_key_of(model.graph, target, options.policy.text()),
                    model.graph);
  }
  LFARM_ASSIGN_OR_RETURN(FoundPlan found, plan_of_id(options.farm, what));
  return parts_of(cat("plan ", found.id.short_hex()), found.plan);
}

// Of the plans in the state directory's cache, the one that agrees with `parts` for longest.
Result<KeyParts> nearest_plan(const ExplainOptions& options, const KeyParts& parts) {
  LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.farm.state}));
  std::optional<KeyParts> nearest;
  int most = -1;
  auto look = [&](const cache::PlanListing& listing) -> common::Status {
    auto plan = cache->read(listing);
    if (!plan.ok()) return {};
    KeyParts candidate = parts_of(cat("plan ", listing.facts.plan_id.short_hex()), *plan);
    int agrees = agreement(parts, candidate);
    if (agrees <= most) return {};
    most = agrees;
    nearest = std::move(candidate);
    return {};
  };
  LFARM_RETURN_IF_ERROR(cache->store().for_each_plan(look));
  if (!nearest) return not_cached(parts.name);
  return *nearest;
}

common::Status explain(const ExplainOptions& options) {
  LFARM_ASSIGN_OR_RETURN(KeyParts a, parts_of_argument(options, options.a));
  auto other = options.b.empty() ? nearest_plan(options, a) : parts_of_argument(options, options.b);
  if (!other.ok()) return other.error();
  const KeyParts& b = *other;
  auto difference = first_difference(a, b);
  if (!difference) {
    std::printf("%s and %s have the same key, %s\n", a.name.c_str(), b.name.c_str(),
                a.key.digest().short_hex().c_str());
    return {};
  }
  std::printf("%s: %s against %s\n", difference->field.c_str(), difference->a.c_str(),
              difference->b.c_str());
  std::printf("  first:  %s\n  second: %s\n  why it matters: %s\n", a.name.c_str(), b.name.c_str(),
              difference->why.c_str());
  return {};
}

}  // namespace

void declare_plan_explain(CommandLine* line) {
  auto options = std::make_shared<ExplainOptions>();
  Command command = line->add(
      "plan explain",
      "Says why two models, or a model and a plan, do not share a plan: the first field in which\n"
      "their plan keys differ. Without a second one, the nearest plan of the cache is taken.",
      [options] { return exit_code_of(explain(*options)); });
  command.value("first", &options->a, "MODEL.pt2|ID", "A model, or the id of a plan").required();
  command.value("second", &options->b, "MODEL.pt2|ID", "What to compare it with");
  add_policy_options(&command, &options->policy);
  add_device_option(&command, &options->farm);
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
