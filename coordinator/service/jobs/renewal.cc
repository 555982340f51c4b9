#include "coordinator/service/jobs/renewal.h"

#include <map>
#include <set>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Status;

PlanRepository::StaleCheck stale_check(const Workers& workers) {
  std::map<std::string, std::set<std::string>> present;
  for (const WorkerSession* session : workers.sessions()) {
    present[device_name(session->target, session->machine)].insert(session->software.toolchain);
  }
  return [present = std::move(present)](const common::Plan& plan) {
    auto found = present.find(device_name(plan.key.target.name, plan.provenance.machine));
    // Plans of earlier versions lack it where the worker left before its plan was kept.
    const std::string& toolchain = plan.provenance.toolchain;
    return found != present.end() && !toolchain.empty() && !found->second.contains(toolchain);
  };
}

void Renewal::turn(bool is_idle) {
  if (changes_seen_ != env_.workers.changes() && !is_looking_) look();
  if (is_running_ || is_looking_ || waiting_.empty()) return;
  if (begun_ >= kAtOnce && !is_idle) return;
  Digest place = waiting_.front();
  waiting_.pop_front();
  begin(place);
}

// In the background, since every plan of the store is read.
void Renewal::look() {
  changes_seen_ = env_.workers.changes();
  is_looking_ = true;
  env_.threads.background.start([this, is_stale = stale_check(env_.workers),
                                 epoch = env_.options.epoch,
                                 &plans = env_.plans]() -> Background::Done {
    auto stale = plans.stale_plans(epoch, is_stale, kWaitingMax);
    return [this, stale] {
      is_looking_ = false;
      if (!stale.ok()) {
        return common::log_warning(
            cat("plans of other toolchains cannot be read: ", stale.error().message));
      }
      waiting_.clear();
      begun_ = 0;
      for (const PlanRepository::StalePlan& plan : *stale) waiting_.push_back(plan.place);
      if (waiting_.empty()) return;
      common::log_info(cat("the toolchain has changed: ", waiting_.size(),
                           " plans are verified and measured anew"));
    };
  });
}

void Renewal::begin(const Digest& place) {
  auto found = env_.plans.at_place(place);
  if (!found.ok() || !*found || !stale_check(env_.workers)((*found)->second.plan)) return;
  auto& [tenant, plan] = **found;
  if (!env_.tenants.exhausted(tenant, common::wall_clock_ns()).empty()) return;
  farm::JobId id = links_.new_id(tenant, plan.key.graph_hash);
  is_running_ = reverifier_.start(id, tenant, std::move(plan), 1,
                                  [this, place](const Status& status) { ended(place, status); });
  if (is_running_) ++begun_;
}

// A plan that is not right with today's toolchain is served no more. What failed for another reason
// keeps the plan, and is tried again with the next change.
void Renewal::ended(const Digest& place, const Status& status) {
  is_running_ = false;
  if (status.ok() || status.error().code != common::Code::kVerification) return;
  auto found = env_.plans.at_place(place);
  if (!found.ok() || !*found || !stale_check(env_.workers)((*found)->second.plan)) return;
  const auto& [tenant, plan] = **found;
  auto removed = env_.store.remove_plan(place);
  if (!removed.ok()) return common::log_warning(removed.error().message);
  common::log_warning(
      cat("a plan is withdrawn and searched for again: with the new toolchain ",
          status.error().message),
      {{"plan", plan.id.hex()}, {"tenant", tenant}, {"target", plan.key.target.name}});
  links_.search(tenant, plan);
}

}  // namespace coordinator::service
