// Loops over an iteration space of several axes: loops may be split, fused and reordered, and every
// axis' index stays an expression over the loops' indices.
#pragma once

#include <vector>

#include "common/base/result.h"
#include "common/ir/expr/expr.h"
#include "common/ir/hlir/graph.h"

namespace common {

// Loop k runs over [0, extents[k]); axis d is at position[d], an expression over loops i0, i1, ...
struct LoopBand {
  std::vector<Expr> extents;
  std::vector<Expr> position;
  friend bool operator==(const LoopBand&, const LoopBand&) = default;
};

// One loop per axis that is longer than 1.
LoopBand plain_band(const Shape& shape);

// kInvalidInput unless the loops visit every element of `shape` once, whatever the symbols' values.
Status verify_band(const LoopBand& band, const Shape& shape,
                   const std::vector<SymbolRange>& symbols);

// ---- transformations: empty where they are not legal

// Loop `loop` becomes two: its quotient and its remainder by `divisor`, which must divide its
// extent.
std::optional<LoopBand> split_loop(const LoopBand& band, size_t loop, const Expr& divisor);
// Loops `loop` and `loop` + 1, which must be there, become one.
std::optional<LoopBand> fuse_loops(const LoopBand& band, size_t loop);
// Loop order[k] becomes loop k; `order` must be a permutation.
std::optional<LoopBand> reorder_loops(const LoopBand& band, const std::vector<size_t>& order);

}  // namespace common
