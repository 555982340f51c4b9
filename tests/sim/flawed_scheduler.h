// The real scheduler, or one made to err: in what it is told, in what it answers, in its limits.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "farm_scene.h"

namespace sim {

class FlawedScheduler {
 public:
  FlawedScheduler(const Config& config, Scene& scene);
  std::vector<Action> on_event(const Event& event, int64_t now_ns);
  Stats stats() const { return scheduler_.stats(); }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  // False: it does not hear it at all.
  bool mistake(Event& event) const;
  void mistake(std::vector<Action>& actions);

  Scene& scene_;
  Scheduler scheduler_;
  std::map<TaskId, std::pair<WorkerId, Epoch>> leases_;
};

}  // namespace sim
