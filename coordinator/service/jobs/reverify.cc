#include "coordinator/service/jobs/reverify.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/journal/finish.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Status;

namespace {
constexpr size_t kRunsMax = 256;

// The payload without a limit for references: nobody waits for what is made anew.
common::Bytes verified_in_full(common::Bytes payload) {
  auto decoded = common::decode_task_payload(payload);
  if (!decoded.ok()) return payload;
  decoded->verify.references_ms = 0;
  return common::encode_task_payload(*decoded);
}
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
  auto candidate = std::make_shared<Candidate>();
  candidate->kind = common::TaskKind::kFinalist;
  candidate->payload = verified_in_full(std::move(plan.recipe.payload));
  // With the key: a program that was banned under another compiler has another chance.
  candidate->fingerprint = common::Hasher().text("reverify").digest(place).finish();
  candidate->graph = graph->digest();
  for (const common::PlanKernel& kernel : plan.plan.kernels) {
    candidate->kernels.push_back(kernel.fingerprint);
  }
  TaskSpec spec{id, device_name(plan.key.target.name, plan.machine), candidate};
  common::log_info(cat("a plan of epoch ", plan.plan.key.epoch, " is made anew"),
                   {{"job", id}, {"tenant", tenant}, {"plan", plan.id.hex()}});
  runs_.emplace(id, Run{tenant, std::move(plan), std::move(candidate), std::move(*graph),
                        std::move(done), nullptr});
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
  if (done.is_only_build) {
    if (found->second.publication) found->second.publication->task_done(done);
    return tenant;
  }
  auto plan = measured(found->second, done.result);
  plan.ok() ? publish(done, std::move(*plan)) : end(done.job, plan.error());
  return tenant;
}

// The plan of today.
common::Result<common::Plan> Reverifier::measured(const Run& run,
                                                  const CandidateResult& result) const {
  if (result.outcome != common::TaskOutcome::kOk) {
    // Of a worker's own failure the plan is not guilty.
    bool is_infra = result.outcome == common::TaskOutcome::kInfra;
    return common::Error{
        is_infra ? common::Code::kUnavailable : common::Code::kVerification,
        cat("it ended ", common::outcome_name(result.outcome), ": ", result.message)};
  }
  common::Plan plan = run.earlier.plan;
  plan.key = run.earlier.key;
  LFARM_RETURN_IF_ERROR(adopt(plan, result.report));
  common::Provenance& provenance = plan.provenance;
  if (provenance.origin.found_epoch.empty() && run.earlier.plan.key.epoch != plan.key.epoch) {
    provenance.origin.found_epoch = run.earlier.plan.key.epoch;
  }
  provenance.origin.plan = run.earlier.id;
  provenance.best_ns = static_cast<int64_t>(result.report.total_ns);
  provenance.created_ns = common::wall_clock_ns();
  provenance.farm = env_.options.name;
  provenance.worker = result.worker;
  provenance.machine = run.earlier.machine;
  // The plain plan was not measured beside it.
  provenance.speedup.ratio = provenance.speedup.low = provenance.speedup.high = 0;
  provenance.disturbed = 0;
  const std::vector<uint64_t>& times = result.report.kernel_ns;
  for (size_t k = 0; k < plan.kernels.size() && times.size() == plan.kernels.size(); ++k) {
    plan.kernels[k].measured_ns = static_cast<int64_t>(times[k]);
  }
  return plan;
}

void Reverifier::publish(const TaskDone& done, common::Plan plan) {
  const farm::JobId id = done.job;
  const std::string& worker = done.result.worker;
  Run& run = runs_.at(id);
  BuiltProgram built{run.candidate, worker, std::nullopt};
  if (done.is_reproducible) built.make = env_.workers.make_of(worker);
  KeptPlan how;
  how.search_ms = run.earlier.search_ms;
  how.recipe = run.earlier.recipe_blob;
  // Whatever else lies there by now is today's already.
  Digest place = common::place_of(run.tenant, plan.key.digest(), run.earlier.machine);
  auto there = env_.store.get_plan(place, cache::Lookup::kInspect);
  how.replaces = there.ok() && *there && (*there)->facts.plan_id == run.earlier.id;
  run.publication = std::make_unique<Publication>(
      env_, id, run.tenant, std::move(plan), std::move(how), std::move(built),
      [this, id](const Status& status) { end(id, status); });
  run.publication->begin();
}

// A copy, because each may end its run.
std::vector<Publication*> Reverifier::publications() const {
  std::vector<Publication*> all;
  for (const auto& [id, run] : runs_) {
    if (run.publication) all.push_back(run.publication.get());
  }
  return all;
}

bool Reverifier::wants_object(const Digest& digest) const {
  return std::any_of(runs_.begin(), runs_.end(), [&](const auto& entry) {
    return entry.second.publication && entry.second.publication->wants_object(digest);
  });
}

void Reverifier::object_arrived(const Digest& digest, const Status& status) {
  for (Publication* one : publications()) one->object_arrived(digest, status);
}

void Reverifier::object_missing(const std::string& worker, const Digest& digest) {
  for (Publication* one : publications()) one->object_missing(worker, digest);
}

void Reverifier::job_stopped(farm::JobId id) {
  end(id, common::unavailable("workers keep failing; see their logs"));
}

void Reverifier::tick(int64_t now_ns) {
  for (Publication* one : publications()) one->tick(now_ns);
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
