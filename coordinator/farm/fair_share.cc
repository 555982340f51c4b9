#include "coordinator/farm/fair_share.h"

#include <algorithm>

#include "common/base/check.h"

namespace coordinator::farm {
namespace {
// Cost 1 at weight 1. With costs up to 2^16, 2^32 tasks fit before a pass wraps.
constexpr uint64_t kStride = uint64_t{1} << 16;
}  // namespace

void FairShare::add(JobId job, const std::string& tenant, uint32_t weight) {
  LFARM_CHECK(weight >= 1, "a job's weight is at least 1");
  auto [number, is_new] = tenant_numbers_.try_emplace(tenant, tenants_made_ + 1);
  if (is_new) {
    ++tenants_made_;
    Tenant made;
    made.name = tenant;
    made.pass = now_;
    tenants_.emplace(number->second, std::move(made));
  }
  ++tenants_.at(number->second).jobs;
  bool added = jobs_.emplace(job, Job{number->second, weight, 0, false}).second;
  LFARM_CHECK(added, "a job is added once");
}

void FairShare::remove(JobId job) {
  set_ready(job, false);
  uint64_t number = jobs_.at(job).tenant;
  jobs_.erase(job);
  Tenant& tenant = tenants_.at(number);
  if (--tenant.jobs == 0) {
    tenant_numbers_.erase(tenant.name);
    tenants_.erase(number);
  }
}

void FairShare::set_ready(JobId id, bool ready) {
  Job& job = jobs_.at(id);
  if (job.ready == ready) return;
  job.ready = ready;
  Tenant& tenant = tenants_.at(job.tenant);
  if (ready) {
    if (tenant.ready.empty()) {
      tenant.pass = std::max(tenant.pass, now_);
      ready_tenants_.emplace(tenant.pass, job.tenant);
    }
    job.pass = std::max(job.pass, tenant.now);
    tenant.ready.emplace(job.pass, id);
  } else {
    tenant.ready.erase({job.pass, id});
    if (tenant.ready.empty()) ready_tenants_.erase({tenant.pass, job.tenant});
  }
}

JobId FairShare::next() const {
  LFARM_CHECK(!empty(), "nobody is ready");
  return tenants_.at(ready_tenants_.begin()->second).ready.begin()->second;
}

void FairShare::charge(JobId id, uint32_t cost) {
  Job& job = jobs_.at(id);
  LFARM_CHECK(job.ready, "only ready jobs are served");
  Tenant& tenant = tenants_.at(job.tenant);
  now_ = tenant.pass;
  ready_tenants_.erase({tenant.pass, job.tenant});
  tenant.pass += kStride * cost;
  ready_tenants_.emplace(tenant.pass, job.tenant);

  tenant.now = job.pass;
  tenant.ready.erase({job.pass, id});
  job.pass += kStride * cost / job.weight;
  tenant.ready.emplace(job.pass, id);
}

}  // namespace coordinator::farm
