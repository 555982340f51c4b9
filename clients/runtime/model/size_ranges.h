// Several plans of one model, each for a part of the sizes that it takes: a decoding step and a
// prompt are computed best in different ways.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"

namespace clients {

// What sizes one plan is for: a part of some symbols' ranges.
struct SizeRange {
  int symbol = 0;  // as `lfarm print --stage hlir` numbers them
  common::SymbolRange range;
};
using SizeRanges = std::vector<SizeRange>;

// "s0=1;s0=2..128" is two, "s0=1,s1=8..64" one with two symbols. Empty text gives none.
// kInvalidInput says what is no range.
common::Result<std::vector<SizeRanges>> parse_size_ranges(std::string_view text);

// The graph for these sizes alone. kInvalidInput when a range leaves that of its symbol.
common::Result<common::Graph> for_sizes(const common::Graph& graph, const SizeRanges& ranges);
// Whether the symbols' values lie in the ranges.
bool holds(const SizeRanges& ranges, const std::vector<int64_t>& symbols);
// As parse_size_ranges() reads it.
std::string text_of(const SizeRanges& ranges);

}  // namespace clients
