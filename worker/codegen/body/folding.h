// Reductions that share their loops, while they are emitted.
#pragma once

#include <string>
#include <vector>

#include "common/ir/hlir/graph.h"
#include "worker/codegen/body/accumulation.h"
#include "worker/codegen/body/body_emitter.h"

namespace worker {

// The reduced axes as loops: one for each, or a single one over all of them when they are adjacent
// and `flat`.
struct ReducedLoops {
  std::vector<common::Expr> extents;
  std::vector<common::Expr> positions;  // of each reduced axis, over loops i0, i1, ...
};

struct BodyEmitter::Folding {
  struct Fold {
    common::NodeId id = 0;
    Accumulation acc;
    std::string total;  // around the innermost loop
    std::string part;   // in it
  };
  std::vector<Fold> folds;
  ReducedLoops loops;
  std::vector<int> axes;
  Indices inner;                      // operand indices; the reduced axes are filled in
  std::vector<common::Expr> indices;  // of the loops opened so far
};

}  // namespace worker
