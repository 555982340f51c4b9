// Routing: a sum over all experts that weighs but a few of them is a sum over these few, and what
// is gathered from a large result is computed for the gathered places alone.
#include <algorithm>
#include <utility>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "coordinator/rules/matching/factors.h"
#include "coordinator/rules/matching/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::at;
using common::attr;
using common::BinaryOp;
using common::contains;
using common::ContractAttr;
using common::Coordinate;
using common::DType;
using common::Expr;
using common::GatherAttr;
using common::Node;
using common::Op;
using common::ScatterAttr;
using common::Shape;
using common::View;
using common::ViewAttr;

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

// Zeros but for `values` at `places` along one axis, all of them different or summed; seen through
// a view.
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
  return r.shape(sort->operands[0])[at(axis)] == extent;
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

// One where a place is the position along the axis, zero elsewhere.
struct OneHot {
  Factor places;  // over the axes of the class; not over `axis`
  int axis;
};
std::optional<OneHot> one_hot_of(Rewriter& r, ClassId cls) {
  Descent descent(r, cls);
  if (!descent.through_views()) return std::nullopt;
  for (int casts = 0; casts < 2 && descent.through_cast(); ++casts) {
    if (!descent.through_views()) return std::nullopt;
  }
  auto equal = r.find_binary(descent.cls(), BinaryOp::kEqual);
  if (!equal) return std::nullopt;
  for (size_t side : {size_t{0}, size_t{1}}) {
    auto position = index_value(r, equal->operands[side]);
    ClassId places = equal->operands[1 - side];
    if (!position || !common::is_integer(r.dtype(places))) continue;
    Expr along = position->substitute([&](common::Var v) {
      return v.kind == common::Var::Kind::kIndex ? descent.view().index[at(v.id)] : Expr::var(v);
    });
    for (int axis = 0; axis < static_cast<int>(r.shape(cls).size()); ++axis) {
      if (along != Expr::index(axis)) continue;
      Factor factor = make_factor(r, r.view(places, descent.view()));
      if (!contains(factor.labels, axis)) return OneHot{std::move(factor), axis};
    }
  }
  return std::nullopt;
}

// A product of a one-hot tensor and weights that are the same for all experts, or the former alone.
struct Weighed {
  OneHot hot;
  std::optional<Factor> weight;
};
std::optional<Weighed> weighed(Rewriter& r, ClassId cls) {
  if (auto hot = one_hot_of(r, cls)) return Weighed{*std::move(hot), std::nullopt};
  auto product = r.find_binary(cls, BinaryOp::kMul);
  if (!product) return std::nullopt;
  for (size_t side : {size_t{0}, size_t{1}}) {
    auto hot = one_hot_of(r, product->operands[side]);
    if (!hot) continue;
    Factor weight = make_factor(r, product->operands[1 - side]);
    if (!contains(weight.labels, hot->axis)) return Weighed{*std::move(hot), std::move(weight)};
  }
  return std::nullopt;
}

// The factor over few axes where another axis, if any, has taken the place of the experts'.
ClassId over_few(Rewriter& r, const Factor& factor, const Shape& shape, int chosen, int experts) {
  View view;
  view.shape = shape;
  for (int label : factor.labels) {
    if (label == chosen) {
      view.index.push_back(Expr::index(experts));
    } else {
      view.index.push_back(Expr::index(label - (chosen >= 0 && label > chosen ? 1 : 0)));
    }
  }
  return r.view(factor.cls, view);
}

// Weights made of one-hot tensors, summed over what each token chose or as they are. Places outside
// weigh nothing.
struct OneHotRouting {
  Routing routing;
  bool weighs;  // by more than whether a row is chosen
};
std::optional<OneHotRouting> one_hot_routing(Rewriter& r, ClassId weights) {
  Descent descent(r, weights);
  if (!descent.through_views()) return std::nullopt;
  ClassId summed = descent.cls();
  int chosen = -1;
  auto sum = r.find(summed, Op::kReduce);
  if (sum) {
    const auto& reduce = attr<common::ReduceAttr>(*sum->node);
    if (reduce.op != common::ReduceOp::kSum || reduce.axes.size() != 1) return std::nullopt;
    chosen = reduce.axes[0];
    summed = sum->operands[0];
  }
  auto parts = weighed(r, summed);
  if (!parts || parts->hot.axis == chosen) return std::nullopt;
  DType dtype = r.dtype(descent.cls());
  if (r.dtype(summed) != dtype || !common::is_float(dtype)) return std::nullopt;
  int experts = parts->hot.axis - (chosen >= 0 && parts->hot.axis > chosen ? 1 : 0);
  Shape few = r.shape(descent.cls());
  const Expr count = few[at(experts)];
  few[at(experts)] = chosen >= 0 ? r.shape(summed)[at(chosen)] : Expr(1);
  ClassId places = r.cast(over_few(r, parts->hot.places, few, chosen, experts), DType::kInt64);
  ClassId values =
      parts->weight ? over_few(r, *parts->weight, few, chosen, experts) : r.scalar(dtype, 1, few);
  auto range = whole_range(r, places);
  common::Bounds bounds(r.symbols(), {});
  if (!range || range->least < 0 || !bounds.provably_less(Expr(range->most), count)) {
    if (!count.is_constant()) return std::nullopt;
    auto limit = static_cast<double>(count.constant());
    ClassId inside = r.binary(
        BinaryOp::kAnd, r.binary(BinaryOp::kLessEqual, r.scalar(DType::kInt64, 0, few), places),
        r.binary(BinaryOp::kLess, places, r.scalar(DType::kInt64, limit, few)));
    values = r.select(inside, values, r.scalar(dtype, 0, few));
  }
  return OneHotRouting{{values, places, descent.view(), experts}, parts->weight.has_value()};
}

std::optional<ClassId> routed_sum(Rewriter& r, const Node& reduce, ClassId weights, ClassId x,
                                  const std::optional<Routing>& routing) {
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

// The index puts back what was sorted, along one axis. One value everywhere is the same in every
// order: what it is gathered from is its own class, on which rules would not end.
bool restores_order(Rewriter& r, ClassId data, ClassId index) {
  return !r.uniform_value(data) && undone_order(r, make_factor(r, index).cls).has_value();
}

// Gathering earlier pays: fewer elements are computed, or the order in which the elements were put
// is undone before it was taken.
bool pays_early(Rewriter& r, const Node& gather, ClassId data, ClassId index) {
  return is_selective(r, gather, data) || restores_order(r, data, index);
}

// What is gathered from what was gathered: read at the places of the places.
std::optional<ClassId> gather_at_places(Rewriter& r, const Node& outer, int axis, const Node& inner,
                                        ClassId x, ClassId places, ClassId index) {
  Node gather = inner;
  gather.shape = outer.shape;
  for (const Coordinate& c : attr<GatherAttr>(inner).coordinates) {
    if (c.slot < 0 && depends_on(c.expr, axis)) return std::nullopt;
  }
  return r.add(gather, {x, gather_along(r, places, axis, index, outer.shape)});
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

void add_sums_over_experts(RuleMaker& m) {
  using Reach = RuleMaker::Reach;
  // What is not chosen is not multiplied by zero, which would keep its infinities.
  m.rule(
      "sum-of-routed", Equivalence::kFinite, "(reduce.sum@r (binary.mul@ ?a ?b))",
      [&m](Rewriter& r, const Match& match) {
        const Node& reduce = m.node(match, "r");
        ClassId a = match["a"], b = match["b"];
        auto result = routed_sum(r, reduce, a, b, routing_of(r, a));
        return result ? result : routed_sum(r, reduce, b, a, routing_of(r, b));
      },
      Reach::kDeep);
  // Rows of a weight, whose other rows are finite, and of anything else.
  auto one_hot = [&m](const char* name, Equivalence equivalence, bool of_weight) {
    m.rule(
        name, equivalence, "(reduce.sum@r (binary.mul@ ?a ?b))",
        [&m, of_weight](Rewriter& r, const Match& match) -> std::optional<ClassId> {
          const ClassId operands[2] = {match["a"], match["b"]};
          for (size_t side : {size_t{0}, size_t{1}}) {
            ClassId hot = operands[side], x = operands[1 - side];
            auto routing = one_hot_routing(r, hot);
            if (!routing) continue;
            // Repeated for each token, a weight is seen through a view.
            bool is_rows = !routing->weighs && r.at_load(make_factor(r, x).cls);
            if (is_rows != of_weight) continue;
            auto result = routed_sum(r, m.node(match, "r"), hot, x, routing->routing);
            if (result) return result;
          }
          return std::nullopt;
        },
        Reach::kDeep);
  };
  one_hot("sum-of-one-hot", Equivalence::kFinite, false);
  one_hot("one-hot-rows", Equivalence::kRounding, true);
}

void add_early_gathers(RuleMaker& m) {
  using Reach = RuleMaker::Reach;
  m.rule(
      "gather-of-elementwise", Equivalence::kBits, "(gather@g ?x ?i)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& gather = m.node(match, "g");
        if (!pays_early(r, gather, match["x"], match["i"])) return std::nullopt;
        return gather_operands(r, gather, match["x"], match["i"]);
      },
      Reach::kDeep);
  m.rule(
      "gather-of-view", Equivalence::kBits, "(gather@g (view@ ?x) ?i)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& gather = m.node(match, "g");
        ClassId data = r.graph().children(match.head("g").node)[0];
        auto axis = gathered_axis(r, gather, data);
        if (!axis || !pays_early(r, gather, data, match["i"])) return std::nullopt;
        return gather_before_view(r, gather, *axis, data, match["i"]);
      },
      Reach::kDeep);
  m.rule(
      "gather-of-gather", Equivalence::kBits, "(gather@g (gather@h ?x ?j) ?i)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& gather = m.node(match, "g");
        ClassId data = r.graph().children(match.head("g").node)[0];
        auto axis = gathered_axis(r, gather, data);
        if (!axis || !restores_order(r, data, match["i"])) return std::nullopt;
        return gather_at_places(r, gather, *axis, m.node(match, "h"), match["x"], match["j"],
                                match["i"]);
      },
      Reach::kDeep);
  m.rule(
      "gather-of-contraction", Equivalence::kRounding, "(gather@g (contract@c ?a ?b) ?i)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& gather = m.node(match, "g");
        ClassId data = r.graph().children(match.head("g").node)[0];
        auto axis = gathered_axis(r, gather, data);
        if (!axis || !m.is_abstract(match, "c") || !pays_early(r, gather, data, match["i"])) {
          return std::nullopt;
        }
        return gather_factors(r, gather, *axis, m.node(match, "c"), {match["a"], match["b"]},
                              match["i"]);
      },
      Reach::kDeep);
}

}  // namespace

void add_routing_rules(RuleMaker& maker) {
  add_sums_over_experts(maker);
  add_early_gathers(maker);
}

}  // namespace coordinator
