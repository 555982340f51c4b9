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
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>
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
// Small records replay at 40 MB/s, and each open adds a log: more than this is flushed on close.
constexpr uint64_t kReplayBytesMax = uint64_t{64} << 10;
constexpr size_t kReplayLogsMax = 4;
// Opening again writes a manifest and a log.
constexpr uint64_t kRecoveryBytesMin = uint64_t{1} << 20;
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
  options.max_total_wal_size = uint64_t{16} << 20;
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
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> families;

  Handles() = default;
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    if (db == nullptr) return;
    for (auto* family : families) db->DestroyColumnFamilyHandle(family).PermitUncheckedError();
    auto status = db->Close();
    if (!status.ok()) common::log_warning(cat("closing the store: ", status.ToString()));
    delete db;
  }
  rocksdb::ColumnFamilyHandle* family(Family id) const { return families[static_cast<size_t>(id)]; }
};

void Batch::put(Family family, std::string_view key, std::string_view value) {
  changes_.push_back({family, std::string(key), std::string(value)});
}

void Batch::remove(Family family, std::string_view key) {
  changes_.push_back({family, std::string(key), std::nullopt});
}

Database::Database(std::string directory, const DatabaseOptions& options,
                   std::shared_ptr<const Handles> handles)
    : directory_(std::move(directory)), options_(options), handles_(std::move(handles)) {}

std::shared_ptr<const Database::Handles> Database::handles() const {
  std::lock_guard lock(mutex_);
  return handles_;
}

Result<std::shared_ptr<const Database::Handles>> Database::open_handles(
    const std::string& directory, const DatabaseOptions& options) {
  auto handles = std::make_shared<Handles>();
  auto families = family_descriptors(options);
  auto settings = database_options(options.read_only);
  rocksdb::Status status;
  for (int attempt = 0; attempt < (options.read_only ? kReaderAttempts : 1); ++attempt) {
    // Not a secondary instance: in 7.8 its memtables hide what the writer removed and flushed.
    status = options.read_only ? rocksdb::DB::OpenForReadOnly(settings, directory, families,
                                                              &handles->families, &handles->db)
                               : rocksdb::DB::Open(settings, directory, families,
                                                   &handles->families, &handles->db);
    if (status.ok()) return std::shared_ptr<const Handles>(std::move(handles));
  }
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

Result<std::unique_ptr<Database>> Database::open(const std::string& directory,
                                                 const DatabaseOptions& options) {
  if (!options.read_only) {
    LFARM_RETURN_IF_ERROR(common::make_directories(directory));
  } else if (::access(cat(directory, "/CURRENT").c_str(), R_OK) != 0) {
    return common::unavailable(cat("no readable store in ", directory,
                                   ": start lfarm once with this state directory, or choose "
                                   "another with --state"));
  }
  LFARM_ASSIGN_OR_RETURN(auto handles, open_handles(directory, options));
  return std::unique_ptr<Database>(new Database(directory, options, std::move(handles)));
}

Database::~Database() {
  if (options_.read_only || failed_ || !handles_) return;
  rocksdb::VectorLogPtr logs;
  uint64_t replay_bytes = 0;
  if (handles_->db->GetSortedWalFiles(logs).ok()) {
    for (const auto& log : logs) replay_bytes += log->SizeFileBytes();
  }
  if (replay_bytes > kReplayBytesMax || logs.size() > kReplayLogsMax) {
    // What fails to flush is still in the log.
    handles_->db->Flush(rocksdb::FlushOptions(), handles_->families).PermitUncheckedError();
  }
}

Error Database::closed() const {
  return common::unavailable(
      cat("the store ", directory_, " failed and could not be opened again: check its disk"));
}

// RocksDB 7.8 can't resume after its log failed: DB::Resume returns the old error for ever, and
// SyncWAL then fails an assertion. A fresh open replays what was acknowledged.
Status Database::recover() {
  std::lock_guard lock(mutex_);
  if (!failed_) return {};
  struct statvfs disk {};
  if (::statvfs(directory_.c_str(), &disk) == 0 &&
      uint64_t{disk.f_bavail} * disk.f_frsize < kRecoveryBytesMin) {
    return common::unavailable(cat("the disk of ", directory_, " is full: free space, ",
                                   kRecoveryBytesMin >> 20, " MiB at least"));
  }
  // New reads wait for the mutex and those under way are short.
  while (handles_ && handles_.use_count() > 1) std::this_thread::yield();
  handles_.reset();
  auto fresh = open_handles(directory_, options_);
  if (fresh.ok()) {
    handles_ = std::move(*fresh);
    failed_ = false;
    common::log_info(cat("the store ", directory_, " takes writes again"));
    return {};
  }
  DatabaseOptions reading = options_;
  reading.read_only = true;
  if (auto reader = open_handles(directory_, reading); reader.ok()) handles_ = std::move(*reader);
  return fresh.error();
}

Result<std::optional<std::string>> Database::get(Family family, std::string_view key) const {
  auto open = handles();
  if (!open) return closed();
  std::string value;
  rocksdb::ReadOptions options;
  // A kernel is read once per process and would push the plans out of the small cache.
  options.fill_cache = family != Family::kKernels;
  auto status = open->db->Get(options, open->family(family), slice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return to_error(status, directory_);
  return std::optional<std::string>(std::move(value));
}

Status Database::write(const Batch& batch, bool durable) {
  if (options_.read_only) {
    return common::invalid_input(cat("the store ", directory_, " was opened read-only"));
  }
  if (failed_) LFARM_RETURN_IF_ERROR(recover());
  auto open = handles();
  if (!open) return closed();
  rocksdb::WriteBatch changes;
  // Without a change there is still a record, which a durable write takes to the disk.
  rocksdb::Status status = batch.changes_.empty() ? changes.PutLogData("sync") : rocksdb::Status();
  for (const Batch::Change& change : batch.changes_) {
    auto* family = open->family(change.family);
    status = change.value ? changes.Put(family, change.key, *change.value)
                          : changes.Delete(family, change.key);
    if (!status.ok()) return to_error(status, directory_);
  }
  rocksdb::WriteOptions options;
  options.sync = durable;
  status = open->db->Write(options, &changes);
  if (status.ok()) return {};
  failed_ = true;
  return to_error(status, directory_);
}

Status Database::sync() {
  if (options_.read_only) return {};
  return write(Batch(), true);
}

Status Database::scan(Family family, std::string_view prefix, const Visitor& visit) const {
  auto open = handles();
  if (!open) return closed();
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  std::string end = prefix_end(prefix);
  rocksdb::Slice bound = slice(end);
  if (!end.empty()) options.iterate_upper_bound = &bound;
  std::unique_ptr<rocksdb::Iterator> cursor(open->db->NewIterator(options, open->family(family)));
  for (cursor->Seek(slice(prefix)); cursor->Valid(); cursor->Next()) {
    if (!visit(view(cursor->key()), view(cursor->value()))) return {};
  }
  if (!cursor->status().ok()) return to_error(cursor->status(), directory_);
  return {};
}

Result<std::optional<std::string>> Database::key_at_or_after(Family family,
                                                             std::string_view bound) const {
  auto open = handles();
  if (!open) return closed();
  std::unique_ptr<rocksdb::Iterator> cursor(
      open->db->NewIterator(rocksdb::ReadOptions(), open->family(family)));
  cursor->Seek(slice(bound));
  if (cursor->Valid()) return std::optional<std::string>(cursor->key().ToString());
  if (!cursor->status().ok()) return to_error(cursor->status(), directory_);
  return std::optional<std::string>();
}

Status Database::compact(Family family) {
  if (failed_) LFARM_RETURN_IF_ERROR(recover());
  auto open = handles();
  if (!open) return closed();
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  auto status = open->db->CompactRange(options, open->family(family), nullptr, nullptr);
  if (!status.ok()) return to_error(status, directory_);
  return {};
}

Status Database::refresh() {
  if (!options_.read_only) return {};
  LFARM_ASSIGN_OR_RETURN(auto fresh, open_handles(directory_, options_));
  std::lock_guard lock(mutex_);
  handles_ = std::move(fresh);
  return {};
}

uint64_t Database::disk_bytes() const {
  auto open = handles();
  if (!open) return 0;
  uint64_t total = 0;
  for (auto* family : open->families) {
    uint64_t bytes = 0;
    if (open->db->GetIntProperty(family, rocksdb::DB::Properties::kTotalSstFilesSize, &bytes)) {
      total += bytes;
    }
  }
  rocksdb::VectorLogPtr logs;
  if (open->db->GetSortedWalFiles(logs).ok()) {
    for (const auto& log : logs) total += log->SizeFileBytes();
  }
  return total;
}

bool Database::read_only() const { return options_.read_only; }

}  // namespace cache
