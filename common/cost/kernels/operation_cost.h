// What one step of an element-wise operation takes of a processor, whatever loop it is in.
#pragma once

#include <cstdint>

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

}  // namespace common
