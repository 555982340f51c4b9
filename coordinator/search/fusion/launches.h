// Which kernels of a program are launched as one (common/ir/llir/horizontal.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/ir/llir/llir.h"

namespace coordinator {

// Where launches are shared, and by which kernels.
enum class LaunchSharing : uint8_t {
  kNever,
  // Loops that move as little as a core's own cache holds: what a launch costs beside them, a call
  // and the threads' agreement on shares, is much, and none has to be split among threads.
  kOnProcessor,
  // Loops and scatters with one output. A launch costs there as much as megabytes of traffic.
  kOnGpu,
};
// Whether a kernel that moves so many bytes may share a launch.
bool may_share(LaunchSharing sharing, const common::Kernel& kernel, double bytes);

// A kernel, as far as the question goes; the numbers are those of kernels before it.
struct LaunchedKernel {
  bool can_join = false;        // it may share a launch
  std::vector<size_t> follows;  // kernels that it must come after
  size_t outputs = 1;           // a launch has at most kHorizontalPartsMax
};

// Kernels in launches, in the order of execution: each joins the first launch after all that it
// follows whose kernels may share one, else it begins a launch of its own.
std::vector<std::vector<size_t>> share_launches(const std::vector<LaunchedKernel>& kernels);

}  // namespace coordinator
