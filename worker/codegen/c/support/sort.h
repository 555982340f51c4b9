// A radix sort of pairs of a key and a position.
#pragma once

#include "worker/codegen/c/support/base.h"

typedef struct {
  uint64_t key;
  int64_t position;
} lf_pair;
// Least significant digit first; digits that are equal in all keys are skipped.
LF_FUNCTION void lf_sort_pairs(lf_pair* __restrict__ a, lf_pair* __restrict__ spare, int64_t n) {
  if (n <= 48) {
    for (int64_t i = 1; i < n; ++i) {
      lf_pair x = a[i];
      int64_t j = i;
      for (; j > 0 && a[j - 1].key > x.key; --j) a[j] = a[j - 1];
      a[j] = x;
    }
    return;
  }
  lf_pair *from = a, *to = spare;
  for (int shift = 0; shift < 64; shift += 8) {
    int64_t starts[256] = {0};
    for (int64_t i = 0; i < n; ++i) ++starts[(from[i].key >> shift) & 255];
    if (starts[(from[0].key >> shift) & 255] == n) continue;
    int64_t sum = 0;
    for (int d = 0; d < 256; ++d) {
      int64_t count = starts[d];
      starts[d] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; ++i) to[starts[(from[i].key >> shift) & 255]++] = from[i];
    lf_pair* other = from;
    from = to;
    to = other;
  }
  if (from != a) {
    for (int64_t i = 0; i < n; ++i) a[i] = from[i];
  }
}
