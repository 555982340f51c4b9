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
  // it. `bytes`: its size, 0 where that is not known yet.
  void note(const common::Digest& digest, int64_t now_ns, uint64_t bytes);
  // A plan that needs these was put. The inventory of a collection under way is older than it.
  void end_wait(std::span<const common::Digest> needs);

  // Around a collection's look and what it does upon it; may begin again before the end. Those that
  // waited too long are dropped before it.
  void begin_inventory(int64_t now_ns);
  void end_inventory();

  // While this is held, nobody notes a blob.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
  // Under hold(): whether a collection has to leave the blob.
  bool holds(const common::Digest& digest) const {
    return recent_.count(digest) != 0 || needed_since_.count(digest) != 0;
  }
  // Under hold(): of those without a plan yet, as far as it is known.
  uint64_t bytes() const;

 private:
  struct Noted {
    int64_t at_ns = 0;  // the last time
    uint64_t bytes = 0;
  };

  std::mutex mutex_;
  std::unordered_map<common::Digest, Noted> recent_;
  bool takes_inventory_ = false;
  std::unordered_set<common::Digest> needed_since_;  // the inventory under way was begun
};

}  // namespace cache
