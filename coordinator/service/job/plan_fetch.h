// A found plan whose objects are on their way from the worker that measured it to the store.
#pragma once

#include <set>
#include <string>

#include "coordinator/service/job/sent_programs.h"

namespace coordinator::service {

// Not thread-safe. Ends by JobEvents::fetched() or failed().
class PlanFetch {
 public:
  PlanFetch(const JobScope& scope, const SentPrograms& programs, JobEvents& job, FoundPlan plan)
      : scope_(scope), programs_(programs), job_(job), plan_(std::move(plan)) {}
  PlanFetch(const PlanFetch&) = delete;
  PlanFetch& operator=(const PlanFetch&) = delete;

  // Asks the worker for what the store lacks.
  void begin();
  bool wants_object(const common::Digest& digest) const { return missing_.contains(digest); }
  // `status`: whether the store has it now.
  void object_arrived(const common::Digest& digest, const common::Status& status);
  void object_missing(const std::string& worker, const common::Digest& digest);
  void task_done(const TaskDone& done);
  void tick(int64_t now_ns);

 private:
  void lost(const std::string& why);
  void complete();

  const JobScope& scope_;
  const SentPrograms& programs_;
  JobEvents& job_;
  FoundPlan plan_;
  std::set<common::Digest> missing_;
  int64_t deadline_ns_ = 0;  // while objects are missing
  int64_t retry_ns_ = 0;     // when the disk is tried again; 0: it takes what comes
  bool is_rerun_ = false;    // the program runs again, or did: its objects were lost
};

}  // namespace coordinator::service
