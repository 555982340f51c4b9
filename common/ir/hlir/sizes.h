// Numbers for sizes that are symbolic: what to measure, count and estimate at.
#pragma once

#include <string>
#include <vector>

#include "common/ir/expr/bounds.h"
#include "common/ir/hlir/dtype.h"

namespace common {

// Near the middle of what people run, inside every range, and of a range that lies above that the
// middle of its lower part: sizes[k] is for symbol s<k>.
std::vector<int64_t> representative_sizes(const std::vector<SymbolRange>& symbols);

// The size nearest to `size` within the range, at least 1.
int64_t size_within(const SymbolRange& range, int64_t size);

// Values of the symbols, and how much the time at these counts.
struct WeightedSizes {
  std::vector<int64_t> sizes;
  double weight = 1;
  friend bool operator==(const WeightedSizes&, const WeightedSizes&) = default;
};

// Symbols, the first ones, that get sizes of their own beside those that all share: bounds the
// work.
inline constexpr size_t kVaryingMax = 8;
// Symbols count as at most this when a schedule's time over their range is asked for.
inline constexpr int64_t kLargeSize = 2048;

// The sizes over which a schedule is to be good: the representative ones first (0.4), the least
// (0.4), and for each symbol its greatest, at most `large`, with the others representative (0.2
// together). Where all ranges lie above representative sizes, the least counts 0.2 and the greatest
// 0.4. Weights sum to 1; equal sizes are one. Without symbols one empty list.
std::vector<WeightedSizes> priced_sizes(const std::vector<SymbolRange>& symbols,
                                        int64_t large = kLargeSize);

// "s0=32 (0.40), s0=1 (0.40), s0=2048 (0.20)"; empty without symbols.
std::string text_of(const std::vector<WeightedSizes>& all);

// How many elements a tensor has. A float: products of large sizes do not wrap around.
double count_elements(const Shape& shape, const std::vector<int64_t>& sizes);
double count_bytes(DType dtype, const Shape& shape, const std::vector<int64_t>& sizes);

}  // namespace common
