// One job: from a submitted graph through its search to a plan in the store.
//
//   awaiting graph -> admitting -> queued (-> elsewhere) -> preparing -> searching -> fetching ->
//   confirming -> storing -> ended
//
// Admitting checks the graph and brings the job to the disk; from then on it survives the
// coordinator. Queued jobs wait for their turn to search; elsewhere means that another farm, with
// which plans are shared, searches for the same plan. Fetching brings the plan's objects from
// the worker that measured it; confirming has another worker compile the same.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/service/job/interim_publisher.h"
#include "coordinator/service/job/job_scope.h"
#include "coordinator/service/job/plan_confirming.h"
#include "coordinator/service/job/plan_fetch.h"
#include "coordinator/service/job/plan_keeping.h"
#include "coordinator/service/job/search_run.h"
#include "coordinator/service/job/sent_programs.h"
#include "coordinator/service/job/subscribers.h"

namespace coordinator::service {

enum class Phase {
  kAwaitingGraph,
  kAdmitting,
  kQueued,
  kElsewhere,
  kPreparing,
  kSearching,
  kFetching,
  kConfirming,
  kStoring,
  kEnded
};
const char* phase_name(Phase phase);

// What a job holds in each phase: an alternative for each Phase, in their order.
struct AwaitingGraph {
  int64_t deadline_ns = 0;
};
struct Admitting {
  HeldBlob graph;
};
struct Queued {
  HeldBlob graph;
};
struct Elsewhere {
  HeldBlob graph;
};
struct Preparing {
  HeldBlob graph;
};
struct Ended {};
using JobPhase = std::variant<AwaitingGraph, Admitting, Queued, Elsewhere, Preparing, SearchRun,
                              PlanFetch, PlanConfirming, PlanKeeping, Ended>;

// Since when something lasts without a break.
class Spell {
 public:
  // How long it has lasted; 0 when it does not last now.
  int64_t ns(bool lasts, int64_t now_ns) {
    if (!lasts || since_ns_ == 0) since_ns_ = lasts ? now_ns : 0;
    return lasts ? now_ns - since_ns_ : 0;
  }

 private:
  int64_t since_ns_ = 0;
};

// Not thread-safe. Background work reaches a job through its id, because the job may have ended.
class Job final : JobEvents {
 public:
  Job(Environment& environment, JobRequest request);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const JobRequest& request() const { return scope_.request; }
  Phase phase() const { return static_cast<Phase>(phase_.index()); }
  const std::vector<Subscriber>& subscribers() const { return subscribers_.all(); }
  // See Subscribers.
  void subscribe(Subscriber subscriber);
  void unsubscribe(const std::string& peer) { subscribers_.remove(peer); }
  void unsubscribe_others(const std::set<std::string>& key_ids) { subscribers_.keep_only(key_ids); }
  bool has_subscriber(const std::string& peer) const { return subscribers_.has(peer); }

  // Begins to admit the job; it fails when the farm holds too many graphs.
  void give_graph(common::SharedBytes bytes);
  // The job as it was read from its journal: admitted, with what it had learned.
  // `timeline`: the segments that there are of it.
  void resume(JournalledJob journal, const std::vector<uint64_t>& timeline);
  // The graph's bytes, from give_graph() to start_search().
  common::SharedBytes graph() const;
  void admitted();
  // Another farm searches for the plan.
  void wait_for_others();
  // Whether it was admitted: others leave nothing behind.
  bool is_admitted() const { return is_admitted_; }
  void begin_preparing();
  // The class whose workers measure, see JobScope.
  const std::string& machine() const { return scope_.machine; }
  void settle_machine(std::string machine) { scope_.machine = std::move(machine); }
  // The plan has come from another farm, and is in the store.
  void found_elsewhere();
  // What the search began with, when it is journalled already.
  const std::optional<JobStart>& journalled_start() const { return scope_.start; }
  const KernelAnswers& journalled_answers() const { return earlier_.answers; }
  const TuningRecordAnswers& journalled_tuning_records() const { return earlier_.tuning_records; }
  // With what an earlier coordinator's journal says; for once.
  KnownResults take_journalled_results() { return std::exchange(earlier_.results, {}); }
  std::optional<int64_t> journalled_finish() const { return earlier_.finish_after; }
  void start_search(std::shared_ptr<SearchSteps> steps, const JobStart& start);

  // Takes the search a step further, see SearchRun.
  void drive();
  void task_done(TaskDone done);
  bool wants_object(const common::Digest& digest) const;
  // `status`: whether the store has it now.
  void object_arrived(const common::Digest& digest, const common::Status& status);
  // The worker does not have it.
  void object_missing(const std::string& worker, const common::Digest& digest);

  // Deadlines and progress.
  void tick(int64_t now_ns);
  // Gives everyone who waits a plan that was made anew; the search goes on for who comes later.
  void serve(const ReadyPlan& plan, const std::string& note);
  const JobRecord& record() const { return scope_.record; }
  // Brings what the record has of the job's trace to the disk, once the job is there.
  void write_timeline();
  // Ends the job without a word: what it was for is done.
  void close();
  // Tells everyone who waits, and ends the job for good.
  void fail(const common::Error& error) { end_without_plan(JobEnding::kFailed, error); }
  // Tells everyone who waits to ask again after so long, and ends the job here: another coordinator
  // serves its shard.
  void hand_over(const common::Error& error, uint32_t again_ms);
  // The same for a job that a user has cancelled.
  void cancel(const common::Error& error) { end_without_plan(JobEnding::kCancelled, error); }
  // Tells everyone who waits; the journal stays, so that the next coordinator goes on.
  void interrupt(const common::Error& error);

  // As of the search's last step.
  const SearchStatus& status() const { return scope_.status; }
  int64_t elapsed_ms(int64_t now_ns) const { return scope_.elapsed_ms(now_ns); }

 private:
  void end_without_plan(JobEnding how, const common::Error& error);
  void failed(const common::Error& error) override { fail(error); }
  void searched(FoundPlan plan) override;
  void fetched(FoundPlan plan) override;
  void confirmed(FoundPlan plan) override;
  void kept(FoundPlan plan) override;

  void settled(const TaskDone& done, const common::Status& written);
  JobEvents& events() { return *this; }
  bool is(Phase phase) const { return this->phase() == phase; }
  // The job is over: `how` for its trace; its journal goes with it, unless a plan closed it.
  void end(const std::string& how, bool removes_journal);
  void end_timeline(const std::string& how);
  bool answer(common::CacheOutcome outcome, const std::string& note);
  common::PlanReady answer_of(const ReadyPlan& ready, common::CacheOutcome outcome,
                              int64_t now_ns) const;
  void note_search_end();
  void tick_phase(int64_t now_ns);
  void check_queue_quota();
  void check_workers(int64_t now_ns);
  void check_disk(int64_t now_ns);
  void report_progress(int64_t now_ns);

  JobScope scope_;
  Subscribers subscribers_;
  bool is_admitted_ = false;
  Spell without_workers_;
  Spell without_disk_;  // while clients wait
  // What an earlier coordinator's journal says, until the search begins.
  JournalledJob earlier_;
  SentPrograms programs_;
  InterimPublisher interim_;
  // Reaches this job from background work, for as long as it lives.
  const std::shared_ptr<Job*> self_ = std::make_shared<Job*>(this);
  JobPhase phase_;
};

}  // namespace coordinator::service
