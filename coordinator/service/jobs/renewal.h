// Verifies and measures plans anew when the toolchain of their machines has changed, without
// anybody asking: the most used first, one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "coordinator/service/job/environment.h"
#include "coordinator/service/jobs/reverify.h"

namespace coordinator::service {

// Whether a plan is stale by the workers that are connected now. The function may be called by any
// thread.
PlanRepository::StaleCheck stale_check(const Workers& workers);

// A plan is stale when workers of its target and machine class are there and none of them has the
// toolchain that it was made with: a C compiler's, NVRTC's, a driver's or a BLAS library's version
// is another one now. What is stale follows from the store and the workers, so that nothing is lost
// in a restart. Not thread-safe.
class Renewal {
 public:
  struct Links {
    std::function<farm::JobId(const std::string& tenant, const common::Digest& graph_hash)> new_id;
    // Begins a search for a plan that is withdrawn, because it is not right any more.
    std::function<void(const std::string& tenant, const EarlierPlan& plan)> search;
  };
  Renewal(Environment& environment, Reverifier& reverifier, Links links)
      : env_(environment), reverifier_(reverifier), links_(std::move(links)) {}

  // To be called on every round of the loop. `is_idle`: no job wants the workers.
  void turn(bool is_idle);
  size_t waiting() const { return waiting_.size(); }

  // That go at once; the others wait until no job wants the workers.
  static constexpr size_t kAtOnce = 10;
  static constexpr size_t kWaitingMax = 4'096;

 private:
  void look();
  void begin(const common::Digest& place);
  void ended(const common::Digest& place, const common::Status& status);

  Environment& env_;
  Reverifier& reverifier_;
  const Links links_;
  std::deque<common::Digest> waiting_;  // places
  size_t begun_ = 0;                    // since the last look
  uint64_t changes_seen_ = 0;           // of the workers
  bool is_looking_ = false;
  bool is_running_ = false;
};

}  // namespace coordinator::service
