// What the emulated compiler hands to the emulated driver in place of a cubin: a header and the
// bytes of a shared object.
#pragma once

#include <cstdint>
#include <cstring>

namespace emulator {

inline constexpr char kContainerMagic[8] = {'L', 'F', 'E', 'M', 'U', 'G', 'P', 'U'};

struct ContainerHeader {
  char magic[8];
  uint32_t architecture;  // 90 for sm_90
  uint32_t is_specific;   // 1 for sm_90a: runs on that architecture only
  uint64_t object_bytes;  // follow the header
  uint32_t toolkit;       // the major version of CUDA that made it
};

// PTX has the same container behind this word, in hexadecimal digits.
inline constexpr char kContainerInText[] = "\n// object ";

inline bool is_container(const void* image) {
  return std::memcmp(image, kContainerMagic, sizeof kContainerMagic) == 0;
}

}  // namespace emulator
