// The latest jobs that ended, with their traces, kept for people across restarts: a search is
// looked at most often when it is over.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/service/job/job.h"

namespace coordinator::service {

// What is left of a job: three JSON texts, each in one line, and its timeline.
struct EndedJob {
  farm::JobId id = 0;
  std::string tenant;
  std::string row;                 // job_row(), and "ended_ns": since 1970
  std::string course;              // JobCourse::summary()
  std::string candidates;          // JobCourse::candidates(), at most kCandidatesMax
  std::vector<uint64_t> segments;  // of its timeline; none of a job that was never admitted
};

// The KeptLimits::ended_jobs_max latest, at most kJobsMax. In memory, and in records of the
// store, each of which is written over when its turn comes again; who gives way to later ones loses
// its timeline, too. Not thread-safe.
class JobHistory {
 public:
  static constexpr size_t kJobsMax = 32;
  static constexpr size_t kCandidatesMax = 1'024;

  explicit JobHistory(Environment& environment) : env_(environment) {}

  // What earlier coordinators kept; damaged records are left out. To be called once. `timelines`:
  // all that there are; those of jobs that neither are here nor `open` are let go.
  common::Status load(TimelineSegments timelines, const std::set<farm::JobId>& open);
  // A job that has ended and is about to go.
  void keep(const Job& job);

  // The oldest first.
  const std::deque<std::shared_ptr<const EndedJob>>& jobs() const { return jobs_; }
  // Null when it is not among them.
  std::shared_ptr<const EndedJob> find(farm::JobId id) const;

 private:
  void add(EndedJob job);
  void let_go(farm::JobId job, const std::vector<uint64_t>& segments);
  Environment& env_;
  std::deque<std::shared_ptr<const EndedJob>> jobs_;
  uint64_t kept_ = 0;  // so many were, ever
};

}  // namespace coordinator::service
