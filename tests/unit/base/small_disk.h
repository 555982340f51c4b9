// A real file system of a few megabytes, for tests of what full and read-only disks do.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "common/base/cat.h"

namespace common {

// Gives this process mounts of its own, which go with it. To be called at the beginning of main(),
// before there are threads. Without the right to, SmallDisk says so.
inline void own_mounts() {
  uid_t user = ::getuid();
  gid_t group = ::getgid();
  if (user == 0 && ::unshare(CLONE_NEWNS) == 0) {
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    return;
  }
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
}

class SmallDisk {
 public:
  // Mounted at a path, which is made. Check why_not() before anything else.
  SmallDisk(std::string path, size_t bytes) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    std::string size = cat("size=", bytes);
    if (::mount("none", path_.c_str(), "tmpfs", 0, size.c_str()) == 0) return;
    why_not_ = cat("no file system can be mounted here: ", std::strerror(errno));
  }
  ~SmallDisk() {
    if (why_not_.empty()) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  const std::string& why_not() const { return why_not_; }
  const std::string& path() const { return path_; }

  // Leaves no byte free.
  void fill() {
    int fd = ::open(ballast().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0) throw std::runtime_error("cannot fill the disk");
    std::string bytes(1 << 16, 'x');
    size_t piece = bytes.size();
    while (piece > 0) {
      if (::write(fd, bytes.data(), piece) < 0) piece /= 2;
    }
    ::close(fd);
  }
  void make_room() { std::filesystem::remove(ballast()); }
  void set_read_only(bool read_only) {
    unsigned long flags = MS_REMOUNT | (read_only ? MS_RDONLY : 0);
    if (::mount("none", path_.c_str(), "tmpfs", flags, nullptr) != 0) {
      throw std::runtime_error(cat("cannot mount it again: ", std::strerror(errno)));
    }
  }

 private:
  std::string ballast() const { return path_ + "/ballast"; }
  std::string path_;
  std::string why_not_;
};

}  // namespace common
