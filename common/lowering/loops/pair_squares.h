// Copies of pairs from rows to columns, which move as words.
//
//   out[w][v][2] = in[v][w][2]   of two-byte elements, such as a weight that goes into panels
//
// Each of its innermost loops copies four bytes, and either reads or writes jump in every step. As
// words it is a transposition: squares of 16 x 16 words are read row by row and turned in
// registers, so that whole cache lines are read and written.
#pragma once

#include <cstdint>
#include <optional>

#include "common/ir/nest/loop_nest.h"

namespace common {

// Of such a copy: elements from one step of v to the next in the input, and from one of w to the
// next in the output.
struct PairSquares {
  int input = 0;
  int64_t from_stride = 0, to_stride = 0;
};

// Where the nest says that squares are transposed, its last loops are w, v and the pair's elements,
// w and v are made of whole squares, and the grid lies around them.
std::optional<PairSquares> pair_squares(const Graph& body, const LoopNest& nest);

}  // namespace common
