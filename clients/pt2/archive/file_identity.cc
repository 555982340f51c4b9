#include "clients/pt2/archive/file_identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>

namespace clients {
namespace {

int64_t ns_of(const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; }

}  // namespace

common::Digest FileIdentity::digest() const {
  common::Hasher hasher;
  hasher.u64(device).u64(inode).u64(bytes).i64(written_ns).i64(changed_ns);
  return hasher.finish();
}

std::optional<FileIdentity> file_identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size),
                      ns_of(info.st_mtim), ns_of(info.st_ctim)};
}

bool is_settled(const FileIdentity& file, int64_t settled_ns) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::max(file.written_ns, file.changed_ns) < ns_of(now) - settled_ns;
}

}  // namespace clients
