// Device memory from the application that lfarm runs in, such as PyTorch's caching allocator.
#pragma once

#include <cstddef>
#include <functional>

namespace common {

// Called from any thread, with the device's primary context current. Empty functions: the device's
// own memory.
struct DeviceAllocator {
  // At least `bytes` on the GPU of this ordinal, at a multiple of kBufferAlignment, that are used
  // in the order of `stream` (a CUstream) alone. Null when there is no room.
  std::function<void*(size_t bytes, int ordinal, void* stream)> allocate;
  // What allocate() gave, with the same arguments. Work that is on the stream may still use it.
  std::function<void(void* data, size_t bytes, int ordinal, void* stream)> release;

  explicit operator bool() const { return allocate != nullptr; }
};

}  // namespace common
