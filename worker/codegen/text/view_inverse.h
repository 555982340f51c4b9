// Follows values forward through views: where an element of a view's operand ends up.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace worker {

// The view's indices at which it reads operand element `at`, for views that are bijections made of
// permutations, splits and merges; empty otherwise.
std::optional<std::vector<common::Expr>> invert_view(const common::View& view,
                                                     const common::Shape& operand,
                                                     const std::vector<common::Expr>& at);

// The indices of `output`'s element that element `at` of `source` flows to, through elementwise
// nodes and bijective views; empty when there is no such path.
std::optional<std::vector<common::Expr>> flow_forward(const common::Graph& graph,
                                                      common::NodeId source, common::NodeId output,
                                                      const std::vector<common::Expr>& at);

}  // namespace worker
