#include "coordinator/service/jobs/plan_lists.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "coordinator/service/plans/owned_plan.h"

namespace coordinator::service {
namespace {

using common::Digest;
using common::Result;
using Json = nlohmann::ordered_json;

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

class Lister {
 public:
  Lister(cache::Store& store, const common::Principal& who, const std::string& digits)
      : store_(store), who_(who), digits_(digits) {}

  // Those whose listing (and, with `by_key`, whose key) begins with the digits.
  void list(const std::vector<cache::PlanListing>& all, bool by_key) {
    for (const cache::PlanListing& listing : all) {
      bool matches = begins(listing.facts.plan_id) || begins(listing.facts.graph_hash);
      if (!matches && !by_key) continue;
      auto stored = store_.get_plan(listing.facts.key, cache::Lookup::kInspect);
      if (!stored.ok() || !*stored) continue;
      auto owned = decode_owned((*stored)->bytes);
      if (!owned.ok() || !who_.may_see(owned->tenant)) continue;
      if (!matches && !begins(owned->plan.key.digest())) continue;
      if (++total_ <= kPlansListedMax) rows_.push_back(row_json(listing, *owned));
    }
  }
  size_t total() const { return total_; }
  std::string text() && {
    return Json{{"total", total_}, {"plans", std::move(rows_)}}.dump(
        -1, ' ', true, Json::error_handler_t::replace);
  }

 private:
  bool begins(const Digest& digest) const { return digest.hex().starts_with(digits_); }

  cache::Store& store_;
  const common::Principal& who_;
  const std::string& digits_;
  size_t total_ = 0;
  Json rows_ = Json::array();
};

}  // namespace

Result<std::string> plan_list_json(cache::Store& store, const common::Principal& who,
                                   const std::string& digits) {
  LFARM_ASSIGN_OR_RETURN(std::vector<cache::PlanListing> all, store.list_plans());
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.created_wall_ns > b.created_wall_ns; });
  Lister lister(store, who, digits);
  lister.list(all, false);
  if (lister.total() == 0) lister.list(all, true);
  return std::move(lister).text();
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
    auto found = std::make_shared<Result<std::string>>(plan_list_json(store, who, request.begins));
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
