#include "common/plan/spare_memory.h"

#include <algorithm>
#include <numeric>

#include "common/ir/expr/index.h"
#include "common/plan/memory_gaps.h"

namespace common {
namespace {

bool live_together(const LiveBlock& a, const LiveBlock& b) {
  return a.first <= b.last && b.first <= a.last;
}

bool is_free_for(const LiveBlock& spare, const LiveBlock& block) {
  return spare.first <= block.first && block.last <= spare.last && block.bytes <= spare.bytes;
}

}  // namespace

SparePlaces place_in_spare(std::span<const LiveBlock> blocks, std::span<const LiveBlock> spare,
                           size_t alignment) {
  SparePlaces places;
  places.spare.assign(blocks.size(), -1);
  places.offsets.assign(blocks.size(), 0);
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return blocks[x].bytes > blocks[y].bytes; });
  std::vector<std::vector<size_t>> in(spare.size());  // the blocks that lie in each
  std::vector<ByteRange> busy;
  for (size_t index : order) {
    const LiveBlock& block = blocks[index];
    if (block.bytes == 0) continue;
    size_t smallest = SIZE_MAX;
    for (size_t s = 0; s < spare.size(); ++s) {
      if (!is_free_for(spare[s], block)) continue;
      busy.clear();
      for (size_t other : in[s]) {
        if (!live_together(blocks[other], block)) continue;
        busy.push_back({places.offsets[other], places.offsets[other] + blocks[other].bytes});
      }
      Gap gap = smallest_gap(busy, block.bytes, alignment);
      if (gap.offset > spare[s].bytes - block.bytes) continue;
      gap.bytes = std::min(gap.bytes, spare[s].bytes - gap.offset);
      if (gap.bytes >= smallest) continue;
      smallest = gap.bytes;
      places.spare[index] = static_cast<int>(s);
      places.offsets[index] = gap.offset;
    }
    if (places.spare[index] >= 0) in[at(places.spare[index])].push_back(index);
  }
  return places;
}

}  // namespace common
