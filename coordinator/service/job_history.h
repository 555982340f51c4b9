// The latest jobs that ended, kept for people across restarts: a search is looked at most often
// when it is over.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "coordinator/service/job.h"

namespace coordinator::service {

// What is left of a job: three JSON texts, each in one line.
struct EndedJob {
  farm::JobId id = 0;
  std::string tenant;
  std::string row;         // job_row(), and "ended_ns": since 1970
  std::string course;      // JobCourse::summary()
  std::string candidates;  // JobCourse::candidates(), at most kCandidatesMax
};

// In memory, and in as many records of the store, each of which is written over when its turn comes
// again. Not thread-safe.
class JobHistory {
 public:
  static constexpr size_t kJobsMax = 32;
  static constexpr size_t kCandidatesMax = 1'024;

  explicit JobHistory(Environment& environment) : env_(environment) {}

  // What earlier coordinators kept; damaged records are left out. To be called once.
  common::Status load();
  // A job that has ended and is about to go.
  void keep(const Job& job);

  // The oldest first.
  const std::deque<std::shared_ptr<const EndedJob>>& jobs() const { return jobs_; }
  // Null when it is not among them.
  std::shared_ptr<const EndedJob> find(farm::JobId id) const;

 private:
  void add(EndedJob job);
  Environment& env_;
  std::deque<std::shared_ptr<const EndedJob>> jobs_;
  uint64_t kept_ = 0;  // so many were, ever
};

}  // namespace coordinator::service
