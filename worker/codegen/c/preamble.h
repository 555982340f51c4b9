// The C text that every CPU kernel builds on: element conversions, integer helpers, math functions.
#pragma once

#include <string_view>

namespace worker {

// Types, casts, integer arithmetic, comparisons that propagate NaN.
std::string_view cpu_preamble_base();
// Elementary functions. The float versions are free of branches and calls, so that loops around
// them vectorise; they are within 4 ulp of the exact result. The double versions call libm.
std::string_view cpu_preamble_math();

}  // namespace worker
