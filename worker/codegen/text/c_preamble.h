// C text that kernels of every target build on. It needs LF_INLINE and
// LF_FUNCTION (what comes before functions, small and large), the fixed-width integer types and
// lf_f32_bits, lf_bits_f32, lf_f64_bits and lf_bits_f64, and calls mathematical functions as
// GCC's __builtin_ forms.
#pragma once

#include <string_view>

namespace worker {

// Element conversions, integer arithmetic, comparisons that propagate NaN, ordered keys.
std::string_view c_number_preamble();
// abs, sign, square roots, roundings: what costs an instruction or two.
std::string_view c_basic_math();
// What the C library computes, and what is built on that: float64 throughout, and those functions
// of float32 that are rare.
std::string_view c_library_math();

}  // namespace worker
