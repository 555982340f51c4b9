#include "cache/store/database.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/log.h"

namespace cache {

using common::cat;
using common::Error;
using common::Result;
using common::Status;

namespace {

constexpr std::array<const char*, kFamilyCount> kFamilyNames = {
    "default", "plans", "kernels", "measurements", "negatives", "jobs"};
// A log up to this size replays in a few milliseconds; a bigger one is flushed on close.
constexpr uint64_t kReplayBytesMax = uint64_t{1} << 20;
// A writer may delete a file between a reader's listing and its open.
constexpr int kReaderAttempts = 5;

rocksdb::Slice slice(std::string_view text) { return {text.data(), text.size()}; }
std::string_view view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

// Keeps RocksDB's LOG file out of the directory and its troubles in the process's own log.
class QuietLogger final : public rocksdb::Logger {
 public:
  QuietLogger() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void LogHeader(const char*, va_list) override {}
  void Logv(const char* format, va_list arguments) override {
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    std::string_view text(line);
    // Dropped log records are lost writes; the other warnings describe ordinary work.
    bool loss = text.find("dropping") != std::string_view::npos ||
                text.find("orruption") != std::string_view::npos;
    common::log(loss ? common::LogLevel::kWarning : common::LogLevel::kDebug, cat("store: ", text));
  }
};

bool mentions(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

Error to_error(const rocksdb::Status& status, const std::string& directory) {
  std::string text = status.ToString();
  if (status.IsNoSpace() || mentions(text, "No space left")) {
    return common::unavailable(
        cat("the disk of ", directory, " is full: free space or run lfarm cache gc (", text, ")"));
  }
  if (mentions(text, "Read-only file system") || mentions(text, "Permission denied")) {
    return common::invalid_input(
        cat("cannot write ", directory, ": ", text, "; choose another directory with --state"));
  }
  if (status.IsCorruption()) {
    return common::corrupt(cat("the store ", directory, " is damaged (", text,
                               "): remove the directory, the farm will fill it again"));
  }
  if (status.IsIOError()) {
    return common::unavailable(
        cat("cannot use the store ", directory, ": ", text, "; check the disk, then try again"));
  }
  return common::internal_error(cat("the store ", directory, " failed: ", text));
}

// The process that holds the POSIX lock, from /proc/locks. Opening the file to ask with F_GETLK
// would release this process's own lock when it is closed again.
std::optional<int> lock_owner(const std::string& lock_path) {
  struct stat info {};
  if (::stat(lock_path.c_str(), &info) != 0) return std::nullopt;
  char wanted[64];
  std::snprintf(wanted, sizeof wanted, "%02x:%02x:%llu", major(info.st_dev), minor(info.st_dev),
                static_cast<unsigned long long>(info.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream fields(line);
    std::string number, kind, mode, access, file;
    int pid = 0;
    if (fields >> number >> kind >> mode >> access >> pid >> file && file == wanted && pid > 0) {
      return pid;
    }
  }
  return std::nullopt;
}

Error lock_conflict(const std::string& directory, const std::string& text) {
  std::string who = "another lfarm process";
  if (mentions(text, "current process")) {
    who = "this process already";
  } else if (auto pid = lock_owner(cat(directory, "/LOCK"))) {
    who += cat(" (pid ", *pid, ")");
  }
  return common::unavailable(cat("state directory ", directory, " is in use by ", who,
                                 ": stop it or choose another directory with --state"));
}

rocksdb::DBOptions database_options(bool read_only) {
  rocksdb::DBOptions options;
  options.create_if_missing = !read_only;
  options.create_missing_column_families = !read_only;
  options.info_log = std::make_shared<QuietLogger>();
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  // Everything below keeps opening at a few milliseconds: no scan of the tables, no statistics, no
  // flush of a replayed log.
  options.skip_stats_update_on_db_open = true;
  options.skip_checking_sst_file_sizes_on_db_open = true;
  options.avoid_flush_during_recovery = true;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.max_total_wal_size = uint64_t{32} << 20;
  options.max_file_opening_threads = 2;
  // All tables stay open, so that a reader survives a writer's deletions.
  options.max_open_files = -1;
  return options;
}

rocksdb::ColumnFamilyOptions family_options(Family family,
                                            const rocksdb::BlockBasedTableOptions& table) {
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = (family == Family::kKernels ? size_t{16} : size_t{4}) << 20;
  options.compression = rocksdb::kNoCompression;
  if (family == Family::kKernels || family == Family::kJobs) {
    auto supported = rocksdb::GetSupportedCompressions();
    if (std::count(supported.begin(), supported.end(), rocksdb::kLZ4Compression) != 0) {
      options.compression = rocksdb::kLZ4Compression;
    }
  }
  // Tables that are mostly tombstones are rewritten early, so that removed entries leave the disk.
  options.table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(128, 64, 0.25));
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> family_descriptors(const DatabaseOptions& options) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes, 2);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < kFamilyCount; ++i) {
    families.emplace_back(kFamilyNames[i], family_options(static_cast<Family>(i), table));
  }
  return families;
}

// The smallest string above all strings that begin with `prefix`; empty when there is none.
std::string prefix_end(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

}  // namespace

struct Database::Handles {
  std::string directory;
  bool read_only = false;
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> families;

  rocksdb::ColumnFamilyHandle* family(Family id) const { return families[static_cast<size_t>(id)]; }
};

Batch::Batch(const Database& database)
    : database_(database), batch_(std::make_unique<rocksdb::WriteBatch>()) {}
Batch::~Batch() = default;

// WriteBatch reports only a wrong family or an oversized entry; both are bugs of the caller.
void Batch::put(Family family, std::string_view key, std::string_view value) {
  auto status = batch_->Put(database_.handles_->family(family), slice(key), slice(value));
  LFARM_CHECK(status.ok(), status.ToString());
}

void Batch::remove(Family family, std::string_view key) {
  auto status = batch_->Delete(database_.handles_->family(family), slice(key));
  LFARM_CHECK(status.ok(), status.ToString());
}

void Batch::remove_prefix(Family family, std::string_view prefix) {
  std::string end = prefix_end(prefix);
  if (end.empty()) end.assign(256, '\xff');
  auto status = batch_->DeleteRange(database_.handles_->family(family), slice(prefix), slice(end));
  LFARM_CHECK(status.ok(), status.ToString());
}

Database::Database(std::unique_ptr<Handles> handles) : handles_(std::move(handles)) {}

Result<std::unique_ptr<Database>> Database::open(const std::string& directory,
                                                 const DatabaseOptions& options) {
  if (!options.read_only) {
    LFARM_RETURN_IF_ERROR(common::make_directories(directory));
  } else if (::access(cat(directory, "/CURRENT").c_str(), R_OK) != 0) {
    return common::unavailable(cat("no readable store in ", directory,
                                   ": start lfarm once with this state directory, or choose "
                                   "another with --state"));
  }
  auto handles = std::make_unique<Handles>();
  handles->directory = directory;
  handles->read_only = options.read_only;
  auto families = family_descriptors(options);
  auto database_settings = database_options(options.read_only);
  rocksdb::DB* db = nullptr;
  rocksdb::Status status;
  for (int attempt = 0; attempt < (options.read_only ? kReaderAttempts : 1); ++attempt) {
    // With a logger of our own a secondary instance writes nothing, so the path is never used.
    status =
        options.read_only
            ? rocksdb::DB::OpenAsSecondary(database_settings, directory, directory, families,
                                           &handles->families, &db)
            : rocksdb::DB::Open(database_settings, directory, families, &handles->families, &db);
    if (status.ok()) break;
  }
  if (!status.ok()) {
    std::string text = status.ToString();
    if (mentions(text, "LOCK") && !mentions(text, "Permission denied") &&
        !mentions(text, "Read-only file system")) {
      return lock_conflict(directory, text);
    }
    if (status.IsInvalidArgument() && mentions(text, "olumn famil")) {
      return common::unsupported(cat("the store ", directory, " has another layout (", text,
                                     "): it belongs to another version of lfarm; choose another "
                                     "directory with --state"));
    }
    return to_error(status, directory);
  }
  handles->db.reset(db);
  return std::unique_ptr<Database>(new Database(std::move(handles)));
}

Database::~Database() {
  if (!handles_->read_only) {
    rocksdb::VectorLogPtr logs;
    uint64_t replay_bytes = 0;
    if (handles_->db->GetSortedWalFiles(logs).ok()) {
      for (const auto& log : logs) replay_bytes += log->SizeFileBytes();
    }
    if (replay_bytes > kReplayBytesMax) {
      // What fails to flush is still in the log.
      handles_->db->Flush(rocksdb::FlushOptions(), handles_->families).PermitUncheckedError();
    }
  }
  for (auto* family : handles_->families) {
    handles_->db->DestroyColumnFamilyHandle(family).PermitUncheckedError();
  }
  auto status = handles_->db->Close();
  if (!status.ok()) {
    common::log_warning(cat("closing the store ", handles_->directory, ": ", status.ToString()));
  }
}

Result<std::optional<std::string>> Database::get(Family family, std::string_view key) const {
  std::string value;
  auto status =
      handles_->db->Get(rocksdb::ReadOptions(), handles_->family(family), slice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return to_error(status, handles_->directory);
  return std::optional<std::string>(std::move(value));
}

Status Database::write(Batch& batch, bool durable) {
  if (handles_->read_only) {
    return common::invalid_input(cat("the store ", handles_->directory, " was opened read-only"));
  }
  rocksdb::WriteOptions options;
  options.sync = durable;
  auto status = handles_->db->Write(options, batch.batch_.get());
  // After a failed write RocksDB refuses all others until it is told that the disk is well again.
  if (!status.ok() && handles_->db->Resume().ok()) {
    status = handles_->db->Write(options, batch.batch_.get());
  }
  if (!status.ok()) return to_error(status, handles_->directory);
  return {};
}

Status Database::sync() {
  if (handles_->read_only) return {};
  auto status = handles_->db->SyncWAL();
  if (!status.ok()) return to_error(status, handles_->directory);
  return {};
}

Status Database::scan(Family family, std::string_view prefix, const Visitor& visit) const {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  std::string end = prefix_end(prefix);
  rocksdb::Slice bound = slice(end);
  if (!end.empty()) options.iterate_upper_bound = &bound;
  std::unique_ptr<rocksdb::Iterator> cursor(
      handles_->db->NewIterator(options, handles_->family(family)));
  for (cursor->Seek(slice(prefix)); cursor->Valid(); cursor->Next()) {
    if (!visit(view(cursor->key()), view(cursor->value()))) return {};
  }
  if (!cursor->status().ok()) return to_error(cursor->status(), handles_->directory);
  return {};
}

Result<std::optional<std::string>> Database::key_at_or_after(Family family,
                                                             std::string_view bound) const {
  std::unique_ptr<rocksdb::Iterator> cursor(
      handles_->db->NewIterator(rocksdb::ReadOptions(), handles_->family(family)));
  cursor->Seek(slice(bound));
  if (cursor->Valid()) return std::optional<std::string>(cursor->key().ToString());
  if (!cursor->status().ok()) return to_error(cursor->status(), handles_->directory);
  return std::optional<std::string>();
}

Status Database::compact(Family family) {
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  auto status = handles_->db->CompactRange(options, handles_->family(family), nullptr, nullptr);
  if (!status.ok()) return to_error(status, handles_->directory);
  return {};
}

Status Database::refresh() {
  if (!handles_->read_only) return {};
  auto status = handles_->db->TryCatchUpWithPrimary();
  if (!status.ok()) return to_error(status, handles_->directory);
  return {};
}

uint64_t Database::disk_bytes() const {
  uint64_t total = 0;
  for (auto* family : handles_->families) {
    uint64_t bytes = 0;
    if (handles_->db->GetIntProperty(family, rocksdb::DB::Properties::kTotalSstFilesSize, &bytes)) {
      total += bytes;
    }
  }
  rocksdb::VectorLogPtr logs;
  if (handles_->db->GetSortedWalFiles(logs).ok()) {
    for (const auto& log : logs) total += log->SizeFileBytes();
  }
  return total;
}

bool Database::read_only() const { return handles_->read_only; }

}  // namespace cache
