#include "common/schedule/products/skinny_tiling.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/cost/gpu_shared_memory.h"
#include "common/ir/llir/wrong_tiling.h"
#include "common/schedule/gpu_splits.h"
#include "common/schedule/tile_shape.h"

namespace common {
namespace {

constexpr int64_t kChunkBytes = 16;
constexpr int64_t kThreads = 256;  // where they share a k
constexpr int64_t kWarp = 32;
constexpr int64_t kAheadMax = 16;
// Sums of a thread, which are written out.
constexpr int64_t kSumsMax = 256;
// Blocks of threads that keep a large GPU's memory busy.
constexpr int64_t kBusyBlocks = 1024;

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// The constant size, or a typical one.
int64_t about(const Expr& size) { return size.is_constant() ? size.constant() : 4096; }

void choose_threads(SkinnyTiling& t, const SkinnyReads& reads, int64_t depth, int64_t many) {
  if (reads.along_k) {
    int64_t steps = (depth + reads.length - 1) / reads.length;
    t.across = std::clamp<int64_t>(round_up(steps, kWarp), kWarp, 128);
    t.ahead = std::clamp<int64_t>((steps + t.across - 1) / t.across, 1, 4);
    for (int64_t rows : {2, 4}) {
      if (many / rows * t.across >= kBusyBlocks * 128) t.rows = rows;
    }
    return;
  }
  t.across = kThreads;
  while (t.across > 4 && many / (t.across * reads.length) < kBusyBlocks / 4) t.across /= 2;
  t.down = kThreads / t.across;
  while (t.down > 1 && t.down * t.across > kWarp && t.down > depth) t.down /= 2;
  t.ahead = std::clamp<int64_t>(depth / t.down, 1, 8);
  t.rows = t.across * reads.length;
}

// A warp takes 16 rows of the matrix, or twice as many where there are blocks enough, by 32
// elements of k a step, and warps share a k. Each chunk of the few rows serves all of a warp's.
void choose_warps(SkinnyTiling& t, int64_t depth, int64_t many, int64_t processors) {
  int64_t warps = 8;
  while (warps > 1 && warps * kSkinnyWarpDepth > depth) warps /= 2;
  t.rows = many >= 4 * kSkinnyWarpRows * processors ? 2 * kSkinnyWarpRows : kSkinnyWarpRows;
  t.across = 4 * warps;
  t.down = 8;
  int64_t steps = (depth + warps * kSkinnyWarpDepth - 1) / (warps * kSkinnyWarpDepth);
  t.ahead = std::min<int64_t>(steps, 4 * kSkinnyWarpRows / t.rows * 2);
  // Few rows of the matrix keep a GPU busy where many blocks share a k, in steps that are short.
  int64_t blocks = (many + t.rows - 1) / t.rows;
  while (t.ahead > 1 && blocks * steps / t.ahead < processors) t.ahead /= 2;
  // Of a whole number of steps none is masked.
  for (int64_t ahead = t.ahead; 2 * ahead > t.ahead; --ahead) {
    if (depth % (warps * kSkinnyWarpDepth * ahead) != 0) continue;
    t.ahead = ahead;
    break;
  }
}

}  // namespace

SkinnyReads skinny_reads(const Contraction& c) {
  SkinnyReads reads;
  if (!is_few(c, Side::kLeft)) std::swap(reads.few, reads.many);
  reads.few_count = c.own_size(reads.few).constant();
  reads.along_k = c.runs_along_k(reads.many);
  reads.on_tensor_cores = suits_tensor_cores(c, reads.few);
  if (reads.on_tensor_cores) {
    reads.length = kChunkBytes / 2;
    return reads;
  }
  int64_t element = dtype_size(c.operand_dtype(reads.many));
  int64_t length = kChunkBytes / element;
  reads.in_chunks = element <= 4 && c.reads_chunks(reads.many, reads.along_k, length);
  reads.few_in_chunks = reads.in_chunks && reads.along_k &&
                        c.reads_chunks(reads.few, true, length) &&
                        dtype_size(c.operand_dtype(reads.few)) == element;
  if (reads.in_chunks) reads.length = length;
  return reads;
}

SkinnyTiling choose_skinny_tiling(const Contraction& c, const Schedule& schedule,
                                  const ProductMachine& machine) {
  SkinnyTiling t;
  const SkinnyReads reads = skinny_reads(c);
  int64_t depth = std::max<int64_t>(about(c.problem().k_size), 1);
  int64_t many = about(c.own_size(reads.many)) * about(c.batch_size());
  if (reads.on_tensor_cores) {
    choose_warps(t, depth, many, machine.processors);
  } else {
    choose_threads(t, reads, depth, many);
  }
  Expr blocks = floor_div(c.own_size(reads.many) + Expr(t.rows - 1), Expr(t.rows));
  t.splits = gpu_splits(c.batch_size() * blocks, c.problem().k_size, t.step(reads),
                        tile_parameter(schedule, "splits"), c.body().symbols, machine.processors);
  return t;
}

Status verify(const SkinnyTiling& t, const Contraction& contraction) {
  const SkinnyReads reads = skinny_reads(contraction);
  auto wrong = [&](std::string_view what) { return wrong_tiling(t, what); };
  if (t.across < 1 || t.down < 1 || t.rows < 1) return wrong("a size is 0");
  if (t.ahead < 1 || t.ahead > kAheadMax) return wrong("ahead is out of range");
  if (t.splits < 1 || t.splits > kSharingBlocksMax) return wrong("splits are out of range");
  if (t.threads() % kWarp != 0 || t.threads() > 1024) return wrong("threads are no whole warps");
  int64_t sums = reads.few_count * (reads.along_k ? t.rows : reads.length);
  int64_t parts = reads.along_k ? t.threads() / kWarp : t.down;
  if (reads.on_tensor_cores) {
    bool are_warps = t.down == 8 && t.across % 4 == 0;
    bool are_rows = t.rows == kSkinnyWarpRows || t.rows == 2 * kSkinnyWarpRows;
    if (!are_warps || !are_rows) return wrong("warps take 16 or 32 rows");
  } else if (reads.along_k) {
    if (t.down != 1) return wrong("all threads share a row");
    if (sums > kSumsMax) return wrong("a thread has too many sums");
  } else if (t.rows != t.across * reads.length) {
    return wrong(cat("rows are not those of ", t.across, " threads"));
  }
  int64_t element = dtype_size(contraction.node().dtype);
  if ((parts + 1) * reads.few_count * t.rows * element > kGpuSharedBytesMax) {
    return wrong("sums do not fit into shared memory");
  }
  return {};
}

}  // namespace common
