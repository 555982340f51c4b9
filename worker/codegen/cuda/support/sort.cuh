// Bitonic sort: pairs are ordered by key, then by position; all threads of the block call it.
#pragma once

#include "worker/codegen/cuda/support/base.cuh"

typedef struct {
  uint64_t key;
  int64_t position;
} lf_pair;
template <int kThreads>
LF_FUNCTION void lf_sort_block(lf_pair* pairs, int64_t count) {
  for (int64_t run = 2; run <= count; run *= 2) {
    for (int64_t step = run / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int64_t i = threadIdx.x; i < count / 2; i += kThreads) {
        // Steps are powers of two: a pair's first place has a zero where the step has its bit.
        const int64_t a = 2 * i - (i & (step - 1));
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
