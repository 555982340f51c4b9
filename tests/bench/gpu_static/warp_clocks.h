// How long one warp takes from its wait for earlier kernels, or its first instruction, to its last
// where nothing else runs: what bounds kernels of few blocks, and each block of others.
#pragma once

#include <vector>

#include "common/cuda/sass.h"

namespace bench {

// Clocks of code that is reached without calls, in its order: what each instruction holds up the
// next one, and what it waits for, above all loads. `trips`: how often each loop turns, as in
// `kernel.loops`. Of branches forward both ways are taken, as the block does that has most to do.
// `product_clocks`: what a product of a warpgroup takes the tensor cores, which others use, too.
// `first_box`: when the first box is there that another warp asks for.
double warp_clocks(const common::SassKernel& kernel, const std::vector<double>& trips,
                   double product_clocks = 0, double first_box = 0);

// Clocks until a warp has asked for its first box, where each loop turns once.
double clocks_to_first_box(const common::SassKernel& kernel);

}  // namespace bench
