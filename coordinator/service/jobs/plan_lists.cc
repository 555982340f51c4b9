#include "coordinator/service/jobs/plan_lists.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "coordinator/service/plans/owned_plan.h"

namespace coordinator::service {
namespace {

using common::Digest;
using common::Result;
using Json = nlohmann::ordered_json;

constexpr size_t kPlansAtOnce = 250;

Json row_json(const cache::PlanListing& listing, const OwnedPlan& owned) {
  return {{"plan", listing.facts.plan_id.hex()},
          {"key", owned.plan.key.digest().hex()},
          {"place", listing.facts.key.hex()},
          {"graph_hash", listing.facts.graph_hash.hex()},
          {"tenant", owned.tenant},
          {"target", owned.plan.key.target.name},
          {"best_ns", listing.facts.best_ns},
          {"bytes", listing.bytes},
          {"blobs", listing.needs},
          {"created_ns", listing.created_wall_ns},
          {"last_used_ns", listing.last_used_wall_ns}};
}

// Empty where the plan went meanwhile, cannot be read, or is not to be seen.
std::optional<OwnedPlan> visible(cache::Store& store, const common::Principal& who,
                                 const cache::PlanListing& listing) {
  auto stored = store.get_plan(listing.facts.key, cache::Lookup::kInspect);
  if (!stored.ok() || !*stored) return std::nullopt;
  auto owned = decode_owned((*stored)->bytes);
  if (!owned.ok() || !who.may_see(owned->tenant)) return std::nullopt;
  return std::move(*owned);
}

Result<Json> newest(cache::Store& store, const common::Principal& who, const std::string& after) {
  Json rows = Json::array();
  std::string next = after;
  size_t read = 0;
  do {
    const size_t wanted = std::min(kPlansAtOnce, kPlansListedMax - rows.size());
    LFARM_ASSIGN_OR_RETURN(cache::PlanPage page, store.newest_plans(next, wanted));
    for (const cache::PlanListing& listing : page.plans) {
      if (auto owned = visible(store, who, listing)) rows.push_back(row_json(listing, *owned));
    }
    read += wanted;
    next = std::move(page.next);
  } while (!next.empty() && rows.size() < kPlansListedMax && read < kPlansReadMax);
  Json list;
  if (who.has(common::Role::kAdmin)) {
    LFARM_ASSIGN_OR_RETURN(cache::StoreStats stats, store.stats());
    list["total"] = stats.plans.count;
  } else if (after.empty() && next.empty()) {
    list["total"] = rows.size();
  }
  if (!next.empty()) list["next"] = next;
  list["plans"] = std::move(rows);
  return list;
}

Result<Json> beginning(cache::Store& store, const common::Principal& who,
                       const std::string& digits) {
  LFARM_ASSIGN_OR_RETURN(auto found, store.plans_beginning(digits, kPlansReadMax));
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.created_wall_ns > b.created_wall_ns; });
  auto begins = [&digits](const Digest& digest) { return digest.hex().starts_with(digits); };
  Json by_listing = Json::array(), by_key = Json::array();
  size_t listed = 0, keyed = 0;
  for (const cache::PlanListing& listing : found) {
    auto owned = visible(store, who, listing);
    if (!owned) continue;
    bool matches = begins(listing.facts.plan_id) || begins(listing.facts.graph_hash);
    if (!matches && !begins(owned->plan.key.digest())) continue;
    Json& rows = matches ? by_listing : by_key;
    if (++(matches ? listed : keyed) <= kPlansListedMax) rows.push_back(row_json(listing, *owned));
  }
  if (listed == 0) return Json{{"total", keyed}, {"plans", std::move(by_key)}};
  return Json{{"total", listed}, {"plans", std::move(by_listing)}};
}

}  // namespace

Result<std::string> plan_list_json(cache::Store& store, const common::Principal& who,
                                   const std::string& digits, const std::string& after) {
  LFARM_ASSIGN_OR_RETURN(
      Json list, digits.empty() ? newest(store, who, after) : beginning(store, who, digits));
  return list.dump(-1, ' ', true, Json::error_handler_t::replace);
}

void PlanLists::send(const std::string& peer, const common::Principal& who,
                     const common::StatusRequest& request) {
  if (reading_ >= kAtOnce) {
    return env_.outbox.refuse(peer, common::Code::kUnavailable,
                              "the farm lists other plans now; ask again");
  }
  ++reading_;
  env_.threads.background.start([this, peer, who, request,
                                 &store = env_.store]() -> Background::Done {
    auto found = std::make_shared<Result<std::string>>(
        plan_list_json(store, who, request.begins, request.after));
    return [this, peer, request, found] {
      --reading_;
      if (!found->ok()) {
        return env_.outbox.refuse(peer, found->error().code, found->error().message);
      }
      env_.outbox.send(peer, common::StatusReply{request.request_id, std::move(*found).value()});
    };
  });
}

}  // namespace coordinator::service
