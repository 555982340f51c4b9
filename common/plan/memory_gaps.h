// Gaps between what lies in a piece of memory already: for the sources of common/plan that lay it
// out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace common {

struct ByteRange {
  size_t begin, end;
};
struct Gap {
  size_t offset, bytes;
};

inline size_t round_up(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// The smallest gap of at least `need` bytes that begins at a multiple of `alignment`; where there
// is none, all that lies behind the busy ranges, with SIZE_MAX bytes. Sorts the ranges.
inline Gap smallest_gap(std::vector<ByteRange>& busy, size_t need, size_t alignment) {
  std::sort(busy.begin(), busy.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  Gap best{0, SIZE_MAX};
  size_t cursor = 0;
  for (const ByteRange& range : busy) {
    if (range.begin > cursor && range.begin - cursor >= need && range.begin - cursor < best.bytes) {
      best = {cursor, range.begin - cursor};
    }
    cursor = std::max(cursor, round_up(range.end, alignment));
  }
  if (best.bytes == SIZE_MAX) best.offset = cursor;
  return best;
}

}  // namespace common
