// What the emulated driver encodes as a tensor map, and the emulated copy engine reads of one. An
// opaque value to kernels and to the host.
#pragma once

#include <cstdint>

namespace emulator {

struct alignas(64) EncodedMap {
  static constexpr unsigned kRankMax = 5;
  static constexpr uint64_t kMagic = 0x7465'6e73'6f72'6d61;
  uint64_t magic = 0;
  uint64_t address = 0;
  uint32_t rank = 0, element_bytes = 0, swizzle_bytes = 0;
  uint8_t steps[4] = {};          // of windows, without the first dimension; 0: there are none
  uint64_t sizes[kRankMax] = {};  // in elements, the fastest first
  uint64_t strides[kRankMax - 1] = {};   // in bytes, of the dimensions after the first
  uint16_t box[kRankMax] = {};           // of windows: channels, 1, ..., pixels
  int16_t lower[3] = {}, upper[3] = {};  // of windows: the corners
  uint16_t rest = 0;
  bool has_windows() const { return steps[0] != 0; }
};
static_assert(sizeof(EncodedMap) == 128);

}  // namespace emulator
