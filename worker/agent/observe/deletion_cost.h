// Tells the cluster which workers it may end first when it scales in: the idle ones.
// Source: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/kubernetes/cluster.h"
#include "worker/agent/observe/agent_state.h"

namespace worker {

inline constexpr const char* kDeletionCostAnnotation = "controller.kubernetes.io/pod-deletion-cost";

struct DeletionCostOptions {
  std::string pod;
  int64_t look_ms = 5'000;   // between looks at the state
  int64_t idle_ms = 10'000;  // without a lease, before a worker counts as idle
};

// Writes the pod's annotation from a thread of its own whenever the worker falls idle or gets busy;
// borrows the state and the clock.
class DeletionCost {
 public:
  DeletionCost(common::Cluster cluster, DeletionCostOptions options, const AgentState& state,
               const common::Clock& clock);
  // Waits for a request under way.
  ~DeletionCost();
  DeletionCost(const DeletionCost&) = delete;
  DeletionCost& operator=(const DeletionCost&) = delete;

 private:
  void run();
  bool is_idle() const;

  common::Cluster cluster_;
  DeletionCostOptions options_;
  const AgentState& state_;
  const common::Clock& clock_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace worker
