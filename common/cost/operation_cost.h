// What one step of an operation takes of a processor, whatever loop it is in.
#pragma once

#include <cstdint>

#include "common/cost/loop_work.h"
#include "common/ir/hlir/graph.h"

namespace common {

enum class Hardness : uint8_t { kSimple, kDivision, kFunction };

// Of functions the weight is in exponentials in float32. The weights are ratios of times of single
// kernels, a vector of 16 elements at a time, on an AVX-512 server core: 2.7 ns for exp and exp2,
// 3.4 for sigmoid, 13 to 21 for sin; erf and tanh on one with AVX2, 8 elements: 8.0 and 6.8 ns
// beside 9.9 for exp.
struct OperationCost {
  Hardness hardness = Hardness::kSimple;
  double weight = 1;
};
OperationCost operation_cost(const Node& node);

// The same as counts of a loop's step. A value of eight bytes is two; hard operations in float64
// are calls of a library.
StepWork operation_work(const Node& node);

// `node` is a kReduce of the body: one more element of a row, and what joins the lanes' results at
// the end of one pass over a row of `length` elements, in sums of lanes.
StepWork reduction_work(const Graph& body, const Node& node);
StepWork row_end_work(const Graph& body, const Node& node, double length);
// An element of rows that are reduced side by side, whose results so far may be in memory.
StepWork lane_reduction_work(const Node& node, bool in_memory);

}  // namespace common
