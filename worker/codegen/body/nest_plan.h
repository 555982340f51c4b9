// How an iteration space over several axes is walked by loops: axes may be split or merged.
#pragma once

#include <vector>

#include "common/ir/expr/expr.h"

namespace worker {

// Loop k runs over [0, extents[k]); axis d is at position[d], an expression over loops i0, i1, ...
struct NestPlan {
  std::vector<common::Expr> extents;
  std::vector<common::Expr> position;
};

// One loop per axis.
NestPlan plain_nest(const common::Shape& shape);
// Loop `loop` becomes two: its quotient and its remainder by `divisor`, which divides its extent.
NestPlan split_loop(const NestPlan& plan, size_t loop, const common::Expr& divisor,
                    const common::Expr& quotient);
// Loops `loop` and `loop` + 1 become one.
NestPlan merge_loops(const NestPlan& plan, size_t loop);
// Loop order[k] becomes loop k.
NestPlan permute_loops(const NestPlan& plan, const std::vector<size_t>& order);

}  // namespace worker
