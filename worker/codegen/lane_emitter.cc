// Reductions for a whole block of lanes: accumulators in arrays, the lanes' loop innermost.
#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/cat.h"
#include "worker/codegen/accumulation.h"
#include "worker/codegen/body_emitter.h"
#include "worker/codegen/c_text.h"

namespace worker {

using common::cat;
using common::Expr;
using common::Node;
using common::NodeId;
using common::ReduceAttr;
using common::ReduceOp;
using common::Shape;
using common::Var;

namespace {

constexpr int kSplitSymbol = 1 << 21;  // stands for a split loop's index; no kernel has as many
constexpr int kLaneTag = 2;            // of ValueKey: the array over the lanes
// Float sums go on in double after this many steps.
constexpr int64_t kLaneSumBlock = 256;

size_t at(int index) { return static_cast<size_t>(index); }

bool is_position(ReduceOp op) { return op == ReduceOp::kArgmax || op == ReduceOp::kArgmin; }

Accumulation lane_accumulation(const common::Graph& graph, const Node& node) {
  return accumulation_of(attr<ReduceAttr>(node).op, graph.node(node.operands[0]).dtype);
}

}  // namespace

void BodyEmitter::open_lanes(LaneBlock block) {
  Lanes lanes;
  lanes.canonical = w_.bind_index(w_.fresh("lane"), block.extent, block.level);
  lanes.block = std::move(block);
  lanes_ = std::move(lanes);
}

Expr BodyEmitter::open_lane_loop(const std::string& name) {
  const Expr& extent = lanes_->block.extent;
  int id = w_.open_loop(name, extent, common::min(extent, lanes_->block.width));
  lanes_->loops.push_back(id);
  return Expr::index(id);
}

void BodyEmitter::close_lane_loop(const std::string& pragma) {
  std::string i = w_.index_name(lanes_->loops.back());
  lanes_->loops.pop_back();
  w_.close(cat(pragma, counting_loop(i, lanes_->block.begin, lanes_->block.end)));
}

void BodyEmitter::advise(const Indices& indices) {
  if (nest_.empty() || lanes_) return;
  std::vector<bool> uses(nest_.size(), false);
  bool known_outside = true;
  for (const Expr& e : indices) {
    e.visit_vars([&](Var v) {
      if (v.kind != Var::Kind::kIndex) return;
      auto found = std::find(nest_.begin(), nest_.end(), v.id);
      if (found != nest_.end()) {
        uses[static_cast<size_t>(found - nest_.begin())] = true;
      } else if (w_.level_of_index(v.id) >= w_.level_of_index(nest_[0])) {
        known_outside = false;
      }
    });
  }
  if (!known_outside) return;
  if (uses.back()) {
    advice_.lanes = true;
    for (size_t k = 0; k + 1 < uses.size(); ++k) {
      if (uses[k]) advice_.position = std::max(advice_.position, k + 1);
    }
  }
  if (std::find(advice_.dependencies.begin(), advice_.dependencies.end(), uses) ==
      advice_.dependencies.end()) {
    advice_.dependencies.push_back(std::move(uses));
  }
}

int BodyEmitter::lane_of(const Node& node, const Indices& indices) {
  if (!lanes_) return -1;
  int lane = -1;
  bool fits = true;
  for (size_t k = 0; k < indices.size(); ++k) {
    indices[k].visit_vars([&](Var v) {
      if (v.kind != Var::Kind::kIndex) return;
      bool is_lane =
          std::find(lanes_->loops.begin(), lanes_->loops.end(), v.id) != lanes_->loops.end();
      if (is_lane) {
        fits = fits && (lane < 0 || lane == v.id);
        lane = v.id;
      } else {
        fits = fits && w_.level_of_index(v.id) <= lanes_->block.level;
      }
    });
    fits = fits && w_.bounds().provably_non_negative(indices[k]) &&
           w_.bounds().provably_less(indices[k], node.shape[k]);
  }
  return fits ? lane : -1;
}

Indices BodyEmitter::with_lane(const Indices& indices, int lane, const Expr& replacement) const {
  Indices result;
  for (const Expr& e : indices) {
    result.push_back(e.substitute([&](Var v) -> Expr {
      return v.kind == Var::Kind::kIndex && v.id == lane ? replacement : Expr::var(v);
    }));
  }
  return result;
}

int BodyEmitter::array_lane(NodeId id, const Indices& indices) {
  const Node& node = graph_.node(id);
  bool elementwise = node.op == common::Op::kUnary || node.op == common::Op::kBinary ||
                     node.op == common::Op::kCast || node.op == common::Op::kSelect;
  if (!lanes_ || !elementwise || reduction_depth_[at(id)] == 0) return -1;
  int lane = lane_of(node, indices);
  // Straight in the block there is nothing to save.
  return lane >= 0 && w_.level_of_index(lane) > lanes_->block.level + 1 ? lane : -1;
}

template <class Emit>
std::string BodyEmitter::lane_array(NodeId id, const Indices& indices, int lane, const char* prefix,
                                    Emit emit) {
  ValueKey key{id, kLaneTag, with_lane(indices, lane, Expr::index(lanes_->canonical))};
  if (const CodeValue* known = w_.find(key)) return known->text;
  std::string name = w_.fresh(prefix);
  CodeWriter::Outward outward(w_, lanes_->block.level);
  emit(name);
  w_.remember(key, {name, lanes_->block.level, -1});
  return name;
}

std::string BodyEmitter::lane_place(int lane) const {
  return cat("[", w_.index_name(lane), " - ", lanes_->block.begin, "]");
}

CodeValue BodyEmitter::lane_value(NodeId id, const Indices& indices, int lane) {
  const Node& node = graph_.node(id);
  std::string array = lane_array(id, indices, lane, "r", [&](const std::string& name) {
    w_.line(cat(c_storage_type(node.dtype), " ", name, "[", lanes_->block.width, "];"));
    std::string l = w_.fresh("l");
    Expr index = open_lane_loop(l);
    CodeValue x = value(id, with_lane(indices, lane, index));
    w_.line(cat(name, "[", l, " - ", lanes_->block.begin, "] = ", x.text, ";"));
    close_lane_loop("LF_VECTOR_LOOP(0, 1)\n");
  });
  return declare(w_.level_of_index(lane), node.dtype, cat(array, lane_place(lane)));
}

CodeValue BodyEmitter::lane_reduction(NodeId id, const Indices& indices, int lane) {
  const Node& node = graph_.node(id);
  std::string array = lane_array(id, indices, lane, "a", [&](const std::string& name) {
    emit_lane_arrays(node, indices, lane, name);
  });
  if (is_position(attr<ReduceAttr>(node).op)) {
    return w_.declare(w_.level_of_index(lane), "int64_t", "v", cat(array, "_at", lane_place(lane)));
  }
  Accumulation acc = lane_accumulation(graph_, node);
  return declare(w_.level_of_index(lane), node.dtype, acc.leave(cat(array, lane_place(lane))));
}

void BodyEmitter::emit_lane_arrays(const Node& node, const Indices& indices, int lane,
                                   const std::string& name) {
  const auto& a = attr<ReduceAttr>(node);
  const Shape& shape = graph_.node(node.operands[0]).shape;
  Accumulation acc = lane_accumulation(graph_, node);
  Expr count = 1;
  for (int axis : a.axes) count *= shape[at(axis)];
  // Long float sums: steps in float, runs of steps in double.
  bool two_stages = !acc.outer.empty() && w_.bounds().upper(count) > 4 * kLaneSumBlock;
  std::string width = cat("[", lanes_->block.width, "]");
  std::string steps = two_stages ? cat(name, "_run") : name;
  auto over_lanes = [&](const std::function<void(const std::string&)>& statement) {
    std::string l = w_.fresh("l");
    open_lane_loop(l);
    statement(cat("[", l, " - ", lanes_->block.begin, "]"));
    close_lane_loop("LF_VECTOR_LOOP(0, 1)\n");
  };
  w_.line(cat(acc.type, " ", steps, width, ";"));
  if (two_stages) w_.line(cat(acc.outer, " ", name, width, ";"));
  if (is_position(a.op)) w_.line(cat("int64_t ", name, "_at", width, ";"));
  over_lanes([&](const std::string& l) {
    w_.line(cat(steps, l, " = ", acc.start, ";"));
    if (two_stages) w_.line(cat(name, l, " = 0;"));
    if (is_position(a.op)) w_.line(cat(name, "_at", l, " = 0;"));
  });

  Indices inner(shape.size(), Expr(0));
  size_t next = 0;
  for (size_t k = 0; k < shape.size(); ++k) {
    bool reduced = std::find(a.axes.begin(), a.axes.end(), static_cast<int>(k)) != a.axes.end();
    if (!reduced) inner[k] = indices[next++];
  }
  std::vector<std::string> headers;
  std::string position;
  bool flushed = false;
  for (size_t k = 0; k < a.axes.size(); ++k) {
    const Expr& extent = shape[at(a.axes[k])];
    std::string n = w_.text(extent);
    bool flush_here = two_stages && k + 1 == a.axes.size();
    std::string from = "0";
    if (flush_here) {
      from = w_.fresh("b");
      flushed = true;
      w_.open_blocks(common::floor_div(extent + (kLaneSumBlock - 1), kLaneSumBlock));
      headers.push_back(counting_loop(from, "0", n, kLaneSumBlock));
    }
    std::string j = w_.fresh("j");
    Expr trips = flush_here ? common::min(extent, kLaneSumBlock) : extent;
    inner[at(a.axes[k])] = Expr::index(w_.open_loop(j, extent, trips));
    std::string to = flush_here ? cat("lf_min_i64(", from, " + ", kLaneSumBlock, ", ", n, ")") : n;
    headers.push_back(counting_loop(j, from, to));
    position = j;
  }
  lane_step(node, inner, lane, steps, is_position(a.op) ? position : "");
  while (!headers.empty()) {
    w_.close(headers.back());
    headers.pop_back();
    if (flushed) {
      over_lanes([&](const std::string& l) {
        w_.line(cat(name, l, " += ", steps, l, ";"));
        w_.line(cat(steps, l, " = 0;"));
      });
      flushed = false;
    }
  }
}

// One step of all lanes; `position` is what an arg reduction records, else empty. Where views'
// validities depend on the lane, the steps in their middle, where all hold, run without checks.
void BodyEmitter::lane_step(const Node& node, const Indices& inner, int lane,
                            const std::string& name, const std::string& position) {
  std::string l = w_.fresh("l");
  Expr index = open_lane_loop(l);
  w_.make_conditional();
  // What the operand asks for may hold lane loops of its own.
  std::optional<Split> around = std::exchange(split_, Split{index.as_var()->id, false, {}});
  lane_statements(node, with_lane(inner, lane, index), l, name, position);
  auto pragma = [&] { return w_.holds_loops() ? "" : "LF_VECTOR_LOOP(0, 1)\n"; };
  if (split_->checks.empty() || w_.holds_loops()) {
    split_ = std::move(around);
    close_lane_loop(pragma());
    return;
  }
  std::string checked = w_.innermost_text();
  auto loop = [&](const std::string& from, const std::string& to) {
    return cat("LF_VECTOR_LOOP(0, 1)\nfor (int64_t ", l, " = ", from, "; ", l, " < ", to, "; ++", l,
               ")");
  };
  auto [lo, hi] = split_range();
  lanes_->loops.pop_back();
  w_.close(loop(lanes_->block.begin, lo));
  Expr middle = open_lane_loop(l);
  w_.make_conditional();
  split_->index = middle.as_var()->id;
  split_->assume = true;
  lane_statements(node, with_lane(inner, lane, middle), l, name, position);
  split_ = std::move(around);
  lanes_->loops.pop_back();
  w_.close(loop(lo, hi));
  w_.append_block(loop(hi, lanes_->block.end), checked);
}

void BodyEmitter::lane_statements(const Node& node, const Indices& inner, const std::string& l,
                                  const std::string& name, const std::string& position) {
  Accumulation acc = lane_accumulation(graph_, node);
  CodeValue x = value(node.operands[0], inner);
  if (acc.enter(x.text) != x.text) {
    x = w_.declare(w_.depth(), acc.type, "k", acc.enter(x.text));
  }
  std::string place = cat("[", l, " - ", lanes_->block.begin, "]");
  std::string total = cat(name, place);
  if (position.empty()) {
    w_.line(acc.step(total, x.text));
    return;
  }
  std::string where = cat(name, "_at", place);
  std::string better = cat(x.text, acc.op == ReduceOp::kMax ? " > " : " < ", total);
  w_.line(cat(where, " = ", better, " ? ", position, " : ", where, ";"));
  w_.line(cat(total, " = ", better, " ? ", x.text, " : ", total, ";"));
}

bool BodyEmitter::split_decides(const Expr& position, const Expr& bound, bool* holds) {
  if (!split_ || w_.loop_index(w_.depth()) != split_->index) return false;
  int64_t stride = stride_along(position, split_->index);
  if (std::abs(stride) >= INT32_MAX || stride_along(bound, split_->index) != 0) return false;
  auto at_index = [&](const Expr& e, const Expr& index) {
    return e.substitute([&](Var v) -> Expr {
      return v.kind == Var::Kind::kIndex && v.id == split_->index ? index : Expr::var(v);
    });
  };
  // Everything else must be known outside of the loop.
  int outside = w_.level_of_index(split_->index);
  if (w_.level_of(at_index(position, 0)) >= outside || w_.level_of(bound) >= outside) return false;
  Split::Check check{at_index(position, Expr::symbol(kSplitSymbol)), bound};
  bool known =
      std::find(split_->checks.begin(), split_->checks.end(), check) != split_->checks.end();
  if (split_->assume) {
    *holds = known;
    return known;
  }
  if (!known) split_->checks.push_back(std::move(check));
  return true;
}

std::pair<std::string, std::string> BodyEmitter::split_range() {
  std::string lo = lanes_->block.begin;
  std::string hi = lanes_->block.end;
  std::string always;
  Var index{Var::Kind::kSymbol, kSplitSymbol};
  for (const Split::Check& check : split_->checks) {
    auto at_step = [&](const Expr& step) {
      return check.position.substitute([&](Var v) { return v == index ? step : Expr::var(v); });
    };
    Expr start = at_step(0);
    int64_t stride = (at_step(1) - start).constant();
    int64_t size = std::abs(stride);
    if (stride == 0) {
      std::string text = w_.text(start);
      always += cat(" & (", text, " >= 0) & (", text, " < ", w_.text(check.bound), ")");
      continue;
    }
    auto ceil_div = [&](const Expr& e) { return common::floor_div(e + (size - 1), size); };
    Expr low = stride > 0 ? ceil_div(-start) : common::floor_div(start - check.bound, size) + 1;
    Expr high = stride > 0 ? ceil_div(check.bound - start) : common::floor_div(start, size) + 1;
    lo = cat("lf_max_i64(", lo, ", ", w_.text(low), ")");
    hi = cat("lf_min_i64(", hi, ", ", w_.text(high), ")");
  }
  std::string from = w_.fresh("lo");
  std::string to = w_.fresh("hi");
  int around = w_.depth() - 1;
  w_.line(around, cat("const int64_t ", from, " = lf_min_i64(", lo, ", ", lanes_->block.end, ");"));
  std::string end = cat("lf_max_i64(", hi, ", ", from, ")");
  if (!always.empty()) end = cat("1", always, " ? ", end, " : ", from);
  w_.line(around, cat("const int64_t ", to, " = ", end, ";"));
  return {from, to};
}

}  // namespace worker
