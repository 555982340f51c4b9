#include "common/process/own_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "common/base/cat.h"

namespace common {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = "/owner.lock";
// A folder without a lock may be one that is being made.
constexpr time_t kUnlockedSeconds = 3600;
constexpr int kAttempts = 8;

// A folder of this user's, not a link to one.
bool is_mine(const std::string& path, struct stat* info) {
  return ::lstat(path.c_str(), info) == 0 && S_ISDIR(info->st_mode) && info->st_uid == ::geteuid();
}

void remove_if_left(const std::string& path) {
  struct stat info {};
  if (!is_mine(path, &info)) return;
  FileDescriptor lock(::open((path + kLockName).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!lock.is_open()) {
    bool is_old = errno == ENOENT && ::time(nullptr) - info.st_mtime > kUnlockedSeconds;
    if (!is_old) return;
  } else if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return;
  }
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void remove_leftovers(const std::string& folder, const std::string& prefix) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().rfind(prefix, 0) == 0) remove_if_left(it->path().string());
  }
}

// The locked file in `path`, or none when somebody has taken the folder for one that was left.
FileDescriptor lock_in(const std::string& path) {
  std::string name = path + kLockName;
  FileDescriptor lock(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!lock.is_open()) return lock;
  struct stat held {
  }, there{};
  if (::flock(lock.get(), LOCK_EX) == 0 && ::fstat(lock.get(), &held) == 0 &&
      ::lstat(name.c_str(), &there) == 0 && held.st_ino == there.st_ino) {
    return lock;
  }
  return FileDescriptor();
}

}  // namespace

Result<OwnDirectory> OwnDirectory::create(std::string_view prefix) {
  const char* parent = std::getenv("TMPDIR");
  std::string folder = parent != nullptr && *parent != '\0' ? parent : "/tmp";
  std::string start = cat(prefix, "-own-");
  remove_leftovers(folder, start);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string path = cat(folder, "/", start, "XXXXXX");
    if (::mkdtemp(path.data()) == nullptr) {
      return unavailable(cat("cannot create a directory under ", folder, ": ", std::strerror(errno),
                             "; name another with TMPDIR"));
    }
    FileDescriptor lock = lock_in(path);
    if (lock.is_open()) return OwnDirectory(std::move(path), std::move(lock));
  }
  return unavailable(cat("cannot lock a directory under ", folder, "; name another with TMPDIR"));
}

OwnDirectory::OwnDirectory(OwnDirectory&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::move(other.lock_)) {
  other.path_.clear();
}

OwnDirectory::~OwnDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace common
