// Axes of a graph's tensor that are loops, and the steps that they leave out.
#pragma once

#include <vector>

#include "common/ir/hlir/view.h"

namespace common {

struct LoopAxes {
  Shape extents;
  std::vector<Validity> inside;

  // Adds a loop and returns its index.
  Expr add(const Expr& extent) {
    extents.push_back(extent);
    return Expr::index(static_cast<int>(extents.size()) - 1);
  }
  // One loop for each axis of the shape.
  std::vector<Expr> add_all(const Shape& shape);
  // Adds the loops of an axis in blocks of `cuts`, the largest first and none empty, and returns
  // the position on it. The last tile of a block that its tiles do not divide ends with the block.
  Expr cut(const Expr& extent, const std::vector<int64_t>& cuts) {
    return cut_further(add_outermost(extent, cuts), extent, cuts);
  }
  // The same in two parts, between which other axes may be added: the loop over the blocks, and
  // those within `block`, its index.
  Expr add_outermost(const Expr& extent, const std::vector<int64_t>& cuts);
  Expr cut_further(const Expr& block, const Expr& extent, const std::vector<int64_t>& cuts);

  // A view in these axes: the operand at `index`, and `fill` at steps that are left out.
  View read(std::vector<Expr> index, double fill) const {
    return {extents, std::move(index), inside, fill};
  }
};

}  // namespace common
