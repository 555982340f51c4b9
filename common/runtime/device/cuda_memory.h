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
#include "common/runtime/device/device_allocator.h"

namespace common {

// Memory is used again for requests of the same rounded size alone, so that nothing is wasted and
// what is written beyond a buffer's end is as likely to be noticed as in fresh memory. Thread-safe.
// Callers hold a CudaScope, and use memory in the order of one stream, so that what was
// freed may still be in use by launches that come before its next user's.
class CudaMemoryPool {
 public:
  // Of freed memory at most `kept_bytes_max` is kept, and none that a caller's allocator gave,
  // which has others to give it to.
  CudaMemoryPool(std::shared_ptr<const CudaDriver> driver, size_t kept_bytes_max,
                 DeviceAllocator allocator = {})
      : driver_(std::move(driver)),
        allocator_(std::move(allocator)),
        kept_bytes_max_(allocator_ ? 0 : kept_bytes_max) {}
  // What a caller's allocator is told: whose memory it is, and in which stream's order it is used.
  void set_place(CudaOrdinal ordinal, CudaStream stream) {
    ordinal_ = ordinal;
    stream_ = stream;
  }

  // At least 256-byte aligned. kUnavailable when there is no room.
  Result<CudaAddress> allocate(size_t bytes);
  // The same from what is kept, without asking the driver; nothing where nothing fits.
  std::optional<CudaAddress> allocate_kept(size_t bytes);
  // `keeps`: whatever is kept already.
  void release(CudaAddress address, size_t bytes, bool keeps = false);
  // Gives everything kept back.
  void trim();

 private:
  Result<CudaAddress> allocate_fresh(size_t bytes);
  Result<CudaAddress> allocate_from_caller(size_t bytes);
  void give_back(CudaAddress address, size_t bytes);

  std::shared_ptr<const CudaDriver> driver_;
  DeviceAllocator allocator_;
  CudaOrdinal ordinal_ = 0;
  CudaStream stream_ = nullptr;
  size_t kept_bytes_max_;
  std::mutex mutex_;  // guards what follows
  size_t kept_bytes_ = 0;
  std::unordered_map<size_t, std::vector<CudaAddress>> kept_;  // by size, the newest last
};

}  // namespace common
