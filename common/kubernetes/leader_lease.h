// One of several processes is the leader, by a Lease of the cluster; the others wait.
//
// The rule is that of client-go's leaderelection: who holds the lease renews it; who does not takes
// it once it has seen it unchanged for the time that its holder promised. Clocks of machines are
// never compared. A leader that cannot renew gives up before anyone else may take over.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/kubernetes/cluster.h"

namespace common {

struct LeaderOptions {
  std::string lease;     // its name
  std::string identity;  // of this process, unlike any other's
  int64_t duration_ms = 15'000;
  int64_t renew_ms = 10'000;  // a leader that did not renew for so long is none; < duration
  int64_t retry_ms = 2'000;   // between requests

  // The same shares of a lease that lasts for `ms`, which is told to others in whole seconds.
  void last(int64_t ms);
};

// Not thread-safe. Borrows the clock; `wall_us` is only what is written down.
class LeaderLease {
 public:
  LeaderLease(Cluster cluster, LeaderOptions options, const Clock& clock);

  // Takes or renews the lease if it is time to, which may take several of the cluster's timeouts;
  // returns whether this process leads when that is over.
  bool tend(int64_t wall_us);
  // Of the last request; ok when it went as it should, whoever holds the lease.
  const Status& last() const { return last_; }
  // Who holds it, as far as is known; empty for nobody.
  const std::string& holder() const { return seen_.holder; }
  // Gives it up, so that another need not wait.
  void release(int64_t wall_us);
  int64_t retry_ms() const { return options_.retry_ms; }

 private:
  Status attempt(int64_t wall_us);
  bool leads() const;

  Cluster cluster_;
  LeaderOptions options_;
  const Clock& clock_;
  LeaseRecord seen_;
  int64_t seen_ns_ = 0;     // when what was read last changed
  int64_t renewed_ns_ = 0;  // when the last renewal that succeeded was begun
  bool is_ours_ = false;
  int64_t next_ns_ = 0;
  Status last_;
};

}  // namespace common
