// Reductions over teams of threads of a block.
//
// lf_swap and lf_shift give a thread what the thread `o` across, or `o` before it, in the warp
// holds. A team's members sit at a distance of `side` threads; without a side a team of up to a
// warp exchanges registers alone. Every member receives the result, and all add in one order.
#pragma once

#include "worker/codegen/cuda/support/base.cuh"

#define LF_EXCHANGE(name, shuffle)                                                  \
  LF_INLINE int32_t name(int32_t x, int o) { return shuffle(0xffffffffu, x, o); }   \
  LF_INLINE float name(float x, int o) { return shuffle(0xffffffffu, x, o); }       \
  LF_INLINE double name(double x, int o) { return shuffle(0xffffffffu, x, o); }     \
  LF_INLINE int64_t name(int64_t x, int o) {                                        \
    return (int64_t)shuffle(0xffffffffu, (long long)x, o);                          \
  }                                                                                 \
  LF_INLINE int16_t name(int16_t x, int o) { return (int16_t)name((int32_t)x, o); } \
  LF_INLINE int8_t name(int8_t x, int o) { return (int8_t)name((int32_t)x, o); }    \
  LF_INLINE uint8_t name(uint8_t x, int o) { return (uint8_t)name((int32_t)x, o); }

// What a reduction combines two values by.
struct LfSum {
  template <class V>
  static LF_METHOD V of(V a, V b) {
    return a + b;
  }
};
struct LfProd {
  template <class V>
  static LF_METHOD V of(V a, V b) {
    return a * b;
  }
};
struct LfOr {
  template <class V>
  static LF_METHOD V of(V a, V b) {
    return (V)(a | b);
  }
};
struct LfAnd {
  template <class V>
  static LF_METHOD V of(V a, V b) {
    return (V)(a & b);
  }
};
struct LfMax {
  template <class V>
  static LF_METHOD V of(V a, V b) {
    return a > b ? a : b;
  }
};
struct LfMin {
  template <class V>
  static LF_METHOD V of(V a, V b) {
    return a < b ? a : b;
  }
};
LF_EXCHANGE(lf_swap, __shfl_xor_sync)
LF_EXCHANGE(lf_shift, __shfl_up_sync)

// The reduction of x over a team of kSize threads.
template <class Op, int kSize, int kSide, class V>
static __device__ V lf_team(V x) {
  if (kSide == 1) {
#pragma unroll
    for (int o = (kSize < 32 ? kSize : 32) / 2; o > 0; o /= 2) x = Op::of(x, lf_swap(x, o));
    if (kSize <= 32) return x;
    __shared__ V parts[32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
#pragma unroll
    for (int w = 1; w < kSize / 32; ++w) x = Op::of(x, parts[w]);
    return x;
  }
  __shared__ V columns[kSide == 1 ? 1 : kSize * kSide];
  __syncthreads();
  columns[threadIdx.x] = x;
  __syncthreads();
  x = columns[threadIdx.x % kSide];
  for (int m = 1; m < kSize; ++m) x = Op::of(x, columns[m * kSide + threadIdx.x % kSide]);
  return x;
}

// The same of several values, which share the barriers; no side.
template <class Op, int kSize, class V, int kCount>
static __device__ void lf_team_all(V (&x)[kCount]) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
#pragma unroll
    for (int o = (kSize < 32 ? kSize : 32) / 2; o > 0; o /= 2)
      x[k] = Op::of(x[k], lf_swap(x[k], o));
  }
  if (kSize <= 32) return;
  __shared__ V parts[kSize <= 32 ? 1 : kSize / 32][kCount];
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) parts[threadIdx.x / 32][k] = x[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    x[k] = parts[0][k];
#pragma unroll
    for (int w = 1; w < kSize / 32; ++w) x[k] = Op::of(x[k], parts[w][k]);
  }
}

// The extremum and the first of its positions.
template <class V>
struct LfPlace {
  V value;
  int64_t position;
};
template <class Op, class V>
LF_INLINE LfPlace<V> lf_better(LfPlace<V> a, LfPlace<V> b) {
  bool first = a.value == b.value ? a.position <= b.position : Op::of(a.value, b.value) == a.value;
  return first ? a : b;
}
template <class Op, int kSize, int kSide, class V>
static __device__ LfPlace<V> lf_team_place(LfPlace<V> x) {
  if (kSide == 1) {
#pragma unroll
    for (int o = (kSize < 32 ? kSize : 32) / 2; o > 0; o /= 2) {
      x = lf_better<Op>(x, LfPlace<V>{lf_swap(x.value, o), lf_swap(x.position, o)});
    }
    if (kSize <= 32) return x;
  }
  const int kParts = kSide == 1 ? 32 : kSize * kSide;
  __shared__ V values[kParts];
  __shared__ int64_t positions[kParts];
  __syncthreads();
  if (kSide != 1 || threadIdx.x % 32 == 0) {
    values[kSide == 1 ? threadIdx.x / 32 : threadIdx.x] = x.value;
    positions[kSide == 1 ? threadIdx.x / 32 : threadIdx.x] = x.position;
  }
  __syncthreads();
  const int first = kSide == 1 ? 0 : threadIdx.x % kSide;
  const int count = kSide == 1 ? kSize / 32 : kSize;
  x = LfPlace<V>{values[first], positions[first]};
  for (int m = 1; m < count; ++m) {
    x = lf_better<Op>(x, LfPlace<V>{values[first + m * kSide], positions[first + m * kSide]});
  }
  return x;
}

// The end of the run of equal numbers at `first` of `numbers`, in shared memory. For whole blocks.
template <int kCount>
LF_INLINE int lf_run_end(const int* numbers, int first) {
  const int number = numbers[first];
  for (int base = first / 32 * 32; base < kCount; base += 32) {
    const int i = base + (int)threadIdx.x % 32;
    const bool ends = i > first && i < kCount && numbers[i] != number;
    const unsigned all = __ballot_sync(0xffffffffu, ends);
    if (all != 0) return base + __ffs((int)all) - 1;
  }
  return kCount;
}
