// Blocks of one launch that hand results over to one another, through relaxed atomics of one thread
// each. By the PTX memory model that thread's fence covers the block's writes only where the
// barrier comes before it and the atomic after; the reader's order is the same backwards.
#pragma once

#include "worker/codegen/cuda/support/base.cuh"

#ifdef LF_EMULATED
LF_INLINE void lf_pause() {}
#else
LF_INLINE void lf_pause() { __nanosleep(100); }
#endif

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

// Waits until `count` blocks have arrived.
static __device__ void lf_await(char* scratch, int64_t counter, int64_t count) {
  if (threadIdx.x == 0) {
    while (atomicAdd((uint32_t*)scratch - 1 - counter, 0u) < count) lf_pause();
    __threadfence();
  }
  __syncthreads();
}
