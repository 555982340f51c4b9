#include "worker/profile/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "common/base/cat.h"

namespace worker {

DeviceLock::DeviceLock(std::string_view device, Mode mode) {
  std::string path = common::cat("/tmp/lfarm-device-", device, ".lock");
  // Only its creator may create it again in a shared directory, but anyone may lock it.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd_ < 0) fd_ = ::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
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

}  // namespace worker
