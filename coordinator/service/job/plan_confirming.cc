#include "coordinator/service/job/plan_confirming.h"

#include <utility>

namespace coordinator::service {

PlanConfirming::PlanConfirming(const JobScope& scope, const SentPrograms& programs, JobEvents& job,
                               FoundPlan plan)
    : job_(job),
      plan_(std::move(plan)),
      second_(scope.env, scope.request.id,
              {programs.verified(plan_.outcome.candidate), plan_.outcome.worker, plan_.make},
              plan_.outcome.plan, [this](common::Result<std::string> second_worker) {
                ended(std::move(second_worker));
              }) {}

void PlanConfirming::ended(common::Result<std::string> second_worker) {
  if (!second_worker.ok()) return job_.failed(second_worker.error());
  plan_.second_worker = *std::move(second_worker);
  job_.confirmed(std::move(plan_));
}

}  // namespace coordinator::service
