#include "coordinator/service/loop/file_watch.h"

#include <sys/stat.h>

namespace coordinator::service {

namespace {

constexpr int64_t kLookNs = 200'000'000;

int64_t ns_of(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

FileWatch::Signature FileWatch::signature_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino, info.st_size, ns_of(info.st_mtim), ns_of(info.st_ctim)};
}

bool FileWatch::changed(int64_t now_ns) {
  bool asked = expired_.exchange(false);
  if (!asked && now_ns - looked_ns_ < kLookNs) return false;
  looked_ns_ = now_ns;
  // Before the file is read: what changes while it is read is another change.
  Signature now = signature_of(path_);
  bool is_new = now != seen_;
  seen_ = now;
  return asked || is_new;
}

}  // namespace coordinator::service
