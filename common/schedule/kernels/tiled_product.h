// The loops that the tilings of products and attention stand for, to be executed without a
// compiler.
#pragma once

#include <optional>

#include "common/ir/llir/llir.h"
#include "common/ir/tiled/product_loops.h"
#include "common/schedule/kernels/nest_machine.h"

namespace common {

// The product of a tiled kernel: of an attention, that of probabilities and values, whose softmax
// the body has in blocks.
struct TiledProduct {
  Graph body;  // gives what the kernel gives
  NodeId product = 0;
  ProductLoops loops;
};

// Of a kernel whose tiling its template takes. Empty where that is of another form (Fourier
// transforms, sorts, scans), for pairs of products, and where rows choose their matrices.
std::optional<TiledProduct> tiled_product(const Kernel& kernel, const NestMachine& machine);

}  // namespace common
