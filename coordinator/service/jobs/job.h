// One job: from a submitted graph through its search to a plan in the store.
//
//   awaiting graph -> admitting -> queued (-> elsewhere) -> preparing -> searching -> fetching ->
//   storing -> ended
//
// Admitting checks the graph and brings the job to the disk; from then on it survives the
// coordinator. Queued jobs wait for their turn to search; elsewhere means that another farm, with
// which plans are shared, searches for the same plan. Fetching brings the plan's objects from
// the worker that measured it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/service/jobs/environment.h"
#include "coordinator/service/jobs/publication.h"
#include "coordinator/service/journal/job_journal.h"
#include "coordinator/service/journal/job_record.h"
#include "coordinator/service/journal/search_steps.h"

namespace coordinator::service {

// A client that waits for the job, under the number of its request.
struct Subscriber {
  std::string peer;
  uint64_t request_id = 0;
  bool joined = false;
  std::string key_id = {};   // see common::Principal
  std::string machine = {};  // class that it asked for; empty: any
};

enum class Phase {
  kAwaitingGraph,
  kAdmitting,
  kQueued,
  kElsewhere,
  kPreparing,
  kSearching,
  kFetching,
  kStoring,
  kEnded
};
const char* phase_name(Phase phase);
// For messages, whose counts have no sign.
inline uint64_t as_count(int64_t number) { return number > 0 ? static_cast<uint64_t>(number) : 0; }

// Not thread-safe. Background work reaches a job through its id, because the job may have ended.
class Job {
 public:
  Job(Environment& environment, JobRequest request);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const JobRequest& request() const { return request_; }
  Phase phase() const { return phase_; }
  const std::vector<Subscriber>& subscribers() const { return subscribers_; }
  // A peer's later request takes the place of an earlier one with the same number.
  void subscribe(Subscriber subscriber);
  void unsubscribe(const std::string& peer);
  // The same of all whose key is not among these.
  void unsubscribe_others(const std::set<std::string>& key_ids);
  bool has_subscriber(const std::string& peer) const;

  // Begins to admit the job; it fails when the farm holds too many graphs.
  void give_graph(common::SharedBytes bytes);
  // The job as it was read from its journal: admitted, with what it had learned.
  // `timeline`: the segments that there are of it.
  void resume(JournalledJob journal, const std::vector<uint64_t>& timeline);
  // The graph's bytes, from give_graph() to start_search().
  common::SharedBytes graph() const;
  void set_phase(Phase phase) { phase_ = phase; }
  void admitted();
  // Whether it was: others leave nothing behind.
  bool is_admitted() const { return is_admitted_; }
  void begin_preparing();
  // The class whose workers measure, and for which the plan is kept: the request's until the search
  // begins, which settles it.
  const std::string& machine() const { return machine_; }
  void settle_machine(std::string machine) { machine_ = std::move(machine); }
  // The plan has come from another farm, and is in the store.
  void found_elsewhere();
  // What the search began with, when it is journalled already.
  const std::optional<JobStart>& journalled_start() const { return start_; }
  const KernelAnswers& journalled_answers() const { return answers_; }
  const TuningRecordAnswers& journalled_tuning_records() const { return tuning_records_; }
  void start_search(std::unique_ptr<JobSearch> search, const JobStart& start,
                    std::shared_ptr<JobMeasurements> measurements);

  // Takes the search a step further while there is room for candidates or something to learn.
  void drive();
  void task_done(TaskDone done);
  bool wants_object(const common::Digest& digest) const {
    return missing_.count(digest) != 0 || (interim_ && interim_->wants_object(digest));
  }
  // `status`: whether the store has it now.
  void object_arrived(const common::Digest& digest, const common::Status& status);
  // The worker does not have it.
  void object_missing(const std::string& worker, const common::Digest& digest);

  // Deadlines and progress.
  void tick(int64_t now_ns);
  // Gives everyone who waits a plan that was made anew; the search goes on for who comes later.
  void serve(const ReadyPlan& plan, const std::string& note);
  const JobRecord& record() const { return record_; }
  // Brings what the record has of the job's trace to the disk, once the job is there.
  void write_timeline();
  // Ends the job without a word: what it was for is done.
  void close();
  // Tells everyone who waits, and ends the job for good.
  void fail(const common::Error& error);
  // Tells everyone who waits; the journal stays, so that the next coordinator goes on.
  void interrupt(const common::Error& error);

  // As of the search's last step.
  const SearchStatus& status() const { return status_; }
  int64_t elapsed_ms(int64_t now_ns) const { return (now_ns - started_ns_) / 1'000'000; }

 private:
  // A verified program that a plan was made from; null when it ran before a restart.
  std::shared_ptr<const Candidate> finalist(uint64_t id) const;
  // A step of the search that was taken in the background.
  struct Step {
    size_t learned = 0;
    int64_t from_ns = 0, to_ns = 0;
    common::Result<StepResult> result;
  };
  void step_done(Step step);
  void send(std::shared_ptr<const Candidate> candidate);
  void learn(TaskDone done);
  void settled(const TaskDone& done, const common::Status& written);
  void end_timeline(const std::string& how);
  void note_down(Commits::Write write) const;
  void check_quota();
  void check_time(int64_t now_ns);
  void finish_search_now();
  void give_up_what_is_open();
  std::string recipe(uint64_t id) const;
  void publish_interim(SearchOutcome outcome);
  void interim_done(const common::Status& status);
  void not_written(const common::Error& error);
  void finish_search(common::Result<SearchOutcome> outcome);
  void fetch_objects();
  void objects_lost(const std::string& why);
  void rerun_done(const CandidateResult& result);
  void store_plan();
  void keep_plan();
  void stored(const common::Status& status);
  void note_search_end();
  bool answer(common::CacheOutcome outcome);
  void send_accepted(const Subscriber& subscriber);
  void report_failure(const common::Error& error);
  void report_progress(int64_t now_ns);
  void check_workers(int64_t now_ns);
  void check_disk(int64_t now_ns);

  Environment& env_;
  JobRequest request_;
  std::string machine_;
  Phase phase_ = Phase::kAwaitingGraph;
  std::vector<Subscriber> subscribers_;
  bool is_admitted_ = false;
  std::optional<HeldBlob> graph_;
  int64_t started_ns_ = 0;
  int64_t phase_deadline_ns_ = 0;
  int64_t no_worker_since_ns_ = 0;
  int64_t no_disk_since_ns_ = 0;  // while clients wait
  int64_t disk_retry_ns_ = 0;     // when objects are fetched or the plan is stored again; 0: not
  JobRecord record_;

  // Reaches this job from background work, for as long as it lives.
  const std::shared_ptr<Job*> self_ = std::make_shared<Job*>(this);
  std::shared_ptr<SearchSteps> search_;  // shared with the step under way
  bool is_stepping_ = false;
  // The search proposes nothing more before it has learned something.
  bool is_waiting_ = false;
  StepRequest next_step_;
  SearchStatus status_;
  bool told_to_finish_ = false;
  std::string
      note_;  // for who gets the plan: why the search ended early, or what it could not decide
  bool is_cut_off_ = false;  // it was told to end before it was given what was asked for
  size_t sent_ = 0;          // candidates whose results have not come
  size_t unsettled_ = 0;     // results on their way to the disk; the search does not know them yet
  // Verified whole programs: their objects may be wanted again.
  std::unordered_map<uint64_t, std::shared_ptr<const Candidate>> finalists_;
  std::map<common::Digest, HeldBlob> graph_blobs_;  // of candidates
  // Of an earlier coordinator.
  KnownResults known_;
  std::optional<JobStart> start_;
  KernelAnswers answers_;
  TuningRecordAnswers tuning_records_;
  std::optional<int64_t> finish_after_;
  uint64_t next_record_ = 0;

  // Plans that are handed out while the search goes on: one on its way to the store, and the newest
  // of those that came meanwhile.
  std::unique_ptr<Publication> interim_;
  std::optional<SearchOutcome> next_interim_;

  common::Plan plan_;
  uint64_t plan_candidate_ = 0;  // the finalist that became the plan
  JobEnd end_;
  bool keeps_after_interim_ = false;  // the plan is kept once the interim one is
  std::string holder_;                // the worker that has the objects
  std::set<common::Digest> missing_;
  bool is_rerun_ = false;  // the finalist runs again, or did: its objects were lost

  common::Progress last_progress_;
  int64_t last_progress_ns_ = 0;
};

}  // namespace coordinator::service
