// What makes a C++ compiler take CUDA's dialect: the qualifiers, vector types, indices, barriers,
// shuffles and atomics of kernels, and the table that lets the engine find them. Put before a
// kernel's text together with prelude_abi.h; nothing may be included here.
#pragma once

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL 1
#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define threadIdx (lf_emu::self().thread_index)
#define blockIdx (lf_emu::self().block_index)
#define blockDim (lf_emu::self().block_size)
#define gridDim (lf_emu::self().grid_size)
#define warpSize 32

// The project's preamble leaves these to the emulator.
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
#define INT32_MAX __INT32_MAX__
#define INT32_MIN (-INT32_MAX - 1)
#define INT64_MAX __INT64_MAX__
#define INT64_MIN (-INT64_MAX - 1)

#define LFEMU_DEVICE static inline __attribute__((unused))

namespace lf_emu {

LFEMU_DEVICE Thread& self() {
  const auto stack = reinterpret_cast<unsigned long>(__builtin_frame_address(0));
  return *reinterpret_cast<Thread*>((stack | (kStackBytes - 1)) + 1 - kThreadBytes);
}

LFEMU_DEVICE void* dynamic_shared() { return self().dynamic_shared; }

LFEMU_DEVICE unsigned lane_id() {
  const Thread& t = self();
  const unsigned linear =
      t.thread_index.x + t.block_size.x * (t.thread_index.y + t.block_size.y * t.thread_index.z);
  return linear % kWarpSize;
}

template <class T>
LFEMU_DEVICE const unsigned char* exchange(const T& value, unsigned mask, int site) {
  static_assert(sizeof(T) <= kExchangeBytes);
  Thread& t = self();
  return t.engine->exchange(&t, site, &value, sizeof(T), mask);
}

template <class T>
LFEMU_DEVICE T exchanged(const unsigned char* slots, unsigned lane) {
  T value;
  __builtin_memcpy(&value, slots + lane * kExchangeBytes, sizeof(T));
  return value;
}

template <class To, class From>
LFEMU_DEVICE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// Every module exports the address of something in its static shared memory.
static thread_local unsigned char g_shared_anchor;

template <class T>
struct IsPointer {
  static constexpr bool kValue = false;
};
template <class T>
struct IsPointer<T*> {
  static constexpr bool kValue = true;
};
template <class T>
struct Decayed {
  using Type = T;
};
template <class T>
struct Decayed<const T> {
  using Type = T;
};

template <unsigned... I>
struct Indices {};
template <unsigned N, unsigned... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <unsigned... I>
struct MakeIndices<0, I...> {
  using Type = Indices<I...>;
};

template <auto kKernel>
struct Entry;
template <class... A, void (*kKernel)(A...)>
struct Entry<kKernel> {
  static constexpr unsigned kCount = sizeof...(A);
  // One more than there are, so that a kernel may have none.
  static constexpr Parameter kParameters[kCount + 1] = {
      Parameter{sizeof(A), IsPointer<typename Decayed<A>::Type>::kValue}..., Parameter{0, false}};
  template <unsigned... I>
  static void call([[maybe_unused]] void** p, Indices<I...>) {
    kKernel(*static_cast<typename Decayed<A>::Type*>(p[I])...);
  }
  static void run(void** p) { call(p, typename MakeIndices<kCount>::Type()); }
};

}  // namespace lf_emu

// What GCC and Clang call where -fsanitize=alignment,bounds finds a fault.
extern "C" {
struct LfSourceLocation {
  const char* file;
  unsigned line, column;
};
[[noreturn]] LFEMU_DEVICE void lf_emu_stop(int code, const char* what, const LfSourceLocation* at) {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->fail(&t, code, what, at->file, at->line);
  __builtin_unreachable();
}
#define LFEMU_HANDLER extern "C" __attribute__((used, visibility("hidden"), noreturn))
LFEMU_HANDLER void __ubsan_handle_type_mismatch_v1_abort(LfSourceLocation* at, unsigned long) {
  lf_emu_stop(716, "misaligned address", at);
}
LFEMU_HANDLER void __ubsan_handle_out_of_bounds_abort(LfSourceLocation* at, unsigned long) {
  lf_emu_stop(700, "index out of the bounds of its array", at);
}
}

typedef struct __attribute__((aligned(2))) uchar2 {
  unsigned char x, y;
} uchar2;
typedef struct __attribute__((aligned(4))) uchar4 {
  unsigned char x, y, z, w;
} uchar4;
typedef struct __attribute__((aligned(4))) ushort2 {
  unsigned short x, y;
} ushort2;
typedef struct __attribute__((aligned(8))) ushort4 {
  unsigned short x, y, z, w;
} ushort4;
typedef struct __attribute__((aligned(8))) int2 {
  int x, y;
} int2;
typedef struct __attribute__((aligned(16))) int4 {
  int x, y, z, w;
} int4;
typedef struct __attribute__((aligned(8))) uint2 {
  unsigned x, y;
} uint2;
typedef struct uint3 {
  unsigned x, y, z;
} uint3;
typedef struct __attribute__((aligned(16))) uint4 {
  unsigned x, y, z, w;
} uint4;
typedef struct __attribute__((aligned(8))) float2 {
  float x, y;
} float2;
typedef struct float3 {
  float x, y, z;
} float3;
typedef struct __attribute__((aligned(16))) float4 {
  float x, y, z, w;
} float4;
typedef struct __attribute__((aligned(16))) double2 {
  double x, y;
} double2;
typedef struct __attribute__((aligned(16))) longlong2 {
  long long x, y;
} longlong2;
typedef struct __attribute__((aligned(16))) ulonglong2 {
  unsigned long long x, y;
} ulonglong2;

#define LFEMU_MAKE2(name, type) \
  LFEMU_DEVICE name make_##name(type x, type y) { return name{x, y}; }
#define LFEMU_MAKE4(name, type) \
  LFEMU_DEVICE name make_##name(type x, type y, type z, type w) { return name{x, y, z, w}; }
LFEMU_MAKE2(uchar2, unsigned char)
LFEMU_MAKE4(uchar4, unsigned char)
LFEMU_MAKE2(ushort2, unsigned short)
LFEMU_MAKE4(ushort4, unsigned short)
LFEMU_MAKE2(int2, int)
LFEMU_MAKE4(int4, int)
LFEMU_MAKE2(uint2, unsigned)
LFEMU_MAKE4(uint4, unsigned)
LFEMU_MAKE2(float2, float)
LFEMU_MAKE4(float4, float)
LFEMU_MAKE2(double2, double)
LFEMU_MAKE2(longlong2, long long)
LFEMU_MAKE2(ulonglong2, unsigned long long)

// The line of the call is the site, so that all threads of a collective are seen to be at the same.
#define LFEMU_SITE int lf_site = __builtin_LINE()

LFEMU_DEVICE void __syncthreads(LFEMU_SITE) {
  lf_emu::Thread& t = lf_emu::self();
  t.engine->barrier(&t, lf_site);
}
// Garbage when a block begins, as all static shared memory.
namespace lf_emu {
static thread_local int g_vote;
}
LFEMU_DEVICE int __syncthreads_or(int predicate, LFEMU_SITE) {
  __syncthreads(lf_site);
  lf_emu::g_vote = 0;
  __syncthreads(lf_site);
  if (predicate != 0) lf_emu::g_vote = 1;
  __syncthreads(lf_site);
  return lf_emu::g_vote;
}
LFEMU_DEVICE void __syncwarp(unsigned mask = 0xffffffffu, LFEMU_SITE) {
  lf_emu::exchange(0u, mask, lf_site);
}
LFEMU_DEVICE unsigned __activemask() { return 0xffffffffu; }

#ifdef LFEMU_ACCESSES
LFEMU_DEVICE void __threadfence() {}
#else
LFEMU_DEVICE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif
LFEMU_DEVICE void __threadfence_block() { __threadfence(); }

// A lane whose source lies outside its group of `width` lanes keeps its own value.
template <class T>
LFEMU_DEVICE T __shfl_sync(unsigned mask, T value, int source, int width = 32, LFEMU_SITE) {
  const unsigned char* slots = lf_emu::exchange(value, mask, lf_site);
  const unsigned first = lf_emu::lane_id() & ~(static_cast<unsigned>(width) - 1);
  return lf_emu::exchanged<T>(slots, first + (static_cast<unsigned>(source) & (width - 1)));
}
template <class T>
LFEMU_DEVICE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, LFEMU_SITE) {
  const unsigned char* slots = lf_emu::exchange(value, mask, lf_site);
  const unsigned lane = lf_emu::lane_id(),
                 end = (lane & ~(static_cast<unsigned>(width) - 1)) + width;
  const unsigned source = lane ^ static_cast<unsigned>(lanes);
  return lf_emu::exchanged<T>(slots, source < end ? source : lane);
}
template <class T>
LFEMU_DEVICE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                LFEMU_SITE) {
  const unsigned char* slots = lf_emu::exchange(value, mask, lf_site);
  const unsigned lane = lf_emu::lane_id(),
                 end = (lane & ~(static_cast<unsigned>(width) - 1)) + width;
  return lf_emu::exchanged<T>(slots, lane + delta < end ? lane + delta : lane);
}
template <class T>
LFEMU_DEVICE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, LFEMU_SITE) {
  const unsigned char* slots = lf_emu::exchange(value, mask, lf_site);
  const unsigned lane = lf_emu::lane_id(), in_group = lane & (static_cast<unsigned>(width) - 1);
  return lf_emu::exchanged<T>(slots, in_group >= delta ? lane - delta : lane);
}

namespace lf_emu {
// Lanes that have ended, or never were, vote for neither: they hand over all ones.
LFEMU_DEVICE unsigned ballot(bool predicate, unsigned mask, int site, bool for_absent) {
  const unsigned char* slots = exchange(predicate ? 1u : 0u, mask, site);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const auto vote = exchanged<unsigned>(slots, lane);
    if (vote == 1u || (vote == ~0u && for_absent)) votes |= 1u << lane;
  }
  return votes;
}
}  // namespace lf_emu
LFEMU_DEVICE unsigned __ballot_sync(unsigned mask, int predicate, LFEMU_SITE) {
  return lf_emu::ballot(predicate != 0, mask, lf_site, false);
}
LFEMU_DEVICE int __any_sync(unsigned mask, int predicate, LFEMU_SITE) {
  return lf_emu::ballot(predicate != 0, mask, lf_site, false) != 0;
}
LFEMU_DEVICE int __all_sync(unsigned mask, int predicate, LFEMU_SITE) {
  return lf_emu::ballot(predicate != 0, mask, lf_site, true) == ~0u;
}

// Atomics are relaxed, as on the device, and real: blocks run on several processors. Where accesses
// are noted, blocks run alone and an atomic is a load and a store.
namespace lf_emu {
template <class T, class Next>
LFEMU_DEVICE T atomic_update(T* address, Next next) {
#ifdef LFEMU_ACCESSES
  T old = *address;
  *address = next(old);
  return old;
#else
  T old;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  for (;;) {
    T desired = next(old);
    if (__atomic_compare_exchange(address, &old, &desired, false, __ATOMIC_RELAXED,
                                  __ATOMIC_RELAXED)) {
      return old;
    }
  }
#endif
}
}  // namespace lf_emu
template <class T>
struct LfSame {
  using Type = T;
};
#define LFEMU_ATOMIC(name, expression)                                             \
  template <class T>                                                               \
  LFEMU_DEVICE T name(T* address, typename LfSame<T>::Type value) {                \
    return lf_emu::atomic_update(address, [&](T old) -> T { return expression; }); \
  }
LFEMU_ATOMIC(atomicAdd, old + value)
LFEMU_ATOMIC(atomicSub, old - value)
LFEMU_ATOMIC(atomicMin, value < old ? value : old)
LFEMU_ATOMIC(atomicMax, value > old ? value : old)
LFEMU_ATOMIC(atomicAnd, old& value)
LFEMU_ATOMIC(atomicOr, old | value)
LFEMU_ATOMIC(atomicXor, old ^ value)
LFEMU_ATOMIC(atomicExch, (static_cast<void>(old), value))
template <class T>
LFEMU_DEVICE T atomicCAS(T* address, typename LfSame<T>::Type expected,
                         typename LfSame<T>::Type desired) {
  return lf_emu::atomic_update(address,
                               [&](T old) -> T { return old == expected ? desired : old; });
}
