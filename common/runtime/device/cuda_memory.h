// Device memory that is used again: allocating from the driver takes as long as a small model's run
// and waits for the device.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/cuda/driver.h"

namespace common {

// While it lives the calling thread may allocate and free, whatever other threads capture, and
// their captures stay whole.
class CudaRelaxedCapture {
 public:
  explicit CudaRelaxedCapture(const CudaCalls& calls) : calls_(calls) {
    calls_.exchange_capture_mode(&mode_);
  }
  ~CudaRelaxedCapture() { calls_.exchange_capture_mode(&mode_); }
  CudaRelaxedCapture(const CudaRelaxedCapture&) = delete;
  CudaRelaxedCapture& operator=(const CudaRelaxedCapture&) = delete;

 private:
  const CudaCalls& calls_;
  int mode_ = kCudaCaptureRelaxed;  // then what it was before
};

// Memory is used again for requests of the same rounded size alone, so that nothing is wasted and
// what is written beyond a buffer's end is as likely to be noticed as in fresh memory. Thread-safe.
// Callers make the context current, and use memory in the order of one stream, so that what was
// freed may still be in use by launches that come before its next user's.
class CudaMemoryPool {
 public:
  // Of freed memory at most `kept_bytes_max` is kept.
  CudaMemoryPool(std::shared_ptr<const CudaDriver> driver, size_t kept_bytes_max)
      : driver_(std::move(driver)), kept_bytes_max_(kept_bytes_max) {}

  // At least 256-byte aligned. kUnavailable when there is no room.
  Result<CudaAddress> allocate(size_t bytes);
  // The same from what is kept, without asking the driver; nothing where nothing fits.
  std::optional<CudaAddress> allocate_kept(size_t bytes);
  // `keeps`: whatever is kept already.
  void release(CudaAddress address, size_t bytes, bool keeps = false);
  // Gives everything kept back to the driver.
  void trim();

 private:
  Result<CudaAddress> allocate_from_driver(size_t bytes);

  std::shared_ptr<const CudaDriver> driver_;
  size_t kept_bytes_max_;
  std::mutex mutex_;  // guards what follows
  size_t kept_bytes_ = 0;
  std::unordered_map<size_t, std::vector<CudaAddress>> kept_;  // by size, the newest last
};

}  // namespace common
