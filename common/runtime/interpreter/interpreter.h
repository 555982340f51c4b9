// The reference interpreter: what a graph means, computed plainly; the judge of every candidate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/runtime/tensor/tensor.h"

namespace common {

enum class Precision : uint8_t {
  kModel,  // every node's result is rounded to its dtype
  kPlain,  // the same, but sums of float32 accumulate in float32: a plain lowering's error
  kWide,   // floats are carried as float64 and never rounded: the oracle
};

struct InterpretOptions {
  Precision precision = Precision::kModel;
  // With kPlain, another draw of rounding: results that machines round in ways of their own (sums,
  // functions, quotients) are moved by a unit in the last place or stay, as a hash of this number,
  // the node and the position says; sums of products take one product after the other in one
  // accumulator, instead of sums of parts. 0: neither.
  uint64_t rounding = 0;
  // A node whose result would be larger is refused (kInvalidInput).
  int64_t max_tensor_bytes = int64_t{16} << 30;
};

// Runs a verified graph on inputs of the declared dtypes, whose sizes bind its symbols. Gives one
// tensor per graph output, in order, with memory of its own; with kWide every float output is
// float64. Elementwise operations are computed in at least double precision and rounded once,
// sums and products accumulate in double but for kPlain (integers wrap in their dtype). A sum of
// float products rounds the sum only. Edge cases follow PyTorch on x86: float to integer out of
// range gives the least integer, sign(NaN) is 0, shifts by the width or more give 0 or the sign.
// Integer division and remainder by zero, which PyTorch refuses, give 0. kInvalidInput when inputs
// do not fit the graph or a view reads outside its operand. Single-threaded; takes memory for the
// live tensors only.
Result<std::vector<HostTensor>> interpret(const Graph& graph, std::span<const HostTensor> inputs,
                                          const InterpretOptions& options);

}  // namespace common
