// The candidates that one job has given to workers: which are under way, the graphs that workers
// ask for, and the verified programs, any of which may have to be run again.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "coordinator/service/job/job_scope.h"

namespace coordinator::service {

// Not thread-safe.
class SentPrograms {
 public:
  explicit SentPrograms(const JobScope& scope) : scope_(scope) {}

  // kUnavailable when the farm holds too many graphs.
  common::Status send(std::shared_ptr<const Candidate> candidate);
  void answered(const TaskDone& done);
  // Candidates whose results have not come.
  size_t under_way() const { return under_way_; }

  // A whole program that was right; null when it ran before a restart.
  std::shared_ptr<const Candidate> verified(uint64_t candidate) const;
  // The make of the worker that compiled it; empty where that was not reproducibly.
  std::optional<WorkerMake> make_of(uint64_t candidate) const;
  // Has it run once more, for its objects. May end the job.
  void run_again(std::shared_ptr<const Candidate> program) const;
  // What it takes to make a plan of the program anew; empty when it ran before a restart.
  std::string recipe(uint64_t candidate) const;

 private:
  struct Verified {
    std::shared_ptr<const Candidate> candidate;
    std::optional<WorkerMake> make;
  };
  const JobScope& scope_;
  size_t under_way_ = 0;
  std::map<common::Digest, HeldBlob> graphs_;
  std::unordered_map<uint64_t, Verified> verified_;  // whole programs
};

}  // namespace coordinator::service
