#include "common/schedule/products/product_tiles.h"

#include <algorithm>

#include "common/ir/expr/bounds.h"
#include "common/ir/expr/ceil_div.h"
#include "common/schedule/gpu_splits.h"

namespace common {
namespace {

constexpr int64_t kStepsMin = 4;  // of a block that shares a k

}  // namespace

Expr product_tiles(const Contraction& contraction, const ProductTile& tile) {
  const TileProblem& p = contraction.problem();
  return contraction.batch_size() * ceil_div(p.m_size, tile.rows_together()) * Expr(tile.cluster) *
         ceil_div(p.n_size, tile.columns_together());
}

int64_t tile_splits(const Contraction& contraction, const ProductTile& tile, int64_t depth,
                    int64_t wanted, const ProductMachine& machine) {
  if (contraction.group() != nullptr) return 1;
  const std::vector<SymbolRange>& symbols = contraction.body().symbols;
  Expr blocks = product_tiles(contraction, tile);
  int64_t splits = gpu_splits(blocks, contraction.problem().k_size, depth * kStepsMin, wanted,
                              symbols, machine.processors);
  // Each leaves a block of sums in memory, of which there must not be many at any size.
  std::vector<int64_t> largest;
  for (const SymbolRange& s : symbols) {
    largest.push_back(std::min<int64_t>(s.max, int64_t{1} << 20));
  }
  auto results = std::max<int64_t>(blocks.evaluate(largest), 1);
  return std::clamp<int64_t>(kSharingBlocksMax / results, 1, splits);
}

bool has_half_operands(const Contraction& contraction) {
  const DType left = contraction.operand_dtype(Side::kLeft);
  return is_half(left) && left == contraction.operand_dtype(Side::kRight);
}

bool is_splits(const Expr& splits, const Graph& body) {
  Bounds bounds(body.symbols, {});
  return bounds.lower(splits) >= 1 && bounds.upper(splits) <= kSharingBlocksMax;
}

}  // namespace common
