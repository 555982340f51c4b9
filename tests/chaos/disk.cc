#include "tests/chaos/disk.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "common/base/cat.h"

namespace chaos {
namespace {

using common::cat;

// The store and its journals take a tenth of it in a run of minutes.
constexpr const char* kSize = "size=192m,mode=0700";

}  // namespace

common::Result<std::unique_ptr<SmallDisk>> SmallDisk::mount(const std::string& directory) {
  if (::mount("tmpfs", directory.c_str(), "tmpfs", 0, kSize) != 0) {
    return common::unavailable(cat("mount: ", std::strerror(errno)));
  }
  return std::unique_ptr<SmallDisk>(new SmallDisk(directory));
}

// Whoever still has files there keeps them; the directory can be removed.
SmallDisk::~SmallDisk() { ::umount2(directory_.c_str(), MNT_DETACH); }

common::Status SmallDisk::fill() {
  int fd = ::open(ballast_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return common::unavailable(cat(ballast_, ": ", std::strerror(errno)));
  std::vector<char> bytes(size_t{1} << 20);
  // Ever smaller pieces, so that not even a page is left.
  for (size_t piece = bytes.size(); piece > 0; piece /= 2) {
    while (::write(fd, bytes.data(), piece) == static_cast<ssize_t>(piece)) {
    }
  }
  bool full = errno == ENOSPC;
  ::close(fd);
  if (full) return {};
  return common::internal_error(cat("the disk does not fill: ", std::strerror(errno)));
}

void SmallDisk::clear() { ::unlink(ballast_.c_str()); }

}  // namespace chaos
