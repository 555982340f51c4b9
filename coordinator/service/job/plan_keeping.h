// A found plan whose objects are in the store, until it is there itself and the job's journal is
// closed.
#pragma once

#include <memory>

#include "coordinator/service/job/interim_publisher.h"

namespace coordinator::service {

// Not thread-safe. Ends by JobEvents::kept() or failed().
class PlanKeeping {
 public:
  PlanKeeping(const JobScope& scope, const SentPrograms& programs, InterimPublisher& interim,
              JobEvents& job, FoundPlan plan)
      : scope_(scope), programs_(programs), interim_(interim), job_(job), plan_(std::move(plan)) {}
  PlanKeeping(const PlanKeeping&) = delete;
  PlanKeeping& operator=(const PlanKeeping&) = delete;

  void begin();
  void tick(int64_t now_ns);

 private:
  void keep();
  void write();
  void sign_off_once();
  void stored(const common::Status& status);

  const JobScope& scope_;
  const SentPrograms& programs_;
  InterimPublisher& interim_;
  JobEvents& job_;
  // Reaches this from background work, for as long as it lives.
  const std::shared_ptr<PlanKeeping*> self_ = std::make_shared<PlanKeeping*>(this);
  FoundPlan plan_;
  JobEnd end_;
  int64_t retry_ns_ = 0;  // when the disk is tried again; 0: it takes what comes
};

}  // namespace coordinator::service
