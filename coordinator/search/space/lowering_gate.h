// The lowering gate: for each convolution of a region, and each norm along axes that are not the
// last ones, which of the ways to compute it the cost model takes for the fastest, seen in the
// whole program: with what the way needs before it (copied windows, an image with its border,
// tiles) and what follows it (an epilogue in the same kernel, or in one of its own).
#pragma once

#include <functional>
#include <map>

#include "coordinator/search/records/kernel_times.h"
#include "coordinator/search/space/region_space.h"

namespace coordinator {

// Of each kernel of a structure: nanoseconds of its calls in a run together.
using KernelShares = std::map<KernelId, double>;

// `from` with other choices for them, each decided with those before it. Those with the
// same alternatives are decided together. A way must save a tenth of the time of the kernels that
// it replaces: by less predictions do not tell one kind of kernel from another. At most `tries_max`
// structures are looked at.
Genome gate_lowerings(RegionSpace& space, Genome from,
                      const std::function<KernelShares(const Genome&)>& shares, size_t tries_max);

}  // namespace coordinator
