// Uses of a store's plans, and misses, that are not written yet: written in bulk, since one lost in
// a crash costs a little order of eviction.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "cache/store/database.h"
#include "cache/store/records.h"
#include "common/base/digest.h"

namespace cache {

// Thread-safe. Holds a bounded number of uses.
class PendingUses {
 public:
  // Reads the number of misses.
  common::Status read(const Database& database);
  uint64_t misses();

  void note_miss();
  void note_hit(Database& database, const common::Digest& key, int64_t now_ns);
  void flush(Database& database);
  // Adds what is pending to `used`, by plan key.
  void add_to(std::unordered_map<common::Digest, PlanUse>& used);
  // The same of one plan.
  std::optional<PlanUse> with_pending(const common::Digest& key, std::optional<PlanUse> written);

 private:
  void write(Database& database);  // under the lock

  std::mutex mutex_;
  uint64_t misses_ = 0;
  bool is_changed_ = false;
  std::unordered_map<common::Digest, PlanUse> recent_;  // by plan key
};

// Uses of the plan that were written. Of a plan that was removed since, or of a record that cannot
// be read, nothing is known: 0.
uint64_t written_uses(const Database& database, const common::Digest& key);

}  // namespace cache
