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

common::FileDescriptor open_lock(std::string_view device) {
  std::string path = common::cat(DeviceLock::kDirectory, "/", device, ".lock");
  // Only its creator may create it again in a shared directory, but anyone may lock it.
  common::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.is_open()) return file;
  // For all users: their workers measure on one machine.
  if (::mkdir(DeviceLock::kDirectory, 0777) == 0) ::chmod(DeviceLock::kDirectory, 01777);
  return common::FileDescriptor(
      ::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
}

}  // namespace

void DeviceLock::prepare(std::string_view device) { open_lock(device); }

DeviceLock::DeviceLock(std::string_view device, Mode mode) : file_(open_lock(device)) {
  if (!held()) return;
  int locked;
  do {
    locked = ::flock(file_.get(), mode == Mode::kAlone ? LOCK_EX : LOCK_SH);
  } while (locked != 0 && errno == EINTR);
  if (locked != 0) file_ = common::FileDescriptor();
}

DeviceLockProbe::DeviceLockProbe(std::string_view device) : file_(open_lock(device)) {}

bool DeviceLockProbe::is_alone() const {
  if (!file_.is_open()) return false;
  if (::flock(file_.get(), LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(file_.get(), LOCK_UN);
  return false;
}

}  // namespace worker
