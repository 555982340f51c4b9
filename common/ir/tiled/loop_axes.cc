#include "common/ir/tiled/loop_axes.h"

#include "common/ir/expr/ceil_div.h"

namespace common {

std::vector<Expr> LoopAxes::add_all(const Shape& shape) {
  std::vector<Expr> indices;
  for (const Expr& extent : shape) indices.push_back(add(extent));
  return indices;
}

Expr LoopAxes::add_outermost(const Expr& extent, const std::vector<int64_t>& cuts) {
  return add(ceil_div(extent, Expr(cuts[0])));
}

Expr LoopAxes::cut_further(const Expr& block, const Expr& extent,
                           const std::vector<int64_t>& cuts) {
  std::vector<Expr> begin = {block * Expr(cuts[0])};
  for (size_t k = 1; k <= cuts.size(); ++k) {
    const int64_t step = k < cuts.size() ? cuts[k] : 1;
    begin.push_back(add(ceil_div(Expr(cuts[k - 1]), Expr(step))) * Expr(step));
  }
  Expr within;
  for (size_t k = cuts.size(); k > 0; --k) {
    within += begin[k];
    if (k < cuts.size() && cuts[k - 1] % cuts[k] == 0) continue;
    inside.push_back({within, Expr(cuts[k - 1])});
  }
  Expr position = begin[0] + within;
  inside.push_back({position, extent});
  return position;
}

}  // namespace common
