// Rotations: halves of one tensor side by side in the other order, as rotary embeddings and rolls
// have them. Each half is a guarded view, and a choice between two; all of it is one view whose
// index goes round: no guard, no branch, and one load in place of two.
#include <utility>
#include <vector>

#include "common/ir/expr/with_indices.h"
#include "coordinator/rules/matching/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::Bounds;
using common::Expr;
using common::Node;
using common::Op;
using common::Shape;
using common::View;

// Views, casts and unary operations on the way to a reading.
constexpr int kStepsMax = 6;
constexpr size_t kReadingsMax = 32;

// A class as a view of another one, with operations of one operand applied: the last one first.
struct Reading {
  ClassId base;
  View view;
  std::vector<Node> operations;
};

// The nearest first.
std::vector<Reading> readings_of(const Rewriter& r, ClassId cls) {
  std::vector<Reading> readings{{cls, common::view_identity(r.shape(cls)), {}}};
  size_t from = 0;
  for (int step = 0; step < kStepsMax; ++step) {
    for (size_t end = readings.size(); from < end; ++from) {
      const Reading reading = readings[from];
      for (const Rewriter::Found& found : r.find_all(reading.base, Op::kView)) {
        auto view = common::view_compose(
            reading.view, common::attr<common::ViewAttr>(*found.node).view, r.symbols());
        if (view) readings.push_back({found.operands[0], std::move(*view), reading.operations});
      }
      for (Op op : {Op::kUnary, Op::kCast}) {
        for (const Rewriter::Found& found : r.find_all(reading.base, op)) {
          readings.push_back({found.operands[0], reading.view, reading.operations});
          readings.back().operations.push_back(*found.node);
        }
      }
      if (readings.size() > kReadingsMax) return readings;
    }
  }
  return readings;
}

ClassId applied(Rewriter& r, const std::vector<Node>& operations, ClassId cls) {
  for (size_t k = operations.size(); k-- > 0;) {
    Node node = operations[k];
    node.shape = r.shape(cls);
    node.operands.clear();
    cls = r.add(node, {cls});
  }
  return cls;
}

// One axis of a choice: below `first` it reads one side, from there on the other.
struct Cut {
  size_t axis;
  Expr first, size;
};

std::optional<Cut> cut_of(const Rewriter& r, ClassId condition) {
  auto less = less_of_positions(r, condition);
  auto index = less ? less->x.as_var() : std::nullopt;
  if (!index || index->kind != common::Var::Kind::kIndex || less->y.uses_index()) {
    return std::nullopt;
  }
  const Shape& shape = r.shape(condition);
  auto axis = static_cast<size_t>(index->id);
  Cut cut{axis, less->y, shape[axis]};
  Bounds bounds(r.symbols(), {});
  bool is_inside =
      bounds.provably_non_negative(cut.first) && bounds.provably_non_negative(cut.size - cut.first);
  if (!is_inside) return std::nullopt;
  return cut;
}

// The loop indices of `rank` axes, with `value` for the axis' own.
std::vector<Expr> indices_with(size_t rank, size_t axis, const Expr& value) {
  std::vector<Expr> indices;
  for (size_t k = 0; k < rank; ++k) {
    indices.push_back(k == axis ? value : Expr::index(static_cast<int>(k)));
  }
  return indices;
}

// The part of an axis' loop that begins at `from`, with its own index from 0 upwards.
class Part {
 public:
  Part(const Rewriter& r, Shape shape, size_t axis, const Expr& from, const Expr& size)
      : axis_(axis), from_(from) {
    shape[axis] = size;
    bounds_ = common::loop_bounds(shape, r.symbols());
    rank_ = shape.size();
  }
  // The guards hold everywhere.
  bool is_open(const std::vector<common::Validity>& guards) const {
    auto place = moved(from_);
    for (const common::Validity& guard : guards) {
      Expr value = common::with_indices(guard.value, place);
      Expr bound = common::with_indices(guard.bound, place);
      bool holds = bounds_.provably_non_negative(value) && bounds_.provably_less(value, bound);
      if (!holds) return false;
    }
    return true;
  }
  // `a` reads at each place what `b` reads `further` on along the axis.
  bool reads_alike(const View& a, const View& b, const Expr& further) const {
    auto first = common::with_indices(a.index, moved(from_));
    auto second = common::with_indices(b.index, moved(from_ + further));
    for (size_t k = 0; k < first.size(); ++k) {
      Expr apart = first[k] - second[k];
      if (bounds_.lower(apart) != 0 || bounds_.upper(apart) != 0) return false;
    }
    return true;
  }

 private:
  std::vector<Expr> moved(const Expr& by) const {
    return indices_with(rank_, axis_, Expr::index(static_cast<int>(axis_)) + by);
  }

  size_t axis_, rank_;
  Expr from_;
  Bounds bounds_;
};

// Both sides as one view of what both read; empty unless the second goes on where the first would
// be one whole axis before.
std::optional<View> rotated(const Rewriter& r, const Reading& a, const Reading& b, const Cut& cut) {
  if (a.view.valid.empty() || b.view.valid.empty()) return std::nullopt;
  Expr rest = cut.size - cut.first;
  Part low(r, a.view.shape, cut.axis, 0, cut.first),
      high(r, b.view.shape, cut.axis, cut.first, rest);
  bool is_one = low.is_open(a.view.valid) && high.is_open(b.view.valid) &&
                high.reads_alike(b.view, a.view, -cut.size);
  if (!is_one) return std::nullopt;
  Expr round = common::mod(Expr::index(static_cast<int>(cut.axis)) + rest, cut.size) - rest;
  View view;
  view.shape = a.view.shape;
  view.index = common::with_indices(a.view.index, indices_with(view.shape.size(), cut.axis, round));
  return view;
}

}  // namespace

void add_rotation_rules(RuleMaker& m) {
  m.rule(
      "halves-in-other-order", Equivalence::kBits, "(select@ ?c ?a ?b)",
      [](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        ClassId condition = match["c"];
        auto cut = cut_of(r, condition);
        if (!cut) return std::nullopt;
        auto first = readings_of(r, match["a"]), second = readings_of(r, match["b"]);
        for (const Reading& a : first) {
          for (const Reading& b : second) {
            if (r.graph().find(a.base) != r.graph().find(b.base)) continue;
            auto view = rotated(r, a, b, *cut);
            if (!view) continue;
            ClassId whole = r.view(a.base, *view);
            if (a.operations == b.operations) return applied(r, a.operations, whole);
            ClassId below = applied(r, a.operations, whole);
            return r.select(condition, below, applied(r, b.operations, whole));
          }
        }
        return std::nullopt;
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace coordinator
