// Plans beyond their place: other tenants' that are shared, other machine classes' that are served
// until there is a better one, and other compilers' that are made anew.
#include <algorithm>
#include <sstream>
#include <tuple>
#include <utility>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/base/log.h"
#include "common/plan/seal.h"
#include "common/wire/limits.h"
#include "coordinator/service/plans/owned_plan.h"
#include "coordinator/service/plans/plan_repository.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Result;

namespace {

constexpr const char* kEveryone = "*";

// Lines of "OWNER TENANT TENANT ..." or "OWNER *"; of "OWNER" where it was withdrawn, which another
// replica's record must not bring back.
std::string published_name(const Digest& key) { return cat(kPublishedPrefix, key.hex()); }

// The lines of all owners but one.
std::string lines_without(const std::string& record, const std::string& owner) {
  std::string kept;
  std::istringstream lines(record);
  for (std::string line; std::getline(lines, line);) {
    if (line.substr(0, line.find(' ')) != owner) kept += line + '\n';
  }
  return kept;
}

// Lines of machine classes.
constexpr size_t kClassesMax = 64;  // of one tenant's plans under one key; the latest stay
std::string classes_name(const std::string& tenant, const Digest& key) {
  return cat("classes/", common::place_of(tenant, key).hex());
}

bool names(std::istringstream& words, const std::string& tenant) {
  for (std::string word; words >> word;) {
    if (word == tenant || word == kEveryone) return true;
  }
  return false;
}

}  // namespace

// ---- Other tenants' ----------------------------------------------------------------------------

std::string merge_publications(const std::string& newer, const std::string& older) {
  std::string merged = older;
  std::istringstream lines(newer);
  for (std::string line; std::getline(lines, line);) {
    merged = lines_without(merged, line.substr(0, line.find(' '))).append(line).append("\n");
  }
  return merged;
}

Result<std::vector<std::string>> PlanRepository::owners_for(const std::string& tenant,
                                                            const Digest& key) {
  std::vector<std::string> owners = tenants_.sharing_with(tenant);
  LFARM_ASSIGN_OR_RETURN(auto record, store_.get_named(published_name(key)));
  std::istringstream lines(record.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string owner;
    words >> owner;
    if (owner != tenant && names(words, tenant)) owners.push_back(owner);
  }
  return owners;
}

// True when the tenant has a plan of the class now. What would tell whose the plan was, or for whom
// it was made, stays behind; the plan itself names nothing of the model but what its graph's hash
// says.
Result<bool> PlanRepository::copy_shared(const std::string& tenant, const Digest& key,
                                         const std::string& machine) {
  LFARM_ASSIGN_OR_RETURN(std::vector<std::string> owners, owners_for(tenant, key));
  for (const std::string& owner : owners) {
    LFARM_ASSIGN_OR_RETURN(auto stored, store_.get_plan(common::place_of(owner, key, machine),
                                                        cache::Lookup::kInspect));
    if (!stored) continue;
    auto found = decode_owned(stored->bytes);
    // A copy is nobody's to share on, and one of a search that goes on may not stay.
    bool is_own = found.ok() && found->signer == public_key() && found->tenant == owner &&
                  !found->plan.provenance.tenant.empty() &&
                  !found->plan.provenance.search.is_interim;
    if (!is_own) continue;
    common::Plan copy = std::move(found->plan);
    copy.provenance.tenant.clear();
    copy.provenance.submitter.clear();
    copy.provenance.origin.plan = Digest{};
    LFARM_RETURN_IF_ERROR(keep(tenant, copy, {stored->facts.search_ms, "", false}));
    common::log_info(cat("a plan of ", owner, " is there for another tenant"),
                     {{"plan", stored->facts.plan_id.hex()}, {"tenant", tenant}});
    return true;
  }
  return false;
}

Result<Digest> PlanRepository::publish(const std::string& owner, const Digest& key,
                                       const std::vector<std::string>& tenants, bool withdraw) {
  LFARM_ASSIGN_OR_RETURN(std::vector<std::string> classes, classes_of(owner, key));
  std::optional<Digest> plan;
  for (const std::string& machine : classes) {
    LFARM_ASSIGN_OR_RETURN(auto stored, store_.get_plan(common::place_of(owner, key, machine),
                                                        cache::Lookup::kInspect));
    auto found = stored ? decode_owned(stored->bytes) : common::corrupt("none");
    if (found.ok() && !found->plan.provenance.tenant.empty()) plan = stored->facts.plan_id;
  }
  if (!plan) {
    return common::invalid_input(cat("tenant ", owner, " has found no plan under key ",
                                     key.short_hex(), "; submit the model first"));
  }
  LFARM_ASSIGN_OR_RETURN(auto record, store_.get_named(published_name(key)));
  std::string lines = lines_without(record.value_or(""), owner) + owner;
  if (!withdraw) {
    for (const std::string& tenant : tenants) lines += cat(' ', tenant);
    if (tenants.empty()) lines += cat(' ', kEveryone);
  }
  LFARM_RETURN_IF_ERROR(store_.put_named(published_name(key), lines + '\n'));
  LFARM_RETURN_IF_ERROR(store_.sync());
  return *plan;
}

// ---- Other machine classes' --------------------------------------------------------------------

// Classes of which the tenant has had a plan under the key, with the one that has no name first.
Result<std::vector<std::string>> PlanRepository::classes_of(const std::string& tenant,
                                                            const Digest& key) const {
  std::vector<std::string> classes{""};
  LFARM_ASSIGN_OR_RETURN(auto record, store_.get_named(classes_name(tenant, key)));
  std::istringstream lines(record.value_or(""));
  for (std::string line; std::getline(lines, line);) classes.push_back(line);
  return classes;
}

// Before the plan is there: a class without one is passed over.
common::Status PlanRepository::note_class(const std::string& tenant, const Digest& key,
                                          const std::string& machine) const {
  if (machine.empty()) return {};
  std::lock_guard lock(classes_mutex_);
  LFARM_ASSIGN_OR_RETURN(std::vector<std::string> classes, classes_of(tenant, key));
  if (common::contains(classes, machine)) return {};
  classes.push_back(machine);
  size_t first = classes.size() > kClassesMax ? classes.size() - kClassesMax : 1;
  std::string lines;
  for (size_t k = first; k < classes.size(); ++k) lines += classes[k] + "\n";
  return store_.put_named(classes_name(tenant, key), lines);
}

Result<std::optional<ReadyPlan>> PlanRepository::find_neighbour(const std::string& tenant,
                                                                const Digest& key,
                                                                const std::string& machine) {
  std::vector<std::string> owners{tenant};
  LFARM_ASSIGN_OR_RETURN(std::vector<std::string> sharing, owners_for(tenant, key));
  owners.insert(owners.end(), sharing.begin(), sharing.end());
  std::optional<std::string> best;
  for (const std::string& owner : owners) {
    LFARM_ASSIGN_OR_RETURN(std::vector<std::string> classes, classes_of(owner, key));
    for (const std::string& other : classes) {
      if (other == machine) continue;
      Digest place = common::place_of(owner, key, other);
      LFARM_ASSIGN_OR_RETURN(auto stored, store_.get_plan(place, cache::Lookup::kInspect));
      auto found = stored ? decode_owned(stored->bytes) : common::corrupt("none");
      if (!found.ok() || found->plan.provenance.search.is_interim) continue;
      bool is_nearer = !best || class_likeness(other, machine) > class_likeness(*best, machine);
      if (is_nearer) best = other;
    }
  }
  if (!best) return std::optional<ReadyPlan>();
  LFARM_ASSIGN_OR_RETURN(auto ready, find(tenant, key, *best));
  if (ready && !machine.empty()) ready->standing = common::Standing::kNeighbour;
  return ready;
}

// ---- Other compilers' --------------------------------------------------------------------------

// The plan at a place with its recipe; empty where it has none or is another tenant's.
Result<std::optional<EarlierPlan>> PlanRepository::earlier(const Digest& place,
                                                           const std::string& tenant,
                                                           std::string* owner) const {
  LFARM_ASSIGN_OR_RETURN(auto stored, store_.get_plan(place, cache::Lookup::kInspect));
  auto found = stored ? decode_owned(stored->bytes) : common::corrupt("none");
  bool is_theirs =
      found.ok() && found->signer == public_key() && (tenant.empty() || found->tenant == tenant);
  if (!is_theirs) return std::optional<EarlierPlan>();
  EarlierPlan out;
  out.id = stored->facts.plan_id;
  out.plan = std::move(found->plan);
  out.key = out.plan.key;
  out.machine = out.plan.provenance.machine;
  out.search_ms = stored->facts.search_ms;
  *owner = found->tenant;
  for (const Digest& need : stored->needs) {
    bool is_object = common::contains(out.plan.objects, need);
    if (is_object || need == out.id) continue;
    LFARM_ASSIGN_OR_RETURN(auto blob, store_.get_blob(need));
    if (!blob) return std::optional<EarlierPlan>();
    auto recipe = decode_recipe(common::as_bytes(*blob));
    if (!recipe.ok()) {
      common::log_warning(cat("plan ", out.id.short_hex(), ": ", recipe.error().message));
      return std::optional<EarlierPlan>();
    }
    out.recipe = std::move(*recipe);
    out.recipe_blob = std::move(*blob);
    return std::optional<EarlierPlan>(std::move(out));
  }
  return std::optional<EarlierPlan>();
}

Result<std::optional<EarlierPlan>> PlanRepository::find_made(const std::string& tenant,
                                                             const common::PlanKey& key,
                                                             const std::string& machine) {
  std::string owner;
  return earlier(common::place_of(tenant, key.digest(), machine), tenant, &owner);
}

Result<std::optional<EarlierPlan>> PlanRepository::find_earlier(const std::string& tenant,
                                                                const common::PlanKey& key,
                                                                const std::string& machine) {
  LFARM_ASSIGN_OR_RETURN(std::vector<Digest> places, store_.plans_of_graph(key.graph_hash));
  std::optional<EarlierPlan> best;
  for (const Digest& place : places) {
    std::string owner;
    LFARM_ASSIGN_OR_RETURN(auto found, earlier(place, tenant, &owner));
    if (!found) continue;
    const common::PlanKey& its = found->plan.key;
    if (its.target != key.target || its.policy != key.policy || its.epoch == key.epoch) continue;
    // One of another class would have to be searched for again, not only be made anew.
    if (!found->machine.empty() && found->machine != machine) continue;
    bool is_better = !best || found->plan.provenance.best_ns < best->plan.provenance.best_ns;
    if (is_better) best = std::move(found);
  }
  if (best) {
    best->key = key;
    best->machine = machine;
  }
  return best;
}

Result<std::optional<std::pair<std::string, EarlierPlan>>> PlanRepository::at_place(
    const Digest& place) {
  std::string owner;
  LFARM_ASSIGN_OR_RETURN(auto found, earlier(place, "", &owner));
  if (!found) return std::optional<std::pair<std::string, EarlierPlan>>();
  return std::optional(std::make_pair(std::move(owner), std::move(*found)));
}

Result<std::optional<EarlierPlan>> PlanRepository::find_recipe(const std::string& tenant,
                                                               const Digest& key) {
  LFARM_ASSIGN_OR_RETURN(std::vector<std::string> classes, classes_of(tenant, key));
  for (const std::string& machine : classes) {
    std::string owner;
    LFARM_ASSIGN_OR_RETURN(auto found,
                           earlier(common::place_of(tenant, key, machine), tenant, &owner));
    if (found) return found;
  }
  return std::optional<EarlierPlan>();
}

Result<std::vector<PlanRepository::StalePlan>> PlanRepository::stale_plans(
    const std::string& epoch, const StaleCheck& is_stale, size_t count) const {
  auto is_more_used = [](const StalePlan& a, const StalePlan& b) {
    return std::tie(b.uses, b.last_used_wall_ns, a.place) <
           std::tie(a.uses, a.last_used_wall_ns, b.place);
  };
  // A heap with the least used one on top.
  std::vector<StalePlan> stale;
  auto look = [&](const cache::PlanListing& listing) -> common::Status {
    LFARM_ASSIGN_OR_RETURN(auto stored,
                           store_.get_plan(listing.facts.key, cache::Lookup::kInspect));
    auto found = stored ? decode_owned(stored->bytes) : common::corrupt("gone");
    bool is_ours = found.ok() && found->signer == public_key() && found->plan.key.epoch == epoch &&
                   is_stale(found->plan);
    if (!is_ours) return {};
    stale.push_back({listing.facts.key, listing.uses, listing.last_used_wall_ns});
    std::push_heap(stale.begin(), stale.end(), is_more_used);
    if (stale.size() <= count) return {};
    std::pop_heap(stale.begin(), stale.end(), is_more_used);
    stale.pop_back();
    return {};
  };
  LFARM_RETURN_IF_ERROR(store_.for_each_plan(look));
  std::sort_heap(stale.begin(), stale.end(), is_more_used);
  return stale;
}

Result<std::vector<std::pair<std::string, EarlierPlan>>> PlanRepository::all_earlier(
    const std::string& tenant, const std::string& epoch, const StaleCheck& is_stale) const {
  std::vector<std::pair<std::string, EarlierPlan>> out;
  auto look = [&](const cache::PlanListing& listing) -> common::Status {
    if (out.size() >= common::kDigestsMax) return {};
    std::string owner;
    LFARM_ASSIGN_OR_RETURN(auto found, earlier(listing.facts.key, tenant, &owner));
    if (!found) return {};
    found->key = found->plan.key;
    found->key.epoch = epoch;
    if (found->plan.key.epoch == epoch) {
      if (!is_stale(found->plan)) return {};
    } else {
      Digest place = common::place_of(owner, found->key.digest(), found->machine);
      LFARM_ASSIGN_OR_RETURN(auto there, store_.get_plan(place, cache::Lookup::kInspect));
      if (there) return {};
    }
    out.emplace_back(std::move(owner), std::move(*found));
    return {};
  };
  LFARM_RETURN_IF_ERROR(store_.for_each_plan(look));
  return out;
}

}  // namespace coordinator::service
