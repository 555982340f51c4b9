// Numbers for sizes that are symbolic: what to measure, count and estimate at.
#pragma once

#include <vector>

#include "common/ir/expr/bounds.h"
#include "common/ir/hlir/dtype.h"

namespace common {

// Near the middle of what people run, inside every range: sizes[k] is for symbol s<k>.
std::vector<int64_t> representative_sizes(const std::vector<SymbolRange>& symbols);

// How many elements a tensor has. A float: products of large sizes do not wrap around.
double count_elements(const Shape& shape, const std::vector<int64_t>& sizes);
double count_bytes(DType dtype, const Shape& shape, const std::vector<int64_t>& sizes);

}  // namespace common
