#include "worker/profile/run_delay.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "common/base/files.h"

namespace worker {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

std::optional<int64_t> run_delay_ns() {
  std::unique_ptr<DIR, CloseDirectory> tasks(::opendir("/proc/self/task"));
  if (tasks == nullptr) return std::nullopt;
  std::optional<int64_t> total;
  while (const dirent* task = ::readdir(tasks.get())) {
    char path[sizeof task->d_name + sizeof "/schedstat"];
    std::snprintf(path, sizeof path, "%s/schedstat", task->d_name);
    common::FileDescriptor file(::openat(::dirfd(tasks.get()), path, O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) continue;  // "." and "..", or the thread has ended
    char text[128];
    ssize_t length = ::read(file.get(), text, sizeof text - 1);
    if (length <= 0) continue;
    text[length] = 0;
    long long delay_ns = 0;
    if (std::sscanf(text, "%*d %lld", &delay_ns) == 1) total = total.value_or(0) + delay_ns;
  }
  return total;
}

}  // namespace worker
