// RocksDB behind plain strings and Results, so that its headers and its errors stay in this folder.
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

namespace rocksdb {
class Status;
}

namespace cache {

// Free on the disk before a database whose write failed is opened again: that writes a manifest and
// a log.
inline constexpr uint64_t kReopenBytes = uint64_t{1} << 20;

// One column family each. kMeta is RocksDB's default family.
enum class Family : uint8_t { kMeta, kPlans, kKernels, kMeasurements, kNegatives, kJobs };
inline constexpr size_t kFamilyCount = 6;

struct DatabaseOptions {
  bool read_only = false;
  size_t block_cache_bytes = size_t{16} << 20;
};

// How its disk has treated an open database.
struct DatabaseHealth {
  std::string trouble;         // why the last write failed; empty when it did not
  uint64_t failed_writes = 0;  // since it was opened
  uint64_t repairs = 0;        // likewise, and that of the opening itself
};

// Records that this thread has read, of all databases: what its work grows with.
uint64_t records_read_by_this_thread();

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
  // or a read-only open finds nothing; kInvalidInput: not readable or writable. Damage is mended
  // (cache/store/repair.h), and health() tells; to a read-only open it is kCorrupt.
  static common::Result<std::unique_ptr<Database>> open(const std::string& directory,
                                                        const DatabaseOptions& options);
  // Writes out what a later open would have to replay, and releases the directory.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // kCorrupt when the stored bytes fail their checksum; the next write mends the files then.
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
  // The same from a key on, to the end of the family.
  common::Status scan_from(Family family, std::string_view from, const Visitor& visit) const;
  // The first key that is not below `bound`.
  common::Result<std::optional<std::string>> key_at_or_after(Family family,
                                                             std::string_view bound) const;

  // Makes `directory`, which must not exist, a database with what this one holds now. On one file
  // system tables are linked and take no room until this one has let go of them.
  common::Status checkpoint(const std::string& directory);
  // Gives the space of removed keys back to the disk. Takes seconds per gigabyte.
  common::Status compact(Family family);
  // Read-only: opens again, to see what the writer wrote since. Reads that are under way finish on
  // the state they began with.
  common::Status refresh();
  DatabaseHealth health() const;
  // As in health(), at no cost where there is none.
  std::string trouble() const;
  // Grows with each time that files were mended: what was read before may be gone since.
  uint64_t repairs() const { return repairs_; }
  // Bytes of tables and logs on the disk.
  uint64_t disk_bytes() const;
  bool read_only() const;

 private:
  common::Status scan_between(Family family, std::string_view from, const std::string& end,
                              const Visitor& visit) const;
  struct Handles;
  using Opened = common::Result<std::shared_ptr<const Handles>>;
  static Opened open_handles(const std::string& directory, const DatabaseOptions& options,
                             bool mended);
  static Opened open_writer(const std::string& directory, const DatabaseOptions& options,
                            bool* mended);
  static Opened open_mended(const std::string& directory, const DatabaseOptions& options);
  static common::Status put_back(const Handles& open, const std::vector<std::string>& tables,
                                 const std::string& directory);
  Database(std::string directory, const DatabaseOptions& options,
           std::shared_ptr<const Handles> handles);
  std::shared_ptr<const Handles> handles() const;
  common::Error closed() const;
  common::Status recover();
  common::Status try_write(const Batch& batch, bool durable);
  common::Error read_error(const rocksdb::Status& status) const;
  void note(const common::Status& written);

  const std::string directory_;
  const DatabaseOptions options_;
  mutable std::mutex mutex_;                // guards the pointer; what it points to is thread-safe
  std::shared_ptr<const Handles> handles_;  // null when neither recovery nor reading succeeded
  std::atomic<bool> failed_{false};         // a write failed; RocksDB takes no more of them
  mutable std::atomic<bool> damaged_{false};  // something could not be read
  std::atomic<uint64_t> repairs_{0};
  // Free on the disk before it is opened again: more than kReopenBytes where what could not be
  // written is large, or where that was not enough the last time.
  std::atomic<uint64_t> needed_bytes_{kReopenBytes};
  mutable std::mutex trouble_mutex_;
  std::string trouble_;
  uint64_t failed_writes_ = 0;
  std::atomic<bool> in_trouble_{false};  // trouble_ is not empty
};

}  // namespace cache
