// Synthetic inputs for a graph: what candidates are verified and measured on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/runtime/tensor/tensor.h"

namespace common {

// What the user's floats look like; weights and states are always of the first kind.
enum class InputPattern : uint8_t {
  kNormal,    // bounded, roughly normal, deviation 1
  kZeros,     // exact zeros; integers are the least their use allows
  kSigns,     // +1 and -1
  kLarge,     // deviation 64; integers are often the greatest their use allows
  kNegative,  // below 0
  kPositive,  // above 0: the domain of logarithms and roots
  kMixed,     // both signs, magnitudes from 1e-6 to 10, and zeros
};

// A value for every size symbol, within its range and small enough for tests: seed 0 gives a size
// near 24, seed 1 the least (but 1 where 0 is allowed), others a size of at most 64 or the least.
std::vector<int64_t> choose_sizes(const Graph& graph, uint64_t seed);

// One tensor per input of a verified graph; the same arguments give the same bytes everywhere.
// Integers that become positions of a gather or scatter stay inside every axis they index, divisors
// are positive and shifts small; integers that are only converted to floats or tested are 0 or 1,
// mostly 1; an order of a contraction's rows has each once; the others lie in 0..7. Weights of two
// or more axes are scaled by 1 / sqrt(fan-in); those of at most one axis (gains, biases, variances)
// lie around 1. Other floats are as float_uses() says: not negative where the graph takes their
// root, whole numbers from 1 on where they count, scaled as weights where they are trained.
// kInvalidInput when a tensor's sizes are not valid.
Result<std::vector<HostTensor>> synthetic_inputs(const Graph& graph,
                                                 std::span<const int64_t> symbols, uint64_t seed,
                                                 InputPattern pattern);

// Weights that several calls share: each is made of this seed when it is first asked for, and kept
// while its sizes stay.
struct SharedWeights {
  uint64_t seed = 0;
  std::vector<HostTensor> tensors = {};  // by input
  size_t band = 0;                       // around each, see HostTensor::banded()
};
// The same with these weights, in whose place the call's seed makes none.
Result<std::vector<HostTensor>> synthetic_inputs(const Graph& graph,
                                                 std::span<const int64_t> symbols, uint64_t seed,
                                                 InputPattern pattern, SharedWeights& weights);

// The values that an integer input may take.
struct IntegerUse {
  int64_t least = 0;
  int64_t greatest = 7;
  bool constrained = false;  // by a use; else the defaults
  bool flag = false;         // converted to float or bool, or compared
  friend bool operator==(const IntegerUse&, const IntegerUse&) = default;
};
// For every input, what its uses allow at these sizes; inputs that are not integers keep defaults.
std::vector<IntegerUse> integer_uses(const Graph& graph, std::span<const int64_t> symbols);

// What a graph expects of a float input.
struct FloatUse {
  // Its root or logarithm is taken after something was added, as of the second moments that Adam
  // keeps, or its root alone and it is a state.
  bool not_negative = false;
  bool counts = false;  // t in 1 - beta^t: steps that an optimiser counts
  // It is more than squares of other inputs: a mean of squares of which the mean's square is taken.
  bool exceeds = false;
  bool trained = false;  // an output is the input and a change times a rate
  friend bool operator==(const FloatUse&, const FloatUse&) = default;
};
// One per input; of inputs that are not floats the default.
std::vector<FloatUse> float_uses(const Graph& graph);

}  // namespace common
