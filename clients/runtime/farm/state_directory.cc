#include "clients/runtime/farm/state_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {

using common::cat;
using common::Result;

namespace {

// Locks of an open file description: they can be asked for without being taken, so that a reader
// never keeps a farm from starting.
struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

constexpr const char* kRemedy = "; choose a directory of yours with --state or $LFARM_STATE";

}  // namespace

common::Status StateDirectory::make() const {
  common::Status made = common::make_directories(path);
  return made.ok() ? made : common::invalid_input(cat(made.error().message, kRemedy));
}

Result<std::unique_ptr<FarmLock>> FarmLock::try_take(const StateDirectory& state) {
  LFARM_RETURN_IF_ERROR(state.make());
  std::string path = state.lock_file();
  common::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open()) {
    return common::invalid_input(cat("cannot open ", path, ": ", std::strerror(errno), kRemedy));
  }
  struct flock wanted = whole_file(F_WRLCK);
  if (::fcntl(file.get(), F_OFD_SETLK, &wanted) != 0) {
    if (errno == EAGAIN || errno == EACCES) return std::unique_ptr<FarmLock>();
    return common::internal_error(cat("cannot lock ", path, ": ", std::strerror(errno)));
  }
  std::string pid = cat(::getpid(), "\n");
  if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), pid.data(), pid.size(), 0) < 0) {
    return common::internal_error(cat("cannot write ", path, ": ", std::strerror(errno)));
  }
  return std::unique_ptr<FarmLock>(new FarmLock(std::move(file)));
}

std::optional<int> FarmLock::holder(const StateDirectory& state) {
  int fd = ::open(state.lock_file().c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  struct flock found = whole_file(F_RDLCK);
  bool is_free = ::fcntl(fd, F_OFD_GETLK, &found) != 0 || found.l_type == F_UNLCK;
  char text[32] = {};
  ssize_t n = ::pread(fd, text, sizeof text - 1, 0);
  ::close(fd);
  if (is_free) return std::nullopt;
  return n > 0 ? std::atoi(text) : 0;
}

std::string read_endpoint(const std::string& path) {
  auto text = common::read_file(path, 4096);
  if (!text.ok()) return "";
  std::string endpoint = *text;
  size_t end = endpoint.find_first_of(" \n\r\t");
  if (end != std::string::npos) endpoint.resize(end);
  return endpoint;
}

}  // namespace clients
