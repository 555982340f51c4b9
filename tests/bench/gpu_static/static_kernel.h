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
#include "tests/bench/gpu_static/kernel_code.h"
#include "worker/codegen/generator.h"

namespace bench {

// Bytes that one call moves between the device's memory and the chip.
struct CallTraffic {
  double bytes = 0;
  double least = 0;    // where weights were read as the model stores them
  double asked = 0;    // with what the second cache still holds
  double written = 0;  // of the bytes
};

// From a few blocks run at their real size: what warps' accesses cost over the least that the bytes
// they ask for could cost. 0: there are no such accesses.
struct KernelAccesses {
  double sectors_ratio = 0;  // 32-byte sectors of device memory
  double shared_ratio = 0;   // wavefronts of shared memory
  bool is_whole = false;     // of all that those blocks access; then also, of an average block:
  double load_bytes = 0, store_bytes = 0, shared_load_bytes = 0;
  double longest_load_bytes = 0;  // of the block that loads most: others' parts of a sum, too
  // See ThreadTraffic.
  std::array<double, 5> loads_by_width{}, longest_loads_by_width{};
  double sector_bytes = 0, wavefront_bytes = 0;
  // Products of warpgroups with their operations; boxes that the copy engine brings, the bytes that
  // they ask the second cache for, and those of boxes that are under way at once.
  double products = 0, product_operations = 0, boxes = 0, box_bytes = 0, box_bytes_under_way = 0;
  double warpgroups = 0;  // of a block, that multiply
};

struct StaticKernel {
  common::Template form{};
  std::string name;
  std::optional<KernelAccesses> accesses;
  std::string accesses_problem;    // why there are none, where they were asked for
  std::optional<KernelCode> code;  // empty for library calls
  double asked_bytes = 0;          // of a call, from memory or the second cache
  common::GpuKernelFacts facts;
  common::GpuKernelTime time;
  double waves = 0;         // of blocks; less than 1: not every place of a processor is taken
  double operations = 0;    // of floats, a multiply-add being two
  double products = 0;      // those of its products
  double predicted_ns = 0;  // of a call, with its launch
  double floor_ns = 0;      // what its least bytes or its operations take at the machine's rates
  std::string text;         // of the source, preamble included
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
