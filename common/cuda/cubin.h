// What a cubin says of its kernels: the registers and memory that each of them takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace common {

struct CubinKernel {
  std::string name;
  uint32_t registers = 0;  // of a thread
  uint64_t local_bytes =
      0;  // of a thread, beyond its registers: spills and arrays indexed at run time
  uint64_t shared_bytes = 0;  // of a block, static; without what the system reserves
  uint64_t code_bytes = 0;
};

// The entry functions of a cubin, by name. Its attributes are not documented; their numbers are
// those that `readelf -x .nv.info` shows beside what `ptxas -v` says, from CUDA 11 to 13. kCorrupt
// for what is no cubin.
Result<std::vector<CubinKernel>> read_cubin(ByteView cubin);

}  // namespace common
