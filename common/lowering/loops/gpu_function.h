// What every emitter of GPU kernels ends with.
#pragma once

#include <vector>

#include "common/lowering/body/function_body.h"
#include "common/plan/plan.h"

namespace common {

// The body's text reads in0, in1, ..., writes out0, ..., and knows the symbols s0, ..., `units`,
// and the pieces of scratch memory, which are a block's own.
struct GpuFunction {
  FunctionBody body;
  BlockShape block;
  // What may come before the wait for earlier kernels: prefetches, which need nothing but the
  // kernel's parameters. Empty: nothing.
  std::string early = {};
  int64_t early_bytes = 0;  // that a block asks for there
  // Whether all threads wait in the body, behind what needs nothing of earlier kernels. Else they
  // do so before it.
  bool waits = false;
  // Blocks next to each other share a result: `areas` is the first block's scratch memory.
  bool is_split = false;
  // Blocks next to each other that run at once and see each other's shared memory.
  int cluster = 1;
  int64_t resident = 1;  // blocks for which a multiprocessor has registers, at least
  // Known to the body as map0, map1, ...
  std::vector<TensorMap> maps = {};
};

}  // namespace common
