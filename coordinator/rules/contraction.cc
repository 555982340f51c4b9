// Contractions: any sum of products is an einsum over views of its operands, which covers matmul in
// every layout, batched and grouped forms, outer products and convolution (through its unfolding).
#include <algorithm>
#include <set>

#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::ContractAttr;
using common::DType;
using common::Expr;
using common::Op;
using common::ReduceAttr;
using common::Shape;
using common::Var;
using common::View;
using common::ViewAttr;

// One factor of the product: a class whose axes are the product axes it depends on.
struct Factor {
  ClassId cls;
  std::vector<int> labels;  // product axis of each of its axes
};

// The product axes that the view depends on.
std::vector<int> used_axes(const View& view) {
  std::set<int> used;
  auto note = [&](Var v) {
    if (v.kind == Var::Kind::kIndex) used.insert(v.id);
  };
  for (const Expr& e : view.index) e.visit_vars(note);
  for (const common::Validity& v : view.valid) {
    v.value.visit_vars(note);
    v.bound.visit_vars(note);
  }
  return {used.begin(), used.end()};
}

// The view with only the axes it depends on.
View narrowed(const View& view, const std::vector<int>& axes) {
  auto rename = [&](const Expr& e) {
    return e.substitute([&](Var v) -> Expr {
      if (v.kind != Var::Kind::kIndex) return Expr::var(v);
      auto it = std::find(axes.begin(), axes.end(), v.id);
      return Expr::index(static_cast<int>(it - axes.begin()));
    });
  };
  View result;
  for (int axis : axes) result.shape.push_back(view.shape[static_cast<size_t>(axis)]);
  for (const Expr& e : view.index) result.index.push_back(rename(e));
  for (const common::Validity& v : view.valid) {
    result.valid.push_back({rename(v.value), rename(v.bound)});
  }
  result.fill = view.fill;
  return result;
}

Factor make_factor(Rewriter& r, ClassId cls) {
  if (auto view = r.find(cls, Op::kView)) {
    const View& v = common::attr<ViewAttr>(*view->node).view;
    std::vector<int> axes = used_axes(v);
    if (axes.size() < v.shape.size()) return {r.view(view->operands[0], narrowed(v, axes)), axes};
  }
  std::vector<int> all(r.shape(cls).size());
  for (size_t k = 0; k < all.size(); ++k) all[k] = static_cast<int>(k);
  return {cls, all};
}

bool has(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::optional<ClassId> contraction_of(Rewriter& r, const ReduceAttr& reduce, ClassId a, ClassId b) {
  DType dtype = r.dtype(a);
  if (dtype != DType::kFloat32 && dtype != DType::kFloat64) return std::nullopt;
  Factor fa = make_factor(r, a);
  Factor fb = make_factor(r, b);
  auto rank = static_cast<int>(r.shape(a).size());
  ContractAttr attr{fa.labels, fb.labels, {}};
  Shape shape;
  bool has_free_axis = false;  // without one it is a plain reduction
  for (int axis = 0; axis < rank; ++axis) {
    bool in_a = has(fa.labels, axis);
    bool in_b = has(fb.labels, axis);
    if (has(reduce.axes, axis)) {
      if (!in_a || !in_b) return std::nullopt;
      continue;
    }
    if (!in_a && !in_b) return std::nullopt;
    has_free_axis = has_free_axis || in_a != in_b;
    attr.out.push_back(axis);
    shape.push_back(r.shape(a)[static_cast<size_t>(axis)]);
  }
  if (!has_free_axis) return std::nullopt;
  // Labels by first occurrence, so that equal contractions have equal attributes.
  std::vector<int> renamed(static_cast<size_t>(rank), -1);
  int next = 0;
  for (auto* labels : {&attr.out, &attr.a, &attr.b}) {
    for (int& label : *labels) {
      int& name = renamed[static_cast<size_t>(label)];
      if (name < 0) name = next++;
      label = name;
    }
  }
  return r.add({Op::kContract, dtype, shape, {}, attr}, {fa.cls, fb.cls}, Lowering::kAbstract);
}

}  // namespace

void add_contraction_rules(RuleMaker& m) {
  m.rule(
      "sum-of-products", "(reduce.sum@r (binary.mul@ ?a ?b))",
      [&m](Rewriter& r, const Match& match) {
        return contraction_of(r, common::attr<ReduceAttr>(m.node(match, "r")), match["a"],
                              match["b"]);
      },
      true);
  m.rule("contract-by-tiles", "(contract@c ?a ?b)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           return r.add(m.node(match, "c"), {match["a"], match["b"]}, Lowering::kTile);
         });
  m.rule("contract-by-library", "(contract@c ?a ?b)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           const common::Node& c = m.node(match, "c");
           if (r.dtype(match["a"]) != c.dtype || r.dtype(match["b"]) != c.dtype)
             return std::nullopt;
           return r.add(c, {match["a"], match["b"]}, Lowering::kGemm);
         });
}

}  // namespace coordinator
