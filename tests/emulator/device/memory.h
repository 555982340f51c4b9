// The emulated device's memory. Kernels and host code see it through different mappings: a device
// address works while a kernel runs and faults when host code follows it, and outside an allocation
// it faults in kernels too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

namespace emulator {

class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // A device address aligned to 256 bytes whose memory ends at a guard page, up to that alignment;
  // filled with ones. 0 when there is no room.
  uint64_t allocate(size_t bytes);
  // False when nothing was allocated there. The address is not given out again.
  bool release(uint64_t address);
  void clear();
  // Where the host finds `bytes` bytes of one allocation; null when they are not all inside one.
  std::byte* host_view(uint64_t address, size_t bytes) const;
  bool holds(uint64_t address) const { return host_view(address, 1) != nullptr; }

  // Device addresses can be followed from open() to close().
  void open();
  void close();

  // LFARM_EMULATOR_MEMORY, or 16 GiB.
  static size_t total_bytes();
  size_t free_bytes() const { return std::max(total_bytes(), used_) - used_; }

 private:
  struct Allocation {
    size_t bytes = 0;             // as asked for
    size_t mapped = 0;            // whole pages, without guards
    std::byte* device = nullptr;  // first page
    std::byte* host = nullptr;
  };
  std::map<uint64_t, Allocation> allocations_;  // by device address
  size_t used_ = 0;
  bool is_open_ = false;
};

}  // namespace emulator
