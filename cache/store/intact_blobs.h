// Blobs seen intact since a store was opened. Only this process can remove them, so that membership
// saves hashing them again.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_set>

#include "common/base/digest.h"

namespace cache {

// Thread-safe. Holds a bounded number.
class IntactBlobs {
 public:
  bool holds(const common::Digest& digest);
  void add(const common::Digest& digest);
  // How often blobs were removed. A reader asks before it looks: add_unless_removed() drops its
  // finding when that may be out of date.
  uint64_t removals();
  void add_unless_removed(const common::Digest& digest, uint64_t removals_before);
  void forget(std::span<const common::Digest> digests);
  void forget_all();

 private:
  void insert(const common::Digest& digest);  // under the lock

  std::mutex mutex_;
  std::unordered_set<common::Digest> intact_;
  uint64_t removals_ = 0;
};

}  // namespace cache
