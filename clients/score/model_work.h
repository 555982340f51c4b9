// The least that a machine must do for one call of a model: what measured times are held against.
#pragma once

#include <cstdint>
#include <vector>

#include "clients/score/roofline.h"
#include "common/ir/hlir/graph.h"

namespace clients {

struct ModelWork {
  double operations = 0;  // additions and multiplications of sums
  // Of these, those of products of 16-bit floats, whatever type they are added in.
  double half_operations = 0;
  double bytes = 0;  // of inputs, weights and states, read once, and of outputs, written once
};

// Of sums over products two operations a product are counted, of other sums one an element, and
// nothing else. A sum over K products with numbers that no input decides (a Fourier transform's)
// counts 2.5 log2(K), as a fast transform of real numbers does. Of an input that is only gathered
// from, the gathered elements count. `sizes`: of the graph's symbols.
ModelWork work_of(const common::Graph& graph, const std::vector<int64_t>& sizes);

// The roofline's bound: the longer of the operations' time, each kind at its own peak, and the
// bytes' time at the bandwidth for that many bytes; 0 where the roofline knows neither.
double least_ns(const ModelWork& work, const Roofline& roofline);

}  // namespace clients
