// Rematerialisation: repeats calls right before late uses of what they write, so that long-lived
// values need no memory in between.
//
//   a = f(x)  b = g(a)  ...peak...  d = h(b, a)
//   a = f(x)  b = g(a)  ...peak...  a' = f(x)  d = h(b, a')
//
// While more is live than wanted, the greedy choice at the call with the most is the value whose
// repetition takes the least time for the bytes that it frees there (as XLA's rematerialisation
// pass does; Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, is the idea).
// Kernels are functions of their inputs, random ones of a seed and an offset, so that a repeated
// call writes the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/plan/plan.h"

namespace coordinator {

// What counts when one value is chosen among those that are live at the peak.
enum class RecomputeOrder : uint8_t {
  kTimePerByte,
  kTime,  // the quickest first: more calls are repeated, each of them small
};

// Lowers what is live at once to `bytes`, or as far as it goes, which the plan's liveness tells.
// `call_ns`: the time of each of the plan's calls, to which those that are repeated are added.
// Values that calls at load write, and states that are overwritten before the late use, are not
// computed again. The plan has been verified.
void recompute_until(size_t bytes, RecomputeOrder order, const std::vector<int64_t>& sizes,
                     common::Plan* plan, std::vector<double>* call_ns);

}  // namespace coordinator
