// The loops that compute a product by blocks, as a graph whose axes they are: the reference
// interpreter executes it, so that a template's blocks are held against the contraction without a
// compiler (interpret_product()).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

// Of each axis, what one step of its loops takes, from the outermost to the innermost one. Rows cut
// by {128, 64} run in blocks of 128, which have two tiles of 64, which go row by row. Axes are
// those of the TileProblem.
struct ProductLoops {
  std::vector<int64_t> rows, columns, depth;  // positive, none empty
  // The number of parts of the summed axis, each with a sum of its own; the sums are added at the
  // end. A part is a whole number of blocks of the depth, the same for all but the last.
  Expr parts = 1;
  // Only the last row label is cut; the others are axes of the batch.
  bool one_row_label = false;
};

// One line, such as
//   rows by 128, 64, 16; columns by 256, 8; sums by 64, 16 in 4 parts
std::string print(const ProductLoops& loops);

// `contraction` is a kContract of `body` with two operands and no order of rows. The graph's first
// output holds the contraction's values, as float64, in the order in which loops visit them; the
// second one says at which flat position each belongs, or -1 for a step beyond the end.
Graph product_graph(const Graph& body, NodeId contraction, const ProductLoops& loops);

// The body with the contraction's values as its last input, in float64.
Graph after_product(const Graph& body, NodeId contraction);

}  // namespace common
