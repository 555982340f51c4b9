// Which kernels of a program on a GPU are launched as one (common/ir/llir/horizontal.h).
#pragma once

#include <cstddef>
#include <vector>

namespace coordinator {

// A kernel, as far as the question goes; the numbers are those of kernels before it.
struct LaunchedKernel {
  bool can_join = false;        // it may share a launch
  std::vector<size_t> follows;  // kernels that it must come after
};

// Kernels in launches, in the order of execution: each joins the first launch after all that it
// follows whose kernels may share one, else it begins a launch of its own.
std::vector<std::vector<size_t>> share_launches(const std::vector<LaunchedKernel>& kernels);

}  // namespace coordinator
