#include "coordinator/service/reverify.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "coordinator/service/device_name.h"
#include "coordinator/service/finish.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Status;

namespace {
constexpr size_t kRunsMax = 256;
constexpr int64_t kNsPerMs = 1'000'000;
}  // namespace

Reverifier::~Reverifier() {
  for (const auto& [id, run] : runs_) env_.dispatcher.remove_job(id);
}

bool Reverifier::start(farm::JobId id, const std::string& tenant, EarlierPlan plan,
                       uint32_t priority, Done done) {
  if (works_on(tenant, plan) || runs_.size() >= kRunsMax) return false;
  Digest place = common::place_of(tenant, plan.key.digest(), plan.machine);
  auto graph = env_.blobs.hold(common::share(std::move(plan.recipe.graph)));
  if (!graph) return false;
  TaskSpec spec;
  spec.job = id;
  spec.target = device_name(plan.key.target.name, plan.machine);
  spec.payload = std::move(plan.recipe.payload);
  // With the key: a program that was banned under another compiler has another chance.
  spec.fingerprint = common::Hasher().text("reverify").digest(place).finish();
  spec.blobs = {graph->digest()};
  for (const common::PlanKernel& kernel : plan.plan.kernels) {
    spec.kernels.push_back(kernel.fingerprint);
  }
  common::log_info(cat("a plan of epoch ", plan.plan.key.epoch, " is made anew"),
                   {{"job", id}, {"tenant", tenant}, {"plan", plan.id.hex()}});
  runs_.emplace(id, Run{tenant,
                        std::move(plan),
                        {},
                        std::move(*graph),
                        std::move(done),
                        {},
                        {},
                        false,
                        false,
                        0});
  env_.dispatcher.add_job(id, tenant, priority);
  env_.dispatcher.add_task(std::move(spec));
  return true;
}

bool Reverifier::works_on(const std::string& tenant, const EarlierPlan& plan) const {
  return std::any_of(runs_.begin(), runs_.end(), [&](const auto& entry) {
    const EarlierPlan& other = entry.second.earlier;
    return entry.second.tenant == tenant && other.key == plan.key && other.machine == plan.machine;
  });
}

std::string Reverifier::task_done(const TaskDone& done) {
  auto found = runs_.find(done.job);
  if (found == runs_.end()) return {};
  std::string tenant = found->second.tenant;
  Status status = measured(found->second, done.result);
  status.ok() ? fetched(done.job) : end(done.job, status);
  return tenant;
}

// Puts together the plan of today, and asks the worker for what the store lacks.
Status Reverifier::measured(Run& run, const CandidateResult& result) {
  if (result.outcome != common::TaskOutcome::kOk) {
    // Of a worker's own failure the plan is not guilty.
    bool is_infra = result.outcome == common::TaskOutcome::kInfra;
    return common::Error{
        is_infra ? common::Code::kUnavailable : common::Code::kVerification,
        cat("it ended ", common::outcome_name(result.outcome), ": ", result.message)};
  }
  run.plan = run.earlier.plan;
  run.plan.key = run.earlier.key;
  LFARM_RETURN_IF_ERROR(adopt(run.plan, result.report));
  common::Provenance& provenance = run.plan.provenance;
  if (provenance.found_epoch.empty() && run.earlier.plan.key.epoch != run.plan.key.epoch) {
    provenance.found_epoch = run.earlier.plan.key.epoch;
  }
  provenance.origin = run.earlier.id;
  provenance.best_ns = static_cast<int64_t>(result.report.total_ns);
  provenance.created_ns = common::wall_clock_ns();
  provenance.farm = env_.options.name;
  provenance.worker = result.worker;
  provenance.machine = run.earlier.machine;
  // The plain plan was not measured beside it.
  provenance.speedup = provenance.speedup_low = provenance.speedup_high = 0;
  provenance.disturbed = 0;
  provenance.toolchain = env_.workers.toolchain_of(result.worker);
  const std::vector<uint64_t>& times = result.report.kernel_ns;
  for (size_t k = 0; k < run.plan.kernels.size() && times.size() == run.plan.kernels.size(); ++k) {
    run.plan.kernels[k].measured_ns = static_cast<int64_t>(times[k]);
  }
  run.is_measured = true;
  run.holder = result.worker;
  run.deadline_ns = env_.clock.now_ns() + env_.options.object_wait_ms * kNsPerMs;
  for (const Digest& object : run.plan.objects) {
    LFARM_ASSIGN_OR_RETURN(bool there, env_.store.has_blob(object));
    if (there || !run.missing.insert(object).second) continue;
    if (!env_.workers.send(run.holder, common::BlobRequest{object})) {
      return common::unavailable(cat("worker ", run.holder, " is gone"));
    }
  }
  return {};
}

// Keeps the plan once all of it is here.
void Reverifier::fetched(farm::JobId id) {
  Run& run = runs_.at(id);
  if (!run.is_measured || run.is_keeping || !run.missing.empty()) return;
  run.is_keeping = true;
  KeptPlan kept;
  kept.search_ms = run.earlier.search_ms;
  kept.recipe = run.earlier.recipe_blob;
  // Whatever else lies there by now is today's already.
  Digest place = common::place_of(run.tenant, run.plan.key.digest(), run.earlier.machine);
  auto there = env_.store.get_plan(place, cache::Lookup::kInspect);
  kept.replaces = there.ok() && *there && (*there)->facts.plan_id == run.earlier.id;
  env_.steps.start([this, id, tenant = run.tenant, plan = run.plan, kept,
                    &plans = env_.plans]() -> Background::Done {
    Status status = plans.keep(tenant, plan, kept);
    return [this, id, status] { end(id, status); };
  });
}

bool Reverifier::wants_object(const Digest& digest) const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [&](const auto& entry) { return entry.second.missing.contains(digest); });
}

void Reverifier::object_arrived(const Digest& digest, const Status& status) {
  std::vector<farm::JobId> waiting;
  for (auto& [id, run] : runs_) {
    if (run.missing.erase(digest) != 0) waiting.push_back(id);
  }
  for (farm::JobId id : waiting) status.ok() ? fetched(id) : end(id, status);
}

void Reverifier::object_missing(const std::string& worker, const Digest& digest) {
  std::vector<farm::JobId> lost;
  for (const auto& [id, run] : runs_) {
    if (run.holder == worker && run.missing.contains(digest)) lost.push_back(id);
  }
  for (farm::JobId id : lost) {
    end(id, common::unavailable(cat("worker ", worker, " no longer has its objects")));
  }
}

void Reverifier::job_stopped(farm::JobId id) {
  end(id, common::unavailable("workers keep failing; see their logs"));
}

void Reverifier::tick(int64_t now_ns) {
  std::vector<farm::JobId> late;
  for (const auto& [id, run] : runs_) {
    if (!run.missing.empty() && now_ns >= run.deadline_ns) late.push_back(id);
  }
  for (farm::JobId id : late) {
    end(id, Status(common::Error{common::Code::kTimedOut, "its objects did not arrive"}));
  }
}

void Reverifier::end(farm::JobId id, const Status& status) {
  auto found = runs_.find(id);
  if (found == runs_.end()) return;
  Run run = std::move(found->second);
  runs_.erase(found);
  env_.dispatcher.remove_job(id);
  if (!status.ok()) {
    common::log_warning(cat("a plan cannot be made anew: ", status.error().message),
                        {{"tenant", run.tenant}, {"plan", run.earlier.id.hex()}});
  }
  run.done(status);
}

}  // namespace coordinator::service
