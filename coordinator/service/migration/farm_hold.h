// All shards of a farm, held by a process that serves nobody, so that what lies in the engine is
// changed by that process alone.
#pragma once

#include <functional>
#include <memory>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "coordinator/service/shards/sharding.h"

namespace coordinator::service {

// Not thread-safe. A coordinator that starts meanwhile waits until the hold ends.
class FarmHold {
 public:
  // Takes all shards; borrows `sharding`, of which no keeper runs. kUnavailable, naming it, when a
  // coordinator renews a lease: leases are watched for as long as they last, before the first of
  // them is taken. Leases of coordinators that died are waited for. `is_stopped` is asked while
  // this waits; kUnavailable once it says so.
  static common::Result<std::unique_ptr<FarmHold>> take(Sharding& sharding,
                                                        const ShardingOptions& options,
                                                        const common::Clock& clock,
                                                        const std::function<bool()>& is_stopped);
  // Gives all shards back.
  ~FarmHold();
  FarmHold(const FarmHold&) = delete;
  FarmHold& operator=(const FarmHold&) = delete;

  // kUnavailable when a shard was lost, as when the engine was away for too long.
  common::Status check() const;

 private:
  FarmHold(Sharding& sharding, const common::Clock& clock) : sharding_(sharding), clock_(clock) {}
  common::Status wait_for_all(int64_t patience_ms, const std::function<bool()>& is_stopped);

  Sharding& sharding_;
  const common::Clock& clock_;
};

}  // namespace coordinator::service
