#include "common/cost/kernels/profile_loops.h"

#include <algorithm>

namespace common {

std::vector<Expr> ProfileLoops::open(const Shape& shape) {
  std::vector<Expr> indices;
  for (const Expr& size : shape) {
    auto extent = static_cast<double>(size.evaluate(symbols_));
    if (extent <= 1) {
      indices.emplace_back(0);
      continue;
    }
    indices.push_back(Expr::index(static_cast<int>(extents_.size())));
    extents_.push_back(extent);
  }
  return indices;
}

std::vector<char> ProfileLoops::uses(const std::vector<Expr>& indices) const {
  std::vector<char> used(extents_.size(), 0);
  for (const Expr& e : indices) {
    e.visit_vars([&](Var v) {
      if (v.kind == Var::Kind::kIndex) used[static_cast<size_t>(v.id)] = 1;
    });
  }
  return used;
}

ProfileLoops::Place ProfileLoops::place(const std::vector<Expr>& indices,
                                        const LoopOrder& order) const {
  std::vector<char> used = uses(indices);
  Place p;
  double prefix = 1;
  for (size_t k = 0; k < order.size(); ++k) {
    prefix *= extents_[order[k]];
    if (used[order[k]] == 0) continue;
    p.depth = k + 1;
    p.times = prefix;
  }
  p.is_innermost = p.depth != 0 && p.depth == order.size();
  return p;
}

LoopOrder order_of(const std::vector<Expr>& indices) {
  LoopOrder order;
  for (const Expr& e : indices) {
    if (auto v = e.as_var()) order.push_back(static_cast<size_t>(v->id));
  }
  return order;
}

bool ComputedValues::is_kept(NodeId id, size_t loop, double times) {
  double& most = by_loop_[{nest_, id, loop}];
  if (most >= times) return true;
  most = times;
  return false;
}

bool ComputedValues::was_computed(NodeId id, double times) {
  double& most = in_nest_[{nest_, id}];
  if (most >= times) return true;
  most = times;
  return false;
}

}  // namespace common
