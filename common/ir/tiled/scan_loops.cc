#include "common/ir/tiled/scan_loops.h"

#include <cmath>
#include <limits>
#include <utility>

#include "common/base/cat.h"
#include "common/ir/expr/ceil_div.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/indices.h"
#include "common/ir/nest/node_adder.h"
#include "common/ir/tiled/loop_axes.h"

namespace common {
namespace {

constexpr int64_t kScanWarp = 32;

// What changes no accumulator; of 64 bits, the greatest number that float64 has.
double neutral(ScanOp op, DType dtype) {
  if (op == ScanOp::kSum) return 0;
  if (op == ScanOp::kProd) return 1;
  double least = -std::numeric_limits<double>::infinity(), most = -least;
  if (!is_float(dtype)) {
    const int bits = static_cast<int>(dtype_size(dtype)) * 8;
    const bool is_signed = dtype != DType::kUint8 && dtype != DType::kBool;
    least = is_signed ? -std::ldexp(1, bits - 1) : 0;
    most = dtype_size(dtype) == 8 ? std::nextafter(-least, 0) : least + std::ldexp(1, bits) - 1;
  }
  return op == ScanOp::kMin ? most : least;
}

class ScanLoopsAdder {
 public:
  ScanLoopsAdder(Graph& graph, NodeId scan, int64_t threads)
      : nodes_(graph),
        node_(graph.node(scan)),
        op_(attr<ScanAttr>(node_).op),
        axis_(at(attr<ScanAttr>(node_).axis)),
        threads_(threads),
        wide_(is_float(node_.dtype) ? DType::kFloat64 : node_.dtype),
        neutral_(neutral(op_, wide_)) {}

  VisitedNode run() { return axis_ + 1 == node_.shape.size() ? shared_lines() : own_lines(); }

 private:
  VisitedNode own_lines() {
    Shape others = node_.shape;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis_));
    LoopAxes axes;
    const Expr line = axes.cut(element_count(others), {threads_});
    Indices position = unfold(others, line);
    position.insert(position.begin() + static_cast<std::ptrdiff_t>(axis_),
                    axes.add(node_.shape[axis_]));
    const auto steps = static_cast<int>(axes.extents.size()) - 1;
    return {nodes_.scan(op_, read(axes, position), steps), places(axes, position)};
  }

  VisitedNode shared_lines() {
    LoopAxes axes;
    Indices position = axes.add_all({node_.shape.begin(), node_.shape.end() - 1});
    const auto chunk = static_cast<int>(position.size()), warp = chunk + 1, lane = chunk + 2;
    const Expr& length = node_.shape.back();
    const Expr first = axes.add(ceil_div(length, threads_)) * Expr(threads_);
    const Expr of_warp = axes.add(threads_ / kScanWarp) * Expr(kScanWarp);
    position.push_back(first + of_warp + axes.add(kScanWarp));
    axes.inside.push_back({position.back(), length});
    const NodeId sums = nodes_.scan(op_, read(axes, position), lane);
    // What the last lane has, the warp's; what the last warp has, the chunk's.
    const NodeId warps = nodes_.scan(op_, last(sums, lane), warp);
    const NodeId chunks = nodes_.scan(op_, last(warps, warp), chunk);
    const NodeId carried = nodes_.widened(before(chunks, chunk), nodes_.shape(warps), {warp});
    const NodeId start = combine(carried, before(warps, warp));
    return {combine(nodes_.widened(start, nodes_.shape(sums), {lane}), sums),
            places(axes, position)};
  }

  NodeId read(const LoopAxes& axes, const Indices& position) {
    return nodes_.view(nodes_.cast(node_.operands[0], wide_), axes.read(position, neutral_));
  }
  NodeId places(const LoopAxes& axes, const Indices& position) {
    const NodeId flat = nodes_.iota(element_count(node_.shape));
    return nodes_.view(flat, axes.read({linear_position(position, node_.shape)}, -1));
  }
  // At the last place of the last axis.
  NodeId last(NodeId x, int axis) {
    Shape shape = nodes_.shape(x);
    const Expr end = shape.back() - Expr(1);
    shape.pop_back();
    LoopAxes axes;
    Indices index = axes.add_all(shape);
    index.insert(index.begin() + axis, end);
    return nodes_.view(x, axes.read(std::move(index), 0));
  }
  // At the place before, along an axis.
  NodeId before(NodeId x, int axis) {
    const Shape shape = nodes_.shape(x);
    LoopAxes axes;
    Indices index = axes.add_all(shape);
    index[at(axis)] = index[at(axis)] - Expr(1);
    axes.inside.push_back({index[at(axis)], shape[at(axis)]});
    return nodes_.view(x, axes.read(std::move(index), neutral_));
  }

  NodeId combine(NodeId a, NodeId b) {
    switch (op_) {
      case ScanOp::kSum:
        return nodes_.binary(BinaryOp::kAdd, a, b);
      case ScanOp::kProd:
        return nodes_.binary(BinaryOp::kMul, a, b);
      case ScanOp::kMin:
        return nodes_.binary(BinaryOp::kMin, a, b);
      case ScanOp::kMax:
        return nodes_.binary(BinaryOp::kMax, a, b);
      case ScanOp::kLogSumExp:
        break;
    }
    // Nothing can be subtracted from an infinity.
    const Shape shape = nodes_.shape(a);
    const double most = std::numeric_limits<double>::max();
    NodeId greatest = nodes_.binary(BinaryOp::kMax, a, b);
    greatest = nodes_.binary(BinaryOp::kMax, greatest, nodes_.full(wide_, shape, -most));
    greatest = nodes_.binary(BinaryOp::kMin, greatest, nodes_.full(wide_, shape, most));
    const auto weight = [&](NodeId x) {
      return nodes_.unary(UnaryOp::kExp, nodes_.binary(BinaryOp::kSub, x, greatest));
    };
    const NodeId sum = nodes_.binary(BinaryOp::kAdd, weight(a), weight(b));
    return nodes_.binary(BinaryOp::kAdd, greatest, nodes_.unary(UnaryOp::kLog, sum));
  }

  NodeAdder nodes_;
  Node node_;
  ScanOp op_;
  size_t axis_;
  int64_t threads_;
  DType wide_;
  double neutral_;
};

}  // namespace

LoopedNodes looped_scan(Graph body, NodeId scan, const ScanLoops& loops) {
  const Node& node = body.node(scan);
  const bool is_last = at(attr<ScanAttr>(node).axis) + 1 == node.shape.size();
  std::string text =
      is_last ? cat("lines in chunks of ", loops.threads, ", which ", loops.threads / kScanWarp,
                    " warps of ", kScanWarp, " scan; sums are carried from warp to warp")
              : cat("blocks of ", loops.threads, " lines, each of which a thread walks");
  Graph graph = body;
  const VisitedNode visited = ScanLoopsAdder(graph, scan, loops.threads).run();
  return looped_nodes(std::move(body), {scan}, std::move(graph), {visited}, std::move(text));
}

}  // namespace common
