// Programs that compute the same within a bound on memory: calls in another order, and calls
// repeated so that long-lived values need no memory (call_order.h, recompute.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/ir/llir/llir.h"

namespace coordinator {

struct FittedProgram {
  common::Program program;
  size_t bytes = 0;     // of a run's arena
  double added_ns = 0;  // of calls that are repeated
};

struct MemoryFit {
  // Distinct programs within the bound, the ones that should be the fastest first. They differ in
  // how far and by which calls they save memory.
  std::vector<FittedProgram> programs;
  size_t least_bytes = 0;  // that was reached, within the bound or not
};

// `kernel_ns`: the time of one call of each kernel. `sizes`: of the program's symbols. A program
// that is within the bound stays as it is, and is the only one. The program has been verified.
MemoryFit fit_memory(const common::Program& program, size_t bound,
                     const std::vector<double>& kernel_ns, const std::vector<int64_t>& sizes);

// No order and no repetition needs less: what one call reads and writes of the arena.
size_t least_arena_bytes(const common::Program& program, const std::vector<int64_t>& sizes);

// The program in an order of its calls that needs less memory, where it saves a share worth having:
// nothing is computed twice. Else the program as it is.
common::Program in_lower_order(common::Program program, const std::vector<int64_t>& sizes);

}  // namespace coordinator
