#include "worker/codegen/cuda/preamble.h"

#include <string_view>

#include "common/base/cat.h"
#include "worker/codegen/text/c_preamble.h"

namespace worker {
namespace {

constexpr std::string_view kTypes = R"C(typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
#ifndef INT64_MAX
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define INT64_MAX 9223372036854775807L
#define INT64_MIN (-INT64_MAX - 1)
#endif
#ifndef LF_EMULATED
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000LL)
#define __builtin_fabsf fabsf
#define __builtin_sqrtf sqrtf
#define __builtin_floorf floorf
#define __builtin_ceilf ceilf
#define __builtin_truncf truncf
#define __builtin_rintf rintf
#define __builtin_fabs fabs
#define __builtin_sqrt sqrt
#define __builtin_floor floor
#define __builtin_ceil ceil
#define __builtin_trunc trunc
#define __builtin_rint rint
#define __builtin_copysign copysign
#define __builtin_asinf asinf
#define __builtin_acosf acosf
#define __builtin_atanf atanf
#define __builtin_asinhf asinhf
#define __builtin_acoshf acoshf
#define __builtin_atanhf atanhf
#define __builtin_erfcf erfcf
#define __builtin_lgammaf lgammaf
#define __builtin_fmodf fmodf
#define __builtin_powf powf
#define __builtin_atan2f atan2f
#define __builtin_hypotf hypotf
#define __builtin_nextafterf nextafterf
#define __builtin_expf expf
#define __builtin_exp2f exp2f
#define __builtin_expm1f expm1f
#define __builtin_logf logf
#define __builtin_log2f log2f
#define __builtin_log10f log10f
#define __builtin_log1pf log1pf
#define __builtin_sinf sinf
#define __builtin_cosf cosf
#define __builtin_tanf tanf
#define __builtin_sinhf sinhf
#define __builtin_coshf coshf
#define __builtin_tanhf tanhf
#define __builtin_erff erff
#define __builtin_exp exp
#define __builtin_exp2 exp2
#define __builtin_expm1 expm1
#define __builtin_log log
#define __builtin_log2 log2
#define __builtin_log10 log10
#define __builtin_log1p log1p
#define __builtin_sin sin
#define __builtin_cos cos
#define __builtin_tan tan
#define __builtin_asin asin
#define __builtin_acos acos
#define __builtin_atan atan
#define __builtin_sinh sinh
#define __builtin_cosh cosh
#define __builtin_tanh tanh
#define __builtin_asinh asinh
#define __builtin_acosh acosh
#define __builtin_atanh atanh
#define __builtin_erf erf
#define __builtin_erfc erfc
#define __builtin_lgamma lgamma
#define __builtin_fmod fmod
#define __builtin_pow pow
#define __builtin_atan2 atan2
#define __builtin_hypot hypot
#define __builtin_nextafter nextafter
#endif
#define _Bool bool
#define LF_INLINE static __device__ __forceinline__
#define LF_FUNCTION static __device__
#define LF_METHOD __device__ __forceinline__
#define LF_VECTOR_LOOP(width, unroll)
LF_INLINE float lf_f32_bits(uint32_t b) { return __uint_as_float(b); }
LF_INLINE uint32_t lf_bits_f32(float f) { return __float_as_uint(f); }
LF_INLINE double lf_f64_bits(uint64_t b) { return __longlong_as_double((long long)b); }
LF_INLINE uint64_t lf_bits_f64(double f) { return (uint64_t)__double_as_longlong(f); }
#if !defined(LF_EMULATED) && __CUDA_ARCH__ >= 800
#define LF_ROUNDS_BF16
LF_INLINE uint16_t lf_bf16_from_f32(float f) {
  uint32_t r;  // of a pair: the conversion of one alone is slower
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(0.0f), "f"(f));
  return (uint16_t)r;
}
#endif
)C";

constexpr std::string_view kFloatMath = R"C(
#define LF_DEVICE1(name) \
  LF_INLINE float lf_##name##_f32(float x) { return __builtin_##name##f(x); }
LF_DEVICE1(exp) LF_DEVICE1(exp2) LF_DEVICE1(expm1) LF_DEVICE1(log) LF_DEVICE1(log2)
LF_DEVICE1(log10) LF_DEVICE1(log1p) LF_DEVICE1(sin) LF_DEVICE1(cos) LF_DEVICE1(tan)
LF_DEVICE1(sinh) LF_DEVICE1(cosh) LF_DEVICE1(tanh) LF_DEVICE1(erf)
LF_INLINE float lf_sum_float(float a, float b) { return a + b; }
LF_INLINE double lf_sum_double(double a, double b) { return a + b; }
LF_INLINE float lf_sigmoid_f32(float x) { return 1.0f / (1.0f + lf_exp_f32(-x)); }
)C";

// lf_swap and lf_shift give a thread what the thread `o` across, or `o` before it, in the warp
// holds. A team's members sit at a distance of `side` threads; without a side a team of up to a
// warp exchanges registers alone. Every member receives the result, and all add in one order.
constexpr std::string_view kTeams = R"C(
#ifdef LF_EMULATED
LF_INLINE void lf_pause() {}
#else
LF_INLINE void lf_pause() { __nanosleep(100); }
#endif
#if !defined(LF_EMULATED) && __CUDA_ARCH__ >= 900
// All that earlier kernels wrote is there from here on; the next one may begin as far as this.
LF_INLINE void lf_wait_for_earlier() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
// Asks the second cache for the lines of `kBytes` from `first` on, of `end` bytes at `memory`.
template <int kBytes, int kThreads>
LF_INLINE void lf_prefetch(const void* memory, int64_t first, int64_t end) {
#pragma unroll
  for (int k = 0; k * kThreads * 128 < kBytes; ++k) {
    const int at = (k * kThreads + threadIdx.x) * 128;
    if (at < kBytes && first + at < end) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"((const char*)memory + first + at));
    }
  }
}
#endif
#define LF_EXCHANGE(name, shuffle)                                                             \
  LF_INLINE int32_t name(int32_t x, int o) { return shuffle(0xffffffffu, x, o); }              \
  LF_INLINE float name(float x, int o) { return shuffle(0xffffffffu, x, o); }                  \
  LF_INLINE double name(double x, int o) { return shuffle(0xffffffffu, x, o); }                \
  LF_INLINE int64_t name(int64_t x, int o) {                                                   \
    return (int64_t)shuffle(0xffffffffu, (long long)x, o);                                     \
  }                                                                                            \
  LF_INLINE int16_t name(int16_t x, int o) { return (int16_t)name((int32_t)x, o); }            \
  LF_INLINE int8_t name(int8_t x, int o) { return (int8_t)name((int32_t)x, o); }               \
  LF_INLINE uint8_t name(uint8_t x, int o) { return (uint8_t)name((int32_t)x, o); }
struct LfSum { template <class V> static LF_METHOD V of(V a, V b) { return a + b; } };
struct LfProd { template <class V> static LF_METHOD V of(V a, V b) { return a * b; } };
struct LfOr { template <class V> static LF_METHOD V of(V a, V b) { return (V)(a | b); } };
struct LfAnd { template <class V> static LF_METHOD V of(V a, V b) { return (V)(a & b); } };
struct LfMax { template <class V> static LF_METHOD V of(V a, V b) { return a > b ? a : b; } };
struct LfMin { template <class V> static LF_METHOD V of(V a, V b) { return a < b ? a : b; } };
LF_EXCHANGE(lf_swap, __shfl_xor_sync)
LF_EXCHANGE(lf_shift, __shfl_up_sync)
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
    for (int o = (kSize < 32 ? kSize : 32) / 2; o > 0; o /= 2) x[k] = Op::of(x[k], lf_swap(x[k], o));
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
// Blocks hand results over through relaxed atomics of one thread each. By the PTX memory model that
// thread's fence covers the block's writes only where the barrier comes before it and the atomic
// after; the reader's order is the same backwards.
// Of `count` blocks that share counter `counter`, whether this one, whose threads all call, is the
// last to: then it sees what the others wrote before.
static __device__ bool lf_is_last(char* scratch, int64_t counter, int64_t count) {
  __shared__ uint32_t before;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t* const arrived = (uint32_t*)scratch - 1 - counter;
    __threadfence();
    before = atomicAdd(arrived, 1u);
    __threadfence();
    if (before == count - 1) *arrived = 0;
  }
  __syncthreads();
  return before == count - 1;
}
// Numbers blocks in the order in which they begin, of `count` that call it, with all their threads.
// A block may wait for blocks with lower numbers: they are done, or run and do not wait for it.
static __device__ int64_t lf_ticket(char* scratch, int64_t counter, int64_t count) {
  __shared__ uint32_t ticket;
  if (threadIdx.x == 0) {
    uint32_t* const next = (uint32_t*)scratch - 1 - counter;
    ticket = atomicAdd(next, 1u);
    if (ticket == count - 1) *next = 0;
  }
  __syncthreads();
  return ticket;
}
// What the block wrote is there for those who wait until `count` blocks have arrived.
static __device__ void lf_arrive(char* scratch, int64_t counter) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd((uint32_t*)scratch - 1 - counter, 1u);
  }
}
static __device__ void lf_await(char* scratch, int64_t counter, int64_t count) {
  if (threadIdx.x == 0) {
    while (atomicAdd((uint32_t*)scratch - 1 - counter, 0u) < count) lf_pause();
    __threadfence();
  }
  __syncthreads();
}
// The extremum and the first of its positions.
template <class V> struct LfPlace { V value; int64_t position; };
template <class Op, class V>
LF_INLINE LfPlace<V> lf_better(LfPlace<V> a, LfPlace<V> b) {
  bool first = a.value == b.value ? a.position <= b.position : Op::of(a.value, b.value) == a.value;
  return first ? a : b;
}
template <class Op, int kSize, int kSide, class V>
static __device__ int64_t lf_team_place(V value, int64_t position) {
  LfPlace<V> x = {value, position};
  if (kSide == 1) {
#pragma unroll
    for (int o = (kSize < 32 ? kSize : 32) / 2; o > 0; o /= 2) {
      x = lf_better<Op>(x, LfPlace<V>{lf_swap(x.value, o), lf_swap(x.position, o)});
    }
    if (kSize <= 32) return x.position;
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
  return x.position;
}
)C";

// Bitonic sort: pairs are ordered by key, then by position; all threads of the block call it.
constexpr std::string_view kLines = R"C(
typedef struct { uint64_t key; int64_t position; } lf_pair;
template <int kThreads>
LF_FUNCTION void lf_sort_block(lf_pair* pairs, int64_t count) {
  for (int64_t run = 2; run <= count; run *= 2) {
    for (int64_t step = run / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int64_t i = threadIdx.x; i < count / 2; i += kThreads) {
        const int64_t a = i / step * step * 2 + i % step;
        const lf_pair x = pairs[a], y = pairs[a + step];
        const bool less = x.key < y.key || (x.key == y.key && x.position < y.position);
        if (less != ((a & run) == 0)) {
          pairs[a] = y;
          pairs[a + step] = x;
        }
      }
    }
  }
  __syncthreads();
}
)C";

// Up to 16 bytes of neighbours in one access.
constexpr std::string_view kVectors = R"C(
template <class T, int kCount>
struct __align__(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) LfVec {
  T e[kCount];
  LF_METHOD T operator[](int64_t k) const { return e[k]; }
};
template <class T, int kCount>
LF_INLINE LfVec<T, kCount> lf_load(const T* from) {
  return *(const LfVec<T, kCount>*)from;
}
template <class T, int kCount>
LF_INLINE void lf_store(T* to, const LfVec<T, kCount>& x) {
#ifndef LF_EMULATED
  // The compiler may store short elements in pairs.
  if constexpr (sizeof(T) < 4 && sizeof(x) == 16) {
    const uint4 q = *(const uint4*)x.e;
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(q.x), "r"(q.y), "r"(q.z), "r"(q.w));
    return;
  }
#endif
  *(LfVec<T, kCount>*)to = x;
}
)C";

// exp(x - shift) for x up to shift, in fewer instructions than expf. Scores as low as a mask may be
// must not be multiplied before they are subtracted: the product would be infinite.
// Two probabilities become pairs of bfloat16: rounded down, and what that leaves. Of what is not 0
// neither is, and neither is negative: times infinity both are infinite.
constexpr std::string_view kProbabilities = R"C(
// NaN where either is, as lf_max_f32, in one instruction.
#if !defined(LF_EMULATED) && __CUDA_ARCH__ >= 800
LF_INLINE float lf_greater(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#else
LF_INLINE float lf_greater(float a, float b) { return lf_max_f32(a, b); }
#endif
LF_INLINE float lf_exp_less(float x, float shift) { return lf_exp2_f32((x - shift) * 1.44269504f); }
LF_INLINE void lf_two_bf16(float p, float q, uint32_t& high, uint32_t& low) {
  const float least_p = p == 0 ? 0 : 0x1p-100f, least_q = q == 0 ? 0 : 0x1p-100f;
  p += least_p;
  q += least_q;
  const uint32_t a = lf_bits_f32(p), b = lf_bits_f32(q);
  const float rest_p = p - lf_f32_bits(a & 0xffff0000u) + least_p;
  const float rest_q = q - lf_f32_bits(b & 0xffff0000u) + least_q;
  high = __byte_perm(a, b, 0x7632);
  low = __byte_perm(lf_bits_f32(rest_p) + 0x8000u, lf_bits_f32(rest_q) + 0x8000u, 0x7632);
}
)C";

// Pairs of halves in a word; kExponents has the exponent bits of both. Those of infinities and NaN
// are all set, so that one more overflows into the sign.
constexpr std::string_view kPairs = R"C(
template <uint32_t kExponents>
LF_INLINE uint32_t lf_not_finite(uint32_t pair) {
  return ((pair & kExponents) + (kExponents & ~(kExponents << 1))) & 0x80008000u;
}
template <uint32_t kExponents>
LF_INLINE uint32_t lf_finite_or_zero(uint32_t pair) {
  return pair & ~((lf_not_finite<kExponents>(pair) >> 15) * 0xffffu);
}
)C";

}  // namespace

const std::string& cuda_preamble() {
  static const std::string kText =
      common::cat(kTypes, c_number_preamble(), c_basic_math(), kFloatMath, c_library_math(), kTeams,
                  kLines, kVectors, kProbabilities, kPairs);
  return kText;
}

}  // namespace worker
