// Sorts of a line by a block of threads, all of which call the functions here.
//
// An item is a key with its position, so that no two are equal and equal keys keep their order: one
// number where 32 bits hold the key and others the position, else a pair. Lines of up to some
// hundred items are sorted by counting, for each item, those that come before it. Longer ones are
// sorted by Batcher's bitonic network (Sorting networks and their applications, 1968), chunk by
// chunk in registers: neighbours meet by shuffles, warps in shared memory, chunks where they lie.
#pragma once

#include "worker/codegen/cuda/support/base.cuh"
#include "worker/codegen/cuda/support/teams.cuh"

typedef uint64_t lf_item;
typedef struct {
  uint64_t key;
  int64_t position;
} lf_pair;
LF_INLINE lf_item lf_make_item(uint64_t key, int64_t position) {
  return (key << 32) | (uint64_t)position;
}
LF_INLINE lf_pair lf_make_pair(uint64_t key, int64_t position) { return lf_pair{key, position}; }
LF_INLINE int64_t lf_position(lf_item x) { return (int64_t)(uint32_t)x; }
LF_INLINE int64_t lf_position(lf_pair x) { return x.position; }
LF_INLINE bool lf_is_before(lf_item a, lf_item b) { return a < b; }
LF_INLINE bool lf_is_before(lf_pair a, lf_pair b) {
  return a.key < b.key || (a.key == b.key && a.position < b.position);
}
LF_INLINE lf_item lf_across(lf_item x, int o) { return (lf_item)lf_swap((int64_t)x, o); }
LF_INLINE lf_pair lf_across(lf_pair x, int o) {
  return lf_pair{(uint64_t)lf_swap((int64_t)x.key, o), lf_swap(x.position, o)};
}

// How many of kCount items come before the one of kParts neighbouring threads, each of which
// compares its share, two items at a time.
template <int kParts, int kCount, class Item>
LF_INLINE int lf_rank(const Item* items) {
  __syncthreads();
  const Item x = items[threadIdx.x / kParts];
  int before = 0;
#pragma unroll
  for (int c = 0; c < kCount; c += 2 * kParts) {
    const Item* pair = items + c + 2 * (threadIdx.x % kParts);
    before += lf_is_before(pair[0], x) + lf_is_before(pair[1], x);
  }
  return lf_team<LfSum, kParts, 1>(before);
}

// The chunk's place of a thread's item: a warp's items are neighbours.
template <int kEach>
LF_INLINE int lf_place(int e) {
  return (int)threadIdx.x / 32 * (32 * kEach) + e * 32 + (int)threadIdx.x % 32;
}

// The last stages of the network, in which items `kDistance` places apart and less meet. Runs of
// `run` items, of which the chunk's first place is `first`, go up and down in turn.
template <int kEach, int kDistance, class Item>
LF_INLINE void lf_merge_chunk(Item (&x)[kEach], Item* shared, int64_t first, int64_t run) {
#pragma unroll
  for (int step = kDistance; step > 0; step /= 2) {
    Item other[kEach];
    if (step >= 32 * kEach) {
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kEach; ++e) shared[lf_place<kEach>(e)] = x[e];
      __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      if (step >= 32 * kEach) {
        other[e] = shared[lf_place<kEach>(e) ^ step];
      } else {
        other[e] = step >= 32 ? x[e ^ (step / 32)] : lf_across(x[e], step);
      }
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t place = first + lf_place<kEach>(e);
      const bool keeps_first = ((place & step) == 0) == ((place & run) == 0);
      if (lf_is_before(other[e], x[e]) == keeps_first) x[e] = other[e];
    }
  }
}

template <int kEach, int kRun, class Item>
LF_INLINE void lf_sort_chunk(Item (&x)[kEach], Item* shared, int64_t first) {
  if constexpr (kRun > 2) lf_sort_chunk<kEach, kRun / 2>(x, shared, first);
  lf_merge_chunk<kEach, kRun / 2>(x, shared, first, kRun);
}

// Sorts `count` items, a power of two of chunks. Of a single chunk `shared` may be the memory.
template <int kThreads, int kEach, class Item>
LF_FUNCTION void lf_sort_block(Item* items, Item* shared, int64_t count) {
  constexpr int kChunk = kThreads * kEach;
  Item x[kEach];
  __syncthreads();
  for (int64_t run = kChunk; run <= count; run *= 2) {
    for (int64_t step = run / 2; step >= kChunk; step /= 2) {
      for (int64_t i = threadIdx.x; i < count / 2; i += kThreads) {
        // Steps are powers of two: a pair's first place has a zero where the step has its bit.
        const int64_t a = 2 * i - (i & (step - 1));
        const Item first = items[a], second = items[a + step];
        if (lf_is_before(second, first) == ((a & run) == 0)) {
          items[a] = second;
          items[a + step] = first;
        }
      }
      __syncthreads();
    }
    for (int64_t c = 0; c < count; c += kChunk) {
#pragma unroll
      for (int e = 0; e < kEach; ++e) x[e] = items[c + lf_place<kEach>(e)];
      if (run == kChunk) {
        lf_sort_chunk<kEach, kChunk>(x, shared, c);
      } else {
        lf_merge_chunk<kEach, kChunk / 2>(x, shared, c, run);
      }
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kEach; ++e) items[c + lf_place<kEach>(e)] = x[e];
    }
    __syncthreads();
  }
}

// ---- keys of 8 bits, counted
//
// Each warp has a part of the line, and a counter of each key; counters of a key are neighbours, so
// that their running sums are the places at which a warp's first such item goes.

// Lanes whose key is that of this one, of those that take part.
LF_INLINE unsigned lf_equal_lanes(unsigned key, bool takes_part) {
  unsigned equal = __ballot_sync(0xffffffffu, takes_part);
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    const bool is_set = ((key >> bit) & 1) != 0;
    const unsigned set = __ballot_sync(0xffffffffu, is_set);
    equal &= is_set ? set : ~set;
  }
  return equal;
}

// Adds the warp's items of the key to its counter; the count before, and the lanes before this one.
template <int kWarps>
LF_INLINE uint32_t lf_count_key(uint32_t* counters, unsigned key, bool takes_part) {
  const unsigned equal = lf_equal_lanes(key, takes_part);
  uint32_t* const counter = counters + key * kWarps + threadIdx.x / 32;
  const unsigned before = equal & ((1u << threadIdx.x % 32) - 1);
  __syncwarp();
  const uint32_t count = *counter;
  __syncwarp();
  if (takes_part && before == 0) *counter = count + __popc(equal);
  return count + __popc(before);
}

// Counters become the sums of those before them.
template <int kWarps>
LF_FUNCTION void lf_sum_counters(uint32_t* counters) {
  constexpr int kEach = 256 / 32;
  __shared__ uint32_t sums[kWarps];
  uint32_t sum = 0;
  __syncthreads();
  for (int e = 0; e < kEach; ++e) sum += counters[threadIdx.x * kEach + e];
  uint32_t all = sum;
  for (int o = 1; o < 32; o *= 2) {
    const uint32_t other = __shfl_up_sync(0xffffffffu, all, o);
    if (threadIdx.x % 32 >= o) all += other;
  }
  if (threadIdx.x % 32 == 31) sums[threadIdx.x / 32] = all;
  __syncthreads();
  uint32_t before = all - sum;
  for (int w = 0; w < (int)threadIdx.x / 32; ++w) before += sums[w];
  for (int e = 0; e < kEach; ++e) {
    const uint32_t own = counters[threadIdx.x * kEach + e];
    counters[threadIdx.x * kEach + e] = before;
    before += own;
  }
  __syncthreads();
}
