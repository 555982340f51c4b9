// Shares of one pipeline among the coordinators that a worker serves: each sees a pipeline of its
// own, and a slot that becomes free is the next one's in turn that has a task waiting.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/wire/context.h"
#include "worker/agent/pipeline/pipeline.h"

namespace worker {

// Thread-safe. Tasks that are in the pipeline at once are bounded by `slots`; the others wait here,
// at no cost but their time. Coordinators number their leases by themselves, so that the pipeline
// knows a task by another lease.
class PipelineShares {
 public:
  // Borrows the pipeline, and is alone in using it.
  PipelineShares(Pipeline& pipeline, size_t count, uint32_t slots);
  ~PipelineShares();
  PipelineShares(const PipelineShares&) = delete;
  PipelineShares& operator=(const PipelineShares&) = delete;

  // Share `k` of `count`; lives as long as this.
  Pipeline& share(size_t k);

 private:
  class Share;
  // A task in the pipeline.
  struct Admitted {
    size_t share = 0;
    common::TaskLease lease;  // its coordinator's
  };
  void submit(size_t share, Job job);
  bool cancel(size_t share, const common::TaskLease& lease);
  std::vector<common::TaskLease> cancel_waiting(size_t share);
  void admit();
  void pump();
  void take_results();

  Pipeline& pipeline_;
  const uint32_t slots_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Share>> shares_;
  std::map<common::TaskLease, Admitted> admitted_;  // by the pipeline's leases
  uint64_t tasks_ = 0;                              // admitted, ever
  size_t turn_ = 0;                                 // the share whose turn is next
  bool stopping_ = false;
  common::Waker stop_;
  std::thread pump_;
};

}  // namespace worker
