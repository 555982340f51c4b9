// Random graphs to compare two ways of computing them with: every operation, every dtype, symbolic
// sizes, and inputs whose results are well conditioned (tame_builder.h).
#pragma once

#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/runtime/tensor/tensor.h"

namespace fuzz {

// What an input's elements are.
enum class Fill : uint8_t {
  kSmall,    // integers from -7 to 7; floats are multiples of 1/8 up to 4
  kFull,     // any integer; any float of its dtype up to 4
  kSpecial,  // the same, with NaN, infinities and -0 among the floats
};

struct RandomGraph {
  common::Graph graph;
  std::vector<Fill> fills;                     // one per input
  std::vector<std::vector<int64_t>> bindings;  // values of the symbols to run it with
  // One per output: how far rounding may set two correct evaluations apart, at most.
  std::vector<double> errors;
};

// A verified graph; the same seed gives the same graph everywhere.
RandomGraph random_graph(uint64_t seed);
std::vector<common::HostTensor> random_inputs(const RandomGraph& random, size_t binding,
                                              uint64_t seed);

}  // namespace fuzz
