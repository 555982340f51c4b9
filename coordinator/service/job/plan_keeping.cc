#include "coordinator/service/job/plan_keeping.h"

#include <optional>
#include <utility>

#include "coordinator/service/journal/finish.h"
#include "coordinator/service/plans/effort.h"

namespace coordinator::service {

using common::Status;

// The journal is closed only after all of it has been written.
void PlanKeeping::begin() {
  scope_.notes.when_written([self = std::weak_ptr<PlanKeeping*>(self_)](const Status& written) {
    auto keeping = self.lock();
    if (!keeping) return;
    written.ok() ? (*keeping)->keep() : (*keeping)->stored(written);
  });
}

void PlanKeeping::tick(int64_t now_ns) {
  if (retry_ns_ == 0 || now_ns < retry_ns_ || !scope_.env.store.trouble().empty()) return;
  retry_ns_ = 0;
  keep();
}

// Of two plans that are written at once, the earlier one could be the last.
void PlanKeeping::keep() {
  interim_.when_idle([self = std::weak_ptr<PlanKeeping*>(self_)] {
    if (auto keeping = self.lock()) (*keeping)->write();
  });
}

// Once, so that a plan that is stored again is the same.
void PlanKeeping::sign_off_once() {
  if (end_.created_ns != 0) return;
  const JobRequest& request = scope_.request;
  end_.farm = scope_.env.options.name;
  end_.tenant = request.tenant;
  end_.submitter = request.submitter;
  end_.created_ns = common::wall_clock_ns();
  end_.toolchain = plan_.outcome.plan.provenance.toolchain;
  end_.machine = scope_.machine;
  end_.second_worker = plan_.second_worker;
  end_.rerun = std::move(plan_.rerun);
  sign_off(plan_.outcome.plan, request, end_);
  end_.plan = plan_digest(plan_.outcome.plan);
}

void PlanKeeping::write() {
  sign_off_once();
  const Environment& env = scope_.env;
  const JobRequest& request = scope_.request;
  KeptPlan how{scope_.elapsed_ms(env.clock.now_ns()), programs_.recipe(plan_.outcome.candidate),
               false};
  if (scope_.start) how.compared = scope_.start->incumbent_plan;
  // A search that was told to end was given less.
  std::optional<Effort> spent;
  if (!plan_.is_cut_off) spent = Effort{request.budget_candidates, request.budget_ms, request.seed};
  env.threads.steps.start(
      [self = std::weak_ptr<PlanKeeping*>(self_), plan = plan_.outcome.plan, &plans = env.plans,
       &store = env.store, id = request.id, tenant = request.tenant, end = end_,
       how = std::move(how), spent,
       place = common::place_of(request.tenant, request.key.digest(), scope_.machine),
       kept = env.options.kept.closed_journals_max]() mutable {
        auto plan_id = plans.keep(tenant, plan, how);
        Status status = plan_id.ok() ? Status() : Status(plan_id.error());
        if (status.ok() && spent) status = note_effort(store, place, *spent);
        if (status.ok()) {
          end.plan_id = *plan_id;
          status = journal_end(store, id, end, kept);
        }
        return [self, status] {
          if (auto keeping = self.lock()) (*keeping)->stored(status);
        };
      });
}

void PlanKeeping::stored(const Status& status) {
  if (status.ok()) return job_.kept(std::move(plan_));
  if (!scope_.may_pass(status.error())) return job_.failed(status.error());
  retry_ns_ = scope_.disk_retry_ns();
}

}  // namespace coordinator::service
