// Elementary functions of float32, as the CUDA math library computes them.
#pragma once

#include "worker/codegen/cuda/support/base.cuh"

#define LF_DEVICE1(name) \
  LF_INLINE float lf_##name##_f32(float x) { return __builtin_##name##f(x); }
LF_DEVICE1(exp)
LF_DEVICE1(exp2)
LF_DEVICE1(expm1)
LF_DEVICE1(log)
LF_DEVICE1(log2)
LF_DEVICE1(log10)
LF_DEVICE1(log1p)
LF_DEVICE1(sin)
LF_DEVICE1(cos)
LF_DEVICE1(tan)
LF_DEVICE1(sinh)
LF_DEVICE1(cosh)
LF_DEVICE1(tanh)
LF_DEVICE1(erf)
LF_INLINE float lf_sum_float(float a, float b) { return a + b; }
LF_INLINE double lf_sum_double(double a, double b) { return a + b; }
LF_INLINE float lf_sigmoid_f32(float x) { return 1.0f / (1.0f + lf_exp_f32(-x)); }
