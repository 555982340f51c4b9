// Reductions as accumulation loops. Float sums run in vector lanes (omp simd reduction) over
// blocks whose sums a double collects, so that the error does not grow with the length. Float
// maxima are maxima of integers in the same order, with NaN at the winning end, because those
// vectorise without giving up NaN.
#include <algorithm>

#include "common/base/cat.h"
#include "worker/codegen/accumulation.h"
#include "worker/codegen/body_emitter.h"
#include "worker/codegen/c_text.h"

namespace worker {

using common::cat;
using common::DType;
using common::Expr;
using common::Node;
using common::NodeId;
using common::ReduceAttr;
using common::ReduceOp;
using common::Shape;

namespace {

// Float sums are collected in double after this many elements.
constexpr int64_t kSumBlock = 2048;

size_t at(int index) { return static_cast<size_t>(index); }

}  // namespace

// ---- loops ----------------------------------------------------------------------------------

void BodyEmitter::innermost_loop(const Node& node, const Expr& extent, Indices inner, size_t axis,
                                 const std::string& total) {
  const auto& a = attr<ReduceAttr>(node);
  Accumulation acc = accumulation_of(a.op, node.dtype);
  NodeId operand = node.operands[0];
  bool blocked = !acc.outer.empty() && w_.bounds().upper(extent) > kSumBlock;
  std::string n = w_.text(extent);
  std::string from = "0";
  std::string to = n;
  if (blocked) {
    w_.open_blocks(common::floor_div(extent + (kSumBlock - 1), kSumBlock));
    from = w_.fresh("b");
    to = w_.fresh("e");
    w_.line(cat("const int64_t ", to, " = lf_min_i64(", from, " + ", kSumBlock, ", ", n, ");"));
  }
  std::string part = acc.outer.empty() ? total : w_.fresh("p");
  if (part != total) w_.line(cat(acc.type, " ", part, " = ", acc.start, ";"));
  std::string j = w_.fresh("j");
  int index = w_.open_loop(j, extent, blocked ? common::min(extent, kSumBlock) : extent);
  inner[axis] = Expr::index(index);
  CodeValue x = value(operand, inner);
  if (acc.enter(x.text) != x.text) {
    x = w_.declare(w_.depth(), acc.type, "k", acc.enter(x.text));
  }
  w_.line(acc.step(part, x.text));
  std::string header =
      w_.holds_loops() ? "" : cat("#pragma omp simd reduction(", acc.clause, ":", part, ")\n");
  w_.close(cat(header, "for (int64_t ", j, " = ", from, "; ", j, " < ", to, "; ++", j, ")"));
  if (part != total) w_.line(acc.step(total, part));
  if (blocked) {
    w_.close(
        cat("for (int64_t ", from, " = 0; ", from, " < ", n, "; ", from, " += ", kSumBlock, ")"));
  }
}

void BodyEmitter::reduction_loops(const Node& node, size_t axis, Indices inner,
                                  const std::string& total) {
  const auto& axes = attr<ReduceAttr>(node).axes;
  const Shape& shape = graph_.node(node.operands[0]).shape;
  auto k = at(axes[axis]);
  if (axis + 1 == axes.size()) {
    innermost_loop(node, shape[k], std::move(inner), k, total);
    return;
  }
  std::string j = w_.fresh("j");
  inner[k] = Expr::index(w_.open_loop(j, shape[k]));
  reduction_loops(node, axis + 1, std::move(inner), total);
  w_.close(cat("for (int64_t ", j, " = 0; ", j, " < ", w_.text(shape[k]), "; ++", j, ")"));
}

CodeValue BodyEmitter::reduction(NodeId id, const Indices& indices) {
  const Node& node = graph_.node(id);
  const auto& a = attr<ReduceAttr>(node);
  if (int lane = lane_of(node, indices); lane >= 0) return lane_reduction(id, indices, lane);
  int level = safe_level(indices, node.shape);
  if (a.op == ReduceOp::kArgmax || a.op == ReduceOp::kArgmin) {
    return arg_reduction(node, indices, level);
  }
  CodeWriter::Outward outward(w_, level);
  Accumulation acc = accumulation_of(a.op, node.dtype);
  std::string total = w_.fresh("a");
  w_.line(cat(acc.outer.empty() ? acc.type : acc.outer, " ", total, " = ", acc.start, ";"));
  size_t rank = graph_.node(node.operands[0]).shape.size();
  Indices inner(rank, Expr(0));
  size_t next = 0;
  for (size_t k = 0; k < rank; ++k) {
    bool reduced = std::find(a.axes.begin(), a.axes.end(), static_cast<int>(k)) != a.axes.end();
    if (!reduced) inner[k] = indices[next++];
  }
  reduction_loops(node, 0, std::move(inner), total);
  advise(indices);
  return declare(level, node.dtype, acc.leave(total));
}

// The first position of the greatest (least) element; a NaN counts as it and ends the search.
CodeValue BodyEmitter::arg_reduction(const Node& node, const Indices& indices, int level) {
  const auto& a = attr<ReduceAttr>(node);
  const Node& operand = graph_.node(node.operands[0]);
  DType dtype = operand.dtype;
  bool greatest = a.op == ReduceOp::kArgmax;
  Accumulation acc = accumulation_of(greatest ? ReduceOp::kMax : ReduceOp::kMin, dtype);
  auto axis = at(a.axes[0]);
  const Expr& extent = operand.shape[axis];

  CodeWriter::Outward outward(w_, level);
  std::string best = w_.fresh("a");
  std::string where = w_.fresh("w");
  w_.line(cat(acc.type, " ", best, " = ", acc.start, ";"));
  w_.line(cat("int64_t ", where, " = 0;"));
  std::string j = w_.fresh("j");
  Indices inner = indices;
  int innermost = w_.open_loop(j, extent);
  inner.insert(inner.begin() + static_cast<std::ptrdiff_t>(axis), Expr::index(innermost));
  CodeValue x = value(node.operands[0], inner);
  CodeValue key = w_.declare(w_.depth(), acc.type, "k", acc.enter(x.text));
  w_.line(cat("if (", key.text, greatest ? " > " : " < ", best, ") { ", best, " = ", key.text, "; ",
              where, " = ", j, "; }"));
  w_.close(cat("for (int64_t ", j, " = 0; ", j, " < ", w_.text(extent), "; ++", j, ")"));
  advise(indices);
  return w_.declare(level, "int64_t", "v", where);
}

}  // namespace worker
