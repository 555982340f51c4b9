// What shared support code builds on, in the language that compiles it: LF_INLINE and LF_FUNCTION
// (what comes before functions, small and large), fixed-width integer types, the bits of floats,
// and mathematical functions by GCC's __builtin_ names. This file alone is not embedded: generators
// print the base of their own language first.
#pragma once

#ifdef __CUDACC__
#include "worker/codegen/cuda/support/base.cuh"
#else
#include "worker/codegen/c/support/base.h"
#endif
