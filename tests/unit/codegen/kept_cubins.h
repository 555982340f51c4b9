// What NVRTC made of earlier tests' texts, kept in a directory: the same text, architecture and
// build of the library give the same machine code, which takes seconds each time.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/files.h"

namespace testing_codegen {

// One file a cubin, with its digest in front of it. Any number of tests may use it at once.
class KeptCubins {
 public:
  // Keeps nothing when `directory` is empty or cannot be written. `bytes_max`: of all files
  // together; what was used longest ago goes first.
  explicit KeptCubins(std::string directory, uint64_t bytes_max = uint64_t{256} << 20)
      : directory_(std::move(directory)), bytes_max_(bytes_max) {}

  // Empty when there is none, or one that is damaged.
  std::optional<common::Bytes> find(const common::Digest& key) const {
    if (directory_.empty()) return std::nullopt;
    auto text = common::read_file(path_of(key));
    if (!text.ok() || text->size() < kHexDigits) return std::nullopt;
    std::string cubin = text->substr(kHexDigits);
    if (common::digest_of(cubin).hex() != text->substr(0, kHexDigits)) return std::nullopt;
    std::error_code ignored;
    std::filesystem::last_write_time(path_of(key), std::filesystem::file_time_type::clock::now(),
                                     ignored);
    return common::to_bytes(common::as_bytes(cubin));
  }

  void put(const common::Digest& key, common::ByteView cubin) const {
    if (directory_.empty() || !common::make_directories(directory_).ok()) return;
    std::string text = common::digest_of(cubin).hex();
    text.append(reinterpret_cast<const char*>(cubin.data()), cubin.size());
    if (common::write_file_atomic(path_of(key), common::as_bytes(text)).ok()) evict();
  }

 private:
  static constexpr size_t kHexDigits = 64;

  std::string path_of(const common::Digest& key) const {
    return directory_ + "/" + key.hex() + ".cubin";
  }

  // Files that others remove meanwhile are as good as removed here.
  void evict() const {
    namespace fs = std::filesystem;
    std::error_code error;
    std::vector<std::pair<fs::file_time_type, fs::directory_entry>> files;
    uint64_t bytes = 0;
    for (const fs::directory_entry& file : fs::directory_iterator(directory_, error)) {
      const uint64_t size = file.file_size(error);
      const fs::file_time_type used = file.last_write_time(error);
      if (error) continue;
      bytes += size;
      files.emplace_back(used, file);
    }
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [used, file] : files) {
      if (bytes <= bytes_max_) break;
      bytes -= std::min(bytes, uint64_t{file.file_size(error)});
      fs::remove(file.path(), error);
    }
  }

  std::string directory_;
  uint64_t bytes_max_;
};

}  // namespace testing_codegen
