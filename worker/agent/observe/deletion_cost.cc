#include "worker/agent/observe/deletion_cost.h"

#include <chrono>
#include <optional>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace worker {
namespace {

// Pods without the annotation count as 0: among ours the idle ones are below.
constexpr const char* kIdleCost = "-100";
constexpr const char* kBusyCost = "0";

}  // namespace

DeletionCost::DeletionCost(common::Cluster cluster, DeletionCostOptions options,
                           const AgentState& state, const common::Clock& clock)
    : cluster_(std::move(cluster)),
      options_(std::move(options)),
      state_(state),
      clock_(clock),
      thread_([this] { run(); }) {}

DeletionCost::~DeletionCost() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

bool DeletionCost::is_idle() const {
  int64_t since_ns = state_.idle_since_ns;
  return since_ns != 0 && clock_.now_ns() - since_ns >= options_.idle_ms * 1'000'000;
}

void DeletionCost::run() {
  std::optional<bool> told;
  bool has_complained = false;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    bool idle = is_idle();
    if (told != idle) {
      lock.unlock();
      common::Status status = cluster_.annotate_pod(options_.pod, kDeletionCostAnnotation,
                                                    idle ? kIdleCost : kBusyCost);
      lock.lock();
      if (status.ok()) told = idle;
      // It only makes scaling in less kind, so once is enough.
      if (!status.ok() && !std::exchange(has_complained, true)) {
        common::log_warning(common::cat("the cluster does not learn whether this worker is idle: ",
                                        status.error().message));
      }
    }
    stop_.wait_for(lock, std::chrono::milliseconds(options_.look_ms), [&] { return stopping_; });
  }
}

}  // namespace worker
