// The loops that compute a product whose rows choose their matrices (see grouped_form.h).
#pragma once

#include "common/ir/expr/expr.h"
#include "common/ir/llir/grouped_form.h"
#include "common/ir/tiled/looped_nodes.h"
#include "common/ir/tiled/product_loops.h"

namespace common {

struct GroupedLoops {
  // Rows of a block, in their order. Runs of rows of one matrix are computed one after the other.
  Expr span = 1;
  // Of each run: columns and sums are cut so, and so are rows, each of which has a matrix.
  ProductLoops product;
};

std::string print(const GroupedLoops& loops);

// `form` is that of a product of `body`, with an order of its rows.
LoopedNodes looped_groups(Graph body, const GroupedForm& form, const GroupedLoops& loops);

}  // namespace common
