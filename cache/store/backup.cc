#include "cache/store/backup.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "cache/store/database.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"

namespace cache {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "store-";
constexpr std::string_view kUnfinished = ".unfinished";

std::optional<int64_t> time_of(const fs::path& path) {
  std::string name = path.filename();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t wall_ns = 0;
  const char* end = name.data() + name.size();
  auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, wall_ns);
  if (error != std::errc() || rest != end) return std::nullopt;
  return wall_ns;
}

// Of all that lies in a state directory, what RocksDB has put there.
bool is_of_database(const fs::path& path) {
  std::string name = path.filename();
  for (std::string_view begin : {"MANIFEST-", "OPTIONS-", "LOG"}) {
    if (name.starts_with(begin)) return true;
  }
  bool is_numbered = path.extension() == ".sst" || path.extension() == ".log";
  if (is_numbered) {
    std::string number = path.stem();
    return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  }
  return name == "CURRENT" || name == "IDENTITY";
}

std::vector<fs::path> database_files(const std::string& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.is_regular_file(error) && is_of_database(entry.path())) files.push_back(entry.path());
  }
  return files;
}

Status failed(const std::string& what, const std::error_code& error) {
  return common::unavailable(cat("cannot ", what, ": ", error.message(), "; check the disk"));
}

Status move_files(const std::string& from, const std::string& to) {
  LFARM_RETURN_IF_ERROR(common::make_directories(to));
  std::error_code error;
  for (const fs::path& file : database_files(from)) {
    fs::rename(file, fs::path(to) / file.filename(), error);
    if (error) return failed(cat("move ", file.string(), " to ", to), error);
  }
  return {};
}

Status copy_files(const std::string& from, const std::string& to) {
  LFARM_RETURN_IF_ERROR(common::make_directories(to));
  std::error_code error;
  for (const fs::path& file : database_files(from)) {
    fs::copy_file(file, fs::path(to) / file.filename(), error);
    if (error) return failed(cat("copy ", file.string(), " to ", to), error);
  }
  return {};
}

// Empty where they cannot be read: the store is being replaced because it is damaged, perhaps.
Result<std::vector<Digest>> revocations_of(const std::string& directory,
                                           const StoreOptions& options) {
  if (database_files(directory).empty()) return std::vector<Digest>();
  auto store = Store::open(directory, options);
  if (!store.ok()) {
    if (store.error().code == common::Code::kUnavailable) return store.error();
    common::log_warning(
        cat("what was revoked since the copy is not known: ", store.error().message));
    return std::vector<Digest>();
  }
  return (*store)->revocations();
}

}  // namespace

std::vector<std::string> backups_in(const std::string& directory) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (auto wall_ns = time_of(entry.path())) found.emplace_back(*wall_ns, entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [wall_ns, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::optional<int64_t> last_backup_wall_ns(const std::string& directory) {
  std::vector<std::string> all = backups_in(directory);
  return all.empty() ? std::nullopt : time_of(all.back());
}

Result<std::string> backup_store(Store& store, const std::string& directory, int64_t now_wall_ns,
                                 size_t kept) {
  LFARM_RETURN_IF_ERROR(common::make_directories(directory));
  std::string path = cat(directory, "/", kPrefix, now_wall_ns);
  std::string unfinished = cat(path, kUnfinished);
  std::error_code error;
  // Of a process that ended on the way.
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == kUnfinished) fs::remove_all(entry.path(), error);
  }
  LFARM_RETURN_IF_ERROR(store.checkpoint(unfinished));
  fs::rename(unfinished, path, error);
  if (error) return failed(cat("name ", unfinished, " ", path), error).error();
  std::vector<std::string> all = backups_in(directory);
  // Of a clock that was set back since: older than any other, whatever their names say.
  auto is_newest = std::find(all.begin(), all.end(), path);
  if (is_newest != all.end()) std::rotate(all.begin(), is_newest + 1, all.end());
  for (size_t k = 0; k + kept < all.size(); ++k) fs::remove_all(all[k], error);
  return path;
}

Result<RestoreReport> restore_store(const std::string& backup, const std::string& directory,
                                    const StoreOptions& options) {
  if (database_files(backup).empty()) {
    return common::invalid_input(cat(backup,
                                     " holds no store; a farm with --backup makes copies "
                                     "of its own in folders named ",
                                     kPrefix, "TIME"));
  }
  LFARM_RETURN_IF_ERROR(common::make_directories(directory));
  RestoreReport report;
  LFARM_ASSIGN_OR_RETURN(std::vector<Digest> revoked, revocations_of(directory, options));
  if (!database_files(directory).empty()) {
    report.replaced = cat(directory, "/before-restore-", common::wall_clock_ns());
    LFARM_RETURN_IF_ERROR(move_files(directory, report.replaced));
  }
  LFARM_RETURN_IF_ERROR(copy_files(backup, directory));
  LFARM_ASSIGN_OR_RETURN(auto store, Store::open(directory, options));
  for (const Digest& plan : revoked) {
    LFARM_ASSIGN_OR_RETURN(auto known, store->revocation(plan));
    if (known) continue;
    LFARM_ASSIGN_OR_RETURN([[maybe_unused]] uint64_t removed,
                           store->revoke(plan, "revoked before a copy was put back"));
    ++report.revocations;
  }
  LFARM_ASSIGN_OR_RETURN(StoreStats stats, store->stats());
  report.plans = stats.plans.count;
  return report;
}

}  // namespace cache
