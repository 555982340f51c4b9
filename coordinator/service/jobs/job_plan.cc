// A job from its search's outcome to the plan in the store and the answer to those who wait.
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "coordinator/service/jobs/job.h"
#include "coordinator/service/journal/finish.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Error;
using common::Status;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kDiskRetryMs = 1'000;

}  // namespace

// ---- Before the search ends --------------------------------------------------------------------

// Clients get it while the search goes on. It may be lost: better ones follow.
void Job::publish_interim(SearchOutcome outcome) {
  if (interim_) {
    next_interim_ = std::move(outcome);
    return;
  }
  common::Plan plan = std::move(outcome.plan);
  plan.key.epoch = request_.key.epoch;
  Status status = common::verify(plan);
  if (status.ok() && !(plan.key == request_.key)) {
    status = common::internal_error("it has another key than the request");
  }
  if (!status.ok()) return interim_done(status);
  JobEnd facts;
  facts.farm = env_.options.name;
  facts.tenant = request_.tenant;
  facts.submitter = request_.submitter;
  facts.created_ns = common::wall_clock_ns();
  facts.toolchain = env_.workers.toolchain_of(outcome.worker);
  facts.machine = machine_;
  sign_off(plan, request_, facts);
  plan.provenance.is_interim = true;
  KeptPlan how{elapsed_ms(env_.clock.now_ns()), recipe(outcome.candidate), false};
  interim_ = std::make_unique<Publication>(env_, request_.tenant, std::move(plan), std::move(how),
                                           std::move(outcome.worker),
                                           [this](const Status& kept) { interim_done(kept); });
  interim_->begin();
}

void Job::interim_done(const Status& status) {
  // It is called by the publication, whose members it may still hold.
  std::unique_ptr<Publication> ended = std::move(interim_);
  if (!status.ok()) {
    common::log_warning(
        cat("a plan is not handed out before the search ends: ", status.error().message),
        {{"job", request_.id}});
  }
  std::optional<SearchOutcome> next = std::exchange(next_interim_, std::nullopt);
  if (next && phase_ == Phase::kSearching) return publish_interim(std::move(*next));
  if (std::exchange(keeps_after_interim_, false)) keep_plan();
}

// ---- The plan ----------------------------------------------------------------------------------

void Job::finish_search(common::Result<SearchOutcome> outcome) {
  if (!outcome.ok()) return fail(outcome.error());
  next_interim_.reset();
  if (interim_ && !interim_->is_keeping()) interim_.reset();
  plan_ = std::move(outcome->plan);
  plan_candidate_ = outcome->candidate;
  if (note_.empty()) note_ = std::move(outcome->note);
  holder_ = std::move(outcome->worker);
  // Which epoch its plans are of, the farm says.
  plan_.key.epoch = request_.key.epoch;
  Status status = common::verify(plan_);
  if (!status.ok()) {
    return fail(common::internal_error(cat("the search's plan: ", status.error().message)));
  }
  if (!(plan_.key == request_.key)) {
    return fail(common::internal_error("the search's plan has another key than the request"));
  }
  record_.enter("fetch", env_.clock.now_ns());
  phase_ = Phase::kFetching;
  fetch_objects();
}

void Job::fetch_objects() {
  missing_.clear();
  phase_deadline_ns_ = env_.clock.now_ns() + env_.options.object_wait_ms * kNsPerMs;
  for (const Digest& object : plan_.objects) {
    auto there = env_.store.has_blob(object);
    if (!there.ok()) return fail(there.error());
    if (!*there) missing_.insert(object);
  }
  std::vector<Digest> wanted(missing_.begin(), missing_.end());
  for (const Digest& object : wanted) {
    if (!env_.workers.send(holder_, common::BlobRequest{object})) {
      return objects_lost(cat("worker ", holder_, " is gone"));
    }
  }
  if (missing_.empty()) store_plan();
}

void Job::object_arrived(const Digest& digest, const Status& status) {
  if (interim_) interim_->object_arrived(digest, status);
  if (phase_ != Phase::kFetching || !missing_.contains(digest)) return;
  if (!status.ok()) return not_written(status.error());
  missing_.erase(digest);
  if (missing_.empty()) store_plan();
}

// The disk did not take it. What was found is worth more than the time until there is room again.
// Somebody else's write may have found room since.
void Job::not_written(const Error& error) {
  if (error.code != common::Code::kUnavailable && env_.store.trouble().empty()) return fail(error);
  disk_retry_ns_ = env_.clock.now_ns() + kDiskRetryMs * kNsPerMs;
}

void Job::object_missing(const std::string& worker, const Digest& digest) {
  if (interim_) interim_->object_missing(worker, digest);
  if (phase_ != Phase::kFetching || worker != holder_ || missing_.count(digest) == 0) return;
  objects_lost(cat("worker ", worker, " no longer has object ", digest.short_hex()));
}

std::shared_ptr<const Candidate> Job::finalist(uint64_t id) const {
  auto found = finalists_.find(id);
  return found == finalists_.end() ? nullptr : found->second;
}

// The program is verified, so any worker can make its objects once more.
void Job::objects_lost(const std::string& why) {
  missing_.clear();
  std::shared_ptr<const Candidate> program = finalist(plan_candidate_);
  if (is_rerun_ || program == nullptr) {
    return fail(common::unavailable(
        cat("the plan's objects are lost: ", why, "; submit again, measurements are kept")));
  }
  common::log_warning(cat(why, "; the finalist runs again"),
                      {{"job", request_.id}, {"worker", holder_}});
  is_rerun_ = true;
  phase_deadline_ns_ = 0;  // the scheduler watches over the task
  env_.dispatcher.add_task(
      {request_.id, device_name(request_.key.target.name, machine_), std::move(program)});
}

void Job::rerun_done(const CandidateResult& result) {
  if (result.outcome != common::TaskOutcome::kOk) {
    return fail(
        common::unavailable(cat("the plan's objects are lost, and making them again ended ",
                                common::outcome_name(result.outcome), ": ", result.message)));
  }
  Status status = adopt(plan_, result.report);
  if (!status.ok()) return fail(status.error());
  end_.rerun = result.report;
  holder_ = result.worker;
  fetch_objects();
}

// The journal is closed only after all of it has been written.
void Job::store_plan() {
  phase_ = Phase::kStoring;
  record_.enter("store", env_.clock.now_ns());
  env_.commits.put([](cache::Changes&) {},
                   [self = std::weak_ptr<Job*>(self_)](const Status& written) {
                     auto job = self.lock();
                     if (!job) return;
                     written.ok() ? (*job)->keep_plan() : (*job)->stored(written);
                   });
}

void Job::keep_plan() {
  if (phase_ != Phase::kStoring) return;
  // Of two plans that are written at once, the earlier one could be the last.
  if (interim_) {
    keeps_after_interim_ = true;
    return;
  }
  end_.farm = env_.options.name;
  end_.tenant = request_.tenant;
  end_.submitter = request_.submitter;
  // Once, so that a plan that is stored again is the same.
  if (end_.created_ns == 0) {
    end_.created_ns = common::wall_clock_ns();
    end_.toolchain = env_.workers.toolchain_of(holder_);
    end_.machine = machine_;
  }
  sign_off(plan_, request_, end_);
  end_.plan = plan_digest(plan_);
  KeptPlan how{elapsed_ms(env_.clock.now_ns()), recipe(plan_candidate_), false};
  if (start_) how.compared = start_->incumbent_plan;
  // A search that was told to end was given less.
  std::optional<Effort> spent;
  if (!is_cut_off_) spent = Effort{request_.budget_candidates, request_.budget_ms, request_.seed};
  env_.steps.start([self = std::weak_ptr<Job*>(self_), plan = plan_, &plans = env_.plans,
                    &store = env_.store, id = request_.id, tenant = request_.tenant, end = end_,
                    how = std::move(how), spent,
                    place = common::place_of(request_.tenant, request_.key.digest(), machine_),
                    kept = env_.options.closed_journals_max]() mutable {
    auto plan_id = plans.keep(tenant, plan, how);
    Status status = plan_id.ok() ? Status() : Status(plan_id.error());
    if (status.ok() && spent) status = note_effort(store, place, *spent);
    if (status.ok()) {
      end.plan_id = *plan_id;
      status = journal_end(store, id, end, kept);
    }
    return [self, status] {
      if (auto job = self.lock()) (*job)->stored(status);
    };
  });
}

// What it takes to make the plan anew; empty when the finalist ran before a restart.
std::string Job::recipe(uint64_t id) const {
  std::shared_ptr<const Candidate> program = finalist(id);
  if (!program) return {};
  return encode_recipe({program->payload, common::to_bytes(program->graph_bytes.bytes)});
}

void Job::stored(const Status& status) {
  if (phase_ != Phase::kStoring) return;
  if (!status.ok()) return not_written(status.error());
  bool is_partial = status_.reused > 0 || status_.known_regions > 0;
  if (!answer(is_partial ? common::CacheOutcome::kPartial : common::CacheOutcome::kMiss)) return;
  env_.shared.offer(request_.tenant, request_.key.digest(), machine_);
}

void Job::note_search_end() {
  Meters& meters = env_.meters;
  bool is_known = status_.best_ns > 0 && status_.baseline_ns > 0;
  meters.search_ended(
      is_known ? static_cast<double>(status_.baseline_ns) / static_cast<double>(status_.best_ns)
               : 0,
      as_count(status_.candidates));
  meters.found(request_.tenant, CacheTier::kRegions, as_count(status_.known_regions));
  meters.found(request_.tenant, CacheTier::kKernels, as_count(status_.known_kernels));
  env_.tenants.note_saved(request_.tenant, as_count(std::llround(status_.saved_ms)));
}

void Job::found_elsewhere() {
  if (!answer(common::CacheOutcome::kHit)) return;
  note_down([id = request_.id](cache::Changes& changes) { journal_removal(changes, id); });
}

// Ends the job with the plan that the store has for it, or with an error: false.
bool Job::answer(common::CacheOutcome outcome) {
  auto found =
      env_.plans.find(request_.tenant, request_.key.digest(), machine_, cache::Lookup::kInspect);
  if (!found.ok() || !found->has_value()) {
    fail(found.ok()
             ? common::unavailable("the plan was removed as soon as it was kept; submit again")
             : found.error());
    return false;
  }
  const ReadyPlan& ready = **found;
  int64_t now_ns = env_.clock.now_ns();
  record_.end_stage(now_ns);
  common::PlanReady message = ready.message(0);
  message.job_id = request_.id;
  message.cache = outcome;
  bool is_own = outcome != common::CacheOutcome::kHit;
  if (is_own) {
    message.candidates = as_count(status_.candidates);
    message.reuse = {as_count(status_.kernels),
                     as_count(status_.known_kernels),
                     as_count(status_.regions),
                     as_count(status_.known_regions),
                     as_count(std::llround(status_.worker_ms)),
                     as_count(std::llround(status_.saved_ms))};
  }
  message.elapsed_ms = as_count(elapsed_ms(now_ns));
  message.breakdown = record_.stage_times();
  message.note = note_;
  for (const Subscriber& subscriber : subscribers_) {
    message.request_id = subscriber.request_id;
    bool is_right = subscriber.machine.empty() || subscriber.machine == machine_;
    message.standing = is_right ? ready.standing : common::Standing::kNeighbour;
    env_.outbox.send(subscriber.peer, message, ready.bytes);
  }
  const char* result = !is_own                                     ? "shared"
                       : outcome == common::CacheOutcome::kPartial ? "partial"
                                                                   : "miss";
  record_.has_plan(ready.plan.hex());
  record_.ended(JobEnding::kDone, is_own ? note_ : "another farm found the plan");
  env_.meters.plan_asked(request_.tenant, result);
  if (is_own) note_search_end();
  env_.meters.job_ended("done", static_cast<double>(elapsed_ms(now_ns)) * 1e-3);
  common::log_info(is_own ? "a job is done" : "a job is done: another farm has found its plan",
                   {{"job", request_.id},
                    {"tenant", request_.tenant},
                    {"plan", message.plan.hex()},
                    {"candidates", message.candidates},
                    {"best_ns", message.best_ns},
                    {"baseline_ns", message.baseline_ns},
                    {"elapsed_ms", message.elapsed_ms}});
  phase_ = Phase::kEnded;
  end_timeline(is_own ? "done" : "found by another farm");
  return true;
}

}  // namespace coordinator::service
