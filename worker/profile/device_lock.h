// One measurement at a time on one machine's device, whatever the number of workers there, and
// nothing beside it on a device that runs one thing after another.
#pragma once

#include <string_view>

#include "common/base/files.h"

namespace worker {

// Held from construction, which waits for other processes' locks of the same device, until
// destruction or the end of the process. Where no lock file can be opened it holds nothing:
// measurements are then as noisy as their neighbours make them.
class DeviceLock {
 public:
  enum class Mode {
    kAlone,
    kAmongOthers,  // that are not alone
  };
  // `device`: "cpu", "cuda-0", ...
  explicit DeviceLock(std::string_view device, Mode mode = Mode::kAlone);
  // Where the files are that locks are taken on: one place for all users, whatever their TMPDIR.
  static constexpr const char* kDirectory = "/tmp/lfarm-locks";
  // Makes the directory and the device's file, for processes that may only read.
  static void prepare(std::string_view device);
  bool held() const { return file_.is_open(); }

 private:
  common::FileDescriptor file_;
};

// Looks whether a device is being measured, without waiting.
class DeviceLockProbe {
 public:
  explicit DeviceLockProbe(std::string_view device);
  // Whether some process holds the device's lock alone; false where no lock file can be opened.
  bool is_alone() const;

 private:
  common::FileDescriptor file_;
};

}  // namespace worker
