// The loops that compute a product by blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ir/tiled/looped_nodes.h"

namespace common {

// Of each axis, what one step of its loops takes, from the outermost to the innermost one. Rows cut
// by {128, 64} run in blocks of 128, which have two tiles of 64, which go row by row. Axes are
// those of the TileProblem.
struct ProductLoops {
  std::vector<int64_t> rows, columns, depth;  // positive, none empty
  // The number of parts of the summed axis, each with a sum of its own; the sums are added at the
  // end. All parts but the last have equally many blocks of the depth.
  Expr parts = 1;
  // Only the last row label is cut; the others are axes of the batch.
  bool one_row_label = false;
  // The loop over blocks of rows is around those over the batch.
  bool rows_outermost = false;
};

// One line, such as
//   rows by 128, 64, 16; columns by 256, 8; sums by 64, 16 in 4 parts
std::string print(const ProductLoops& loops);

// Appends loops to a graph that has the contraction: a kContract of two operands. The values, as
// float64, in the order in which loops visit them, and where each belongs.
VisitedNode add_product_loops(Graph& graph, NodeId contraction, const ProductLoops& loops);

// Contractions of `body` as above, computed one after the other.
LoopedNodes looped_products(Graph body, std::vector<NodeId> contractions,
                            const ProductLoops& loops);

}  // namespace common
