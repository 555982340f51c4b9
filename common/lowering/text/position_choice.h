// Choices between two values by where an element lies, as concatenations make them.
#pragma once

#include <cstdint>
#include <optional>

#include "common/ir/hlir/graph.h"
#include "common/lowering/text/indices.h"

namespace common {

// Holds where loop index `index` is less than `bound`.
struct PositionTest {
  int index = 0;
  int64_t bound = 0;
};

// What the condition says at these indices; none where it is not a comparison of one loop's index
// with a constant.
std::optional<PositionTest> position_test(const Graph& graph, NodeId condition,
                                          const Indices& indices);

// index + by.
struct ShiftedIndex {
  int index = 0;
  int64_t by = 0;
};
std::optional<ShiftedIndex> shifted_index(const Expr& e);

// Whether computing the value, an element-wise one of few steps, asks where the element lies: by a
// view that is not valid everywhere, or another choice.
bool asks_position(const Graph& graph, NodeId value);

}  // namespace common
