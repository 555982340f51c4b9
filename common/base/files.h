// Files: descriptors with an owner, whole-file reads, atomic writes, read-only memory maps, scratch
// directories.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace common {

// A descriptor of a file, a socket or the like, closed when its owner goes; -1: none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // From now on the caller closes it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// The whole file. kInvalidInput when it cannot be opened or is larger than `max_bytes`.
Result<std::string> read_file(const std::string& path, size_t max_bytes = size_t{1} << 30);

// Whether anything is there under this name, readable or not.
bool file_exists(const std::string& path);

// Writes to a temporary name beside `path`, syncs and renames: readers see old or new, never half.
Status write_file_atomic(const std::string& path, ByteView content);

// Creates the directory and its parents with mode 0700.
Status make_directories(const std::string& path);

// A file mapped read-only; unmapped when the last holder goes.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ByteView bytes() const { return bytes_; }
  // Pages that lie whole in `part` count for the process no more until they are read again. What of
  // `part` lies elsewhere stays.
  void release(ByteView part) const;

 private:
  MappedFile() = default;
  ByteView bytes_;
};

// A private directory under $TMPDIR or /tmp, removed with all it holds on destruction.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> create(std::string_view prefix);
  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory();
  const std::string& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// $LFARM_STATE, else $XDG_STATE_HOME/lfarm, else $HOME/.local/state/lfarm.
std::string default_state_directory();

}  // namespace common
