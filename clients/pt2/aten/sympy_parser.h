// Reads the size expressions of torch.export archives, which are sympy text in two spellings.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "common/base/result.h"
#include "common/ir/expr/expr.h"

namespace clients {

// The value of a symbol by its name in the archive ("s21"); empty when it is unknown.
using SymbolLookup = std::function<std::optional<common::Expr>(std::string_view)>;

// Takes "Add(Symbol('s0', positive=True, integer=True), Integer(1))" as well as "s0 + 1", with
// FloorDiv, CeilDiv, floor, ceiling, Max, Min, Mod and integer powers. kUnsupported names
// the function or symbol that isn't known, kCorrupt the place where the text is malformed.
common::Result<common::Expr> parse_sympy(std::string_view text, const SymbolLookup& lookup);

}  // namespace clients
