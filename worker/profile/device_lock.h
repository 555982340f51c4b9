// One measurement at a time on one machine's device, whatever the number of workers there, and
// nothing beside it on a device that runs one thing after another.
#pragma once

#include <string_view>

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
  ~DeviceLock();
  // Where the files are that locks are taken on: one place for all users, whatever their TMPDIR.
  static constexpr const char* kDirectory = "/tmp/lfarm-locks";
  // Makes the directory and the device's file, for processes that may only read.
  static void prepare(std::string_view device);
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;
  bool held() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Looks whether a device is being measured, without waiting.
class DeviceLockProbe {
 public:
  explicit DeviceLockProbe(std::string_view device);
  ~DeviceLockProbe();
  DeviceLockProbe(const DeviceLockProbe&) = delete;
  DeviceLockProbe& operator=(const DeviceLockProbe&) = delete;
  // Whether some process holds the device's lock alone; false where no lock file can be opened.
  bool is_alone() const;

 private:
  int fd_ = -1;
};

}  // namespace worker
