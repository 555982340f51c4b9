// A product as the front end writes it: a sum of products, which rules make a contraction.
#pragma once

#include "common/ir/hlir/graph.h"

namespace coordinator {

// A sum whose operand is a product.
bool is_product_sum(const common::Graph& graph, const common::Node& node);

}  // namespace coordinator
