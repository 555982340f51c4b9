// Memory with guard bands on both sides, so that writes beyond a buffer's ends are seen.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/runtime/device/device.h"

namespace common {

class GuardedMemory {
 public:
  GuardedMemory() = default;
  GuardedMemory(GuardedMemory&& other) noexcept { swap(other); }
  GuardedMemory& operator=(GuardedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  // `band` bytes of pattern on each side, a multiple of kBufferAlignment; 0: none.
  static Result<GuardedMemory> allocate(Device& device, size_t bytes, size_t band);

  // The same, whose content is zero.
  static Result<GuardedMemory> zeros(Device& device, size_t bytes, size_t band);

  // Memory of somebody else's, who keeps it: `bytes` bytes from `data` on, with such bands.
  static GuardedMemory around(std::byte* data, size_t bytes, size_t band);

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // kVerification saying on which side of `name` something was written.
  Status check(Device& device, const std::string& name) const;

 private:
  // Of memory with room for the bands, which are filled.
  static Result<GuardedMemory> within(Device& device, DeviceMemory memory, size_t band);
  void swap(GuardedMemory& other) {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(band_, other.band_);
  }
  DeviceMemory memory_;        // its own
  std::byte* data_ = nullptr;  // between the bands
  size_t size_ = 0;
  size_t band_ = 0;
};

// hash64() of device memory, to notice that it changed.
class MemoryHasher {
 public:
  explicit MemoryHasher(Device& device) : device_(device) {}
  Result<uint64_t> hash(const std::byte* data, size_t bytes);

 private:
  Device& device_;
  std::shared_ptr<std::byte[]> host_;  // what comes from a device with memory of its own
};

}  // namespace common
