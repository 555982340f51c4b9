// Which views are worth memory of their own.
#pragma once

#include "common/ir/hlir/view.h"

namespace coordinator {

// The view scatters what a reader along its last axis wants side by side: a transpose, a window
// with a border. What only skips elements between rows reads well as it is, and what repeats
// elements (but for windows that overlap) would be more to read.
bool is_worth_copying(const common::View& view, const common::Shape& input,
                      const std::vector<common::SymbolRange>& symbols);

}  // namespace coordinator
