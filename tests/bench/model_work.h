// The least that a machine must do for one call of a model: what measured times are held against.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace bench {

struct ModelWork {
  double operations = 0;  // additions and multiplications of sums
  double bytes = 0;       // of inputs, weights and states, read once, and of outputs, written once
};

// Of sums over products two operations a product are counted, of other sums one an element, and
// nothing else. A sum over K products with numbers that no input decides (a Fourier transform's)
// counts 2.5 log2(K), as a fast transform of real numbers does. Of an input that is only gathered
// from, the gathered elements count. `sizes`: of the graph's symbols.
ModelWork work_of(const common::Graph& graph, const std::vector<int64_t>& sizes);

}  // namespace bench
