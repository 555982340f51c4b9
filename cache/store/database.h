// RocksDB behind plain strings and Results, so that its headers and its errors stay in one file.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace cache {

// One column family each. kMeta is RocksDB's default family.
enum class Family : uint8_t { kMeta, kPlans, kKernels, kMeasurements, kNegatives, kJobs };
inline constexpr size_t kFamilyCount = 6;

struct DatabaseOptions {
  bool read_only = false;
  size_t block_cache_bytes = size_t{16} << 20;
};

// Changes that become visible together. Keys and values are copied in. Not thread-safe.
class Batch {
 public:
  void put(Family family, std::string_view key, std::string_view value);
  void remove(Family family, std::string_view key);

 private:
  friend class Database;
  struct Change {
    Family family;
    std::string key;
    std::optional<std::string> value;  // empty: removed
  };
  std::vector<Change> changes_;
};

// An open database; all functions are thread-safe. A read-only one sees what its writer had written
// when it was opened or last refreshed, and may be open while a writer is.
class Database {
 public:
  // Creates the directory when missing, unless read-only. kUnavailable: another process has it,
  // or a read-only open finds nothing; kCorrupt: damaged; kInvalidInput: not readable or writable.
  static common::Result<std::unique_ptr<Database>> open(const std::string& directory,
                                                        const DatabaseOptions& options);
  // Writes out what a later open would have to replay, and releases the directory.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // kCorrupt when the stored bytes fail their checksum.
  common::Result<std::optional<std::string>> get(Family family, std::string_view key) const;
  // `durable` returns after the bytes reached the device; otherwise they survive the death of the
  // process, not of the machine.
  // After a failed write (a full disk) reads go on, and the next write opens the database again.
  common::Status write(const Batch& batch, bool durable);
  // Brings all earlier writes to the device.
  common::Status sync();

  // Visits keys that begin with `prefix` in order, over one consistent snapshot, until the visitor
  // returns false. The views end with the call. The visitor must not call the database.
  using Visitor = std::function<bool(std::string_view key, std::string_view value)>;
  common::Status scan(Family family, std::string_view prefix, const Visitor& visit) const;
  // The first key that is not below `bound`.
  common::Result<std::optional<std::string>> key_at_or_after(Family family,
                                                             std::string_view bound) const;

  // Gives the space of removed keys back to the disk. Takes seconds per gigabyte.
  common::Status compact(Family family);
  // Read-only: opens again, to see what the writer wrote since. Reads that are under way finish on
  // the state they began with.
  common::Status refresh();
  // Bytes of tables and logs on the disk.
  uint64_t disk_bytes() const;
  bool read_only() const;

 private:
  struct Handles;
  static common::Result<std::shared_ptr<const Handles>> open_handles(
      const std::string& directory, const DatabaseOptions& options);
  Database(std::string directory, const DatabaseOptions& options,
           std::shared_ptr<const Handles> handles);
  std::shared_ptr<const Handles> handles() const;
  common::Error closed() const;
  common::Status recover();

  const std::string directory_;
  const DatabaseOptions options_;
  mutable std::mutex mutex_;                // guards the pointer; what it points to is thread-safe
  std::shared_ptr<const Handles> handles_;  // null when neither recovery nor reading succeeded
  std::atomic<bool> failed_{false};         // a write failed; RocksDB takes no more of them
};

}  // namespace cache
