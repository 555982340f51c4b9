// Looks for the chain of blocks whose folding saves most, among all places where blocks may end.
#pragma once

#include <optional>

#include "common/ir/roll/roll_chain.h"

namespace common {

// Deterministic: among chains that save equally much, the one that carries least, then the one
// that starts first, so that what a pattern leaves over stands behind the loop and not before it.
std::optional<Chain> best_chain(const Graph& graph);

}  // namespace common
