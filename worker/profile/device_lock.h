// One measurement at a time on one machine's device, whatever the number of workers there.
#pragma once

#include <string_view>

namespace worker {

// Held from construction, which waits for other processes' locks of the same device, until
// destruction or the end of the process. Where no lock file can be opened it holds nothing:
// measurements are then as noisy as their neighbours make them.
class DeviceLock {
 public:
  // `device`: "cpu", "cuda-0", ...
  explicit DeviceLock(std::string_view device);
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;
  bool held() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace worker
