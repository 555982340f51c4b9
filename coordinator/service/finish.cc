#include "coordinator/service/finish.h"

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
  LFARM_RETURN_IF_ERROR(common::verify(renewed));
  plan = std::move(renewed);
  return {};
}

common::Result<common::Plan> finished_plan(common::Plan found, const JobEnd& end) {
  if (end.rerun) LFARM_RETURN_IF_ERROR(adopt(found, *end.rerun));
  found.provenance.farm = end.farm;
  found.provenance.created_ns = end.created_ns;
  return found;
}

common::Digest plan_digest(const common::Plan& plan) {
  return common::digest_of(common::encode_plan(plan));
}

}  // namespace coordinator::service
