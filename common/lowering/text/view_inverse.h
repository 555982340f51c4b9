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

// The indices of `output`'s element that element `at` of `source` flows to, through elementwise
// nodes and bijective views; empty when there is no such path.
std::optional<std::vector<Expr>> flow_forward(const Graph& graph, NodeId source, NodeId output,
                                              const std::vector<Expr>& at);

}  // namespace common
