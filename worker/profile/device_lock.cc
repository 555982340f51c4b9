#include "worker/profile/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "common/base/cat.h"

namespace worker {

namespace {

int open_lock(std::string_view device) {
  std::string path = common::cat(DeviceLock::kDirectory, "/", device, ".lock");
  // Only its creator may create it again in a shared directory, but anyone may lock it.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd >= 0) return fd;
  // For all users: their workers measure on one machine.
  if (::mkdir(DeviceLock::kDirectory, 0777) == 0) ::chmod(DeviceLock::kDirectory, 01777);
  return ::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
}

}  // namespace

void DeviceLock::prepare(std::string_view device) {
  int fd = open_lock(device);
  if (fd >= 0) ::close(fd);
}

DeviceLock::DeviceLock(std::string_view device, Mode mode) : fd_(open_lock(device)) {
  if (fd_ < 0) return;
  int locked;
  do {
    locked = ::flock(fd_, mode == Mode::kAlone ? LOCK_EX : LOCK_SH);
  } while (locked != 0 && errno == EINTR);
  if (locked == 0) return;
  ::close(fd_);
  fd_ = -1;
}

DeviceLock::~DeviceLock() {
  if (fd_ >= 0) ::close(fd_);
}

DeviceLockProbe::DeviceLockProbe(std::string_view device) : fd_(open_lock(device)) {}

DeviceLockProbe::~DeviceLockProbe() {
  if (fd_ >= 0) ::close(fd_);
}

bool DeviceLockProbe::is_alone() const {
  if (fd_ < 0) return false;
  if (::flock(fd_, LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(fd_, LOCK_UN);
  return false;
}

}  // namespace worker
