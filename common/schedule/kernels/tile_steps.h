// The summed axis as a register tile walks it: element by element, or two neighbours at a time
// where the processor multiplies pairs of bfloat16.
#pragma once

#include <string>

#include "common/lowering/body/contraction.h"
#include "common/schedule/kernels/vector_unit.h"

namespace common {

struct TileSteps {
  int64_t length = 1;             // elements of a step: 1, or 2 for pairs
  DType dtype = DType::kFloat32;  // of an operand's elements
  std::string type;               // C: a step of a packed operand
  std::string vector;             // C: a vector of those
  // How many steps there are along each of k's labels; along all of them at once where a pair may
  // reach from one label's end to the next one's begin.
  std::vector<Expr> sizes;
  Expr count = 1;           // of all steps
  Expr depth = 1;           // of all elements
  bool by_label = true;     // sizes are those of labels
  bool may_be_odd = false;  // the last pair may be half of one

  bool has_pairs() const { return length == 2; }
  // The indices of k's labels at the step's element `half`, where `step` has an index for each of
  // `sizes`. Of half a pair both are the same.
  Indices elements(const Contraction& product, const Indices& step, const Expr& half) const;
  // The problem in steps: its k_size counts them.
  TileProblem problem(const Contraction& product) const;
};

// Pairs where both operands are bfloat16 and the unit has them.
TileSteps tile_steps(const Contraction& product, const VectorUnit& unit);

}  // namespace common
