// Runs LLIR programs with the reference interpreter, one kernel body at a time, so that what a
// search decodes can be checked without generating code.
#pragma once

#include <vector>

#include "common/ir/llir/llir.h"
#include "common/runtime/interpreter/interpreter.h"
#include "common/runtime/tensor/tensor.h"

namespace common::testing {

// One tensor per program output. With kWide, floats stay float64 between kernels, too: programs
// that are equal up to rounding then agree in all but the last digits, whatever their dtypes.
Result<std::vector<HostTensor>> interpret_program(const Program& program,
                                                  const std::vector<HostTensor>& inputs,
                                                  const std::vector<int64_t>& symbols,
                                                  Precision precision = Precision::kModel);

// Bounded values of the graph's inputs at the given sizes; integers are in [0, 3].
std::vector<HostTensor> sample_inputs(const Graph& graph, const std::vector<int64_t>& symbols,
                                      uint64_t seed);

// Largest |a - b| / (1 + |b|) over all tensors; infinite where types differ or NaN meets a number.
double largest_difference(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b);

}  // namespace common::testing
