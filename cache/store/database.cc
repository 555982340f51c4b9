#include "cache/store/database.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "cache/store/repair.h"
#include "cache/store/rocks_options.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/log.h"

namespace cache {

using common::cat;
using common::Error;
using common::Result;
using common::Status;

namespace {

// Of this thread.
thread_local uint64_t records_read = 0;

// Small records replay at 40 MB/s, and each open adds a log: more than this is flushed on close.
constexpr uint64_t kReplayBytesMax = uint64_t{64} << 10;
constexpr size_t kReplayLogsMax = 4;
// More than that is no accident: a disk that goes on failing has to be replaced.
constexpr uint64_t kRepairsMax = 16;
// A writer may delete a file between a reader's listing and its open.
constexpr int kReaderAttempts = 5;

rocksdb::Slice slice(std::string_view text) { return {text.data(), text.size()}; }
std::string_view view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

bool mentions(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

bool is_full(const rocksdb::Status& status) {
  return status.IsNoSpace() || mentions(status.ToString(), "No space left");
}

// Bytes that this user may still write; empty when the file system does not say.
std::optional<uint64_t> free_bytes(const std::string& directory) {
  struct statvfs disk {};
  if (::statvfs(directory.c_str(), &disk) != 0) return std::nullopt;
  return uint64_t{disk.f_bavail} * disk.f_frsize;
}

std::string mib_text(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

Error full_disk(const std::string& directory, uint64_t needed) {
  uint64_t free = free_bytes(directory).value_or(0);
  // What could not be written may be gone again, and files may be what the file system lacks.
  std::string want = free < needed ? mib_text(needed) : "more";
  return common::unavailable(cat("the disk of ", directory, " is full: ", mib_text(free), " free, ",
                                 want, " needed; make room there"));
}

bool says_full(const Error& error) {
  return error.code == common::Code::kUnavailable && mentions(error.message, " is full: ");
}

Error to_error(const rocksdb::Status& status, const std::string& directory) {
  std::string text = status.ToString();
  if (is_full(status)) return full_disk(directory, kReopenBytes);
  if (mentions(text, "Read-only file system") || mentions(text, "Permission denied")) {
    return common::invalid_input(
        cat("cannot write ", directory, ": ", text, "; choose another directory with --state"));
  }
  // So is a list of tables that names one which is not there, or a sector that cannot be read.
  if (status.IsCorruption() || mentions(text, "No such file") ||
      mentions(text, "Input/output error")) {
    return common::corrupt(cat("the store ", directory, " is damaged (", text,
                               "); a farm that starts on it mends it"));
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

Database::Opened Database::open_handles(const std::string& directory,
                                        const DatabaseOptions& options, bool mended) {
  auto handles = std::make_shared<Handles>();
  auto families = family_descriptors(options.block_cache_bytes);
  auto settings = database_options(options.read_only, mended);
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

// As open_handles() for a writer, which mends what is damaged.
Database::Opened Database::open_writer(const std::string& directory, const DatabaseOptions& options,
                                       bool* mended) {
  auto opened = lacks_its_head(directory)
                    ? Opened(common::corrupt(cat("the store ", directory, " has lost its head")))
                    : open_handles(directory, options, false);
  if (opened.ok() || opened.error().code != common::Code::kCorrupt) return opened;
  common::log_error(cat("mending: ", opened.error().message));
  *mended = true;
  return open_mended(directory, options);
}

Database::Opened Database::open_mended(const std::string& directory,
                                       const DatabaseOptions& options) {
  LFARM_ASSIGN_OR_RETURN(std::vector<std::string> tables, set_damage_aside(directory));
  auto is_damaged = [](const auto& result) {
    return !result.ok() && result.error().code == common::Code::kCorrupt;
  };
  Opened opened = common::corrupt("its list of tables is out of date");
  if (tables.empty() && !lacks_its_head(directory)) {
    opened = open_handles(directory, options, true);
  }
  if (is_damaged(opened)) {
    Status rebuilt = rebuild_head(directory);
    opened = rebuilt.ok() ? open_handles(directory, options, true) : Opened(rebuilt.error());
  }
  if (is_damaged(opened)) {
    LFARM_RETURN_IF_ERROR(set_all_aside(directory));
    opened = open_handles(directory, options, true);
  }
  if (!opened.ok()) return opened;
  LFARM_RETURN_IF_ERROR(put_back(**opened, tables, directory));
  common::log_error(cat("the store ", directory, " is mended: what is missing is compiled or ",
                        "measured again when it is asked for; ", quarantined_files(directory),
                        " damaged files are kept in ", quarantine_of(directory)));
  return opened;
}

// Entries of tables that were set aside; what is there of the same key is newer.
Status Database::put_back(const Handles& open, const std::vector<std::string>& tables,
                          const std::string& directory) {
  constexpr size_t kBatchBytes = size_t{1} << 20;
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  for (auto* family : open.families) {
    if (status.ok()) status = batch.Delete(family, slice(kDonorKey));
  }
  auto write = [&]() -> Status {
    if (status.ok()) status = open.db->Write(rocksdb::WriteOptions(), &batch);
    batch.Clear();
    return status.ok() ? Status() : to_error(status, directory);
  };
  std::string there;
  for (const std::string& table : tables) {
    LFARM_RETURN_IF_ERROR(
        salvage(table, [&](Family id, std::string_view key, std::string_view value) -> Status {
          auto* family = open.family(id);
          if (!open.db->Get(rocksdb::ReadOptions(), family, slice(key), &there).IsNotFound())
            return {};
          status = batch.Put(family, slice(key), slice(value));
          return batch.GetDataSize() < kBatchBytes ? Status() : write();
        }));
  }
  return write();
}

Result<std::unique_ptr<Database>> Database::open(const std::string& directory,
                                                 const DatabaseOptions& options) {
  if (options.read_only) {
    if (::access(cat(directory, "/CURRENT").c_str(), R_OK) != 0) {
      return common::unavailable(cat("no readable store in ", directory,
                                     ": start lfarm once with this state directory, or choose "
                                     "another with --state"));
    }
    LFARM_ASSIGN_OR_RETURN(auto handles, open_handles(directory, options, false));
    return std::unique_ptr<Database>(new Database(directory, options, std::move(handles)));
  }
  LFARM_RETURN_IF_ERROR(common::make_directories(directory));
  bool mended = false;
  LFARM_ASSIGN_OR_RETURN(auto handles, open_writer(directory, options, &mended));
  std::unique_ptr<Database> database(new Database(directory, options, std::move(handles)));
  database->repairs_ = mended ? 1 : 0;
  return database;
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
  if (!failed_ && !damaged_) return {};
  uint64_t free = free_bytes(directory_).value_or(needed_bytes_);
  if (free < needed_bytes_) return full_disk(directory_, needed_bytes_);
  // New reads wait for the mutex and those under way are short.
  while (handles_ && handles_.use_count() > 1) std::this_thread::yield();
  handles_.reset();
  bool mended = damaged_;
  auto fresh =
      damaged_ ? open_mended(directory_, options_) : open_writer(directory_, options_, &mended);
  if (fresh.ok()) {
    handles_ = std::move(*fresh);
    if (mended) ++repairs_;
    failed_ = damaged_ = false;
    common::log_info(cat("the store ", directory_, " takes writes again"));
    return {};
  }
  // What is replayed is written anew, so it takes more than there was.
  bool was_too_little = says_full(fresh.error());
  if (was_too_little) needed_bytes_ = std::max<uint64_t>(needed_bytes_, free + kReopenBytes);
  DatabaseOptions reading = options_;
  reading.read_only = true;
  if (auto reader = open_handles(directory_, reading, false); reader.ok()) {
    handles_ = std::move(*reader);
  }
  if (was_too_little) return full_disk(directory_, needed_bytes_);
  return fresh.error();
}

Error Database::read_error(const rocksdb::Status& status) const {
  Error error = to_error(status, directory_);
  bool is_damage = error.code == common::Code::kCorrupt;
  if (is_damage && !options_.read_only && repairs_ < kRepairsMax) damaged_ = true;
  return error;
}

void Database::note(const Status& written) {
  std::lock_guard lock(trouble_mutex_);
  if (!written.ok()) ++failed_writes_;
  if (!written.ok() && trouble_.empty()) common::log_error(written.error().message);
  trouble_ = written.ok() ? "" : written.error().message;
  in_trouble_ = !written.ok();
  if (written.ok()) needed_bytes_ = kReopenBytes;
}

std::string Database::trouble() const {
  if (!in_trouble_) return {};
  std::lock_guard lock(trouble_mutex_);
  return trouble_;
}

DatabaseHealth Database::health() const {
  std::lock_guard lock(trouble_mutex_);
  return {trouble_, failed_writes_, repairs_};
}

uint64_t records_read_by_this_thread() { return records_read; }

Result<std::optional<std::string>> Database::get(Family family, std::string_view key) const {
  ++records_read;
  auto open = handles();
  if (!open) return closed();
  std::string value;
  rocksdb::ReadOptions options;
  // A kernel is read once per process and would push the plans out of the small cache.
  options.fill_cache = family != Family::kKernels;
  auto status = open->db->Get(options, open->family(family), slice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return read_error(status);
  return std::optional<std::string>(std::move(value));
}

Status Database::write(const Batch& batch, bool durable) {
  if (options_.read_only) {
    return common::invalid_input(cat("the store ", directory_, " was opened read-only"));
  }
  Status written = try_write(batch, durable);
  // The usual case takes no lock.
  if (!written.ok() || in_trouble_) note(written);
  return written;
}

Status Database::try_write(const Batch& batch, bool durable) {
  if (failed_ || damaged_) LFARM_RETURN_IF_ERROR(recover());
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
  // A compaction came upon damage: nothing is written before it is mended.
  if (status.IsCorruption()) damaged_ = true;
  if (!is_full(status)) return to_error(status, directory_);
  needed_bytes_ = std::max<uint64_t>(needed_bytes_, kReopenBytes + changes.GetDataSize());
  return full_disk(directory_, needed_bytes_);
}

Status Database::sync() {
  if (options_.read_only) return {};
  return write(Batch(), true);
}

Status Database::scan(Family family, std::string_view prefix, const Visitor& visit) const {
  return scan_between(family, prefix, prefix_end(prefix), visit);
}

Status Database::scan_from(Family family, std::string_view from, const Visitor& visit) const {
  return scan_between(family, from, {}, visit);
}

Status Database::scan_between(Family family, std::string_view from, const std::string& end,
                              const Visitor& visit) const {
  auto open = handles();
  if (!open) return closed();
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  rocksdb::Slice bound = slice(end);
  if (!end.empty()) options.iterate_upper_bound = &bound;
  std::unique_ptr<rocksdb::Iterator> cursor(open->db->NewIterator(options, open->family(family)));
  for (cursor->Seek(slice(from)); cursor->Valid(); cursor->Next()) {
    ++records_read;
    if (!visit(view(cursor->key()), view(cursor->value()))) return {};
  }
  if (!cursor->status().ok()) return read_error(cursor->status());
  return {};
}

Result<std::optional<std::string>> Database::key_at_or_after(Family family,
                                                             std::string_view bound) const {
  ++records_read;
  auto open = handles();
  if (!open) return closed();
  std::unique_ptr<rocksdb::Iterator> cursor(
      open->db->NewIterator(rocksdb::ReadOptions(), open->family(family)));
  cursor->Seek(slice(bound));
  if (cursor->Valid()) return std::optional<std::string>(cursor->key().ToString());
  if (!cursor->status().ok()) return read_error(cursor->status());
  return std::optional<std::string>();
}

Status Database::checkpoint(const std::string& directory) {
  auto open = handles();
  if (!open) return closed();
  rocksdb::Checkpoint* made = nullptr;
  auto status = rocksdb::Checkpoint::Create(open->db, &made);
  std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (status.ok()) status = checkpoint->CreateCheckpoint(directory);
  if (status.ok()) return {};
  return common::unavailable(
      cat("no copy of ", directory_, " was made in ", directory, ": ", status.ToString()));
}

Status Database::compact(Family family) {
  if (failed_ || damaged_) LFARM_RETURN_IF_ERROR(recover());
  auto open = handles();
  if (!open) return closed();
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  auto status = open->db->CompactRange(options, open->family(family), nullptr, nullptr);
  if (!status.ok()) return read_error(status);
  return {};
}

Status Database::refresh() {
  if (!options_.read_only) return {};
  LFARM_ASSIGN_OR_RETURN(auto fresh, open_handles(directory_, options_, false));
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
