#include "common/schedule/products/thread_tiling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/cost/gpu_shared_memory.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/wrong_tiling.h"

namespace common {
namespace {

constexpr ThreadTiling kTilings[] = {{128, 128, 16, 8, 8}, {128, 64, 16, 8, 4}, {64, 128, 16, 4, 8},
                                     {64, 64, 16, 4, 4},   {32, 64, 32, 4, 4},  {64, 32, 32, 4, 4},
                                     {32, 32, 32, 2, 4},   {16, 64, 32, 2, 4},  {64, 16, 32, 4, 2},
                                     {8, 64, 32, 1, 4},    {64, 8, 32, 4, 1}};
constexpr double kSharing = 1.2;  // what a block's part of a k takes more than its share
constexpr double kUnasked = 1e6;  // more than any two sizes differ by

// Waves of blocks on the machine's processors, over the symbols' priced_sizes(), times the work of
// one block. Sizes that the schedule does not ask for come after all that it does.
double cost_of(const ThreadTiling& t, const Contraction& contraction, const Schedule& schedule,
               const ProductMachine& machine) {
  const TileProblem& p = contraction.problem();
  double waves = 0;
  for (const WeightedSizes& each : priced_sizes(contraction.body().symbols)) {
    auto blocks = [&](const Expr& extent, int64_t step) {
      return std::ceil(static_cast<double>(std::max<int64_t>(extent.evaluate(each.sizes), 1)) /
                       static_cast<double>(step));
    };
    double count = blocks(contraction.batch_size(), 1) * blocks(p.m_size, t.rows) *
                   blocks(p.n_size, t.columns) * static_cast<double>(t.splits);
    // The last wave is full more often than its size says, because waves overlap.
    double rounds = count / static_cast<double>(machine.processors);
    waves += each.weight * std::max(1.0, (rounds + std::ceil(rounds)) / 2);
  }
  // Each step reads a row's and a column's elements from shared memory for tall * wide
  // multiply-adds.
  double overhead = 1 + 2 * (1 / static_cast<double>(t.tall) + 1 / static_cast<double>(t.wide));
  double cost = waves * overhead * static_cast<double>(t.rows * t.columns);
  if (t.splits > 1) cost *= kSharing / static_cast<double>(t.splits);
  auto fits = [&](std::string_view name, int64_t value) {
    int64_t wanted = tile_parameter(schedule, name);
    return wanted == 0 || wanted == value;
  };
  if (!fits("block_rows", t.rows)) cost *= kUnasked;
  if (!fits("block_columns", t.columns)) cost *= kUnasked;
  return cost;
}

int64_t element_of(const Contraction& contraction) { return dtype_size(contraction.node().dtype); }

}  // namespace

int64_t thread_tile_bytes(const ThreadTiling& t, int64_t element) {
  return 2 * t.depth * (t.rows + t.columns + 2 * kThreadTilePad) * element;
}

ThreadTiling choose_thread_tiling(const Contraction& contraction, const Schedule& schedule,
                                  const ProductMachine& machine) {
  ThreadTiling best;
  double least = std::numeric_limits<double>::infinity();
  for (ThreadTiling t : kTilings) {
    if (thread_tile_bytes(t, element_of(contraction)) > kGpuStaticSharedBytes) continue;
    t.splits = tile_splits(contraction, {t.rows, t.columns}, t.depth,
                           tile_parameter(schedule, "splits"), machine);
    double cost = cost_of(t, contraction, schedule, machine);
    if (cost >= least) continue;
    best = t;
    least = cost;
  }
  return best;
}

Status verify(const ThreadTiling& t, const Contraction& contraction) {
  bool is_known = std::any_of(std::begin(kTilings), std::end(kTilings), [&](const ThreadTiling& k) {
    return k.rows == t.rows && k.columns == t.columns && k.depth == t.depth && k.tall == t.tall &&
           k.wide == t.wide;
  });
  int64_t most = contraction.group() != nullptr ? 1 : kSharingBlocksMax;
  if (!is_known || thread_tile_bytes(t, element_of(contraction)) > kGpuStaticSharedBytes ||
      t.splits < 1 || t.splits > most) {
    return wrong_tiling(t, "no blocks of threads are like this");
  }
  if (!are_stores(t.stores)) return wrong_tiling(t, kWrongStores);
  return {};
}

}  // namespace common
