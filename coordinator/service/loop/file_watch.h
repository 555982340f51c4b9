// Notices that a file was changed or replaced, by looking at it a few times a second: that works on
// every file system, network ones included.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace coordinator::service {

// Not thread-safe but for expire().
class FileWatch {
 public:
  // The first look counts as a change.
  explicit FileWatch(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }
  // Whether the file is another than when this was last true, or expire() was called since. Looks
  // at most every 200 ms.
  bool changed(int64_t now_ns);
  void expire() { expired_ = true; }

 private:
  // Device, inode, size, and when content and inode last changed; all zero without a file.
  using Signature = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;
  static Signature signature_of(const std::string& path);

  const std::string path_;
  Signature seen_{};
  int64_t looked_ns_ = 0;
  std::atomic<bool> expired_{false};
};

}  // namespace coordinator::service
