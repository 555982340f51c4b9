// Replaces gathers by views where the positions follow from a count alone.
//
//   x[floor(arange(64) * 0.5)]   =>   view x index=[(i0 // 2)]
//
// Interpolation to the nearest element and subsampling are exported like that. A view costs nothing
// and is seen through by rules, layouts and fusion; a gather reads its positions from memory and
// keeps the order of its operand's axes.
#pragma once

#include <optional>
#include <span>

#include "common/ir/hlir/graph.h"

namespace coordinator {

// The same graph with such gathers as views, without the nodes that nothing needs any more.
// Positions are computed as the graph says, rounding included, and clamped as a gather's are.
// Inputs, outputs and symbols stay as they are; bodies of loops, too.
common::Graph replace_known_gathers(const common::Graph& graph);

// An expression over `at` that has these values at 0, 1, ...: (p * at + o) // q + c. Empty where
// there is none. One value at least.
//   {0, 0, 1, 1} => at // 2     {3, 2, 1, 0} => 3 - at
std::optional<common::Expr> expression_of(std::span<const int64_t> values, const common::Expr& at);

}  // namespace coordinator
