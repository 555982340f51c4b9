#include "common/schedule/sort_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/divide_up.h"

namespace common {
namespace {

constexpr int64_t kWarp = 32, kThreadsMax = 1024;
// Up to here comparing all pairs takes less than the network's stages.
constexpr int64_t kRankMax = 128;
constexpr int64_t kParts = 4;  // threads that share an item's comparisons
constexpr int64_t kSharedBytes = 32 * 1024;
constexpr int64_t kPositionsMax = int64_t{1} << 32;
constexpr int64_t kKeys = 256, kCounterBytes = 4;  // of 8 bits, for each warp

constexpr double kItemBytes = 8, kWavefront = 128;
// Counted in machine code for sm_90a, of items of 8 bytes: thread instructions of a key, its item
// and its position; of a comparison; of an item in a stage, and in one in memory. Clocks of a warp
// alone: of the same, with the load of a key, and of a meeting of a block's warps.
constexpr double kFixed = 80, kCompare = 3.5, kStage = 8.4, kMeet = 20;
constexpr double kFixedClocks = 300, kCompareClocks = 4, kStageClocks = 40, kMeetClocks = 80;

// Likewise, where keys are counted: of a thread and its counters, and of an item that is counted or
// placed.
constexpr double kCountFixed = 300, kCountItem = 60, kCountClocks = 1500, kRoundClocks = 350;

// Stages of the network that sorts `items`.
double stages(double items) {
  double merges = std::ceil(std::log2(std::max(1.0, items)));
  return merges * (merges + 1) / 2;
}

}  // namespace

SortBlocks sort_blocks(DType key, int64_t longest) {
  SortBlocks blocks;
  blocks.item_bytes = dtype_size(key) <= 4 && longest <= kPositionsMax ? 8 : 16;
  if (longest <= kRankMax) {
    blocks.places = std::max(kWarp, divide_up(longest, kWarp) * kWarp);
    blocks.threads = blocks.places * kParts;
    return blocks;
  }
  if (dtype_size(key) == 1) {
    blocks.method = SortMethod::kCount;
    blocks.places = kKeys * kThreadsMax / kWarp;  // counters
    blocks.threads = kThreadsMax;
    blocks.item_bytes = kCounterBytes;
    return blocks;
  }
  const int64_t most = kSharedBytes / blocks.item_bytes;
  blocks.method = longest <= most ? SortMethod::kNetwork : SortMethod::kMemory;
  blocks.places =
      longest <= most ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(longest))) : most;
  blocks.threads = std::min(kThreadsMax, blocks.places);
  return blocks;
}

int64_t SortBlocks::key_threads() const { return method == SortMethod::kRank ? kWarp : threads; }

GpuKernelFacts sort_facts(const SortBlocks& blocks, double lines, double length) {
  const auto places = static_cast<double>(blocks.places);
  const auto threads = static_cast<double>(blocks.threads);
  const double words = static_cast<double>(blocks.item_bytes) / kItemBytes;
  GpuKernelFacts f;
  f.blocks = lines;
  f.block_threads = threads;
  f.block_shared_bytes = places * static_cast<double>(blocks.item_bytes);
  const double warps = lines * threads / kWarp;
  if (blocks.method == SortMethod::kRank) {
    const double compared = places / static_cast<double>(blocks.parts());
    f.thread_instructions = lines * threads * (kFixed + compared * kCompare * words);
    f.shared_bytes_moved = warps * compared / 2 * kWavefront * words;
    f.wait_clocks = kFixedClocks + compared * kCompareClocks * words;
    return f;
  }
  if (blocks.method == SortMethod::kCount) {
    // Each warp walks its part of the line twice, one item a thread, and counters are summed
    // between.
    const double rounds = std::ceil(length / threads);
    f.thread_instructions = lines * threads * (kCountFixed + 2 * rounds * kCountItem);
    f.shared_bytes_moved = warps * (2 * rounds * 2 + 32) * kWavefront;
    f.wait_clocks = kCountClocks + 2 * rounds * kRoundClocks;
    return f;
  }
  const double chunks = blocks.method == SortMethod::kNetwork
                            ? 1
                            : std::max(1.0, std::exp2(std::ceil(std::log2(length / places))));
  const auto each = static_cast<double>(blocks.each());
  const double chunk_stages = stages(places), meetings = stages(places / (kWarp * each));
  const double merges = std::log2(chunks), merged_stages = merges * std::log2(places);
  // Of all chunks' registers, one stage after the other; and of items that meet in memory.
  const double own = chunks * (chunk_stages + merged_stages);
  f.thread_instructions =
      lines * threads * words * (kFixed + each * (own * kStage + stages(chunks) * chunks * kMeet));
  f.shared_bytes_moved = warps * chunks * each * words * meetings * 4 * kWavefront;
  f.sector_bytes = lines * stages(chunks) * chunks * f.block_shared_bytes * 2;
  f.wait_clocks = kFixedClocks + own * (kStageClocks + (each - 1) * kStage) * words +
                  chunks * meetings * kMeetClocks + stages(chunks) * chunks * kGpuCacheClocks;
  return f;
}

}  // namespace common
