// Changes to graphs for tests of their identity: edits that make it another model, and disguises
// that leave the model as it is.
#pragma once

#include <string_view>

#include "common/base/random.h"
#include "common/ir/hlir/graph.h"

namespace fuzz {

// One edit to a canonical graph, which becomes another one; it may not verify any more. Gives the
// edit's name, a literal, or "" when the choice did not fit the graph.
std::string_view edit(common::Graph& graph, common::Random& random);
// The names that edit() may give, apart by single spaces.
inline constexpr std::string_view kEdits =
    "shape dtype operator attribute operand swap-operands constant input-shape input-dtype "
    "input-kind input-order range output-order output-node output-lost output-kind";

// The same model with other names, nodes in another order, nodes twice, dead nodes, and symbols
// under other numbers.
common::Graph disguise(const common::Graph& graph, common::Random& random);

}  // namespace fuzz
