// How a processor finds the first elements of a sorted line.
#pragma once

#include <cstdint>

#include "common/ir/expr/expr.h"
#include "common/ir/hlir/dtype.h"

namespace common {

enum class SelectionMethod {
  kWhole,  // the line is sorted
  kFew,    // each element that is before the last of the first ones is inserted among them
  kMany,   // such elements are collected, and sorted whenever there is no room for more
};

struct SortSelection {
  SelectionMethod method{};
  int64_t room = 0;  // pairs of a key and a position that are kept, unless the line is sorted
};

// Low bytes of a sort's keys, which are 64 bits wide, that may differ: 4 where keys are made of
// float32 or a narrower float, else 8.
int sort_key_bytes(DType dtype);

// See SortAttr: the first `count` of a line of `length`.
SortSelection sort_selection(const Expr& length, int64_t count);

}  // namespace common
