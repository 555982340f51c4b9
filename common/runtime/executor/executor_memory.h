// Memory with guard bands on both sides, so that writes beyond a buffer's ends are seen.
#pragma once

#include <string>
#include <vector>

#include "common/runtime/device/device.h"

namespace common {

// What bands hold.
inline constexpr std::byte kBandPattern{0x5c};

class GuardedMemory {
 public:
  GuardedMemory() = default;
  // `band` bytes of pattern on each side, a multiple of kBufferAlignment; 0: none.
  static Result<GuardedMemory> allocate(Device& device, size_t bytes, size_t band);

  std::byte* data() const { return memory_.data() == nullptr ? nullptr : memory_.data() + band_; }
  size_t size() const { return size_; }
  // kVerification saying on which side of `name` something was written.
  Status check(Device& device, const std::string& name) const;

 private:
  DeviceMemory memory_;
  size_t size_ = 0;
  size_t band_ = 0;
};

// A hash of device memory, to notice that it changed.
Result<uint64_t> hash_memory(Device& device, const std::byte* data, size_t bytes);

}  // namespace common
