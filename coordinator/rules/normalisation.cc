// Softmax and normalisation: structure that one pass over a row can compute.
#include <algorithm>
#include <cmath>

#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryAttr;
using common::BinaryOp;
using common::Expr;
using common::Op;
using common::ReduceAttr;
using common::ReduceOp;
using common::View;
using common::ViewAttr;

// The view hands a value reduced over `axes` back to the rows it came from: axis k of the reduced
// value is the k-th axis that was kept.
bool restores(const View& view, const std::vector<int>& axes) {
  if (!view.valid.empty()) return false;
  size_t kept = 0;
  for (int axis = 0; axis < static_cast<int>(view.shape.size()); ++axis) {
    bool reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (reduced) continue;
    if (kept >= view.index.size()) return false;
    bool single = view.shape[static_cast<size_t>(axis)].is_constant(1);
    if (!single && view.index[kept] != Expr::index(axis)) return false;
    ++kept;
  }
  return kept == view.index.size();
}

std::optional<ClassId> softmax_of(Rewriter& r, const common::Node& max, const View& max_view,
                                  const common::Node& sum, const View& sum_view, ClassId x) {
  const auto& axes = attr<ReduceAttr>(max).axes;
  if (axes.size() != 1 || axes != attr<ReduceAttr>(sum).axes) return std::nullopt;
  if (!restores(max_view, axes) || !restores(sum_view, axes)) return std::nullopt;
  return r.add({Op::kSoftmax, r.dtype(x), r.shape(x), {}, common::SoftmaxAttr{axes[0], false}},
               {x});
}

// Follows pointwise nodes and the views between them, keeping the view from the class at hand to
// the place where its value is used.
class Descent {
 public:
  Descent(Rewriter& r, ClassId cls)
      : r_(r), cls_(cls), view_(common::view_identity(r.shape(cls))) {}

  ClassId cls() const { return cls_; }
  const View& view() const { return view_; }

  // Steps through all views.
  bool through_views() {
    while (auto found = r_.find(cls_, Op::kView)) {
      auto composed = common::view_compose(view_, attr<ViewAttr>(*found->node).view, r_.symbols());
      if (!composed || !composed->valid.empty()) return false;
      view_ = *composed;
      cls_ = found->operands[0];
      if (++steps_ > 16) return false;
    }
    return true;
  }
  bool through_unary(common::UnaryOp op) {
    auto found = through_views() ? r_.find(cls_, Op::kUnary) : std::nullopt;
    if (!found || attr<common::UnaryAttr>(*found->node).op != op) return false;
    cls_ = found->operands[0];
    return true;
  }
  // Steps to the other operand of `op` when one operand is a constant; returns the constant.
  // right_only: the constant must be the second operand.
  std::optional<double> through_constant(BinaryOp op, bool right_only) {
    auto found = through_views() ? r_.find(cls_, Op::kBinary) : std::nullopt;
    if (!found || attr<BinaryAttr>(*found->node).op != op) return std::nullopt;
    if (auto value = r_.uniform_value(found->operands[1])) {
      cls_ = found->operands[0];
      return value;
    }
    auto value = r_.uniform_value(found->operands[0]);
    if (!value || right_only) return std::nullopt;
    cls_ = found->operands[1];
    return value;
  }

 private:
  Rewriter& r_;
  ClassId cls_;
  View view_;
  int steps_ = 0;
};

// A mean over the last axes, restored to the rows: what was averaged.
struct Mean {
  ClassId of;
  int axes;
};

std::optional<Mean> mean_of(Rewriter& r, Descent descent) {
  double factor = 1;
  if (auto divisor = descent.through_constant(BinaryOp::kDiv, true)) {
    factor = 1 / *divisor;
  } else if (auto scale = descent.through_constant(BinaryOp::kMul, false)) {
    factor = *scale;
  } else {
    return std::nullopt;
  }
  if (!descent.through_views()) return std::nullopt;
  auto sum = r.find(descent.cls(), Op::kReduce);
  if (!sum || attr<ReduceAttr>(*sum->node).op != ReduceOp::kSum) return std::nullopt;
  const auto& axes = attr<ReduceAttr>(*sum->node).axes;
  ClassId x = sum->operands[0];
  auto rank = static_cast<int>(r.shape(x).size());
  Expr count = 1;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (axes[k] != rank - static_cast<int>(axes.size() - k)) return std::nullopt;
    count *= r.shape(x)[static_cast<size_t>(axes[k])];
  }
  if (!count.is_constant() || count.is_constant(0)) return std::nullopt;
  double wanted = 1 / static_cast<double>(count.constant());
  if (std::abs(factor - wanted) > 1e-6 * wanted) return std::nullopt;
  if (descent.view().shape != r.shape(x) || !restores(descent.view(), axes)) return std::nullopt;
  return Mean{x, static_cast<int>(axes.size())};
}

// x * rsqrt(mean(x * x) + epsilon), given x and the class of the second factor.
std::optional<ClassId> rms_norm_of(Rewriter& r, ClassId x, ClassId scale) {
  Descent descent(r, scale);
  if (!descent.through_unary(common::UnaryOp::kRsqrt)) return std::nullopt;
  auto epsilon = descent.through_constant(BinaryOp::kAdd, false);
  if (!epsilon) return std::nullopt;
  auto mean = mean_of(r, descent);
  if (!mean) return std::nullopt;
  auto square = r.find(mean->of, Op::kBinary);
  ClassId canonical = r.graph().find(x);
  if (!square || attr<BinaryAttr>(*square->node).op != BinaryOp::kMul ||
      r.graph().find(square->operands[0]) != canonical ||
      r.graph().find(square->operands[1]) != canonical) {
    return std::nullopt;
  }
  return r.add(
      {Op::kNorm, r.dtype(x), r.shape(x), {}, common::NormAttr{mean->axes, false, *epsilon}}, {x});
}

}  // namespace

void add_normalisation_rules(RuleMaker& m) {
  m.rule("softmax",
         "(binary.div@ ?e:(unary.exp@ (binary.sub@ ?x (view@vm (reduce.max@max ?x)))) "
         "(view@vs (reduce.sum@sum ?e)))",
         [&m](Rewriter& r, const Match& match) {
           return softmax_of(r, m.node(match, "max"), attr<ViewAttr>(m.node(match, "vm")).view,
                             m.node(match, "sum"), attr<ViewAttr>(m.node(match, "vs")).view,
                             match["x"]);
         });
  m.rule(
      "rms-norm", "(binary.mul@ ?x ?s)",
      [](Rewriter& r, const Match& match) { return rms_norm_of(r, match["x"], match["s"]); }, true);
  m.rule(
      "rms-norm-turned", "(binary.mul@ ?s ?x)",
      [](Rewriter& r, const Match& match) { return rms_norm_of(r, match["x"], match["s"]); }, true);
  m.rule(
      "layer-norm", "(norm@n (binary.sub@ ?x ?m))",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const auto& norm = attr<common::NormAttr>(m.node(match, "n"));
        if (norm.centred) return std::nullopt;
        auto mean = mean_of(r, Descent(r, match["m"]));
        if (!mean || mean->axes != norm.axes ||
            r.graph().find(mean->of) != r.graph().find(match["x"])) {
          return std::nullopt;
        }
        return r.add({Op::kNorm,
                      r.dtype(match["x"]),
                      r.shape(match["x"]),
                      {},
                      common::NormAttr{norm.axes, true, norm.epsilon}},
                     {match["x"]});
      },
      true);
}

}  // namespace coordinator
