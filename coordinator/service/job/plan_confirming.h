// A found plan whose objects are in the store, until another worker has compiled the same.
#pragma once

#include "coordinator/service/job/second_build.h"
#include "coordinator/service/job/sent_programs.h"

namespace coordinator::service {

// Not thread-safe. Ends by JobEvents::confirmed() or failed().
class PlanConfirming {
 public:
  PlanConfirming(const JobScope& scope, const SentPrograms& programs, JobEvents& job,
                 FoundPlan plan);
  PlanConfirming(const PlanConfirming&) = delete;
  PlanConfirming& operator=(const PlanConfirming&) = delete;

  void begin() { second_.begin(); }
  void task_done(const TaskDone& done) { second_.task_done(done); }
  void tick(int64_t now_ns) { second_.tick(now_ns); }

 private:
  void ended(common::Result<std::string> second_worker);

  JobEvents& job_;
  FoundPlan plan_;
  SecondBuild second_;
};

}  // namespace coordinator::service
