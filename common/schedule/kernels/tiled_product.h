// The loops that the tilings of products and attention stand for.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/llir/llir.h"
#include "common/ir/tiled/product_loops.h"
#include "common/schedule/kernels/nest_machine.h"

namespace common {

// The product of a tiled kernel, or a pair of them: of an attention, that of probabilities and
// values, whose softmax the body has in blocks.
struct TiledProduct {
  Graph body;  // gives what the kernel gives
  std::vector<NodeId> products;
  ProductLoops loops;
  // Where rows choose their matrices, the rows of a block.
  std::optional<Expr> span;

  LoopedNodes looped() const;
};

// Of a kernel whose tiling its template takes. Empty where that is of another form (Fourier
// transforms, sorts, scans).
std::optional<TiledProduct> tiled_product(const Kernel& kernel, const NestMachine& machine);

}  // namespace common
