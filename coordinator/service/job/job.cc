#include "coordinator/service/job/job.h"

#include <cmath>
#include <utility>

#include "common/base/cat.h"
#include "common/base/check.h"
#include "common/base/log.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Error;
using common::Status;

namespace {

// Null in phases without one.
const HeldBlob* graph_of(const JobPhase& phase) {
  return std::visit(
      [](const auto& in) -> const HeldBlob* {
        if constexpr (requires { in.graph; }) {
          return &in.graph;
        } else {
          return nullptr;
        }
      },
      phase);
}

// Goes on to a phase that still needs the graph.
template <class Next>
void take_graph_to(JobPhase& phase) {
  const HeldBlob* held = graph_of(phase);
  LFARM_CHECK(held != nullptr, "the job's phase has no graph");
  HeldBlob graph = *held;
  phase.emplace<Next>(Next{std::move(graph)});
}

static_assert(std::variant_size_v<JobPhase> == static_cast<size_t>(Phase::kEnded) + 1);

}  // namespace

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kAwaitingGraph:
      return "awaiting graph";
    case Phase::kAdmitting:
      return "admitting";
    case Phase::kQueued:
      return "queued";
    case Phase::kElsewhere:
      return "another farm searches";
    case Phase::kPreparing:
      return "preparing";
    case Phase::kSearching:
      return "searching";
    case Phase::kFetching:
      return "fetching";
    case Phase::kConfirming:
      return "compiling a second time";
    case Phase::kStoring:
      return "storing";
    case Phase::kEnded:
      return "ended";
  }
  return "unknown";
}

Job::Job(Environment& environment, JobRequest request)
    : scope_(environment, std::move(request)),
      subscribers_(environment, scope_.request.id),
      programs_(scope_),
      interim_(scope_, programs_),
      phase_(
          AwaitingGraph{scope_.started_ns + environment.options.times.graph_wait_ms * kNsPerMs}) {
  environment.dispatcher.add_job(scope_.request.id, scope_.request.tenant, scope_.request.priority);
}

Job::~Job() { scope_.env.dispatcher.remove_job(scope_.request.id); }

void Job::subscribe(Subscriber subscriber) {
  subscribers_.add(std::move(subscriber));
  if (is_admitted_) subscribers_.accept_last();
}

// ---- From phase to phase -----------------------------------------------------------------------

void Job::give_graph(common::SharedBytes bytes) {
  auto graph = scope_.env.blobs.hold(std::move(bytes));
  if (!graph) return fail(scope_.too_many_graphs());
  phase_.emplace<Admitting>(Admitting{std::move(*graph)});
  scope_.record.enter("admit", scope_.env.clock.now_ns());
}

common::SharedBytes Job::graph() const {
  const HeldBlob* graph = graph_of(phase_);
  return graph != nullptr ? scope_.env.blobs.find(graph->digest()) : common::SharedBytes{};
}

void Job::resume(JournalledJob journal, const std::vector<uint64_t>& timeline) {
  auto graph = scope_.env.blobs.hold(common::share(std::move(journal.graph)));
  if (!graph) return interrupt(scope_.too_many_graphs());
  // What went wrong with the farm then may go well now.
  std::erase_if(journal.results, [](const auto& entry) {
    return entry.second.outcome == common::TaskOutcome::kInfra;
  });
  scope_.start = std::move(journal.start);
  if (scope_.start) scope_.machine = scope_.start->machine;
  scope_.notes.go_on_at(journal.next_record);
  earlier_ = std::move(journal);
  scope_.record.resumed(scope_.env.store, timeline);
  phase_.emplace<Admitting>(Admitting{std::move(*graph)});
  admitted();
}

void Job::admitted() {
  is_admitted_ = true;
  take_graph_to<Queued>(phase_);
  scope_.record.enter("queue", scope_.env.clock.now_ns());
  subscribers_.accept();
}

void Job::wait_for_others() { take_graph_to<Elsewhere>(phase_); }

void Job::begin_preparing() {
  take_graph_to<Preparing>(phase_);
  scope_.record.begin_preparing(scope_.env.clock.now_ns());
}

void Job::start_search(std::shared_ptr<SearchSteps> steps, const JobStart& start) {
  if (!scope_.start) {
    scope_.notes.start(start);
    scope_.start = start;
  }
  JournalledJob earlier = std::exchange(earlier_, {});
  scope_.status = steps->status();
  scope_.record.prepared(steps->preparation(), scope_.env.clock.now_ns());
  phase_.emplace<SearchRun>(scope_, programs_, interim_, events(), std::move(steps),
                            earlier.finish_after.has_value());
}

void Job::searched(FoundPlan plan) {
  interim_.close();
  scope_.record.enter("fetch", scope_.env.clock.now_ns());
  plan.make = programs_.make_of(plan.outcome.candidate);
  phase_.emplace<PlanFetch>(scope_, programs_, events(), std::move(plan)).begin();
}

void Job::fetched(FoundPlan plan) {
  scope_.record.enter("confirm", scope_.env.clock.now_ns());
  phase_.emplace<PlanConfirming>(scope_, programs_, events(), std::move(plan)).begin();
}

void Job::confirmed(FoundPlan plan) {
  scope_.record.enter("store", scope_.env.clock.now_ns());
  phase_.emplace<PlanKeeping>(scope_, programs_, interim_, events(), std::move(plan)).begin();
}

void Job::kept(FoundPlan plan) {
  const SearchStatus& status = scope_.status;
  bool is_partial = status.reused > 0 || status.known_regions > 0;
  auto outcome = is_partial ? common::CacheOutcome::kPartial : common::CacheOutcome::kMiss;
  const JobRequest& request = scope_.request;
  PlanPlace place{request.tenant, request.key.digest(), scope_.machine, request.key.graph_hash};
  if (scope_.env.shared.keeper() == nullptr) {
    if (answer(outcome, plan.outcome.note)) scope_.env.shared.offer(place);
    return;
  }
  // A client that has a plan never sees another coordinator find another one.
  scope_.env.shared.deliver_plan(
      place, [self = std::weak_ptr<Job*>(self_), outcome, note = plan.outcome.note] {
        auto job = self.lock();
        if (job && (*job)->is(Phase::kStoring)) (void)(*job)->answer(outcome, note);
      });
}

void Job::found_elsewhere() { answer(common::CacheOutcome::kHit, ""); }

// ---- What comes from workers -------------------------------------------------------------------

void Job::drive() {
  if (auto* run = std::get_if<SearchRun>(&phase_)) run->drive();
}

void Job::task_done(TaskDone done) {
  if (done.is_only_build) {
    interim_.task_done(done);
    if (auto* confirming = std::get_if<PlanConfirming>(&phase_)) confirming->task_done(done);
    return;
  }
  if (auto* fetch = std::get_if<PlanFetch>(&phase_)) return fetch->task_done(done);
  auto* run = std::get_if<SearchRun>(&phase_);
  if (run == nullptr) return;
  programs_.answered(done);
  run->expect_result();
  auto kept = std::make_shared<const TaskDone>(std::move(done));
  scope_.notes.result(kept, scope_.device(), scope_.env.stamps.now_ns(), scope_.record.take(),
                      [self = std::weak_ptr<Job*>(self_), kept](const Status& written) {
                        if (auto job = self.lock()) (*job)->settled(*kept, written);
                      });
}

// The search may be over by now.
void Job::settled(const TaskDone& done, const Status& written) {
  int64_t kept_ns = scope_.env.clock.now_ns();
  scope_.env.monitored.meters.result_kept(static_cast<double>(kept_ns - done.times.ended_ns) *
                                          1e-9);
  scope_.record.judged(done, kept_ns);
  if (auto* run = std::get_if<SearchRun>(&phase_)) run->settled(done, written);
}

bool Job::wants_object(const Digest& digest) const {
  const auto* fetch = std::get_if<PlanFetch>(&phase_);
  return (fetch != nullptr && fetch->wants_object(digest)) || interim_.wants_object(digest);
}

void Job::object_arrived(const Digest& digest, const Status& status) {
  interim_.object_arrived(digest, status);
  if (auto* fetch = std::get_if<PlanFetch>(&phase_)) fetch->object_arrived(digest, status);
}

void Job::object_missing(const std::string& worker, const Digest& digest) {
  interim_.object_missing(worker, digest);
  if (auto* fetch = std::get_if<PlanFetch>(&phase_)) fetch->object_missing(worker, digest);
}

// ---- What is written down of it ----------------------------------------------------------------

void Job::write_timeline() {
  if (is_admitted_ && scope_.record.has_news()) scope_.notes.put(scope_.record.take());
}

void Job::end_timeline(const std::string& how) {
  scope_.record.close(how, scope_.env.clock.now_ns());
  write_timeline();
}

// ---- Ends --------------------------------------------------------------------------------------

void Job::end(const std::string& how, bool removes_journal) {
  interim_.close();
  phase_.emplace<Ended>();
  end_timeline(how);
  if (removes_journal && is_admitted_) scope_.notes.removal();
}

void Job::serve(const ReadyPlan& plan, const std::string& note) {
  common::PlanReady message = plan.message(0);
  message.job_id = scope_.request.id;
  message.cache = common::CacheOutcome::kPartial;
  message.candidates = 1;
  message.elapsed_ms = as_count(elapsed_ms(scope_.env.clock.now_ns()));
  message.note = note;
  subscribers_.send_plan(std::move(message), plan.bytes, "");
  subscribers_.clear();
}

void Job::close() {
  if (is(Phase::kEnded)) return;
  scope_.record.ended(JobEnding::kDone, "the plan was made anew from an earlier compiler's winner");
  end("made anew", true);
}

void Job::end_without_plan(JobEnding how, const Error& error) {
  if (is(Phase::kEnded)) return;
  const char* ending = job_ending_name(how);
  common::LogFields about = {{"job", scope_.request.id}, {"tenant", scope_.request.tenant}};
  std::string what = cat("a job ", ending, ": ", error.message);
  how == JobEnding::kFailed ? common::log_warning(what, about) : common::log_info(what, about);
  subscribers_.fail(error);
  scope_.record.ended(how, error.message);
  int64_t now_ns = scope_.env.clock.now_ns();
  scope_.env.monitored.meters.job_ended(ending, static_cast<double>(elapsed_ms(now_ns)) * 1e-3);
  end(cat(ending, ": ", error.message), true);
}

void Job::hand_over(const Error& error, uint32_t again_ms) {
  subscribers_.fail(error, again_ms);
  subscribers_.clear();
  end_without_plan(JobEnding::kCancelled, error);
}

void Job::interrupt(const Error& error) {
  if (is(Phase::kEnded)) return;
  end_timeline(cat("interrupted: ", error.message));
  subscribers_.fail(error);
  subscribers_.clear();
}

void Job::note_search_end() {
  Meters& meters = scope_.env.monitored.meters;
  const SearchStatus& status = scope_.status;
  const std::string& tenant = scope_.request.tenant;
  bool is_known = status.best_ns > 0 && status.baseline_ns > 0;
  meters.search_ended(
      is_known ? static_cast<double>(status.baseline_ns) / static_cast<double>(status.best_ns) : 0,
      as_count(status.candidates));
  meters.found(tenant, CacheTier::kRegions, as_count(status.known_regions));
  meters.found(tenant, CacheTier::kKernels, as_count(status.known_kernels));
  scope_.env.tenants.note_saved(tenant, as_count(std::llround(status.saved_ms)));
}

common::PlanReady Job::answer_of(const ReadyPlan& ready, common::CacheOutcome outcome,
                                 int64_t now_ns) const {
  const SearchStatus& status = scope_.status;
  common::PlanReady message = ready.message(0);
  message.job_id = scope_.request.id;
  message.cache = outcome;
  if (outcome != common::CacheOutcome::kHit) {
    message.candidates = as_count(status.candidates);
    message.reuse = {as_count(status.kernels),
                     as_count(status.known_kernels),
                     as_count(status.regions),
                     as_count(status.known_regions),
                     as_count(std::llround(status.worker_ms)),
                     as_count(std::llround(status.saved_ms))};
  }
  message.elapsed_ms = as_count(elapsed_ms(now_ns));
  message.breakdown = scope_.record.stage_times();
  return message;
}

// Ends the job with the plan that the store has for it, or with an error: false. Of a plan that
// another farm found, no journal stays.
bool Job::answer(common::CacheOutcome outcome, const std::string& note) {
  const JobRequest& request = scope_.request;
  auto found = scope_.env.plans.find(request.tenant, request.key.digest(), scope_.machine,
                                     cache::Lookup::kInspect);
  if (!found.ok() || !found->has_value()) {
    fail(found.ok()
             ? common::unavailable("the plan was removed as soon as it was kept; submit again")
             : found.error());
    return false;
  }
  const ReadyPlan& ready = **found;
  int64_t now_ns = scope_.env.clock.now_ns();
  scope_.record.end_stage(now_ns);
  common::PlanReady message = answer_of(ready, outcome, now_ns);
  message.note = note;
  subscribers_.send_plan(message, ready.bytes, scope_.machine);
  bool is_own = outcome != common::CacheOutcome::kHit;
  const char* result = !is_own                                     ? "shared"
                       : outcome == common::CacheOutcome::kPartial ? "partial"
                                                                   : "miss";
  scope_.record.has_plan(ready.plan.hex());
  scope_.record.ended(JobEnding::kDone, is_own ? note : "another farm found the plan");
  scope_.env.monitored.meters.plan_asked(request.tenant, result);
  if (is_own) note_search_end();
  scope_.env.monitored.meters.job_ended("done", static_cast<double>(elapsed_ms(now_ns)) * 1e-3);
  common::log_info(is_own ? "a job is done" : "a job is done: another farm has found its plan",
                   {{"job", request.id},
                    {"tenant", request.tenant},
                    {"plan", message.plan.hex()},
                    {"candidates", message.candidates},
                    {"best_ns", message.best_ns},
                    {"baseline_ns", message.baseline_ns},
                    {"elapsed_ms", message.elapsed_ms}});
  end(is_own ? "done" : "found by another farm", !is_own);
  return true;
}

// ---- Deadlines and progress --------------------------------------------------------------------

void Job::tick(int64_t now_ns) {
  if (is(Phase::kEnded)) return;
  interim_.tick(now_ns);
  tick_phase(now_ns);
  if (is(Phase::kEnded)) return;
  check_workers(now_ns);
  if (is(Phase::kEnded)) return;
  check_disk(now_ns);
  report_progress(now_ns);
}

void Job::tick_phase(int64_t now_ns) {
  if (auto* awaiting = std::get_if<AwaitingGraph>(&phase_)) {
    if (now_ns < awaiting->deadline_ns) return;
    return fail({common::Code::kTimedOut, "the graph's bytes did not arrive; submit it again"});
  }
  if (is(Phase::kQueued)) return check_queue_quota();
  if (auto* run = std::get_if<SearchRun>(&phase_)) return run->tick(now_ns);
  if (auto* fetch = std::get_if<PlanFetch>(&phase_)) return fetch->tick(now_ns);
  if (auto* confirming = std::get_if<PlanConfirming>(&phase_)) return confirming->tick(now_ns);
  if (auto* keeping = std::get_if<PlanKeeping>(&phase_)) keeping->tick(now_ns);
}

// A search that has begun ends with the best so far; one that has not has none.
void Job::check_queue_quota() {
  std::string reason = scope_.env.tenants.exhausted(scope_.request.tenant, common::wall_clock_ns());
  if (!reason.empty()) fail(common::unavailable(reason));
}

// A client must learn that nothing will come. A job nobody waits for may outlast its workers, but
// not where the target's workers are of another class by now: it would be wanted for ever.
void Job::check_workers(int64_t now_ns) {
  const Workers& workers = scope_.env.workers;
  const std::string& target = scope_.request.key.target.name;
  const std::string& machine = scope_.machine;
  bool is_settled = phase() > Phase::kElsewhere || scope_.start.has_value();
  bool can_run = is_settled ? workers.has(target, machine) : workers.has_target(target);
  bool may_wait = subscribers_.empty() && !workers.has_target(target);
  int64_t without_ns = without_workers_.ns(is_admitted_ && !may_wait && !can_run, now_ns);
  int64_t wait_ms = scope_.env.options.worker_wait_ms(scope_.request.max_wait_ms);
  if (is_admitted_ && !may_wait && !can_run && without_ns / kNsPerMs >= wait_ms) {
    fail(common::unavailable(
        no_worker_text(workers, machine.empty() ? target : cat(target, " on ", machine), wait_ms)));
  }
}

// Nobody waits for a disk for ever. The job itself does: it goes on once there is room, for whoever
// submits it again.
void Job::check_disk(int64_t now_ns) {
  const ServiceOptions& options = scope_.env.options;
  std::string trouble = scope_.env.store.trouble();
  bool lasts = !trouble.empty() && !subscribers_.empty();
  int64_t without_ns = without_disk_.ns(lasts, now_ns);
  if (!lasts || as_count(elapsed_ms(now_ns)) < scope_.request.budget_ms) return;
  if (without_ns / kNsPerMs < options.times.disk_wait_ms) return;
  common::log_warning(cat("clients of a job wait no longer: ", trouble),
                      {{"job", scope_.request.id}});
  subscribers_.fail(common::unavailable(
      cat(trouble, "; then submit it again: what has reached the disk is kept")));
  subscribers_.clear();
  without_disk_ = {};  // whoever comes next waits as long
}

void Job::report_progress(int64_t now_ns) {
  if (!is_admitted_ || !subscribers_.is_due(now_ns)) return;
  const SearchStatus& status = scope_.status;
  common::Progress progress;
  progress.job_id = scope_.request.id;
  progress.stage = is(Phase::kSearching) ? status.stage : phase_name(phase());
  progress.trouble = scope_.env.store.trouble();
  if (!progress.trouble.empty()) progress.stage = "waiting for the farm's disk";
  progress.candidates_done = as_count(status.completed);
  progress.candidates_total = scope_.request.budget_candidates != 0 ? as_count(status.budget) : 0;
  progress.best_ns = as_count(status.best_ns);
  progress.expected_ns = as_count(status.expected_ns);
  progress.baseline_ns = as_count(status.baseline_ns);
  progress.workers = static_cast<uint32_t>(scope_.env.workers.count());
  subscribers_.report(std::move(progress), elapsed_ms(now_ns), now_ns);
}

}  // namespace coordinator::service
