#include "coordinator/rules/matching/factors.h"

#include <set>

namespace coordinator {

using common::attr;
using common::ContractAttr;
using common::DType;
using common::Expr;
using common::Op;
using common::Shape;
using common::Var;
using common::View;
using common::ViewAttr;

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
  std::vector<int> axes;
  for (int axis : used) {
    if (!view.shape[static_cast<size_t>(axis)].is_constant(1)) axes.push_back(axis);
  }
  return axes;
}

View renamed(const View& view, Shape shape, const std::function<Expr(int)>& index) {
  auto rename = [&](const Expr& e) {
    return e.substitute(
        [&](Var v) { return v.kind == Var::Kind::kIndex ? index(v.id) : Expr::var(v); });
  };
  View result;
  result.shape = std::move(shape);
  for (const Expr& e : view.index) result.index.push_back(rename(e));
  for (const common::Validity& v : view.valid) {
    result.valid.push_back({rename(v.value), rename(v.bound)});
  }
  result.fill = view.fill;
  return result;
}

View narrowed(const View& view, const std::vector<int>& axes) {
  Shape shape;
  for (int axis : axes) shape.push_back(view.shape[static_cast<size_t>(axis)]);
  return renamed(view, std::move(shape), [&](int axis) {
    auto it = std::find(axes.begin(), axes.end(), axis);
    return it == axes.end() ? Expr(0) : Expr::index(static_cast<int>(it - axes.begin()));
  });
}

Factor make_factor(Rewriter& r, ClassId cls) {
  ClassId base = cls;
  View view = common::view_identity(r.shape(cls));
  std::vector<int> axes = used_axes(view);
  for (const Rewriter::Found& found : r.find_all(cls, Op::kView)) {
    const View& candidate = attr<ViewAttr>(*found.node).view;
    std::vector<int> used = used_axes(candidate);
    if (used.size() >= axes.size()) continue;
    axes = std::move(used);
    view = candidate;
    base = found.operands[0];
  }
  if (axes.size() == view.shape.size()) return {cls, axes};
  return {r.view(base, narrowed(view, axes)), axes};
}

ClassId contract(Rewriter& r, DType dtype, Factor a, Factor b, std::vector<int> out, Shape shape) {
  std::vector<int> known;
  auto rename = [&](std::vector<int>& labels) {
    for (int& label : labels) {
      auto it = std::find(known.begin(), known.end(), label);
      if (it == known.end()) it = known.insert(known.end(), label);
      label = static_cast<int>(it - known.begin());
    }
  };
  ContractAttr attr;
  attr.out = std::move(out);
  attr.a = std::move(a.labels);
  attr.b = std::move(b.labels);
  rename(attr.out);
  rename(attr.a);
  rename(attr.b);
  return r.add({Op::kContract, dtype, std::move(shape), {}, attr}, {a.cls, b.cls},
               Lowering::kAbstract);
}

View spread(const Factor& factor, const Shape& shape) {
  View view;
  view.shape = shape;
  for (int axis : factor.labels) view.index.push_back(Expr::index(axis));
  return view;
}

}  // namespace coordinator
