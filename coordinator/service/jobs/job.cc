#include "coordinator/service/jobs/job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/journal/finish.h"
#include "coordinator/service/plans/priors.h"
#include "coordinator/service/plans/stored_tuning_records.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Error;
using common::Status;

namespace {

// Proposed beyond what workers can take now, so that a freed worker never waits for the loop.
constexpr size_t kReserve = 2;
constexpr size_t kReserveShare = 8;   // and one more for so many slots
constexpr size_t kProposalsMax = 64;  // in one step
// Results that wait for the disk before nothing more is proposed.
constexpr size_t kUnsettledMax = 4096;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kQuietProgressMs = 1'000;  // a sign of life when nothing changes

std::string too_many_graphs(const ServiceOptions& options) {
  return cat("the farm holds too many graphs; submit it again in ", options.try_again_s(), " s");
}

void add_measurements(cache::Changes& changes, const std::string& device,
                      const std::vector<Digest>& kernels, const CandidateResult& result,
                      int64_t now) {
  if (result.outcome != common::TaskOutcome::kOk) return;
  const common::TaskReport& report = result.report;
  if (report.kernel_ns.size() != kernels.size()) return;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (report.kernel_ns[k] == 0) continue;
    cache::StoredMeasurement measurement{static_cast<double>(report.kernel_ns[k]), report.runs,
                                         now};
    changes.measurements.push_back({kernels[k], device, measurement});
  }
}

bool may_become_plan(const Candidate& candidate) {
  return candidate.kind == common::TaskKind::kBaseline ||
         candidate.kind == common::TaskKind::kFinalist;
}

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
    case Phase::kStoring:
      return "storing";
    case Phase::kEnded:
      return "ended";
  }
  return "unknown";
}

Job::Job(Environment& environment, JobRequest request)
    : env_(environment),
      request_(std::move(request)),
      machine_(request_.machine),
      started_ns_(env_.clock.now_ns()),
      record_({request_.id, request_.tenant, request_.key.graph_hash.hex(),
               request_.key.target.name, request_.key.policy, 0},
              env_.options.trace_rows_max, started_ns_) {
  phase_deadline_ns_ = started_ns_ + env_.options.graph_wait_ms * kNsPerMs;
  env_.dispatcher.add_job(request_.id, request_.tenant, request_.priority);
}

Job::~Job() { env_.dispatcher.remove_job(request_.id); }

void Job::subscribe(Subscriber subscriber) {
  std::erase_if(subscribers_, [&](const Subscriber& known) {
    return known.peer == subscriber.peer && known.request_id == subscriber.request_id;
  });
  subscribers_.push_back(std::move(subscriber));
  if (is_admitted_) send_accepted(subscribers_.back());
}

void Job::unsubscribe(const std::string& peer) {
  std::erase_if(subscribers_, [&](const Subscriber& known) { return known.peer == peer; });
}

void Job::unsubscribe_others(const std::set<std::string>& key_ids) {
  std::erase_if(subscribers_,
                [&](const Subscriber& known) { return !key_ids.contains(known.key_id); });
}

bool Job::has_subscriber(const std::string& peer) const {
  return std::any_of(subscribers_.begin(), subscribers_.end(),
                     [&](const Subscriber& known) { return known.peer == peer; });
}

void Job::give_graph(common::SharedBytes bytes) {
  graph_ = env_.blobs.hold(std::move(bytes));
  if (!graph_) return fail(common::unavailable(too_many_graphs(env_.options)));
  phase_ = Phase::kAdmitting;
  record_.enter("admit", env_.clock.now_ns());
}

common::SharedBytes Job::graph() const {
  return graph_ ? env_.blobs.find(graph_->digest()) : common::SharedBytes{};
}

void Job::resume(JournalledJob journal, const std::vector<uint64_t>& timeline) {
  graph_ = env_.blobs.hold(common::share(std::move(journal.graph)));
  if (!graph_) return interrupt(common::unavailable(too_many_graphs(env_.options)));
  known_ = std::move(journal.results);
  // What went wrong with the farm then may go well now.
  std::erase_if(known_, [](const auto& entry) {
    return entry.second.outcome == common::TaskOutcome::kInfra;
  });
  start_ = std::move(journal.start);
  if (start_) machine_ = start_->machine;
  answers_ = std::move(journal.answers);
  tuning_records_ = std::move(journal.tuning_records);
  finish_after_ = journal.finish_after;
  told_to_finish_ = finish_after_.has_value();
  next_record_ = journal.next_record;
  record_.resumed(env_.store, timeline);
  admitted();
}

void Job::admitted() {
  is_admitted_ = true;
  phase_ = Phase::kQueued;
  record_.enter("queue", env_.clock.now_ns());
  for (const Subscriber& subscriber : subscribers_) send_accepted(subscriber);
}

void Job::begin_preparing() {
  phase_ = Phase::kPreparing;
  record_.begin_preparing(env_.clock.now_ns());
}

void Job::start_search(std::unique_ptr<JobSearch> search, const JobStart& start,
                       std::shared_ptr<JobMeasurements> measurements) {
  graph_.reset();
  if (!start_) {
    uint64_t n = std::exchange(next_record_, next_record_ + kStartRecords);
    note_down([id = request_.id, n, start](cache::Changes& changes) {
      journal_start(changes, id, n, start);
    });
    start_ = start;
  }
  SearchSteps::Known known{std::move(known_), finish_after_};
  search_ =
      std::make_shared<SearchSteps>(std::move(search),
                                    common::NestMachine(common::machine_of(request_.key.target),
                                                        request_.key.target.name, machine_),
                                    std::move(measurements), std::move(known));
  status_ = search_->status();
  phase_ = Phase::kSearching;
  record_.prepared(search_->preparation(), env_.clock.now_ns());
}

// ---- Searching ---------------------------------------------------------------------------------

void Job::drive() {
  if (phase_ != Phase::kSearching || is_stepping_) return;
  record_.enter(status_.stage, env_.clock.now_ns());
  size_t slots = env_.workers.slots(request_.key.target.name, machine_);
  size_t room = slots + kReserve + slots / kReserveShare;
  size_t open = env_.dispatcher.open_tasks(request_.id);
  size_t wanted = room > open && !is_waiting_ ? std::min(room - open, kProposalsMax) : 0;
  if (unsettled_ > std::max(room, kUnsettledMax)) wanted = 0;
  bool has_news = !next_step_.results.empty() || next_step_.finish_now;
  if (wanted == 0 && !has_news) return;
  next_step_.candidates = static_cast<int>(wanted);
  is_stepping_ = true;
  env_.steps.start([self = std::weak_ptr<Job*>(self_), search = search_, &clock = env_.clock,
                    request = std::make_shared<StepRequest>(std::exchange(next_step_, {}))] {
    size_t learned = request->results.size();
    int64_t from_ns = clock.now_ns();
    common::Result<StepResult> result = search->advance(std::move(*request));
    auto step = std::make_shared<Step>(Step{learned, from_ns, clock.now_ns(), std::move(result)});
    return [self, step] {
      if (auto job = self.lock()) (*job)->step_done(std::move(*step));
    };
  });
}

void Job::step_done(Step taken) {
  is_stepping_ = false;
  if (phase_ != Phase::kSearching) return;
  common::Result<StepResult>& step = taken.result;
  if (!step.ok()) return fail(step.error());
  status_ = step->status;
  record_.proposed(step->proposals, status_, env_.clock.now_ns());
  if (!step->answers.empty()) {
    note_down([id = request_.id, n = next_record_++, answers = std::move(step->answers)](
                  cache::Changes& changes) { journal_answers(changes, id, n, answers); });
  }
  if (!step->fresh_tuning_records.empty()) {
    note_down([id = request_.id, n = next_record_++,
               tuning_records = std::move(step->fresh_tuning_records)](cache::Changes& changes) {
      journal_tuning_records(changes, id, n, tuning_records);
    });
  }
  if (step->finished_after) {
    note_down([id = request_.id, n = next_record_++, candidates = *step->finished_after](
                  cache::Changes& changes) { journal_finish(changes, id, n, candidates); });
  }
  // Results that came during the step wake the search up again, see learn().
  bool came_short = step->candidates.size() < static_cast<size_t>(step->asked);
  is_waiting_ = came_short && next_step_.results.empty() && !next_step_.finish_now;
  for (std::shared_ptr<const Candidate>& candidate : step->candidates) {
    if (phase_ == Phase::kSearching) send(std::move(candidate));
  }
  if (phase_ != Phase::kSearching) return;
  record_.round({taken.from_ns, taken.to_ns, taken.learned, step->candidates.size(),
                 as_count(status_.completed), as_count(status_.best_ns), sent_,
                 as_count(status_.expected_ns)});
  check_time(env_.clock.now_ns());
  if (step->outcome) {
    Status kept =
        merge_priors(env_.store, device_name(request_.key.target.name, machine_), step->learned);
    if (!kept.ok())
      common::log_warning(cat("cannot keep what was learned: ", kept.error().message),
                          {{"job", request_.id}});
    kept = keep_tuning_records(env_.store, step->tuning_records, env_.stamps.now_ns(),
                               request_.tenant);
    if (!kept.ok()) {
      common::log_warning(cat("cannot keep what was found: ", kept.error().message),
                          {{"job", request_.id}});
    }
  }
  if (step->outcome) return finish_search(std::move(*step->outcome));
  if (!step->interim.empty()) publish_interim(std::move(step->interim.back()));
  if (is_waiting_ && sent_ == 0 && unsettled_ == 0) {
    fail(common::internal_error("the search neither proposes candidates nor ends"));
  }
}

void Job::send(std::shared_ptr<const Candidate> candidate) {
  if (graph_blobs_.count(candidate->graph) == 0) {
    auto blob = env_.blobs.hold(candidate->graph_bytes);
    if (!blob) return fail(common::unavailable(too_many_graphs(env_.options)));
    graph_blobs_.emplace(candidate->graph, std::move(*blob));
  }
  ++sent_;
  std::string device = device_name(request_.key.target.name, machine_);
  env_.dispatcher.add_task({request_.id, std::move(device), std::move(candidate)});
}

void Job::task_done(TaskDone done) {
  if (phase_ == Phase::kFetching && is_rerun_ && done.candidate->id == plan_candidate_)
    return rerun_done(done.result);
  if (phase_ == Phase::kSearching) learn(std::move(done));
}

// The search learns of it, and anyone else, once it is on the disk: what has been said to be
// measured is never measured again.
void Job::learn(TaskDone done) {
  --sent_;
  const std::shared_ptr<const Candidate>& candidate = done.candidate;
  bool is_right = done.result.outcome == common::TaskOutcome::kOk;
  if (is_right && may_become_plan(*candidate)) finalists_.emplace(candidate->id, candidate);
  ++unsettled_;
  auto kept = std::make_shared<const TaskDone>(std::move(done));
  Commits::Write write_rows = record_.take();
  env_.commits.put(
      [id = request_.id, n = next_record_++,
       device = device_name(request_.key.target.name, machine_), kept, write_rows,
       now_ns = env_.stamps.now_ns()](cache::Changes& changes) {
        journal_result(changes, id, n, kept->candidate->key(), kept->result);
        add_measurements(changes, device, kept->candidate->kernels, kept->result, now_ns);
        write_rows(changes);
      },
      [self = std::weak_ptr<Job*>(self_), kept](const Status& written) {
        if (auto job = self.lock()) (*job)->settled(*kept, written);
      });
}

void Job::settled(const TaskDone& done, const Status& written) {
  --unsettled_;
  int64_t kept_ns = env_.clock.now_ns();
  env_.meters.result_kept(static_cast<double>(kept_ns - done.times.ended_ns) * 1e-9);
  record_.judged(done, kept_ns);
  if (phase_ != Phase::kSearching) return;
  if (!written.ok()) return fail(written.error());
  next_step_.results.emplace_back(done.candidate->id, done.result);
  is_waiting_ = false;
}

// ---- What is written down of it ----------------------------------------------------------------

void Job::write_timeline() {
  if (!is_admitted_ || !record_.has_news()) return;
  note_down(record_.take());
}

void Job::end_timeline(const std::string& how) {
  record_.close(how, env_.clock.now_ns());
  write_timeline();
}

void Job::note_down(Commits::Write write) const {
  env_.commits.put(std::move(write), [id = request_.id](const Status& written) {
    if (written.ok()) return;
    common::log_warning(cat("a job's journal is incomplete: ", written.error().message),
                        {{"job", id}});
  });
}

// ---- Ends, deadlines and progress --------------------------------------------------------------

void Job::serve(const ReadyPlan& plan, const std::string& note) {
  common::PlanReady message = plan.message(0);
  message.job_id = request_.id;
  message.cache = common::CacheOutcome::kPartial;
  message.candidates = 1;
  message.elapsed_ms = as_count(elapsed_ms(env_.clock.now_ns()));
  message.note = note;
  for (const Subscriber& subscriber : std::exchange(subscribers_, {})) {
    message.request_id = subscriber.request_id;
    env_.outbox.send(subscriber.peer, message, plan.bytes);
  }
}

void Job::close() {
  if (phase_ == Phase::kEnded) return;
  phase_ = Phase::kEnded;
  record_.ended(JobEnding::kDone, "the plan was made anew from an earlier compiler's winner");
  end_timeline("made anew");
  if (!is_admitted_) return;
  note_down([id = request_.id](cache::Changes& changes) { journal_removal(changes, id); });
}

void Job::fail(const Error& error) {
  if (phase_ == Phase::kEnded) return;
  common::log_warning(cat("a job failed: ", error.message),
                      {{"job", request_.id}, {"tenant", request_.tenant}});
  report_failure(error);
  record_.ended(JobEnding::kFailed, error.message);
  env_.meters.job_ended("failed", static_cast<double>(elapsed_ms(env_.clock.now_ns())) * 1e-3);
  phase_ = Phase::kEnded;
  end_timeline(cat("failed: ", error.message));
  if (!is_admitted_) return;
  note_down([id = request_.id](cache::Changes& changes) { journal_removal(changes, id); });
}

void Job::interrupt(const Error& error) {
  if (phase_ == Phase::kEnded) return;
  end_timeline(cat("interrupted: ", error.message));
  report_failure(error);
  subscribers_.clear();
}

void Job::report_failure(const Error& error) {
  for (const Subscriber& subscriber : subscribers_) {
    env_.outbox.send(subscriber.peer, common::JobFailed{subscriber.request_id, request_.id,
                                                        error.code, error.message});
  }
}

void Job::send_accepted(const Subscriber& subscriber) {
  env_.outbox.send(subscriber.peer,
                   common::Accepted{subscriber.request_id, request_.id, subscriber.joined});
}

void Job::tick(int64_t now_ns) {
  if (phase_ == Phase::kEnded) return;
  if (phase_ == Phase::kAwaitingGraph && now_ns >= phase_deadline_ns_) {
    return fail({common::Code::kTimedOut, "the graph's bytes did not arrive; submit it again"});
  }
  if (disk_retry_ns_ != 0 && now_ns >= disk_retry_ns_ && env_.store.trouble().empty()) {
    disk_retry_ns_ = 0;
    phase_ == Phase::kFetching ? fetch_objects() : keep_plan();
  }
  if (interim_) interim_->tick(now_ns);
  bool waits_for_worker = phase_ == Phase::kFetching && !missing_.empty() && disk_retry_ns_ == 0;
  if (waits_for_worker && now_ns >= phase_deadline_ns_) {
    return objects_lost(cat("worker ", holder_, " does not answer"));
  }
  check_time(now_ns);
  check_quota();
  check_workers(now_ns);
  check_disk(now_ns);
  if (phase_ != Phase::kEnded) report_progress(now_ns);
}

void Job::finish_search_now() {
  told_to_finish_ = true;
  next_step_.finish_now = true;
  is_waiting_ = false;
}

// The search is told to end early enough for its finalists. What is open when the time is over is
// given up once the search has a plan; before that, all but the whole programs that may become one.
void Job::check_time(int64_t now_ns) {
  if (phase_ != Phase::kSearching || request_.budget_ms == 0) return;
  double left_ms =
      static_cast<double>(request_.budget_ms) - static_cast<double>(elapsed_ms(now_ns));
  auto workers = static_cast<double>(std::max<size_t>(1, env_.workers.count()));
  double needed_ms = status_.pending_ms / workers + status_.closing_ms;
  if (!told_to_finish_ && left_ms <= needed_ms) finish_search_now();
  if (left_ms <= 0) give_up_what_is_open();
}

void Job::give_up_what_is_open() {
  bool has_plan = status_.best_ns > 0;
  env_.dispatcher.give_up_tasks(
      request_.id,
      [&](const TaskSpec& task) { return has_plan || !may_become_plan(*task.candidate); },
      "the search's time is over");
}

// A search ends with the best so far; one that has not begun has none.
void Job::check_quota() {
  bool is_early = phase_ == Phase::kQueued || (phase_ == Phase::kSearching && !told_to_finish_);
  if (!is_early) return;
  std::string reason = env_.tenants.exhausted(request_.tenant, common::wall_clock_ns());
  if (reason.empty()) return;
  if (phase_ == Phase::kQueued) return fail(common::unavailable(reason));
  note_ = cat("the search ended early: ", reason);
  is_cut_off_ = true;
  common::log_info(note_, {{"job", request_.id}, {"tenant", request_.tenant}});
  finish_search_now();
}

// A client must learn that nothing will come. A job nobody waits for may outlast its workers, but
// not where the target's workers are of another class by now: it would be wanted for ever.
void Job::check_workers(int64_t now_ns) {
  const std::string& target = request_.key.target.name;
  bool is_settled = phase_ > Phase::kElsewhere || start_.has_value();
  bool can_run = is_settled ? env_.workers.has(target, machine_) : env_.workers.has_target(target);
  bool may_wait = subscribers_.empty() && !env_.workers.has_target(target);
  if (!is_admitted_ || may_wait || can_run) {
    no_worker_since_ns_ = 0;
    return;
  }
  if (no_worker_since_ns_ == 0) no_worker_since_ns_ = now_ns;
  int64_t wait_ms = env_.options.worker_wait_ms(request_.max_wait_ms);
  if ((now_ns - no_worker_since_ns_) / kNsPerMs < wait_ms) return;
  fail(common::unavailable(no_worker_text(
      env_.workers, machine_.empty() ? target : cat(target, " on ", machine_), wait_ms)));
}

// Nobody waits for a disk for ever. The job itself does: it goes on once there is room, for whoever
// submits it again.
void Job::check_disk(int64_t now_ns) {
  std::string trouble = env_.store.trouble();
  if (trouble.empty() || subscribers_.empty()) {
    no_disk_since_ns_ = 0;
    return;
  }
  if (no_disk_since_ns_ == 0) no_disk_since_ns_ = now_ns;
  if (as_count(elapsed_ms(now_ns)) < request_.budget_ms) return;
  if ((now_ns - no_disk_since_ns_) / kNsPerMs < env_.options.disk_wait_ms) return;
  common::log_warning(cat("clients of a job wait no longer: ", trouble), {{"job", request_.id}});
  report_failure(common::unavailable(
      cat(trouble, "; then submit it again: what has reached the disk is kept")));
  subscribers_.clear();
  no_disk_since_ns_ = 0;  // whoever comes next waits as long
}

void Job::report_progress(int64_t now_ns) {
  if (subscribers_.empty() || !is_admitted_) return;
  if (now_ns - last_progress_ns_ < env_.options.progress_ms * kNsPerMs) return;
  const SearchStatus& status = status_;
  common::Progress progress;
  progress.job_id = request_.id;
  progress.stage = phase_ == Phase::kSearching ? status.stage : phase_name(phase_);
  progress.trouble = env_.store.trouble();
  if (!progress.trouble.empty()) progress.stage = "waiting for the farm's disk";
  progress.candidates_done = as_count(status.completed);
  progress.candidates_total = request_.budget_candidates != 0 ? as_count(status.budget) : 0;
  progress.best_ns = as_count(status.best_ns);
  progress.expected_ns = as_count(status.expected_ns);
  progress.baseline_ns = as_count(status.baseline_ns);
  progress.workers = static_cast<uint32_t>(env_.workers.count());
  if (progress == last_progress_ && now_ns - last_progress_ns_ < kQuietProgressMs * kNsPerMs) {
    return;
  }
  last_progress_ = progress;
  last_progress_ns_ = now_ns;
  progress.elapsed_ms = as_count(elapsed_ms(now_ns));
  std::erase_if(subscribers_, [&](const Subscriber& subscriber) {
    return !env_.outbox.send(subscriber.peer, progress);
  });
}

}  // namespace coordinator::service
