// Copies of a store: kept in number, and put back without forgetting what was revoked since.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/store/store.h"

namespace cache {

// Copies that backup_store() made in `directory`, by their paths, the oldest first.
std::vector<std::string> backups_in(const std::string& directory);
// When the latest of them was made, in ns of the wall clock; empty when there is none.
std::optional<int64_t> last_backup_wall_ns(const std::string& directory);

// Makes a copy named after the time in `directory`, whole or not at all, and removes the oldest
// ones beyond `kept`. Returns its path.
common::Result<std::string> backup_store(Store& store, const std::string& directory,
                                         int64_t now_wall_ns, size_t kept);

struct RestoreReport {
  uint64_t plans = 0;
  uint64_t revocations = 0;  // that the copy did not know of
  std::string replaced;      // where the store that was there lies now; empty: there was none
};
// Puts a copy in the place of the store in `directory`, which nobody may have open. What that one
// had revoked stays revoked, and is removed from what comes back; where it cannot be read any more,
// revocations since the copy was made are lost, and the report says that there were none.
// `options`: as for Store::open. kInvalidInput when `backup` is no store.
common::Result<RestoreReport> restore_store(const std::string& backup, const std::string& directory,
                                            const StoreOptions& options);

}  // namespace cache
