// Follows values forward through views: where an element of a view's operand ends up.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

// The view's indices at which it reads operand element `at`, for views that are bijections made of
// permutations, splits and merges; empty otherwise.
std::optional<std::vector<Expr>> invert_view(const View& view, const Shape& operand,
                                             const std::vector<Expr>& at);

// A view that gives every element of its operand, as `inner` does, and a border around them.
struct BorderedView {
  View inner;
  std::vector<Expr> before;  // the border's elements before those of `inner`, by axis of the view
  size_t axes = 0;           // leading axes among which are all that have a border
};
// Empty where the view leaves elements out, or gives them in an order that has no single border.
std::optional<BorderedView> bordered_view(const View& view, const Shape& operand);

// The indices of `output`'s element that element `at` of `source` flows to, through elementwise
// nodes and bijective views; empty when there is no such path. `into_border`: the output may be a
// view that gives these elements a border.
std::optional<std::vector<Expr>> flow_forward(const Graph& graph, NodeId source, NodeId output,
                                              const std::vector<Expr>& at,
                                              bool into_border = false);

}  // namespace common
