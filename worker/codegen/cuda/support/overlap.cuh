// Kernels that begin before earlier ones end (compute capability 9.0).
#pragma once

#include "worker/codegen/cuda/support/base.cuh"

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
// The line that holds this byte.
LF_INLINE void lf_prefetch_line(const void* memory) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(memory));
}
#endif
