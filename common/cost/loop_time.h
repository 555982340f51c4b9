// How long a processor takes for loops, from what their steps do.
//
// The lowering of a nest counts the nest's loops, and the walk of a template's body those of its
// prologue and epilogue. Both are priced here.
#pragma once

#include <span>

#include "common/cost/loop_work.h"
#include "common/cost/vector_terms.h"

namespace common {

// Compilers fully unroll loops of at most this many iterations.
inline constexpr double kWrittenOut = 4;

// Nanoseconds of all runs of the loop.
double loop_ns(const LoopWork& work, const VectorTerms& terms);
double loops_ns(std::span<const LoopWork> loops, const VectorTerms& terms);

}  // namespace common
