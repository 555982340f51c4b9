// Routing: a sum over all experts that weighs but a few of them is a sum over these few, and what
// is gathered from a large result is computed for the gathered places alone.
#include <algorithm>

#include "coordinator/rules/factors.h"
#include "coordinator/rules/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::ContractAttr;
using common::Coordinate;
using common::Expr;
using common::GatherAttr;
using common::Node;
using common::Op;
using common::ScatterAttr;
using common::Shape;
using common::View;
using common::ViewAttr;

size_t at(int axis) { return static_cast<size_t>(axis); }

// x read along one axis at `index`, of the result's shape; every other axis is read in step.
ClassId gather_along(Rewriter& r, ClassId x, int axis, ClassId index, const Shape& shape) {
  GatherAttr gather;
  for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
    gather.coordinates.push_back(k == axis ? Coordinate{0, {}} : Coordinate{-1, Expr::index(k)});
  }
  return r.add({Op::kGather, r.dtype(x), shape, {}, gather}, {x, index});
}

// The axis that is read at the one index tensor, if all others are read in step.
std::optional<int> gathered_axis(const Rewriter& r, const Node& gather, ClassId data) {
  const auto& coordinates = attr<GatherAttr>(gather).coordinates;
  std::optional<int> axis;
  if (coordinates.size() != gather.shape.size()) return std::nullopt;
  for (int k = 0; k < static_cast<int>(coordinates.size()); ++k) {
    const Coordinate& c = coordinates[at(k)];
    if (c.slot >= 0) {
      if (axis) return std::nullopt;
      axis = k;
    } else if (c.expr != Expr::index(k) || r.shape(data)[at(k)] != gather.shape[at(k)]) {
      return std::nullopt;
    }
  }
  return axis;
}

bool depends_on(const Expr& e, int axis) {
  bool found = false;
  e.visit_vars([&](common::Var v) {
    found = found || (v.kind == common::Var::Kind::kIndex && v.id == axis);
  });
  return found;
}

// ---- Sums that weigh few --------------------------------------------------------------------

// Zeros but for `values` at `places` along one axis, all of them different; seen through a view.
struct Routing {
  ClassId values;
  ClassId places;
  View view;  // from the zeros' shape to where the weights are used
  int axis;   // of the experts, before the view
};

// Positions that a sort gave along the axis, or some of them: different ones, all inside.
bool are_sorted_positions(Rewriter& r, ClassId places, int axis, const Expr& extent) {
  Descent descent(r, places);
  if (!descent.through_views()) return false;
  auto sort = r.find(descent.cls(), Op::kSort);
  const auto& index = descent.view().index;
  if (!sort || attr<common::SortAttr>(*sort->node).axis != axis) return false;
  for (int k = 0; k < static_cast<int>(index.size()); ++k) {
    bool fits =
        k == axis ? (index[at(k)] - Expr::index(k)).is_constant() : index[at(k)] == Expr::index(k);
    if (!fits) return false;
  }
  return sort->node->shape[at(axis)] == extent;
}

std::optional<Routing> routing_of(Rewriter& r, ClassId weights) {
  Descent descent(r, weights);
  if (!descent.through_views()) return std::nullopt;
  if (!r.find(descent.cls(), Op::kScatter) && !descent.through_cast()) return std::nullopt;
  if (!descent.through_views()) return std::nullopt;
  auto scatter = r.find(descent.cls(), Op::kScatter);
  if (!scatter || scatter->operands.size() != 3) return std::nullopt;
  const auto& s = attr<ScatterAttr>(*scatter->node);
  auto base = r.uniform_value(scatter->operands[0]);
  bool sets = s.mode == common::ScatterMode::kAssign || s.mode == common::ScatterMode::kAdd;
  if (!sets || !base || *base != 0) return std::nullopt;
  const Shape& updates = r.shape(scatter->operands[1]);
  const Shape& zeros = scatter->node->shape;
  if (updates.size() != zeros.size()) return std::nullopt;
  std::optional<int> axis;
  for (int k = 0; k < static_cast<int>(zeros.size()); ++k) {
    const Coordinate& c = s.coordinates[at(k)];
    if (c.slot >= 0) {
      axis = k;
    } else if (c.expr != Expr::index(k) || updates[at(k)] != zeros[at(k)]) {
      return std::nullopt;
    }
  }
  ClassId places = scatter->operands[2];
  if (!axis || !are_sorted_positions(r, places, *axis, zeros[at(*axis)])) return std::nullopt;
  return Routing{scatter->operands[1], places, descent.view(), *axis};
}

std::optional<ClassId> routed_sum(Rewriter& r, const Node& reduce, ClassId weights, ClassId x) {
  auto routing = routing_of(r, weights);
  if (!routing) return std::nullopt;
  // The summed axis that runs over the experts, and nothing else does.
  int summed = -1;
  for (int axis : attr<common::ReduceAttr>(reduce).axes) {
    if (routing->view.index[at(routing->axis)] == Expr::index(axis)) summed = axis;
  }
  if (summed < 0) return std::nullopt;
  for (int k = 0; k < static_cast<int>(routing->view.index.size()); ++k) {
    if (k != routing->axis && depends_on(routing->view.index[at(k)], summed)) return std::nullopt;
  }
  View few = routing->view;
  few.shape[at(summed)] = r.shape(routing->values)[at(routing->axis)];
  ClassId values = r.cast(r.view(routing->values, few), r.dtype(weights));
  ClassId chosen = gather_along(r, x, summed, r.view(routing->places, few), few.shape);
  return r.add(reduce, {r.binary(BinaryOp::kMul, values, chosen)});
}

// ---- Gathers of what is computed ------------------------------------------------------------

// The gathered result has fewer elements than what it is gathered from.
bool is_selective(const Rewriter& r, const Node& gather, ClassId data) {
  common::Bounds bounds(r.symbols(), {});
  return bounds.lower(common::element_count(r.shape(data)) - common::element_count(gather.shape)) >
         0;
}

std::optional<ClassId> gather_operands(Rewriter& r, const Node& gather, ClassId data,
                                       ClassId index) {
  for (Op op : {Op::kUnary, Op::kBinary, Op::kSelect, Op::kCast}) {
    auto found = r.find(data, op);
    if (!found) continue;
    Node node = *found->node;
    node.shape = gather.shape;
    std::vector<ClassId> operands;
    for (ClassId operand : found->operands) {
      Node part = gather;
      part.dtype = r.dtype(operand);
      operands.push_back(r.add(part, {operand, index}));
    }
    return r.add(node, operands);
  }
  return std::nullopt;
}

// The position in `labels`.
int position(const std::vector<int>& labels, int label) {
  return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

// The gather before the view, where each axis that the index depends on is one before it.
std::optional<ClassId> gather_before_view(Rewriter& r, const Node& gather, int axis, ClassId data,
                                          ClassId index) {
  Factor places = make_factor(r, index);
  for (const Rewriter::Found& found : r.find_all(data, Op::kView)) {
    const View& view = attr<ViewAttr>(*found.node).view;
    const Shape& base = r.shape(found.operands[0]);
    if (!view.valid.empty()) continue;
    std::vector<int> axes;  // of the view, where a base axis is one as it is; -1
    bool fits = true;
    for (size_t b = 0; b < base.size(); ++b) {
      axes.push_back(-1);
      for (int k = 0; k < static_cast<int>(view.shape.size()); ++k) {
        bool same = view.index[b] == Expr::index(k) && view.shape[at(k)] == base[b];
        if (same) axes.back() = k;
      }
      fits = fits && (axes.back() == axis || !depends_on(view.index[b], axis));
    }
    auto before = [&](int k) { return position(axes, k); };
    auto is_base_axis = [&](int k) { return at(before(k)) < axes.size(); };
    fits = fits && is_base_axis(axis) &&
           std::all_of(places.labels.begin(), places.labels.end(), is_base_axis);
    if (!fits) continue;
    View spread;
    spread.shape = base;
    spread.shape[at(before(axis))] = gather.shape[at(axis)];
    for (int label : places.labels) spread.index.push_back(Expr::index(before(label)));
    ClassId few =
        gather_along(r, found.operands[0], before(axis), r.view(places.cls, spread), spread.shape);
    View after = view;
    after.shape = gather.shape;
    return r.view(few, after);
  }
  return std::nullopt;
}

// A gather along a label gathers those operands that have it, at all labels the index depends on.
std::optional<ClassId> gather_factors(Rewriter& r, const Node& gather, int axis,
                                      const Node& contraction, const ClassId (&operands)[2],
                                      ClassId index) {
  const auto& c = attr<ContractAttr>(contraction);
  int gathered = c.out[at(axis)];
  Factor places = make_factor(r, index);
  for (int& label : places.labels) label = c.out[at(label)];
  Factor factors[2] = {{operands[0], c.a}, {operands[1], c.b}};
  for (Factor& factor : factors) {
    int own = position(factor.labels, gathered);
    if (at(own) == factor.labels.size()) continue;
    Node part{Op::kGather, r.dtype(factor.cls), r.shape(factor.cls), {}, {}};
    GatherAttr form;
    for (int k = 0; k < static_cast<int>(factor.labels.size()); ++k) {
      form.coordinates.push_back(k == own ? Coordinate{0, {}} : Coordinate{-1, Expr::index(k)});
    }
    part.attr = form;
    part.shape[at(own)] = gather.shape[at(axis)];
    View spread;
    for (int label : places.labels) {
      if (at(position(factor.labels, label)) == factor.labels.size()) {
        factor.labels.push_back(label);
        part.shape.push_back(gather.shape[at(position(c.out, label))]);
      }
      spread.index.push_back(Expr::index(position(factor.labels, label)));
    }
    spread.shape = part.shape;
    factor.cls = r.add(part, {factor.cls, r.view(places.cls, spread)});
  }
  return contract(r, contraction.dtype, factors[0], factors[1], c.out, gather.shape);
}

}  // namespace

void add_routing_rules(RuleMaker& m) {
  using Reach = RuleMaker::Reach;
  // What is not chosen is not multiplied by zero, which would keep its infinities.
  m.rule(
      "sum-of-routed", Claim::kFinite, "(reduce.sum@r (binary.mul@ ?a ?b))",
      [&m](Rewriter& r, const Match& match) {
        const Node& reduce = m.node(match, "r");
        auto result = routed_sum(r, reduce, match["a"], match["b"]);
        return result ? result : routed_sum(r, reduce, match["b"], match["a"]);
      },
      Reach::kDeep);
  m.rule(
      "gather-of-elementwise", Claim::kBits, "(gather@g ?x ?i)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& gather = m.node(match, "g");
        if (!is_selective(r, gather, match["x"])) return std::nullopt;
        return gather_operands(r, gather, match["x"], match["i"]);
      },
      Reach::kDeep);
  m.rule(
      "gather-of-view", Claim::kBits, "(gather@g (view@ ?x) ?i)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& gather = m.node(match, "g");
        ClassId data = r.graph().children(match.head("g").node)[0];
        auto axis = gathered_axis(r, gather, data);
        if (!axis || !is_selective(r, gather, data)) return std::nullopt;
        return gather_before_view(r, gather, *axis, data, match["i"]);
      },
      Reach::kDeep);
  m.rule(
      "gather-of-contraction", Claim::kRounding, "(gather@g (contract@c ?a ?b) ?i)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& gather = m.node(match, "g");
        ClassId data = r.graph().children(match.head("g").node)[0];
        auto axis = gathered_axis(r, gather, data);
        if (!axis || !m.is_abstract(match, "c") || !is_selective(r, gather, data)) {
          return std::nullopt;
        }
        return gather_factors(r, gather, *axis, m.node(match, "c"), {match["a"], match["b"]},
                              match["i"]);
      },
      Reach::kDeep);
}

}  // namespace coordinator
