#include "common/schedule/kernels/tile_steps.h"

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace common {

TileSteps tile_steps(const Contraction& product, const VectorUnit& unit) {
  TileSteps steps;
  steps.dtype = product.node().dtype;
  steps.type = c_value_type(steps.dtype);
  steps.sizes = product.sizes_of(product.problem().k);
  steps.depth = product.problem().k_size;
  steps.count = steps.depth;
  bool pairs = unit.has_pairs && unit.bytes == 64 &&
               product.operand_dtype(Side::kLeft) == DType::kBfloat16 &&
               product.operand_dtype(Side::kRight) == DType::kBfloat16;
  if (pairs) {
    steps.length = 2;
    steps.dtype = DType::kBfloat16;
    steps.type = "uint32_t";
    steps.count = floor_div(steps.depth + Expr(1), Expr(2));
    if (!steps.sizes.empty() && steps.sizes.back().is_constant() &&
        steps.sizes.back().constant() % 2 == 0) {
      steps.sizes.back() = Expr(steps.sizes.back().constant() / 2);
    } else {
      steps.sizes = {steps.count};
      steps.by_label = false;
      steps.may_be_odd = !steps.depth.is_constant() || steps.depth.constant() % 2 != 0;
    }
  }
  int64_t bytes = dtype_size(product.node().dtype);
  steps.vector = cat("lf_", steps.type, unit.bytes / bytes);
  return steps;
}

Indices TileSteps::elements(const Contraction& product, const Indices& step,
                            const Expr& half) const {
  if (!has_pairs()) return step;
  if (by_label) {
    Indices result = step;
    result.back() = result.back() * Expr(2) + half;
    return result;
  }
  Expr element = step[0] * Expr(2) + half;
  if (may_be_odd && half.is_constant(1)) element = min(element, depth - Expr(1));
  return unfold(product.sizes_of(product.problem().k), element);
}

TileProblem TileSteps::problem(const Contraction& product) const {
  TileProblem result = product.problem();
  result.k_size = count;
  return result;
}

}  // namespace common
