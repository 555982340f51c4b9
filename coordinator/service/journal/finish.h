// What a plan takes on between the end of its search and the store: one place for it, because a
// replay must come to the same bytes.
#pragma once

#include "common/plan/plan.h"
#include "coordinator/service/journal/job_journal.h"

namespace coordinator::service {

// Compilers need not give the same bytes twice: the plan takes what its finalist's second run made
// and names the toolchain of that run. kInternal when the run lacks a kernel; the plan is unchanged
// then.
common::Status adopt(common::Plan& plan, const common::TaskReport& rerun);
// Says who made the plan, when and with what, and what its search was given.
void sign_off(common::Plan& plan, const JobRequest& request, const JobEnd& end);
// The plan as it is kept: with the farm's name, the time and what adopt() takes.
common::Result<common::Plan> finished_plan(common::Plan found, const JobRequest& request,
                                           const JobEnd& end);
// Of the plan's encoded form, before it is signed.
common::Digest plan_digest(const common::Plan& plan);

}  // namespace coordinator::service
