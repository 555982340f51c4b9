// Reductions for a whole block of lanes: accumulators in arrays, the lanes' loop innermost.
#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/cat.h"
#include "common/cost/operation_cost.h"
#include "common/ir/expr/index.h"
#include "common/lowering/body/accumulation.h"
#include "common/lowering/body/body_emitter.h"
#include "common/lowering/text/c_text.h"

namespace common {

namespace {

// Float sums go on in double after this many steps.
constexpr int64_t kLaneSumBlock = 256;
// Windows of at most so many steps are written out, with one register a vector of lanes.
constexpr int64_t kWindowMax = 32;
// Steps of a block, at both of its ends, in which views are expected to need their checks.
constexpr double kBorderSteps = 2;
constexpr const char* kVectorLoop = "LF_VECTOR_LOOP(0, 1)\n";

bool is_position(ReduceOp op) { return op == ReduceOp::kArgmax || op == ReduceOp::kArgmin; }

Accumulation lane_accumulation(const Graph& graph, const Node& node) {
  return accumulation_of(attr<ReduceAttr>(node).op, graph.node(node.operands[0]).dtype);
}

// The steps of a reduction along each axis, where all are known and few.
std::optional<std::vector<int64_t>> window_of(const ReduceAttr& a, const Shape& shape) {
  std::vector<int64_t> window;
  int64_t steps = 1;
  for (int axis : a.axes) {
    const Expr& extent = shape[at(axis)];
    if (!extent.is_constant() || extent.constant() < 1 || extent.constant() > kWindowMax) {
      return std::nullopt;
    }
    window.push_back(extent.constant());
    steps *= window.back();
  }
  if (is_position(a.op) || steps > kWindowMax) return std::nullopt;
  return window;
}

}  // namespace

int BodyEmitter::array_lane(NodeId id, const Indices& indices) {
  const Node& node = graph_.node(id);
  if (!lanes_.is_open() || !is_elementwise(node.op) || reduction_depth_[at(id)] == 0) return -1;
  int lane = lanes_.lane_of(indices, node.shape);
  // Straight in the block there is nothing to save.
  return lane >= 0 && w_.level_of_index(lane) > lanes_.block().level + 1 ? lane : -1;
}

template <class Emit>
std::string BodyEmitter::lane_array(NodeId id, const Indices& indices, int lane, const char* prefix,
                                    Emit emit) {
  ValueKey key{id, kLaneTag, with_index(indices, lane, lanes_.canonical())};
  if (const CodeValue* known = w_.find(key)) return known->text;
  std::string name = w_.fresh(prefix);
  int level = lanes_.block().level;
  CodeWriter::Outward outward(w_, level);
  emit(name);
  w_.remember(key, {name, level, -1});
  return name;
}

CodeValue BodyEmitter::lane_value(NodeId id, const Indices& indices, int lane) {
  const Node& node = graph_.node(id);
  std::string array = lane_array(id, indices, lane, "r", [&](const std::string& name) {
    w_.line(cat(c_storage_type(node.dtype), " ", name, lanes_.size(), ";"));
    std::string l = w_.fresh("l");
    Expr index = lanes_.open_loop(l);
    CodeValue x = value(id, with_index(indices, lane, index));
    w_.line(cat(name, lanes_.place(l), " = ", x.text, ";"));
    lanes_.close_loop(kVectorLoop);
  });
  return declare(w_.level_of_index(lane), node.dtype, cat(array, lanes_.place(lane)));
}

CodeValue BodyEmitter::lane_reduction(NodeId id, const Indices& indices, int lane) {
  const Node& node = graph_.node(id);
  std::string array = lane_array(id, indices, lane, "a", [&](const std::string& name) {
    emit_lane_arrays(node, indices, lane, name);
  });
  std::string place = lanes_.place(lane);
  if (is_position(attr<ReduceAttr>(node).op)) {
    return w_.declare(w_.level_of_index(lane), "int64_t", "v", cat(array, "_at", place));
  }
  Accumulation acc = lane_accumulation(graph_, node);
  return declare(w_.level_of_index(lane), node.dtype, acc.leave(cat(array, place)));
}

template <class Emit>
void BodyEmitter::lane_loop(Emit emit) {
  std::string l = w_.fresh("l");
  std::optional<StepChecks>& checks = lanes_.checks();
  Expr index = lanes_.open_loop(l);
  w_.make_conditional();
  // What the operand asks for may hold lane loops of its own.
  auto around = std::exchange(checks, StepChecks(w_, index.as_var()->id));
  emit(index, lanes_.place(l));
  if (checks->empty() || w_.holds_loops()) {
    checks = std::move(around);
    lanes_.close_loop(w_.holds_loops() ? "" : kVectorLoop);
    return;
  }
  std::string checked = w_.innermost_text();
  w_.set_trips(kBorderSteps);
  const LaneBlock& block = lanes_.block();
  auto [lo, hi] = checks->range(block);
  lanes_.close_loop(kVectorLoop, block.begin, lo);
  Expr middle = lanes_.open_loop(l);
  w_.make_conditional();
  checks->assume(middle.as_var()->id);
  emit(middle, lanes_.place(l));
  checks = std::move(around);
  lanes_.close_loop(kVectorLoop, lo, hi);
  w_.append_block(cat(kVectorLoop, counting_loop(l, hi, block.end)), checked);
}

void BodyEmitter::emit_lane_arrays(const Node& node, const Indices& indices, int lane,
                                   const std::string& name) {
  const auto& a = attr<ReduceAttr>(node);
  const Shape& shape = graph_.node(node.operands[0]).shape;
  if (auto window = window_of(a, shape)) {
    emit_lane_windows(node, operand_indices(a.axes, shape.size(), indices), lane, *window, name);
    return;
  }
  Accumulation acc = lane_accumulation(graph_, node);
  Expr count = 1;
  for (int axis : a.axes) count *= shape[at(axis)];
  // Long float sums: steps in float, runs of steps in double.
  bool two_stages = !acc.outer.empty() && w_.bounds().upper(count) > 4 * kLaneSumBlock;
  std::string width = lanes_.size();
  std::string steps = two_stages ? cat(name, "_run") : name;
  auto over_lanes = [&](const std::function<void(const std::string&)>& statement) {
    std::string l = w_.fresh("l");
    lanes_.open_loop(l);
    statement(lanes_.place(l));
    lanes_.close_loop(kVectorLoop);
  };
  w_.line(cat(acc.type, " ", steps, width, ";"));
  if (two_stages) w_.line(cat(acc.outer, " ", name, width, ";"));
  if (is_position(a.op)) w_.line(cat("int64_t ", name, "_at", width, ";"));
  over_lanes([&](const std::string& l) {
    w_.line(cat(steps, l, " = ", acc.start, ";"));
    if (two_stages) w_.line(cat(name, l, " = 0;"));
    if (is_position(a.op)) w_.line(cat(name, "_at", l, " = 0;"));
  });

  Indices inner = operand_indices(a.axes, shape.size(), indices);
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
      w_.open_blocks(floor_div(extent + (kLaneSumBlock - 1), kLaneSumBlock));
      headers.push_back(counting_loop(from, "0", n, kLaneSumBlock));
    }
    std::string j = w_.fresh("j");
    Expr trips = flush_here ? min(extent, kLaneSumBlock) : extent;
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

void BodyEmitter::emit_lane_windows(const Node& node, const Indices& indices, int lane,
                                    const std::vector<int64_t>& window, const std::string& name) {
  const auto& a = attr<ReduceAttr>(node);
  Accumulation acc = lane_accumulation(graph_, node);
  w_.line(cat(acc.type, " ", name, lanes_.size(), ";"));
  lane_loop([&](const Expr& index, const std::string& place) {
    std::string total = w_.fresh("t");
    w_.line(cat(acc.type, " ", total, " = ", acc.start, ";"));
    Indices inner = with_index(indices, lane, index);
    std::vector<int64_t> step(window.size(), 0);
    for (size_t k = 0; k < window.size();) {
      for (size_t d = 0; d < window.size(); ++d) inner[at(a.axes[d])] = Expr(step[d]);
      CodeValue x = value(node.operands[0], inner);
      w_.line(acc.step(total, acc.enter(x.text)), lane_reduction_work(node, false));
      // The next step, the last axis first.
      for (k = 0; k < window.size(); ++k) {
        int64_t& last = step[window.size() - 1 - k];
        if (++last < window[window.size() - 1 - k]) break;
        last = 0;
      }
    }
    w_.line(cat(name, place, " = ", total, ";"));
  });
}

void BodyEmitter::lane_step(const Node& node, const Indices& inner, int lane,
                            const std::string& name, const std::string& position) {
  lane_loop([&](const Expr& index, const std::string& place) {
    lane_statements(node, with_index(inner, lane, index), name, place, position);
  });
}

void BodyEmitter::lane_statements(const Node& node, const Indices& inner, const std::string& name,
                                  const std::string& place, const std::string& position) {
  Accumulation acc = lane_accumulation(graph_, node);
  CodeValue x = value(node.operands[0], inner);
  if (acc.enter(x.text) != x.text) {
    x = w_.declare(w_.depth(), acc.type, "k", acc.enter(x.text), {});
  }
  std::string total = cat(name, place);
  if (position.empty()) {
    w_.line(acc.step(total, x.text), lane_reduction_work(node, true));
    return;
  }
  std::string where = cat(name, "_at", place);
  std::string better = cat(x.text, acc.op == ReduceOp::kMax ? " > " : " < ", total);
  w_.line(cat(where, " = ", better, " ? ", position, " : ", where, ";"),
          lane_reduction_work(node, true));
  w_.line(cat(total, " = ", better, " ? ", x.text, " : ", total, ";"));
}

}  // namespace common
