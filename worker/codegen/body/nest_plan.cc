#include "worker/codegen/body/nest_plan.h"

namespace worker {

using common::Expr;
using common::Var;

namespace {

// Replaces loop k of every position by `loops[k]`.
std::vector<Expr> substitute_loops(const std::vector<Expr>& positions,
                                   const std::vector<Expr>& loops) {
  std::vector<Expr> result;
  for (const Expr& position : positions) {
    result.push_back(position.substitute([&](Var v) -> Expr {
      return v.kind == Var::Kind::kIndex ? loops[static_cast<size_t>(v.id)] : Expr::var(v);
    }));
  }
  return result;
}

}  // namespace

NestPlan plain_nest(const common::Shape& shape) {
  NestPlan plan;
  for (const Expr& size : shape) {
    if (size.is_constant(1)) {
      plan.position.push_back(0);
      continue;
    }
    plan.position.push_back(Expr::index(static_cast<int>(plan.extents.size())));
    plan.extents.push_back(size);
  }
  return plan;
}

NestPlan split_loop(const NestPlan& plan, size_t loop, const Expr& divisor, const Expr& quotient) {
  NestPlan result;
  std::vector<Expr> loops;
  for (size_t k = 0; k < plan.extents.size(); ++k) {
    auto here = Expr::index(static_cast<int>(result.extents.size()));
    if (k != loop) {
      loops.push_back(here);
      result.extents.push_back(plan.extents[k]);
      continue;
    }
    loops.push_back(here * divisor + Expr::index(static_cast<int>(result.extents.size()) + 1));
    result.extents.push_back(quotient);
    result.extents.push_back(divisor);
  }
  result.position = substitute_loops(plan.position, loops);
  return result;
}

NestPlan merge_loops(const NestPlan& plan, size_t loop) {
  NestPlan result;
  std::vector<Expr> loops;
  for (size_t k = 0; k < plan.extents.size(); ++k) {
    auto here = Expr::index(static_cast<int>(result.extents.size()));
    if (k == loop) {
      const Expr& inner = plan.extents[k + 1];
      loops.push_back(common::floor_div(here, inner));
      loops.push_back(common::mod(here, inner));
      result.extents.push_back(plan.extents[k] * inner);
      ++k;
      continue;
    }
    loops.push_back(here);
    result.extents.push_back(plan.extents[k]);
  }
  result.position = substitute_loops(plan.position, loops);
  return result;
}

NestPlan permute_loops(const NestPlan& plan, const std::vector<size_t>& order) {
  NestPlan result;
  std::vector<Expr> loops(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    loops[order[k]] = Expr::index(static_cast<int>(k));
    result.extents.push_back(plan.extents[order[k]]);
  }
  result.position = substitute_loops(plan.position, loops);
  return result;
}

}  // namespace worker
