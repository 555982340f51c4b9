// All jobs: finds or makes the one that a submit asks for, gives each its turn, and takes up those
// that an earlier coordinator left behind.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/farm/demand.h"
#include "coordinator/service/job/job.h"
#include "coordinator/service/jobs/job_history.h"
#include "coordinator/service/jobs/renewal.h"
#include "coordinator/service/jobs/reverify.h"
#include "coordinator/service/jobs/traces.h"
#include "coordinator/service/jobs/wishes.h"

namespace coordinator::service {

// Not thread-safe.
class JobTable final : public TaskSink {
 public:
  explicit JobTable(Environment& environment)
      : env_(environment),
        reverifier_(environment),
        renewal_(environment, reverifier_,
                 {[this](const std::string& tenant, const common::Digest& graph_hash) {
                    return next_id(tenant, graph_hash);
                  },
                  [this](const std::string& tenant, const EarlierPlan& plan) {
                    search_for(tenant, plan, plan.machine);
                  }}),
        history_(environment),
        traces_(environment) {}

  // Brings back the jobs whose journals are open, and what is known of the latest that ended. To be
  // called once, before anything else.
  common::Status resume();

  // Answers with PlanReady, Accepted, a BlobRequest for the graph, or JobFailed.
  void submit(const std::string& peer, const common::Principal& who, const common::Submit& request,
              common::SharedBytes graph);
  // Makes plans of other compilers anew: the tenant's, or an administrator's all. `done` is told
  // which once all plans have been looked at.
  using Reverified = std::function<void(common::Result<std::vector<common::Digest>> plans)>;
  void reverify(const common::Principal& who, Reverified done);
  // Takes note that someone who asked for the tenant's plan on `machine` got `plan`, which was
  // chosen on another class: it is searched for once a worker of the class is there.
  void wish_for(const std::string& tenant, const ReadyPlan& plan, const std::string& machine);
  // A peer that waits for the job leaves it, and the job ends when nobody else waits for it. For
  // anyone else of its tenant, and for administrators, the job ends. Answers with JobCancelled, or
  // Refused.
  void cancel(const std::string& peer, const common::Principal& who, farm::JobId job);
  // Answers with JobTrace or JobFailed.
  void send_trace(const std::string& peer, const common::Principal& who,
                  const common::AskTrace& request);
  // The keys that may be here now: what was asked for with others, and nobody with one of these
  // waits for, ends, also where the asker has gone since.
  void keep_only(const std::set<std::string>& key_ids);
  // A blob came: a graph from a client, or a plan's object from a worker.
  void graph_arrived(const common::Digest& digest, const common::SharedBytes& bytes);
  void graph_missing(const std::string& peer, const common::Digest& digest);
  void object_arrived(const common::Digest& digest, const common::SharedBytes& bytes);
  void object_missing(const std::string& worker, const common::Digest& digest);

  void task_done(TaskDone done) override;
  void job_stopped(farm::JobId job, uint32_t given_up) override;
  // To be called on every turn of the loop: proposals; deadlines, progress and the queue now and
  // then.
  void turn(int64_t now_ns);
  // Goes on with the jobs that the coordinator before this one left in the engine, once their
  // journals are parsed in the background. `done`: all of them are jobs; not called when the shard
  // is lost before.
  void take_over(const common::Fence& fence, std::vector<ShardJournal> journals,
                 std::function<void()> done);
  // Removes the journals on this coordinator's disk that are open: the shards that it takes have
  // theirs in the engine. In the place of resume().
  common::Status begin_without_journals();
  // Ends what was asked for of these shards, which another coordinator takes: everyone who waits is
  // told to ask again after `again_ms`.
  void end_shards(const std::function<bool(uint32_t shard)>& ends, const common::Error& error,
                  uint32_t again_ms);
  // Tells every client that waits; journals stay for the next coordinator.
  void interrupt(const common::Error& error);

  bool idle() const {
    return jobs_.empty() && parked_.empty() && asking_.empty() && reverifier_.idle() &&
           renewal_.waiting() == 0;
  }
  std::vector<const Job*> jobs() const;
  // Null when there is none of that number.
  const Job* job(farm::JobId id) const;
  const JobHistory& history() const { return history_; }
  // What all jobs and waiting submits could have under way now.
  std::vector<farm::Appetite> appetites() const;
  // Submits that wait for a worker whose target they can take.
  size_t parked() const { return parked_.size(); }

 private:
  // A submit without an exact target, while there is no worker whose target it could take; or one
  // that asks for more than the job that searches for its plan now.
  struct Parked {
    std::string peer;
    common::Principal who;
    common::Submit request;
    std::optional<HeldBlob> graph;
    int64_t deadline_ns = 0;
    farm::JobId behind = 0;  // the job whose end it waits for; 0: it waits for a worker
  };
  // A job that another coordinator left.
  struct LeftJob {
    ShardJournal there;
    common::Result<JournalledJob> journal = common::corrupt("not read");
  };
  void take_over(uint32_t shard, LeftJob left);
  farm::JobId next_id(const std::string& tenant, const common::Digest& graph_hash);
  common::Result<JournalListing> read_numbers();
  bool is_current(const JournalledJob& journal) const;
  void leave_journal(farm::JobId id);
  void go_on(JournalledJob journal, const std::vector<uint64_t>& timeline);
  common::Status load_history(TimelineSegments timelines);
  static bool goes_on(const JournalledJob& journal, const ReadyPlan& plan);
  common::Result<bool> covers_submit(const std::string& tenant, const ReadyPlan& plan,
                                     const common::Submit& request);
  static bool is_enough(const Job& job, const common::Submit& request);
  common::Result<bool> answer_from_cache(const std::string& peer, const std::string& tenant,
                                         const common::Submit& request, const common::PlanKey* key,
                                         const std::string& machine);
  common::Result<bool> answer_with_neighbour(const std::string& peer, const common::Principal& who,
                                             const common::Submit& request,
                                             const common::PlanKey& key, const std::string& machine,
                                             common::SharedBytes graph);
  // Begins what the reverifier has room for. Returns whose ids.
  std::vector<common::Digest> make_anew(std::vector<std::pair<std::string, EarlierPlan>>&& plans);
  void park(const std::string& peer, const common::Principal& who, const common::Submit& request,
            common::SharedBytes graph, farm::JobId behind = 0);
  void try_parked(int64_t now_ns);
  // As submit(), with `asked`: whether other farms were asked for the plan.
  void take(const std::string& peer, const common::Principal& who, const common::Submit& request,
            common::SharedBytes graph, bool asked);
  bool ask_elsewhere(const common::Digest& key, const std::string& machine, const std::string& peer,
                     const common::Principal& who, const common::Submit& request,
                     const common::SharedBytes& graph);
  void elsewhere_answered(const common::Digest& place);
  // Who is to search for what a job asks for, where farms share their plans.
  struct Right {
    bool is_asked = false;  // the answer is under way
    bool is_ours = false;
    int64_t again_ns = 0;  // when to ask again
  };
  struct Rights {
    std::map<farm::JobId, Right> by_job;
    size_t asked = 0;
  };
  // Machine classes that got a neighbour's plan, and the one search for one of them that is on.
  struct Wished {
    Wishes wishes;
    farm::JobId job = 0;
    int64_t looked_ns = 0;
  };
  // When what need not be done on every turn was last done.
  struct Rounds {
    bool has_news = true;  // a job came, was admitted or ended
    int64_t looked_ns = 0;
    int64_t usage_ns = 0;  // what tenants use was written
  };
  bool is_held_back(farm::JobId job) const;
  bool may_begin(const Job& job);
  void claimed(farm::JobId job, const common::Digest& place, Claim claim);
  Job* find(farm::JobId id);
  // Whether one was asked for in the same way.
  bool has_job(const JobRequest& request);
  // The class that the job's workers are of, or would be if it began now.
  std::string class_of(const Job& job) const;
  // The oldest job for the plan that runs on workers of the class; while none of any class is
  // there, the oldest for the plan. Null where there is none.
  Job* job_for(const std::string& tenant, const common::PlanKey& key, const std::string& machine);
  common::Result<Job*> make(const common::Principal& who, const common::Submit& request,
                            common::PlanKey key, const std::string& machine);
  void begin_anew(const Job& job);
  void made_anew(farm::JobId job, const common::Digest& key, const std::string& machine,
                 const common::Status& status);
  void grant_wish(int64_t now_ns);
  bool search_for(const std::string& tenant, const EarlierPlan& plan, const std::string& machine);
  void wish_job_ended(const Job& job);
  void settle(Job& job, const std::string& machine);
  void write_wishes();
  bool is_startable(const Job& job) const;
  common::Status check_share(const std::string& tenant) const;
  bool has_workers(const Job& job) const;
  bool waits_for_winner(const Job& job) const;
  void charge(const std::string& tenant, int64_t worker_ns);
  void write_usage();
  void admit(Job& job);
  void journal(Job& job);
  void prepare(Job& job);
  void settle_start(Job& job, JobStart& start);
  void take_incumbent(const Job& job, JobStart& start);
  void begin_queued();
  void sweep();
  void refuse(const std::string& peer, const common::Submit& request, const common::Error& error);
  common::Error no_room(const std::string& what) const;

  Environment& env_;
  std::map<farm::JobId, std::unique_ptr<Job>> jobs_;
  std::multimap<common::Digest, farm::JobId> by_plan_;  // by place_of(tenant, key), any class
  std::vector<Parked> parked_;
  std::unordered_map<common::Digest, std::vector<Parked>> asking_;  // by the plan's place
  Rights rights_;
  Reverifier reverifier_;
  Renewal renewal_;
  Wished wished_;
  JobHistory history_;
  Traces traces_;
  farm::JobId last_id_ = 0;
  // Jobs that search only if an earlier compiler's winner cannot be made anew.
  std::set<farm::JobId> held_;
  std::set<farm::JobId> searching_;  // preparing, searching or fetching
  Rounds rounds_;
};

}  // namespace coordinator::service
