// Reductions as accumulation loops. Float sums run in vector lanes (omp simd reduction) over
// blocks whose sums a double collects, so that the error does not grow with the length. Float
// maxima are maxima of integers in the same order, with NaN at the winning end, because those
// vectorise without giving up NaN.
#include <algorithm>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/cost/operation_cost.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"
#include "common/lowering/body/dot_product.h"
#include "common/lowering/body/folding.h"
#include "common/lowering/text/c_text.h"

namespace common {

namespace {

// Float sums are collected in double after this many elements.
constexpr int64_t kSumBlock = 2048;
// An arg reduction compares whole blocks first.
constexpr int64_t kArgBlock = 256;
// The share of blocks that are expected to improve on those before.
constexpr double kBetterBlocks = 0.25;
// Elements that one step of a dot product takes together, and of the shortest that is a call.
constexpr int64_t kDotStep = 32;
constexpr int64_t kDotLeast = 32;

ReducedLoops reduced_loops(const std::vector<int>& axes, const Shape& shape, bool flat) {
  ReducedLoops loops;
  if (!flat) {
    for (size_t k = 0; k < axes.size(); ++k) {
      loops.extents.push_back(shape[at(axes[k])]);
      loops.positions.push_back(Expr::index(static_cast<int>(k)));
    }
    return loops;
  }
  Expr below = 1;
  loops.positions.resize(axes.size());
  for (size_t k = axes.size(); k-- > 0;) {
    const Expr& size = shape[at(axes[k])];
    Expr position = floor_div(Expr::index(0), below);
    loops.positions[k] = k == 0 ? position : mod(position, size);
    below *= size;
  }
  loops.extents.push_back(below);
  return loops;
}

// The first of these indices that is in some expression; -1: none is.
int used_index(const std::vector<int>& candidates, const Indices& indices) {
  for (int candidate : candidates) {
    for (const Expr& e : indices) {
      if (e.uses({Var::Kind::kIndex, candidate})) return candidate;
    }
  }
  return -1;
}

Indices moved(Indices indices, const std::vector<std::pair<int, int>>& moves) {
  for (auto [from, to] : moves) indices = with_index(indices, from, Expr::index(to));
  return indices;
}

}  // namespace

ReductionChoices BodyEmitter::used_choices() const {
  ReductionChoices used = choices_.used;
  // In the order that they were asked for.
  for (auto& [first, others] : used.fused) {
    std::vector<NodeId> joined;
    for (NodeId other : choices_.given.fused.at(first)) {
      if (contains(others, other)) joined.push_back(other);
    }
    others = std::move(joined);
  }
  return used;
}

void BodyEmitter::set_choices(ReductionChoices choices) { choices_.given = std::move(choices); }

// The operand's indices, at the loops' indices.
void BodyEmitter::place(Folding& f) {
  for (size_t k = 0; k < f.axes.size(); ++k) {
    f.inner[at(f.axes[k])] = with_indices(f.loops.positions[k], f.indices);
  }
}

// One step of all folds, at the loops' indices.
void BodyEmitter::accumulate(Folding& f) {
  place(f);
  for (const auto& fold : f.folds) {
    CodeValue x = value(graph_.node(fold.id).operands[0], moved(f.inner, fold.moved));
    std::string entered = fold.acc.enter(x.text);
    if (entered != x.text) x = w_.declare(w_.depth(), fold.acc.type, "k", entered, {});
    w_.line(team_ ? fold.acc.step(fold.part, x.text) : fold.acc.loose_step(fold.part, x.text),
            reduction_work(graph_, graph_.node(fold.id)));
  }
}

// The same reductions of the other rows that the group computes at once, and of the other steps of
// reductions that are walked, in the same loops.
void BodyEmitter::add_alternatives(Folding& f, const Indices& indices) {
  std::vector<std::vector<int>> alternatives = walks_;
  alternatives.push_back(team_->team().rows);
  for (const std::vector<int>& others : alternatives) {
    int from = used_index(others, indices);
    if (from < 0) continue;
    size_t asked = f.folds.size();
    for (int other : others) {
      if (other == from) continue;
      for (size_t k = 0; k < asked; ++k) {
        Folding::Fold fold = f.folds[k];
        fold.moved.emplace_back(from, other);
        if (w_.find({fold.id, kElementTag, moved(indices, fold.moved)}) == nullptr) {
          f.folds.push_back(std::move(fold));
        }
      }
    }
  }
}

CodeValue BodyEmitter::walked_reduction(NodeId id, const Indices& indices, int level) {
  const Node& node = graph_.node(id);
  const auto& a = attr<ReduceAttr>(node);
  const Shape& shape = graph_.node(node.operands[0]).shape;
  choices_.used.walked.insert(id);
  Folding f;
  f.axes = a.axes;
  f.loops = reduced_loops(a.axes, shape, true);
  f.inner = operand_indices(a.axes, shape.size(), indices);
  f.folds.push_back({id,
                     team_accumulation(accumulation_of(a.op, node.dtype), f.loops, false),
                     w_.fresh("a"),
                     "",
                     {}});
  Folding::Fold& fold = f.folds[0];
  fold.part = fold.total;
  w_.line(cat(fold.acc.type, " ", fold.total, " = ", fold.acc.start, ";"));
  int64_t steps = f.loops.extents[0].constant();
  if (!team_->is_together()) {
    // Nothing within is shared, so that each step's places are numbers.
    for (int64_t k = 0; k < steps; ++k) {
      f.indices = {Expr(k)};
      accumulate(f);
    }
    advise(indices);
    return declare(level, node.dtype, fold.acc.leave(fold.total));
  }
  std::vector<int> walk;
  for (int64_t k = 0; k < steps; ++k) walk.push_back(w_.bind_index(cat(k), steps, 0));
  walks_.push_back(walk);
  for (int step : walk) {
    f.indices = {Expr::index(step)};
    accumulate(f);
  }
  walks_.pop_back();
  return declare(level, node.dtype, fold.acc.leave(fold.total));
}

std::string BodyEmitter::pointer_of_input(int position) const {
  for (const auto& [id, stored] : stored_) {
    const Node& node = graph_.node(id);
    if (node.op == Op::kInput && attr<InputAttr>(node).position == position) return stored.pointer;
  }
  LFARM_CHECK(false, "every input is stored");
  return "";
}

// The sum of products of values that lie side by side in inputs is a call; false where the
// innermost loop is anything else.
bool BodyEmitter::add_dot_product(Folding& f, const std::string& from, const std::string& to) {
  const Folding::Fold& fold = f.folds[0];
  const Node& product = graph_.node(graph_.node(fold.id).operands[0]);
  const Expr& extent = f.loops.extents.back();
  if (!choices_.has_dot_products || f.folds.size() != 1 || fold.acc.op != ReduceOp::kSum)
    return false;
  if (product.op != Op::kBinary || attr<BinaryAttr>(product).op != BinaryOp::kMul) return false;
  if (product.dtype != DType::kFloat32) return false;
  int step = w_.bind_index(from, extent, w_.depth());
  f.indices.push_back(Expr::index(step));
  place(f);
  f.indices.pop_back();
  auto dot = dot_product(product, f.inner, step, *this);
  if (!dot) return false;
  // A call for a few float32 elements takes longer than a loop that stands where it is.
  if (dot->first_stored == DType::kFloat32 && w_.bounds().upper(extent) < kDotLeast) return false;
  w_.open_blocks(floor_div(extent + (kDotStep - 1), kDotStep));
  auto place_of = [&](const PlainRead& read) {
    seen_.load_offsets.push_back(read.offset);
    nest_.note_load(read.offset);
    return cat(pointer_of_input(read.input), " + ", w_.text(read.offset));
  };
  const std::string first = place_of(dot->first);
  const std::string name =
      cat("lf_dot_", dtype_name(dot->first_stored), "_", dtype_name(dot->second.stored));
  std::string call;
  for (const DotRead& each : dot->second.reads) {
    if (!each.condition.empty()) call += cat(each.condition, " ? ");
    call += cat(name, "(", first, ", ", place_of(each.read), ", ", to, " - ", from, ")");
    if (!each.condition.empty()) call += " : ";
  }
  choices_.used_dot_products = true;
  w_.line(fold.acc.step(fold.part, call), {});
  w_.close("");
  // Two loads, which may widen what they load, and a multiply-add.
  LoopWork loop{{.simple = 3}, 1, w_.estimate(extent)};
  w_.add_work(w_.depth(), loop);
  return true;
}

void BodyEmitter::fold_innermost(Folding& f) {
  const Expr& extent = f.loops.extents.back();
  bool two_stages = false;
  for (const auto& fold : f.folds) two_stages = two_stages || !fold.acc.outer.empty();
  bool blocked = two_stages && w_.bounds().upper(extent) > kSumBlock;
  std::string n = w_.text(extent);
  std::string from = "0";
  std::string to = n;
  if (blocked) {
    w_.open_blocks(floor_div(extent + (kSumBlock - 1), kSumBlock));
    from = w_.fresh("b");
    to = w_.fresh("e");
    w_.line(cat("const int64_t ", to, " = lf_min_i64(", from, " + ", kSumBlock, ", ", n, ");"));
  }
  for (auto& fold : f.folds) {
    fold.part = fold.acc.outer.empty() ? fold.total : w_.fresh("p");
    if (fold.part != fold.total) {
      w_.line(cat(fold.acc.type, " ", fold.part, " = ", fold.acc.start, ";"));
    }
  }
  if (!add_dot_product(f, from, to)) {
    std::string j = w_.fresh("j");
    f.indices.push_back(
        Expr::index(w_.open_loop(j, extent, blocked ? min(extent, kSumBlock) : extent)));
    w_.covers_extent(blocked ? 2 : 1);
    accumulate(f);
    std::string clauses;
    for (const auto& fold : f.folds) {
      clauses += cat(" reduction(", fold.acc.clause, ":", fold.part, ")");
    }
    std::string pragma = w_.holds_loops() || team_ ? "" : cat("#pragma omp simd", clauses, "\n");
    w_.close(cat(pragma, counting_loop(j, from, to)));
  }
  for (const auto& fold : f.folds) {
    if (fold.part != fold.total) w_.line(fold.acc.step(fold.total, fold.part));
    double length = w_.estimate(blocked ? min(extent, kSumBlock) : extent);
    w_.add_work(w_.depth(), row_end_work(graph_, graph_.node(fold.id), length));
  }
  if (blocked) w_.close(counting_loop(from, "0", n, kSumBlock));
}

void BodyEmitter::fold_loops(Folding& f, size_t loop) {
  if (loop + 1 == f.loops.extents.size()) {
    fold_innermost(f);
    return;
  }
  const Expr& extent = f.loops.extents[loop];
  std::string j = w_.fresh("j");
  std::string n = w_.text(extent);
  f.indices.push_back(Expr::index(w_.open_loop(j, extent)));
  fold_loops(f, loop + 1);
  w_.close(counting_loop(j, "0", n));
}

CodeValue BodyEmitter::reduction(NodeId id, const Indices& indices) {
  const Node& node = graph_.node(id);
  const auto& a = attr<ReduceAttr>(node);
  if (int lane = lanes_.lane_of(indices, node.shape); lane >= 0)
    return lane_reduction(id, indices, lane);
  int level = safe_level(indices, node.shape);
  if (a.op == ReduceOp::kArgmax || a.op == ReduceOp::kArgmin) {
    return arg_reduction(node, indices, level);
  }
  CodeWriter::Outward outward(w_, level);
  seen_.reductions.push_back({id, level, indices});
  bool together = team_ && team_->is_together();
  if (team_ && choices_.given.walked.count(id) != 0) return walked_reduction(id, indices, level);
  Folding f;
  f.axes = a.axes;
  f.folds.push_back({id, accumulation_of(a.op, node.dtype), "", "", {}});
  if (auto fused = choices_.given.fused.find(id); fused != choices_.given.fused.end()) {
    for (NodeId other : fused->second) {
      const Node& sibling = graph_.node(other);
      if (w_.find({other, kElementTag, indices}) != nullptr) continue;
      std::vector<NodeId>& joined = choices_.used.fused[id];
      if (!contains(joined, other)) joined.push_back(other);
      f.folds.push_back(
          {other, accumulation_of(attr<ReduceAttr>(sibling).op, sibling.dtype), "", "", {}});
    }
  }
  if (together) add_alternatives(f, indices);
  const Shape& shape = graph_.node(node.operands[0]).shape;
  bool is_flat = !together && choices_.given.flat.count(id) != 0;
  if (is_flat) choices_.used.flat.insert(id);
  f.loops = reduced_loops(a.axes, shape, together || is_flat);
  for (auto& fold : f.folds) {
    fold.total = w_.fresh("a");
    if (team_) fold.acc = team_accumulation(fold.acc, f.loops, together);
    w_.line(cat(fold.acc.outer.empty() ? fold.acc.type : fold.acc.outer, " ", fold.total, " = ",
                fold.acc.start, ";"));
  }
  f.inner = operand_indices(a.axes, shape.size(), indices);
  if (together) {
    fold_together(f);
  } else {
    fold_loops(f, 0);
  }
  advise(indices);
  CodeValue result;
  for (const auto& fold : f.folds) {
    CodeValue x = declare(level, graph_.node(fold.id).dtype, fold.acc.leave(fold.total));
    if (fold.id == id && fold.moved.empty()) {
      result = x;
    } else {
      w_.remember({fold.id, kElementTag, moved(indices, fold.moved)}, x);
    }
  }
  return result;
}

// The first position of the greatest (least) element; a NaN counts as it. Blocks are compared by
// their extremum, which runs in vectors; only a block that improves on it is searched.
CodeValue BodyEmitter::arg_reduction(const Node& node, const Indices& indices, int level) {
  const auto& a = attr<ReduceAttr>(node);
  const Node& operand = graph_.node(node.operands[0]);
  bool greatest = a.op == ReduceOp::kArgmax;
  Accumulation acc = accumulation_of(a.op, operand.dtype);
  auto axis = static_cast<std::ptrdiff_t>(a.axes[0]);
  const Expr& extent = operand.shape[at(a.axes[0])];

  CodeWriter::Outward outward(w_, level);
  if (team_ && team_->is_together()) return arg_together(node, indices, level);
  std::string best = w_.fresh("a");
  std::string where = w_.fresh("w");
  std::string n = w_.text(extent);
  w_.line(cat(acc.type, " ", best, " = ", acc.start, ";"));
  w_.line(cat("int64_t ", where, " = 0;"));
  w_.open_blocks(floor_div(extent + (kArgBlock - 1), kArgBlock));
  std::string from = w_.fresh("b");
  std::string to = w_.fresh("e");
  std::string top = w_.fresh("p");
  w_.line(cat("const int64_t ", to, " = lf_min_i64(", from, " + ", kArgBlock, ", ", n, ");"));
  w_.line(cat(acc.type, " ", top, " = ", acc.start, ";"));
  auto element = [&](const std::string& j) {
    Indices inner = indices;
    int id = w_.open_loop(j, extent, min(extent, kArgBlock));
    inner.insert(inner.begin() + axis, Expr::index(id));
    CodeValue x = value(node.operands[0], inner);
    return w_.declare(w_.depth(), acc.type, "k", acc.enter(x.text)).text;
  };
  std::string j = w_.fresh("j");
  w_.line(acc.step(top, element(j)), reduction_work(graph_, node));
  std::string pragma = w_.holds_loops() || team_
                           ? ""
                           : cat("#pragma omp simd reduction(", acc.clause, ":", top, ")\n");
  w_.close(cat(pragma, counting_loop(j, from, to)));
  w_.open(true);
  w_.line(cat(best, " = ", top, ";"));
  j = w_.fresh("j");
  std::string key = element(j);
  w_.line(cat("if (", key, " == ", top, ") { ", where, " = ", j, "; break; }"));
  w_.close(counting_loop(j, from, to));
  w_.set_trips(kBetterBlocks);
  w_.close(cat("if (", top, greatest ? " > " : " < ", best, ")"));
  w_.add_work(w_.depth(), row_end_work(graph_, node, w_.estimate(min(extent, kArgBlock))));
  w_.close(counting_loop(from, "0", n, kArgBlock));
  advise(indices);
  return w_.declare(level, "int64_t", "v", where);
}

}  // namespace common
