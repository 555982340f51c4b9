#include "clients/runtime/model/prepared_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <utility>

#include "clients/runtime/model/prepared_file.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/process/oldest_files.h"
#include "common/process/priority.h"

namespace clients {

using common::ByteView;
using common::cat;
using common::Digest;
using common::Executor;
using common::Result;

namespace {

constexpr const char* kSuffix = ".prepared";
// A file is written only where this share of the file system stays free.
constexpr double kFreeShare = 0.1;

// Files are not synced: a machine that loses power may have a file's name and not its content. So
// only processes of the boot that wrote a file use it. Empty where the system does not say.
std::string boot_id() {
  auto id = common::read_file("/proc/sys/kernel/random/boot_id");
  return id.ok() ? *id : std::string();
}

// Of all that says how the values are computed and laid out.
Digest digest_of_plan(const common::Plan& plan) { return common::digest_of(print(plan)); }

}  // namespace

PreparedWriter::PreparedWriter(File file, std::vector<ByteView> values)
    : file_(std::move(file)), values_(std::move(values)), thread_([this] { write(); }) {}

PreparedWriter::~PreparedWriter() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PreparedWriter::finish() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (stage_ == Stage::kWaiting) stage_ = Stage::kWriting;
  changed_.notify_all();
  changed_.wait_for(lock, kPatience, [this] { return stage_ == Stage::kDone; });
}

bool PreparedWriter::is_given_up() {
  std::lock_guard<std::mutex> lock(mutex_);
  return is_over_;
}

void PreparedWriter::write() {
  common::give_way();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, kDelay, [this] { return is_over_ || stage_ != Stage::kWaiting; });
    if (is_over_) return;
    stage_ = Stage::kWriting;
  }
  common::Status written = common::make_directories(file_.directory);
  if (written.ok()) {
    written = write_prepared(file_.path, file_.plan, values_, [this] { return is_given_up(); });
  }
  if (written.ok()) {
    common::remove_oldest_files(file_.directory, kSuffix, {.bytes = file_.bytes_max});
  } else {
    common::log_debug(cat("prepared weights are not kept: ", written.error().message));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  stage_ = Stage::kDone;
  changed_.notify_all();
}

// One file a plan key and archive: a better plan's takes the place of an earlier one's.
std::string PreparedStore::path_of(const common::PlanKey& key, const FileIdentity& file) const {
  const std::string boot = boot_id();
  if (options_.directory.empty() || boot.empty()) return {};
  common::Hasher hasher;
  hasher.text(boot).digest(key.digest()).digest(file.digest());
  return cat(options_.directory, "/", hasher.finish().hex(), kSuffix);
}

bool PreparedStore::use_file(const std::string& path, Executor& executor) const {
  auto mapped = common::MappedFile::open(path);
  if (!mapped.ok()) return false;
  auto values = prepared_values((*mapped)->bytes(), digest_of_plan(executor.plan()));
  common::Status used = values.ok() ? executor.use_prepared(*values, *mapped) : values.error();
  if (!used.ok()) {
    common::log_debug(cat(path, " is not used: ", used.error().message));
    return false;
  }
  (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used now
  return true;
}

bool PreparedStore::has_room_for(uint64_t bytes) const {
  struct statvfs system {};
  // The directory may be yet to be made.
  const std::string parent = options_.directory.substr(0, options_.directory.rfind('/'));
  if (bytes > options_.bytes_max || ::statvfs(parent.c_str(), &system) != 0) return false;
  const double block = static_cast<double>(system.f_frsize);
  const double left = static_cast<double>(system.f_bavail) * block - static_cast<double>(bytes);
  return left >= kFreeShare * static_cast<double>(system.f_blocks) * block;
}

Result<std::unique_ptr<PreparedWriter>> PreparedStore::prepare(Executor& executor,
                                                               const FileIdentity& file) const {
  std::unique_ptr<PreparedWriter> none;
  const std::string path = path_of(executor.plan().key, file);
  if (!path.empty() && use_file(path, executor)) return none;
  // Asked before anything is computed: what a later write changes has another identity.
  const bool is_kept = !path.empty() && is_settled(file, options_.settled_ns);
  LFARM_RETURN_IF_ERROR(executor.prepare());
  std::vector<ByteView> values = executor.prepared();
  uint64_t bytes = 0;
  for (ByteView value : values) bytes += value.size();
  if (!is_kept || bytes < options_.bytes_least || !has_room_for(bytes)) return none;
  return std::make_unique<PreparedWriter>(
      PreparedWriter::File{options_.directory, path, digest_of_plan(executor.plan()),
                           options_.bytes_max},
      std::move(values));
}

}  // namespace clients
