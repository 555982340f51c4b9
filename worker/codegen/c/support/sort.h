// Sorts and selections of pairs of a key and a position. No two positions are equal.
#pragma once

#include "worker/codegen/c/support/base.h"

typedef struct {
  uint64_t key;
  int64_t position;
} lf_pair;
// Into the `n` pairs of `a`, which are sorted, behind those of the same key.
LF_FUNCTION void lf_insert_pair(lf_pair* a, int64_t n, lf_pair x) {
  for (; n > 0 && a[n - 1].key > x.key; --n) a[n] = a[n - 1];
  a[n] = x;
}
// A radix sort of keys that differ in `digits` bytes at most, least significant one first; digits
// that are equal in all keys are skipped.
LF_FUNCTION void lf_sort_pairs(lf_pair* __restrict__ a, lf_pair* __restrict__ spare, int64_t n,
                               int digits) {
  if (n <= 48) {
    for (int64_t i = 1; i < n; ++i) lf_insert_pair(a, i, a[i]);
    return;
  }
  int64_t counts[8][256] = {{0}};
  for (int64_t i = 0; i < n; ++i) {
    for (int d = 0; d < digits; ++d) ++counts[d][(a[i].key >> 8 * d) & 255];
  }
  lf_pair *from = a, *to = spare;
  for (int d = 0; d < digits; ++d) {
    int64_t* starts = counts[d];
    const int shift = 8 * d;
    if (starts[(a[0].key >> shift) & 255] == n) continue;
    int64_t sum = 0;
    for (int k = 0; k < 256; ++k) {
      const int64_t count = starts[k];
      starts[k] = sum;
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
// Whether any of up to LF_SELECT_RUN keys is below `bound`.
enum { LF_SELECT_RUN = 32 };
LF_FUNCTION int lf_any_below(const uint64_t* keys, int64_t n, uint64_t bound) {
  uint64_t any = 0;
  for (int64_t i = 0; i < n; ++i) any |= keys[i] < bound;
  return any != 0;
}
// The first `count` of `n` keys in ascending order, of equal keys those of lower positions, at
// least one. `kept` holds count + 1 pairs, which stay sorted.
LF_FUNCTION void lf_select_few(const uint64_t* __restrict__ keys, int64_t n, int64_t count,
                               lf_pair* __restrict__ kept) {
  int64_t size = 0;
  uint64_t bound = 0;  // the last key of `count`
  for (int64_t i = 0; i < n; i += LF_SELECT_RUN) {
    const int64_t end = n - i < LF_SELECT_RUN ? n : i + LF_SELECT_RUN;
    if (size == count && !lf_any_below(keys + i, end - i, bound)) continue;
    for (int64_t j = i; j < end; ++j) {
      if (size == count && keys[j] >= bound) continue;
      const lf_pair x = {keys[j], j};
      lf_insert_pair(kept, size, x);
      size += size < count;
      bound = kept[count - 1].key;
    }
  }
}
// The same. `kept` and `spare` hold `room` pairs, more than count + LF_SELECT_RUN: whenever they
// are full, the first of them are selected by a sort.
LF_FUNCTION void lf_select_many(const uint64_t* __restrict__ keys, int64_t n, int64_t count,
                                int64_t room, lf_pair* __restrict__ kept,
                                lf_pair* __restrict__ spare, int digits) {
  int64_t size = 0;
  int is_bounded = 0;
  uint64_t bound = 0;
  for (int64_t i = 0; i < n; i += LF_SELECT_RUN) {
    const int64_t end = n - i < LF_SELECT_RUN ? n : i + LF_SELECT_RUN;
    if (is_bounded && !lf_any_below(keys + i, end - i, bound)) continue;
    for (int64_t j = i; j < end; ++j) {
      kept[size].key = keys[j];
      kept[size].position = j;
      size += !is_bounded || keys[j] < bound;
    }
    if (size + LF_SELECT_RUN < room) continue;
    lf_sort_pairs(kept, spare, size, digits);
    size = count;
    bound = kept[count - 1].key;
    is_bounded = 1;
  }
  lf_sort_pairs(kept, spare, size, digits);
}
