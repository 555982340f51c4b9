#include "common/process/oldest_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

namespace common {
namespace {

struct KeptFile {
  std::string path;
  int64_t used_ns = 0;
  uint64_t bytes = 0;
};

std::vector<KeptFile> files_of(const std::string& directory, std::string_view suffix) {
  std::vector<KeptFile> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    struct stat info {};
    if (entry.path().extension() != suffix || ::stat(entry.path().c_str(), &info) != 0) continue;
    files.push_back({entry.path().string(),
                     info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec,
                     static_cast<uint64_t>(info.st_size)});
  }
  return files;
}

}  // namespace

void remove_oldest_files(const std::string& directory, std::string_view suffix, FilesMax most) {
  std::vector<KeptFile> files = files_of(directory, suffix);
  uint64_t bytes = 0, count = files.size();
  for (const KeptFile& file : files) bytes += file.bytes;
  // A tenth more goes, so that not every new file removes another.
  const bool has_too_many_bytes = most.bytes != 0 && bytes > most.bytes;
  const uint64_t bytes_left = has_too_many_bytes ? most.bytes / 10 * 9 : bytes;
  const uint64_t files_left = most.files != 0 ? std::min(count, most.files) : count;
  std::sort(files.begin(), files.end(),
            [](const KeptFile& a, const KeptFile& b) { return a.used_ns < b.used_ns; });
  for (const KeptFile& file : files) {
    if (bytes <= bytes_left && count <= files_left) return;
    if (::unlink(file.path.c_str()) != 0) continue;
    bytes -= file.bytes;
    --count;
  }
}

}  // namespace common
