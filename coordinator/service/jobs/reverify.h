// Winners of other compilers made anew with today's: one candidate each, built, verified and
// measured by a worker, and kept as a plan of today.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "coordinator/service/job/environment.h"
#include "coordinator/service/job/publication.h"

namespace coordinator::service {

// Not thread-safe. Nothing of it is journalled: what a restart loses begins again when the plan is
// asked for.
class Reverifier {
 public:
  explicit Reverifier(Environment& environment) : env_(environment) {}
  ~Reverifier();
  Reverifier(const Reverifier&) = delete;
  Reverifier& operator=(const Reverifier&) = delete;

  // Success once the plan of today is in the store.
  using Done = std::function<void(const common::Status&)>;
  // False when it is under way for the plan's place already, or there is no room. `id`: a job's
  // that no other job has.
  bool start(farm::JobId id, const std::string& tenant, EarlierPlan plan, uint32_t priority,
             Done done);
  // The tenant whose task it was; empty when the task is none of these.
  std::string task_done(const TaskDone& done);
  bool wants_object(const common::Digest& digest) const;
  // `status`: whether the store has it now.
  void object_arrived(const common::Digest& digest, const common::Status& status);
  void object_missing(const std::string& worker, const common::Digest& digest);
  void job_stopped(farm::JobId id);
  void tick(int64_t now_ns);
  bool idle() const { return runs_.empty(); }
  // Whether the plan for this place is being made.
  bool works_on(const std::string& tenant, const EarlierPlan& plan) const;

 private:
  struct Run {
    std::string tenant;
    EarlierPlan earlier;
    std::shared_ptr<const Candidate> candidate;
    HeldBlob graph;
    Done done;
    std::unique_ptr<Publication> publication;  // once it was measured
  };
  common::Result<common::Plan> measured(const Run& run, const CandidateResult& result) const;
  void publish(const TaskDone& done, common::Plan plan);
  std::vector<Publication*> publications() const;
  void end(farm::JobId id, const common::Status& status);

  Environment& env_;
  std::map<farm::JobId, Run> runs_;
};

}  // namespace coordinator::service
