// What CUDA text is written for beside the instructions that it may use.
#pragma once

namespace worker {

struct CudaMachine {
  bool warpgroups = false;  // multiply
  bool overlaps = false;    // a kernel may begin while the one before it runs
};

}  // namespace worker
