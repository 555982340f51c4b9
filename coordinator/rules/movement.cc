// Movement: casts of casts, views of views, gathers at places that are known, and work done before
// elements are repeated rather than after.
#include "common/base/contains.h"
#include "common/ir/expr/with_indices.h"
#include "coordinator/rules/matching/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::DType;
using common::Expr;
using common::GatherAttr;
using common::Op;
using common::Shape;
using common::View;
using common::ViewAttr;

// Every value of `from` is a value of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to) return true;
  switch (to) {
    case DType::kFloat64:
      return from != DType::kInt64 && from != DType::kComplex64;
    case DType::kFloat32:
      return common::is_half(from) || from == DType::kBool || from == DType::kUint8 ||
             from == DType::kInt8 || from == DType::kInt16;
    case DType::kInt64:
      return common::is_integer(from) || from == DType::kBool;
    case DType::kInt32:
      return from == DType::kBool || from == DType::kUint8 || from == DType::kInt8 ||
             from == DType::kInt16;
    default:
      return false;
  }
}

void add_casts_and_views(RuleMaker& m) {
  m.rule("cast-cast", Equivalence::kBits, "(cast@outer (cast@inner ?x))",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           if (!is_lossless(r.dtype(match["x"]), m.node(match, "inner").dtype)) return std::nullopt;
           return r.cast(match["x"], m.node(match, "outer").dtype);
         });
  m.rule("view-view", Equivalence::kBits, "(view@outer (view@inner ?x))",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           auto composed =
               common::view_compose(attr<ViewAttr>(m.node(match, "outer")).view,
                                    attr<ViewAttr>(m.node(match, "inner")).view, r.symbols());
           if (!composed) return std::nullopt;
           return r.view(match["x"], *composed);
         });
  // Reducing over axes of one element each: nothing but a view.
  for (const char* op : {"sum", "prod", "max", "min", "any", "all"}) {
    m.rule(std::string("reduce-one-by-") + op, Equivalence::kBits,
           std::string("(reduce.") + op + "@r ?x)",
           [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
             const common::Node& node = m.node(match, "r");
             const auto& axes = attr<common::ReduceAttr>(node).axes;
             const Shape& shape = r.shape(match["x"]);
             View view;
             view.shape = node.shape;
             for (int axis = 0, kept = 0; axis < static_cast<int>(shape.size()); ++axis) {
               bool reduced = common::contains(axes, axis);
               if (reduced && !shape[static_cast<size_t>(axis)].is_constant(1)) return std::nullopt;
               view.index.push_back(reduced ? Expr(0) : Expr::index(kept++));
             }
             if (r.dtype(match["x"]) != node.dtype) return std::nullopt;
             return r.view(match["x"], view);
           });
  }
}

// Whether the condition, seen through the view, is the same everywhere, as positions alone tell.
std::optional<bool> known_less(const Rewriter& r, ClassId condition, const View& view) {
  auto less = less_of_positions(r, condition);
  if (!less) return std::nullopt;
  common::Bounds bounds = common::loop_bounds(view.shape, r.symbols());
  Expr x = common::with_indices(less->x, view.index), y = common::with_indices(less->y, view.index);
  if (bounds.provably_less(x, y)) return true;
  if (bounds.provably_non_negative(x - y)) return false;
  return std::nullopt;
}

// What lies side by side and is taken apart again.
void add_parts(RuleMaker& m) {
  m.rule(
      "view-of-choice", Equivalence::kBits, "(view@v (select@s ?c ?a ?b))",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const View& view = attr<ViewAttr>(m.node(match, "v")).view;
        if (!view.valid.empty()) return std::nullopt;
        auto first = known_less(r, match["c"], view);
        if (!first) return std::nullopt;
        return r.view(match[*first ? "a" : "b"], view);
      },
      RuleMaker::Reach::kDeep);
}

void add_work_before_broadcasts(RuleMaker& m) {
  for (int k = 0; k < common::kUnaryOpCount; ++k) {
    auto op = static_cast<common::UnaryOp>(k);
    std::string name(common::unary_name(op));
    m.rule(name + "-before-broadcast", Equivalence::kBits, "(unary." + name + "@u (view@v ?x))",
           [&m, op](Rewriter& r, const Match& match) -> std::optional<ClassId> {
             const View& view = attr<ViewAttr>(m.node(match, "v")).view;
             const common::Node& u = m.node(match, "u");
             if (!is_broadcast(r, view, r.shape(match["x"]))) return std::nullopt;
             ClassId inner =
                 r.add({Op::kUnary, u.dtype, r.shape(match["x"]), {}, common::UnaryAttr{op}},
                       {match["x"]});
             return r.view(inner, view);
           });
  }
  m.rule("cast-before-broadcast", Equivalence::kBits, "(cast@c (view@v ?x))",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           const View& view = attr<ViewAttr>(m.node(match, "v")).view;
           if (!is_broadcast(r, view, r.shape(match["x"]))) return std::nullopt;
           return r.view(r.cast(match["x"], m.node(match, "c").dtype), view);
         });
  for (int k = 0; k < common::kBinaryOpCount; ++k) {
    auto op = static_cast<BinaryOp>(k);
    std::string name(common::binary_name(op));
    m.rule(name + "-before-broadcast-of-both", Equivalence::kBits,
           "(binary." + name + "@ (view@v ?x) (view@w ?y))",
           [&m, op](Rewriter& r, const Match& match) -> std::optional<ClassId> {
             const View& v = attr<ViewAttr>(m.node(match, "v")).view;
             const View& w = attr<ViewAttr>(m.node(match, "w")).view;
             ClassId x = match["x"], y = match["y"];
             if (r.shape(x).empty() != r.shape(y).empty()) {
               // A scalar meets whatever the other is: repeat it that often only.
               bool left = r.shape(x).empty();
               const Shape& shape = r.shape(left ? y : x);
               if (!is_broadcast(r, left ? w : v, shape)) return std::nullopt;
               ClassId scalar = r.view(left ? x : y, *common::view_expand({}, shape));
               return r.view(left ? r.binary(op, scalar, y) : r.binary(op, x, scalar),
                             left ? w : v);
             }
             if (v != w || r.shape(x) != r.shape(y)) return std::nullopt;
             if (!is_broadcast(r, v, r.shape(x))) return std::nullopt;
             return r.view(r.binary(op, x, y), v);
           });
  }
}

// The gather as a view, when all its positions are known and inside.
std::optional<ClassId> gather_as_view(Rewriter& r, const common::Node& gather,
                                      std::span<const ClassId> indices, ClassId data) {
  const auto& coordinates = attr<GatherAttr>(gather).coordinates;
  common::Bounds bounds = common::loop_bounds(gather.shape, r.symbols());
  View view;
  view.shape = gather.shape;
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    const common::Coordinate& c = coordinates[axis];
    Expr at = c.expr;
    if (c.slot >= 0) {
      auto value = index_value(r, indices[static_cast<size_t>(c.slot)]);
      if (!value) return std::nullopt;
      at = *value;
      if (!bounds.provably_non_negative(at) || !bounds.provably_less(at, r.shape(data)[axis])) {
        return std::nullopt;
      }
    }
    view.index.push_back(at);
  }
  return r.view(data, view);
}

void add_gathers(RuleMaker& m) {
  m.rule(
      "gather-at-iota", Equivalence::kBits, "(gather@n ?x ?i ...)",
      [&m](Rewriter& r, const Match& match) {
        auto children = r.graph().children(match.head("n").node);
        std::vector<ClassId> indices(children.begin() + 1, children.end());
        return gather_as_view(r, m.node(match, "n"), indices, match["x"]);
      },
      RuleMaker::Reach::kDeep);
  // A table that counts gives back the place it is asked for, clamped into the table.
  m.rule("gather-of-iota", Equivalence::kBits, "(gather@n ?x ?i)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           const common::Node& gather = m.node(match, "n");
           const auto& coordinates = attr<GatherAttr>(gather).coordinates;
           if (!r.find(match["x"], Op::kIota) || coordinates[0].slot != 0) return std::nullopt;
           const Expr& length = r.shape(match["x"])[0];
           if (!length.is_constant() || length.is_constant(0)) return std::nullopt;
           if (length.is_constant(1)) return r.scalar(gather.dtype, 0, gather.shape);
           DType dtype = r.dtype(match["i"]);
           if (dtype != gather.dtype || dtype != DType::kInt64) return std::nullopt;
           ClassId least = r.binary(BinaryOp::kMax, match["i"], r.scalar(dtype, 0, gather.shape));
           auto last = static_cast<double>(length.constant() - 1);
           return r.binary(BinaryOp::kMin, least, r.scalar(dtype, last, gather.shape));
         });
  m.rule("iota-of-one", Equivalence::kBits, "iota@n",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           const common::Node& iota = m.node(match, "n");
           if (!iota.shape[0].is_constant(1)) return std::nullopt;
           return r.scalar(iota.dtype, 0, iota.shape);
         });
  // Casting what is read, not the table: a table of experts is read in a few places.
  m.rule("cast-after-gather", Equivalence::kBits, "(gather@n (cast@c ?x) ?i)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           common::Node gather = m.node(match, "n");
           DType dtype = gather.dtype;
           gather.dtype = r.dtype(match["x"]);
           return r.cast(r.add(gather, {match["x"], match["i"]}), dtype);
         });
}

}  // namespace

void add_movement_rules(RuleMaker& maker) {
  add_casts_and_views(maker);
  add_parts(maker);
  add_work_before_broadcasts(maker);
  add_gathers(maker);
}

}  // namespace coordinator
