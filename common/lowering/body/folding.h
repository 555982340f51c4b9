// Reductions that share their loops, while they are emitted.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/lowering/body/accumulation.h"
#include "common/lowering/body/body_emitter.h"

namespace common {

// The reduced axes as loops: one for each, or a single one over all of them when they are adjacent
// and `flat`.
struct ReducedLoops {
  std::vector<Expr> extents;
  std::vector<Expr> positions;  // of each reduced axis, over loops i0, i1, ...
};

struct BodyEmitter::Folding {
  struct Fold {
    NodeId id = 0;
    Accumulation acc;
    std::string total;  // around the innermost loop
    std::string part;   // in it
    // What makes it another one than was asked for: indices of the folding, and those of another
    // row, or another step of a reduction that is walked, in their place.
    std::vector<std::pair<int, int>> moved;
  };
  std::vector<Fold> folds;
  ReducedLoops loops;
  std::vector<int> axes;
  Indices inner;              // operand indices; the reduced axes are filled in
  std::vector<Expr> indices;  // of the loops opened so far
};

}  // namespace common
