// A process's own folder for temporary files, so that what a killed process leaves behind is found
// and removed by the next one.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "common/base/files.h"
#include "common/base/result.h"

namespace common {

// Mode 0700, under $TMPDIR or /tmp, removed with all it holds on destruction. Its owner holds a
// lock on a file in it, which the kernel frees when the owner dies, however it dies.
class OwnDirectory {
 public:
  // First removes this user's folders of the same prefix whose owners are dead.
  static Result<OwnDirectory> create(std::string_view prefix);
  OwnDirectory(OwnDirectory&& other) noexcept;
  OwnDirectory& operator=(OwnDirectory&&) = delete;
  ~OwnDirectory();
  const std::string& path() const { return path_; }

 private:
  OwnDirectory(std::string path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  FileDescriptor lock_;  // freed after the folder is gone
};

}  // namespace common
