// Where coordinators keep who holds which shard, and who of them lives: leases by name, of which
// one is replaced only by who has read what it holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace common {

// How a coordinator is reached by those that another one sends to it.
struct ServedAt {
  std::string endpoint;
  std::string public_key;  // for transport security; empty: none

  friend bool operator==(const ServedAt&, const ServedAt&) = default;
};

struct ShardLease {
  std::string name;          // "shard-17", or "member-" and a coordinator's identity
  std::string holder;        // identity and incarnation of a coordinator's process; empty: nobody
  uint64_t transitions = 0;  // of holders
  int64_t duration_ms = 0;   // what the holder promised to renew within
  ServedAt at;
  std::string version;  // of what was read; empty: there was none

  friend bool operator==(const ShardLease&, const ShardLease&) = default;
};

// Calls may wait for a network. Errors: kUnavailable and kTimedOut when the store does not answer,
// after which a write may or may not have happened; kCorrupt when it answers nonsense.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;
  // All leases of the farm, at most kLeasesMax, in no order.
  virtual Result<std::vector<ShardLease>> read() = 0;
  // Makes or replaces each whose version is still the one that is there. Returns for each the new
  // version; empty: somebody else was faster.
  virtual Result<std::vector<std::string>> write(std::span<const ShardLease> leases) = 0;

  static constexpr size_t kLeasesMax = 1024;
};

}  // namespace common
