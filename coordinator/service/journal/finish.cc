#include "coordinator/service/journal/finish.h"

#include <algorithm>

#include "common/wire/ir_codec.h"

namespace coordinator::service {

common::Status adopt(common::Plan& plan, const common::TaskReport& rerun) {
  common::Plan renewed = plan;
  for (common::PlanKernel& kernel : renewed.kernels) {
    auto made = std::find_if(
        rerun.kernels.begin(), rerun.kernels.end(),
        [&](const common::PlanKernel& other) { return other.fingerprint == kernel.fingerprint; });
    if (made == rerun.kernels.end()) {
      return common::internal_error("the finalist's second run lacks a kernel of the plan");
    }
    common::PlanKernel times = kernel;
    kernel = *made;
    kernel.predicted_ns = times.predicted_ns;
    kernel.measured_ns = times.measured_ns;
  }
  renewed.objects = rerun.objects;
  renewed.provenance.toolchain = rerun.toolchain;
  LFARM_RETURN_IF_ERROR(common::verify(renewed));
  plan = std::move(renewed);
  return {};
}

void sign_off(common::Plan& plan, const JobRequest& request, const JobEnd& end) {
  auto as_signed = [](uint64_t count) {
    return static_cast<int64_t>(std::min<uint64_t>(count, INT64_MAX));
  };
  plan.provenance.search.budget_candidates = as_signed(request.budget_candidates);
  plan.provenance.search.budget_ms = as_signed(request.budget_ms);
  plan.provenance.farm = end.farm;
  plan.provenance.created_ns = end.created_ns;
  plan.provenance.tenant = end.tenant;
  plan.provenance.submitter = end.submitter;
  plan.provenance.toolchain = end.toolchain;
  plan.provenance.machine = end.machine;
  plan.provenance.second_worker = end.second_worker;
}

common::Result<common::Plan> finished_plan(common::Plan found, const JobRequest& request,
                                           const JobEnd& end) {
  if (end.rerun) LFARM_RETURN_IF_ERROR(adopt(found, *end.rerun));
  sign_off(found, request, end);
  return found;
}

common::Digest plan_digest(const common::Plan& plan) {
  return common::digest_of(common::encode_plan(plan));
}

}  // namespace coordinator::service
