// Positions: what is known of whole numbers without running. Places that a sort or a count gave are
// inside; a sorted order and its inverse undo each other; what is counted into bins and looked up
// again is what was sorted.
#include <cmath>

#include "coordinator/rules/matching/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::Coordinate;
using common::DType;
using common::Expr;
using common::Node;
using common::Op;
using common::ScatterAttr;
using common::ScatterMode;
using common::Shape;

// ---- Ranges ---------------------------------------------------------------------------------

std::optional<bool> compared(BinaryOp op, const WholeRange& x, const WholeRange& y) {
  bool apart = x.most < y.least || y.most < x.least;
  switch (op) {
    case BinaryOp::kLess:
      if (x.most < y.least) return true;
      if (x.least >= y.most) return false;
      return std::nullopt;
    case BinaryOp::kLessEqual:
      if (x.most <= y.least) return true;
      if (x.least > y.most) return false;
      return std::nullopt;
    case BinaryOp::kEqual:
      if (apart) return false;
      return std::nullopt;
    case BinaryOp::kNotEqual:
      if (apart) return true;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

void add_ranges(RuleMaker& m) {
  using Reach = RuleMaker::Reach;
  for (BinaryOp op :
       {BinaryOp::kLess, BinaryOp::kLessEqual, BinaryOp::kEqual, BinaryOp::kNotEqual}) {
    std::string name(common::binary_name(op));
    m.rule(
        name + "-in-range", Equivalence::kBits, "(binary." + name + "@ ?x ?y)",
        [op](Rewriter& r, const Match& match) -> std::optional<ClassId> {
          auto x = whole_range(r, match["x"]);
          auto y = x ? whole_range(r, match["y"]) : std::nullopt;
          auto value = y ? compared(op, *x, *y) : std::nullopt;
          if (!value) return std::nullopt;
          return r.scalar(DType::kBool, *value ? 1 : 0, r.shape(match.root));
        },
        Reach::kDeep);
  }
  for (BinaryOp op : {BinaryOp::kMin, BinaryOp::kMax}) {
    std::string name(common::binary_name(op));
    m.rule(
        name + "-in-range", Equivalence::kBits, "(binary." + name + "@ ?x ?y)",
        [op](Rewriter& r, const Match& match) -> std::optional<ClassId> {
          auto x = whole_range(r, match["x"]);
          auto y = x ? whole_range(r, match["y"]) : std::nullopt;
          if (!y) return std::nullopt;
          bool is_least = op == BinaryOp::kMin;
          if (x->most <= y->least) return match[is_least ? "x" : "y"];
          if (y->most <= x->least) return match[is_least ? "y" : "x"];
          return std::nullopt;
        },
        Reach::kDeep);
  }
  m.rule(
      "cast-cast-in-range", Equivalence::kBits, "(cast@outer (cast@inner ?x))",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        auto range = whole_range(r, match["x"]);
        if (!range || !holds(m.node(match, "inner").dtype, *range)) return std::nullopt;
        return r.cast(match["x"], m.node(match, "outer").dtype);
      },
      Reach::kDeep);
}

// ---- Bins -----------------------------------------------------------------------------------

constexpr int64_t kBinsMax = 4096;

// Whether min(floor(x * scale / width), last) is x for every x of the range, as the type computes.
template <class T>
bool is_own_bin(const WholeRange& range, double scale, double width, double last) {
  for (int64_t x = range.least; x <= range.most; ++x) {
    T scaled = static_cast<T>(static_cast<T>(x) * static_cast<T>(scale));
    double bin = std::floor(static_cast<T>(scaled / static_cast<T>(width)));
    if (std::min(bin, last) != static_cast<double>(x)) return false;
  }
  return true;
}

std::optional<ClassId> own_bin(Rewriter& r, const Match& match, DType dtype) {
  auto range = whole_range(r, match["x"]);
  auto scale = r.uniform_value(match["scale"]), width = r.uniform_value(match["width"]);
  auto last = r.uniform_value(match["last"]);
  if (!range || !scale || !width || !last || !common::is_integer(dtype) || !holds(dtype, *range) ||
      range->most - range->least >= kBinsMax || *width <= 0) {
    return std::nullopt;
  }
  DType from = r.dtype(match["x"]);
  bool same = (from == DType::kFloat32 && is_own_bin<float>(*range, *scale, *width, *last)) ||
              (from == DType::kFloat64 && is_own_bin<double>(*range, *scale, *width, *last));
  if (!same) return std::nullopt;
  return r.cast(match["x"], dtype);
}

// The one-dimensional places at which the scatter puts its updates, each along the one axis.
bool is_along_line(const Node& scatter, ScatterMode mode) {
  const auto& s = attr<ScatterAttr>(scatter);
  return s.mode == mode && scatter.shape.size() == 1 && s.coordinates[0].slot == 0;
}

// The class holds numbers in ascending order: it was gathered in the order of its sort.
bool is_sorted(const Rewriter& r, ClassId cls) {
  for (const Rewriter::Found& gather : r.find_all(cls, Op::kGather)) {
    if (gather.operands.size() != 2 || gather.node->shape.size() != 1 ||
        attr<common::GatherAttr>(*gather.node).coordinates.size() != 1 ||
        r.shape(gather.operands[0]) != gather.node->shape) {
      continue;
    }
    for (const Rewriter::Found& sort : r.find_all(gather.operands[1], Op::kSort)) {
      if (!attr<common::SortAttr>(*sort.node).descending &&
          r.graph().find(sort.operands[0]) == r.graph().find(gather.operands[0])) {
        return true;
      }
    }
  }
  return false;
}

// How many ends of bins lie at or before a position, where bins follow each other and are as long
// as there are numbers in them: the number at that position of the sorted ones.
std::optional<ClassId> number_at_position(Rewriter& r, const Node& sum, ClassId ends,
                                          ClassId position) {
  const auto& axes = attr<common::ReduceAttr>(sum).axes;
  if (axes != std::vector<int>{1} || r.shape(ends).size() != 2) return std::nullopt;
  auto at = index_value(r, position);
  Descent descent(r, ends);
  if (!at || *at != Expr::index(0) || !descent.through_views()) return std::nullopt;
  auto scan = r.find(descent.cls(), Op::kScan);
  bool by_bin = descent.view().index == std::vector<Expr>{Expr::index(1)} &&
                descent.view().shape[1] == r.shape(descent.cls())[0];
  if (!scan || !by_bin || attr<common::ScanAttr>(*scan->node).op != common::ScanOp::kSum) {
    return std::nullopt;
  }
  ClassId counts = scan->operands[0];
  auto scatter = r.find(counts, Op::kScatter);
  if (!scatter) {
    auto cast = r.find(counts, Op::kCast);
    if (cast) scatter = r.find(cast->operands[0], Op::kScatter);
  }
  if (!scatter || !is_along_line(*scatter->node, ScatterMode::kAdd)) return std::nullopt;
  auto base = r.uniform_value(scatter->operands[0]), update = r.uniform_value(scatter->operands[1]);
  if (!base || *base != 0 || !update || *update != 1) return std::nullopt;
  ClassId numbers = scatter->operands[2];
  if (r.shape(numbers) != Shape{sum.shape[0]} || !is_sorted(r, numbers)) return std::nullopt;
  common::Bounds bounds(r.symbols(), {});
  WholeRange count{0, bounds.upper(sum.shape[0])};
  auto range = whole_range(r, numbers);
  bool inside = range && range->least >= 0 &&
                bounds.provably_less(Expr(range->most), scatter->node->shape[0]);
  if (!inside || !holds(scatter->node->dtype, count) || !holds(r.dtype(descent.cls()), count) ||
      !holds(sum.dtype, *range)) {
    return std::nullopt;
  }
  return r.cast(numbers, sum.dtype);
}

void add_bins(RuleMaker& m) {
  using Reach = RuleMaker::Reach;
  m.rule(
      "bin-of-whole-number", Equivalence::kBits,
      "(binary.min@ (cast@c (unary.floor@ (binary.div@ (binary.mul@ ?x ?scale) ?width))) ?last)",
      [&m](Rewriter& r, const Match& match) { return own_bin(r, match, m.node(match, "c").dtype); },
      Reach::kDeep);
  m.rule(
      "number-at-position", Equivalence::kBits, "(reduce.sum@r (cast@ (binary.less_equal@ ?e ?p)))",
      [&m](Rewriter& r, const Match& match) {
        return number_at_position(r, m.node(match, "r"), match["e"], match["p"]);
      },
      Reach::kDeep);
}

}  // namespace

std::optional<ClassId> undone_order(const Rewriter& r, ClassId cls) {
  auto scatter = r.find(cls, Op::kScatter);
  if (!scatter || !is_along_line(*scatter->node, ScatterMode::kAssign)) return std::nullopt;
  auto update = index_value(r, scatter->operands[1]);
  ClassId order = scatter->operands[2];
  auto sort = r.find(order, Op::kSort);
  // A permutation: all positions of what is sorted.
  if (!update || *update != Expr::index(0) || r.shape(order) != scatter->node->shape || !sort ||
      r.shape(sort->operands[0]) != scatter->node->shape) {
    return std::nullopt;
  }
  return r.graph().find(order);
}

void add_positions_rules(RuleMaker& m) {
  add_ranges(m);
  add_bins(m);
  m.rule(
      "order-undone", Equivalence::kBits, "(gather@g ?order ?i)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& gather = m.node(match, "g");
        auto undone = undone_order(r, match["i"]);
        if (!undone || *undone != r.graph().find(match["order"])) return std::nullopt;
        return r.add({Op::kIota, gather.dtype, gather.shape, {}, {}}, {});
      },
      RuleMaker::Reach::kDeep);
  m.rule("gather-of-uniform", Equivalence::kBits, "(gather@g ?x ?_ ...)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           const Node& gather = m.node(match, "g");
           auto value = r.uniform_value(match["x"]);
           common::Bounds bounds(r.symbols(), {});
           bool filled = bounds.lower(common::element_count(r.shape(match["x"]))) > 0;
           if (!value || !filled) return std::nullopt;
           return r.scalar(gather.dtype, *value, gather.shape);
         });
}

}  // namespace coordinator
