// What all parts of one job know: what was asked for, what its search stands at, and where what
// happens is written down.
#pragma once

#include <optional>
#include <string>

#include "coordinator/service/job/environment.h"
#include "coordinator/service/journal/job_notes.h"
#include "coordinator/service/journal/job_record.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {

inline constexpr int64_t kDiskRetryMs = 1'000;
// For messages, whose counts have no sign.
inline uint64_t as_count(int64_t number) { return number > 0 ? static_cast<uint64_t>(number) : 0; }

// Belongs to the job and outlives its parts.
struct JobScope {
  JobScope(Environment& environment, JobRequest what);
  JobScope(const JobScope&) = delete;
  JobScope& operator=(const JobScope&) = delete;

  Environment& env;
  const JobRequest request;
  // The class whose workers measure, and for which the plan is kept: the request's until the search
  // begins, which settles it.
  std::string machine;
  const int64_t started_ns;
  JobRecord record;
  JobNotes notes;
  std::optional<JobStart> start;  // what the search began with, once it is journalled
  SearchStatus status;            // as of the search's last step

  int64_t elapsed_ms(int64_t now_ns) const { return (now_ns - started_ns) / 1'000'000; }
  // That the job's candidates are for.
  std::string device() const { return device_name(request.key.target.name, machine); }
  // Of the worker that compiled a task's program, while it is connected; empty where that was not
  // reproducibly.
  std::optional<WorkerMake> make_of(const TaskDone& done) const {
    return done.is_reproducible ? env.workers.make_of(done.result.worker) : std::nullopt;
  }
  common::Error too_many_graphs() const;
  // Whether the disk did not take what was found, and may take it later: it is worth more than the
  // time until there is room again. Somebody else's write may have found room since.
  bool may_pass(const common::Error& error) const {
    return error.code == common::Code::kUnavailable || !env.store.trouble().empty();
  }
  int64_t disk_retry_ns() const { return env.clock.now_ns() + kDiskRetryMs * kNsPerMs; }
};

// A whole program that the search ended with, on its way to become a plan.
struct FoundPlan {
  SearchOutcome outcome;
  bool is_cut_off = false;  // the search was told to end before it was given what was asked for
  std::optional<common::TaskReport> rerun = {};  // the second run's, when the objects had been lost
  std::optional<WorkerMake> make = {};  // of who compiled it; empty where that was not reproducibly
  std::string second_worker = {};       // that compiled the same objects; empty: none did
};

// What a job's parts tell it. The job may end the part that calls: that is the last thing the part
// does.
class JobEvents {
 public:
  virtual void failed(const common::Error& error) = 0;
  virtual void searched(FoundPlan plan) = 0;
  // The plan's objects are in the store.
  virtual void fetched(FoundPlan plan) = 0;
  // Another worker has compiled the same objects, or the farm has no other.
  virtual void confirmed(FoundPlan plan) = 0;
  // The plan is, and the journal is closed.
  virtual void kept(FoundPlan plan) = 0;

 protected:
  ~JobEvents() = default;
};

}  // namespace coordinator::service
