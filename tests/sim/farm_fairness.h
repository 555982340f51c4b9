// Says when somebody gets more than their share of the workers while somebody else waits.
//
// Whoever has a task waiting that was never tried takes part in the race for its target. As long as
// two take part, what they were served, by weight, may differ by cost_max / weight of each; jobs
// race within their tenant by priority, tenants race with equal weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "coordinator/farm/types.h"

namespace sim {

class Race {
 public:
  // The competitor has so many more, or fewer, tasks waiting.
  void waits(uint64_t who, double weight, int more);
  // Empty when it is fair.
  std::string served(uint64_t who, double weight, uint32_t cost);
  size_t comparisons() const { return comparisons_; }

 private:
  struct Competitor {
    double weight = 1;
    double served = 0;
    int waiting = 0;
  };
  std::map<uint64_t, Competitor> all_;
  // How far the first was ahead of the second when both began to wait.
  std::map<std::pair<uint64_t, uint64_t>, double> lead_;
  size_t comparisons_ = 0;
};

class FairnessWatch {
 public:
  void add(coordinator::farm::JobId job, const std::string& tenant, uint32_t priority);
  void waits(coordinator::farm::JobId job, const std::string& target, int more);
  std::string served(coordinator::farm::JobId job, const std::string& target, uint32_t cost);
  // The coordinator is a new one: nobody has been served yet.
  void restart();
  size_t comparisons() const;

  // Costs of the tasks that the simulation makes.
  static constexpr uint32_t kCostMax = 5;

 private:
  struct Job {
    uint64_t tenant = 0;
    double weight = 1;
  };
  std::map<std::string, uint64_t> tenants_;
  std::map<coordinator::farm::JobId, Job> jobs_;
  std::map<std::string, Race> tenant_races_;
  std::map<std::pair<std::string, uint64_t>, Race> job_races_;
  size_t comparisons_ = 0;  // before the restart
};

}  // namespace sim
