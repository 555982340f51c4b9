// What one launch of a GPU kernel costs, told from its plan and its machine code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/cost/gpu_time.h"
#include "common/cuda/nvrtc.h"
#include "common/ir/llir/llir.h"
#include "worker/codegen/generator.h"

namespace bench {

// Bytes that one call moves between the device's memory and the chip.
struct CallTraffic {
  double bytes = 0;
  double least = 0;  // where weights were read as the model stores them
  double asked = 0;  // with what the second cache still holds
};

// From the cubin of a generated kernel.
struct KernelCode {
  std::string name;
  uint32_t registers = 0;
  uint64_t local_bytes = 0;   // of a thread: spills, and arrays that are indexed at run time
  uint64_t shared_bytes = 0;  // of a block
  // Of the accesses of device memory that move most: bytes of a lane at once; 0: there are none.
  int load_bytes = 0, store_bytes = 0;
  int64_t in_flight_bytes = 0;  // of a thread
  double instructions = 0;      // that a thread executes, loops by the bytes that they must load
  double tensor_instructions = 0;
  double epilogue_share = 0;       // of the instructions, those after the last loop that loads
  int64_t barriers_step = 0;       // in the loop that loads most
  int64_t divisions_in_loops = 0;  // in float64, or of 64-bit integers
};

struct StaticKernel {
  common::Template form{};
  std::string name;
  std::optional<KernelCode> code;  // empty for library calls
  common::GpuKernelFacts facts;
  common::GpuKernelTime time;
  double predicted_ns = 0;  // of a call, with its launch
  double floor_ns = 0;      // what its least bytes or its operations take at the machine's rates
  std::string text;         // of the source
  common::Bytes cubin;
};

// `kernel` has its nest; symbols are those of the call.
common::Result<StaticKernel> static_kernel(const common::Kernel& kernel,
                                           const std::vector<int64_t>& symbols,
                                           const CallTraffic& traffic,
                                           const worker::CodeGenerator& generator,
                                           const common::Nvrtc& nvrtc, const std::string& arch,
                                           const common::GpuMachine& machine);

}  // namespace bench
