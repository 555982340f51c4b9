// Blocks of one launch that hand results over to one another, through atomics of one thread each.
// By the PTX memory model that thread's release covers the block's writes only where the barrier
// comes before it, and its acquire their reads only where the barrier comes after. An atomic that
// is both takes one fence, where fences around a relaxed one take two.
#pragma once

#include "worker/codegen/cuda/support/base.cuh"

#ifdef LF_EMULATED
LF_INLINE void lf_pause() {}
LF_INLINE uint32_t lf_count(uint32_t* counter) {
  __threadfence();
  const uint32_t before = atomicAdd(counter, 1u);
  __threadfence();
  return before;
}
LF_INLINE uint32_t lf_counted(uint32_t* counter) {
  const uint32_t count = atomicAdd(counter, 0u);
  __threadfence();
  return count;
}
#else
LF_INLINE void lf_pause() { __nanosleep(100); }
// Adds one and returns the count before: what is written before a release is seen after an acquire
// that finds it counted.
LF_INLINE uint32_t lf_count(uint32_t* counter) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}
LF_INLINE uint32_t lf_counted(uint32_t* counter) {
  uint32_t count;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
  return count;
}
#endif

// Of `count` blocks that share counter `counter`, whether this one, whose threads all call, is the
// last to: then it sees what the others wrote before.
static __device__ bool lf_is_last(char* scratch, int64_t counter, int64_t count) {
  __shared__ uint32_t before;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t* const arrived = (uint32_t*)scratch - 1 - counter;
    before = lf_count(arrived);
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
  if (threadIdx.x == 0) lf_count((uint32_t*)scratch - 1 - counter);
}

// Waits until `count` blocks have arrived.
static __device__ void lf_await(char* scratch, int64_t counter, int64_t count) {
  if (threadIdx.x == 0) {
    while (lf_counted((uint32_t*)scratch - 1 - counter) < count) lf_pause();
  }
  __syncthreads();
}
