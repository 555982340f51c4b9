// What CUDA text is written for beside the instructions that it may use.
#pragma once

#include <cstdint>

namespace worker {

struct CudaMachine {
  bool warpgroups = false;  // multiply
  int64_t processors = 1;   // multiprocessors, which blocks are to fill; any number is right
};

}  // namespace worker
