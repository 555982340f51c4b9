// How a reduction accumulates: its accumulator's type, start, step and end, as C text.
#pragma once

#include <string>

#include "common/ir/hlir/graph.h"

namespace common {

struct Accumulation {
  std::string type;       // of the accumulator in the innermost loop
  std::string outer;      // of the accumulator around it; empty when they are the same
  std::string start;      // the neutral element
  std::string clause;     // of "omp simd reduction(clause:x)"
  ReduceOp op{};          // kMax for kArgmax, kMin for kArgmin
  bool position = false;  // kArgmax or kArgmin
  DType dtype{};

  // "total = total op x;"
  std::string step(const std::string& total, const std::string& x) const;
  // The same where steps may be taken in any order and the lanes of a vector at once.
  std::string loose_step(const std::string& total, const std::string& x) const;
  // What of an element enters the accumulator: float extrema compare integers of the same order,
  // in which -0 lies below 0; where a position is looked for, the two are equal.
  std::string enter(const std::string& x) const;
  // The reduction's value from its accumulator.
  std::string leave(const std::string& total) const;
};

// For kArgmax and kArgmin: of the extremum whose position they give.
Accumulation accumulation_of(ReduceOp op, DType dtype);

}  // namespace common
