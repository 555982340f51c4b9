// Blobs that wait for the plan that needs them: collections leave them in a store.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "cache/store/records.h"
#include "common/base/digest.h"

namespace cache {

// Between the put of a blob and the put of the plan that needs it.
inline constexpr int64_t kRecentBlobNs = int64_t{600} * 1'000'000'000;

// Thread-safe; what is said to need hold() is not by itself.
class WaitingBlobs {
 public:
  // When a blob is put or asked for: before the look, so that from here on no collection removes
  // it.
  void note(const common::Digest& digest, int64_t now_ns);
  // A plan that needs these was put. The inventory of a collection under way is older than it.
  void end_wait(std::span<const common::Digest> needs);

  // Around a collection. Those that waited too long are dropped before it.
  void begin_inventory(int64_t now_ns);
  void end_inventory();

  // While this is held, nobody notes a blob.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
  // Under hold(): whether a collection has to leave the blob.
  bool holds(const common::Digest& digest) const {
    return recent_.count(digest) != 0 || needed_since_.count(digest) != 0;
  }
  // Under hold(): those without a plan yet, and when each was noted last.
  const std::unordered_map<common::Digest, int64_t>& recent() const { return recent_; }

 private:
  std::mutex mutex_;
  std::unordered_map<common::Digest, int64_t> recent_;
  bool takes_inventory_ = false;
  std::unordered_set<common::Digest> needed_since_;  // the inventory under way was begun
};

}  // namespace cache
