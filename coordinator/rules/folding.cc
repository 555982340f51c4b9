// Folding: scales that depend on weights alone move into the weight of a contraction, where they
// are multiplied once when weights are bound. Batch norm behind a convolution, a norm's gain before
// a projection, quantisation scales.
#include <algorithm>
#include <map>

#include "common/base/contains.h"
#include "coordinator/rules/matching/factors.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::contains;
using common::ContractAttr;
using common::Expr;
using common::Node;
using common::Op;
using common::Shape;
using common::View;
using common::ViewAttr;

constexpr int kStepsMax = 8;  // of a chain of scales and shifts

std::optional<Factor> weight_factor(Rewriter& r, ClassId cls) {
  bool may_be = r.at_load(cls);
  for (const Rewriter::Found& view : r.find_all(cls, Op::kView)) {
    may_be = may_be || r.at_load(view.operands[0]);
  }
  if (!may_be) return std::nullopt;
  Factor factor = make_factor(r, cls);
  if (!r.at_load(factor.cls)) return std::nullopt;
  return factor;
}

// Over the axes that either depends on.
Factor combined(Rewriter& r, BinaryOp op, const Factor& a, const Factor& b, const Shape& shape) {
  Factor result;
  Shape both;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    if (!contains(a.labels, axis) && !contains(b.labels, axis)) continue;
    result.labels.push_back(axis);
    both.push_back(shape[static_cast<size_t>(axis)]);
  }
  auto widened = [&](const Factor& f) {
    Factor inner{f.cls, {}};
    for (int axis : f.labels) {
      auto it = std::find(result.labels.begin(), result.labels.end(), axis);
      inner.labels.push_back(static_cast<int>(it - result.labels.begin()));
    }
    return r.view(f.cls, spread(inner, both));
  };
  ClassId left = widened(a);
  result.cls = r.binary(op, left, widened(b));
  return result;
}

// core * scale + shift, where scale and shift depend on weights alone.
struct Affine {
  std::optional<Factor> scale, shift;
};

// One step of a chain: `x op weights`.
struct AffineStep {
  BinaryOp op{};
  ClassId x = kNone;
  Factor factor;
};
std::optional<AffineStep> affine_step(Rewriter& r, BinaryOp op, ClassId x, ClassId y) {
  if (op != BinaryOp::kMul && op != BinaryOp::kAdd && op != BinaryOp::kSub) return std::nullopt;
  if (auto factor = weight_factor(r, y)) return AffineStep{op, x, std::move(*factor)};
  if (op == BinaryOp::kSub) return std::nullopt;
  if (auto factor = weight_factor(r, x)) return AffineStep{op, y, std::move(*factor)};
  return std::nullopt;
}

Affine followed_by(Rewriter& r, Affine affine, const AffineStep& step, const Shape& shape) {
  if (step.op == BinaryOp::kMul) {
    for (std::optional<Factor>* part : {&affine.scale, &affine.shift}) {
      if (*part) *part = combined(r, BinaryOp::kMul, **part, step.factor, shape);
    }
    if (!affine.scale) affine.scale = step.factor;
  } else if (affine.shift) {
    affine.shift = combined(r, step.op, *affine.shift, step.factor, shape);
  } else {
    affine.shift = step.factor;
    if (step.op == BinaryOp::kSub) {
      affine.shift->cls = r.unary(common::UnaryOp::kNeg, step.factor.cls);
    }
  }
  return affine;
}

// The steps that are taken from the class on, by the class that they lead to; none where something
// else needs the value, too.
std::map<ClassId, AffineStep> steps_above(Rewriter& r, ClassId cls) {
  cls = r.graph().find(cls);
  std::vector<NodeId> parents;
  r.graph().for_each_parent(cls, [&](NodeId n) {
    if (r.node(n).op != Op::kView && r.graph().class_of(n) != cls) parents.push_back(n);
  });
  std::map<ClassId, AffineStep> steps;
  std::vector<ClassId> others;
  for (NodeId parent : parents) {
    ClassId to = r.graph().class_of(parent);
    if (steps.count(to) != 0) continue;
    std::optional<AffineStep> step;
    if (r.node(parent).op == Op::kBinary) {
      auto children = r.graph().children(parent);
      step = affine_step(r, attr<common::BinaryAttr>(r.node(parent)).op, children[0], children[1]);
    }
    if (step && r.graph().find(step->x) == cls) {
      steps.emplace(to, std::move(*step));
    } else {
      others.push_back(to);
    }
  }
  bool is_shared = std::any_of(others.begin(), others.end(),
                               [&](ClassId other) { return steps.count(other) == 0; });
  return is_shared ? std::map<ClassId, AffineStep>() : steps;
}

// The view that undoes one that only permutes or reshapes a tensor of the shape.
std::optional<View> inverse(const Rewriter& r, const View& view, const Shape& shape) {
  if (!view.valid.empty()) return std::nullopt;
  common::Bounds bounds(r.symbols(), {});
  if (common::element_count(view.shape) != common::element_count(shape)) return std::nullopt;
  if (view == common::view_reshape(shape, view.shape, bounds)) {
    return common::view_reshape(view.shape, shape, bounds);
  }
  View back;
  back.shape = shape;
  for (int axis = 0; axis < static_cast<int>(view.shape.size()); ++axis) {
    auto it = std::find(view.index.begin(), view.index.end(), Expr::index(axis));
    if (it == view.index.end()) return std::nullopt;
    back.index.push_back(Expr::index(static_cast<int>(it - view.index.begin())));
  }
  if (view.index.size() != view.shape.size()) return std::nullopt;
  return back;
}

// `weight`, whose axes carry `weight_labels`, times the scale, whose value at an element with axes
// of `labels` the view gives. Nothing when the scale depends on a label that the weight lacks.
std::optional<ClassId> scaled_weight(Rewriter& r, ClassId weight,
                                     const std::vector<int>& weight_labels, ClassId scale,
                                     const View& view, const std::vector<int>& labels) {
  if (r.dtype(scale) != r.dtype(weight) || !view.valid.empty()) return std::nullopt;
  std::vector<int> axis_of(labels.size(), -1);  // of the weight
  for (int axis : used_axes(view)) {
    int label = labels[static_cast<size_t>(axis)];
    auto it = std::find(weight_labels.begin(), weight_labels.end(), label);
    if (it == weight_labels.end()) return std::nullopt;
    axis_of[static_cast<size_t>(axis)] = static_cast<int>(it - weight_labels.begin());
  }
  View over_weight = renamed(view, r.shape(weight), [&](int axis) {
    int target = axis_of[static_cast<size_t>(axis)];
    return target < 0 ? Expr(0) : Expr::index(target);
  });
  return r.binary(BinaryOp::kMul, weight, r.view(scale, over_weight));
}

// The contraction with its weight multiplied by the scale, seen through `view`.
std::optional<ClassId> with_scaled_weight(Rewriter& r, const Rewriter::Found& contraction,
                                          const View& view, const Factor& scale) {
  const Node& c = *contraction.node;
  const auto& labels = attr<ContractAttr>(c);
  auto back = inverse(r, view, c.shape);
  if (!back) return std::nullopt;
  auto over_result = common::view_compose(*back, spread(scale, view.shape), r.symbols());
  if (!over_result) return std::nullopt;
  for (size_t side : {size_t{1}, size_t{0}}) {
    ClassId weight = contraction.operands[side];
    if (!r.at_load(weight) || r.dtype(weight) != c.dtype) continue;
    auto product = scaled_weight(r, weight, side == 0 ? labels.a : labels.b, scale.cls,
                                 *over_result, labels.out);
    if (!product) continue;
    std::vector<ClassId> operands = contraction.operands;
    operands[side] = *product;
    return r.view(r.add(c, operands, Lowering::kAbstract), view);
  }
  return std::nullopt;
}

// Ends chains of scales and shifts above a contraction that is seen through one view. A chain ends
// where its ways part: a contraction for each of them would take longer than the scales.
class FoldAfter {
 public:
  FoldAfter(Rewriter& r, const Rewriter::Found& contraction, const View& view)
      : r_(r), contraction_(contraction), view_(view) {}

  void fold(ClassId cls) {
    End end = climb(cls, {}, 0);
    if (!end.affine.scale || r_.at_load(end.cls)) return;
    auto product = with_scaled_weight(r_, contraction_, view_, *end.affine.scale);
    if (!product) return;
    if (end.affine.shift) {
      product = r_.binary(BinaryOp::kAdd, *product,
                          r_.view(end.affine.shift->cls, spread(*end.affine.shift, view_.shape)));
    }
    r_.graph().merge(end.cls, *product);
  }

 private:
  struct End {
    ClassId cls = kNone;
    Affine affine;
  };

  End climb(ClassId cls, const Affine& affine, int steps) {
    std::optional<End> only;
    if (steps == kStepsMax) return {cls, affine};
    for (const auto& [to, step] : steps_above(r_, cls)) {
      End end = climb(to, followed_by(r_, affine, step, view_.shape), steps + 1);
      if (only && r_.graph().find(only->cls) != r_.graph().find(end.cls)) return {cls, affine};
      only = std::move(end);
    }
    return only ? *std::move(only) : End{cls, affine};
  }

  Rewriter& r_;
  const Rewriter::Found& contraction_;
  const View& view_;
};

void fold_after(Rewriter& r, ClassId cls, const Rewriter::Found& contraction) {
  View identity = common::view_identity(contraction.node->shape);
  FoldAfter(r, contraction, identity).fold(cls);
  std::vector<std::pair<ClassId, View>> views;
  r.graph().for_each_parent(r.graph().find(cls), [&](NodeId n) {
    if (r.node(n).op != Op::kView) return;
    views.emplace_back(r.graph().class_of(n), attr<ViewAttr>(r.node(n)).view);
  });
  for (const auto& [to, view] : views) FoldAfter(r, contraction, view).fold(to);
}

// An operand without a scale that depends on weights alone, in the operand's own axes.
struct Unscaled {
  ClassId cls = kNone;
  ClassId scale = kNone;
  View view;  // of the scale, of the operand's shape
};
std::optional<Unscaled> unscaled(Rewriter& r, ClassId cls) {
  auto through = [&](const View& view, ClassId inner) -> std::optional<Unscaled> {
    auto found = r.find_binary(inner, BinaryOp::kMul);
    if (!found || !view.valid.empty()) return std::nullopt;
    auto step = affine_step(r, BinaryOp::kMul, found->operands[0], found->operands[1]);
    if (!step) return std::nullopt;
    auto composed = common::view_compose(view, spread(step->factor, r.shape(inner)), r.symbols());
    if (!composed) return std::nullopt;
    return Unscaled{r.view(step->x, view), step->factor.cls, std::move(*composed)};
  };
  if (auto direct = through(common::view_identity(r.shape(cls)), cls)) return direct;
  for (const Rewriter::Found& found : r.find_all(cls, Op::kView)) {
    if (auto inner = through(attr<ViewAttr>(*found.node).view, found.operands[0])) return inner;
  }
  return std::nullopt;
}

std::optional<ClassId> fold_before(Rewriter& r, const Node& c, std::vector<ClassId> operands) {
  const auto& labels = attr<ContractAttr>(c);
  for (size_t side : {size_t{0}, size_t{1}}) {
    ClassId x = operands[side], weight = operands[1 - side];
    if (r.at_load(x) || !r.at_load(weight)) continue;
    if (r.dtype(x) != c.dtype || r.dtype(weight) != c.dtype) continue;
    auto without = unscaled(r, x);
    if (!without) continue;
    auto product = scaled_weight(r, weight, side == 0 ? labels.b : labels.a, without->scale,
                                 without->view, side == 0 ? labels.a : labels.b);
    if (!product) continue;
    operands[side] = without->cls;
    operands[1 - side] = *product;
    return r.add(c, operands, Lowering::kAbstract);
  }
  return std::nullopt;
}

}  // namespace

void add_folding_rules(RuleMaker& m) {
  // The whole chain, and no part of it, becomes equal to another value: that merge is the rule's.
  m.rule(
      "scale-into-weight", Equivalence::kRounding, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        if (!m.is_abstract(match, "c")) return std::nullopt;
        if (!r.at_load(match["a"]) && !r.at_load(match["b"])) return std::nullopt;
        fold_after(r, match.root, {&m.node(match, "c"), {match["a"], match["b"]}});
        return std::nullopt;
      },
      RuleMaker::Reach::kDeep);
  m.rule(
      "scale-across-contraction", Equivalence::kRounding, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        if (!m.is_abstract(match, "c")) return std::nullopt;
        return fold_before(r, m.node(match, "c"), {match["a"], match["b"]});
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace coordinator
