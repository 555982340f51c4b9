// What one launch of a GPU kernel costs, told from its plan and its machine code.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

// From a few blocks run at their real size: what warps' accesses cost over the least that the bytes
// they ask for could cost. 0: there are no such accesses.
struct KernelAccesses {
  double sectors_ratio = 0;  // 32-byte sectors of device memory
  double shared_ratio = 0;   // wavefronts of shared memory
};

struct StaticKernel {
  common::Template form{};
  std::string name;
  std::optional<KernelAccesses> accesses;
  std::string accesses_problem;    // why there are none, where they were asked for
  std::optional<KernelCode> code;  // empty for library calls
  common::GpuKernelFacts facts;
  common::GpuKernelTime time;
  double predicted_ns = 0;  // of a call, with its launch
  double floor_ns = 0;      // what its least bytes or its operations take at the machine's rates
  std::string text;         // of the source
  common::Bytes cubin;
};

// What kernels are judged with.
struct StaticTools {
  const worker::CodeGenerator& generator;
  // CUDA C++ text to a cubin.
  std::function<common::Result<common::Bytes>(const std::string& text)> compile;
  const common::GpuMachine& machine;
  bool has_accesses = true;  // whether blocks are run to see what warps access together
};

// NVRTC's compiler for `arch` with the options that plans are compiled with.
std::function<common::Result<common::Bytes>(const std::string& text)> static_compiler(
    std::shared_ptr<const common::Nvrtc> nvrtc, const std::string& arch);

// `kernel` has its nest; symbols are those of the call.
common::Result<StaticKernel> static_kernel(const common::Kernel& kernel,
                                           const std::vector<int64_t>& symbols,
                                           const CallTraffic& traffic, const StaticTools& tools);

}  // namespace bench
