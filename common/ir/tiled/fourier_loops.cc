#include "common/ir/tiled/fourier_loops.h"

#include <cmath>
#include <utility>

#include "common/base/cat.h"
#include "common/ir/expr/ceil_div.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/indices.h"
#include "common/ir/nest/node_adder.h"
#include "common/ir/tiled/loop_axes.h"

namespace common {
namespace {

struct ComplexNode {
  NodeId re = 0, im = 0;
};

// Arrays have three axes: blocks of rows, points, and the rows of a block.
class FourierLoopsAdder {
 public:
  FourierLoopsAdder(Graph& graph, NodeId transform, const FourierLoops& loops)
      : nodes_(graph),
        node_(graph.node(transform)),
        loops_(loops),
        inverse_(attr<FourierAttr>(node_).inverse),
        length_(nodes_.shape(node_.operands[0]).back().constant()),
        points_(loops.is_halved ? length_ / 2 : length_),
        others_(node_.shape.begin(), node_.shape.end() - 1) {}

  int64_t points() const { return points_; }

  // All frequencies that the node wants.
  Result<ComplexNode> transform() {
    ComplexNode x = load();
    int64_t n = points_, stride = 1;
    for (int64_t radix : loops_.radices) {
      if (radix < 1 || n % radix != 0) {
        return invalid_input(cat("a pass of radix ", radix, " over ", n, " points"));
      }
      x = pass(x, radix, n, stride);
      n /= radix;
      stride *= radix;
    }
    return loops_.is_halved ? taken_apart(x) : x;
  }

  VisitedNode visited(NodeId frequencies) {
    const Expr count = node_.shape.back();
    LoopAxes axes;
    Indices index = {axes.add(blocks()), axes.add(count), axes.add(loops_.rows)};
    const NodeId values = nodes_.view(frequencies, axes.read(index, 0));
    const Expr row = index[0] * Expr(loops_.rows) + index[2];
    axes.inside.push_back({row, element_count(others_)});
    const NodeId flat = nodes_.iota(element_count(node_.shape));
    return {values, nodes_.view(flat, axes.read({row * count + index[1]}, -1))};
  }

 private:
  Expr blocks() const { return ceil_div(element_count(others_), Expr(loops_.rows)); }

  ComplexNode load() {
    const auto part = [&](size_t operand, int64_t step, int64_t first) {
      LoopAxes axes;
      const Expr block = axes.add(blocks()), point = axes.add(points_);
      const Expr row = block * Expr(loops_.rows) + axes.add(loops_.rows);
      axes.inside.push_back({row, element_count(others_)});
      Indices index = unfold(others_, row);
      index.push_back(point * Expr(step) + Expr(first));
      const NodeId x = nodes_.view(node_.operands[operand], axes.read(std::move(index), 0));
      return nodes_.cast(x, DType::kFloat64);
    };
    if (loops_.is_halved) return {part(0, 2, 0), part(0, 2, 1)};
    const NodeId re = part(0, 1, 0);
    if (node_.operands.size() > 1) return {re, part(1, 1, 0)};
    return {re, nodes_.full(DType::kFloat64, nodes_.shape(re), 0)};
  }

  ComplexNode pass(const ComplexNode& x, int64_t radix, int64_t n, int64_t stride) {
    const int64_t m = n / radix;
    // p of m groups, q of `stride` side by side, j of the points of each.
    LoopAxes axes;
    const Expr block = axes.add(blocks()), p = axes.add(m), q = axes.add(stride);
    const Expr j = axes.add(radix), row = axes.add(loops_.rows);
    const Expr place = q + p * Expr(stride) + j * Expr(m * stride);
    ComplexNode y = views(x, axes.read({block, place, row}, 0));
    y = butterflies(y, radix);
    if (m > 1) y = product(y, turns(axes.extents, p * j, n));  // j is the frequency by now
    LoopAxes back;
    const Expr b = back.add(blocks()), t = back.add(n * stride), r = back.add(loops_.rows);
    const Expr group = floor_div(t, Expr(stride));
    return views(y,
                 back.read({b, floor_div(group, radix), mod(t, stride), mod(group, radix), r}, 0));
  }

  // Transforms along axis 3.
  ComplexNode butterflies(const ComplexNode& x, int64_t radix) {
    const Expr i = Expr::index(0), k = Expr::index(1);
    const ComplexNode matrix = turns({radix, radix}, i * k, radix);
    const auto sums = [&](NodeId a, NodeId b) {
      const ContractAttr along{{0, 1, 2, 3, 4}, {3, 5}, {0, 1, 2, 5, 4}};
      return nodes_.add({Op::kContract, DType::kFloat64, nodes_.shape(a), {a, b}, along});
    };
    return {nodes_.binary(BinaryOp::kSub, sums(x.re, matrix.re), sums(x.im, matrix.im)),
            nodes_.binary(BinaryOp::kAdd, sums(x.re, matrix.im), sums(x.im, matrix.re))};
  }

  // With e and o the transforms of even and odd points, z = e + i o, and so of the frequencies k
  // and N - k: 2 e = z[k] + conj z[N - k], 2 i o = z[k] - conj z[N - k].
  ComplexNode taken_apart(const ComplexNode& z) {
    LoopAxes axes;
    const Expr block = axes.add(blocks()), k = axes.add(node_.shape.back());
    const Expr row = axes.add(loops_.rows);
    const ComplexNode x = views(z, axes.read({block, mod(k, points_), row}, 0));
    const ComplexNode y = views(z, axes.read({block, mod(Expr(points_) - k, points_), row}, 0));
    const NodeId half = nodes_.full(DType::kFloat64, axes.extents, 0.5);
    const auto halved = [&](BinaryOp op, NodeId a, NodeId b) {
      return nodes_.binary(BinaryOp::kMul, nodes_.binary(op, a, b), half);
    };
    const ComplexNode e = {halved(BinaryOp::kAdd, x.re, y.re), halved(BinaryOp::kSub, x.im, y.im)};
    const ComplexNode o = {halved(BinaryOp::kAdd, x.im, y.im), halved(BinaryOp::kSub, y.re, x.re)};
    const ComplexNode rotated = product(o, turns(axes.extents, k, length_));
    return {nodes_.binary(BinaryOp::kAdd, e.re, rotated.re),
            nodes_.binary(BinaryOp::kAdd, e.im, rotated.im)};
  }

  ComplexNode views(const ComplexNode& x, const View& view) {
    return {nodes_.view(x.re, view), nodes_.view(x.im, view)};
  }
  ComplexNode product(const ComplexNode& x, const ComplexNode& y) {
    const auto times = [&](NodeId a, NodeId b) { return nodes_.binary(BinaryOp::kMul, a, b); };
    return {nodes_.binary(BinaryOp::kSub, times(x.re, y.re), times(x.im, y.im)),
            nodes_.binary(BinaryOp::kAdd, times(x.re, y.im), times(x.im, y.re))};
  }
  // exp(s 2 pi i step / n), where `step` is over the shape's indices.
  ComplexNode turns(const Shape& shape, const Expr& step, int64_t n) {
    const NodeId angles = nodes_.binary(
        BinaryOp::kMul, nodes_.cast(nodes_.iota(n), DType::kFloat64),
        nodes_.full(DType::kFloat64, {n}, (inverse_ ? 2 : -2) * M_PI / static_cast<double>(n)));
    return views({nodes_.unary(UnaryOp::kCos, angles), nodes_.unary(UnaryOp::kSin, angles)},
                 {shape, {mod(step, n)}, {}, 0});
  }

  NodeAdder nodes_;
  Node node_;
  const FourierLoops& loops_;
  bool inverse_;
  int64_t length_, points_;
  Shape others_;
};

}  // namespace

std::string print(const FourierLoops& loops, int64_t points) {
  std::string passes;
  for (int64_t radix : loops.radices) passes += cat(passes.empty() ? "" : ", ", radix);
  return cat(loops.rows, " rows at once; ", points, " points by passes of ", passes,
             loops.is_halved ? ", of pairs of a real signal" : "");
}

Result<LoopedNodes> looped_fourier(Graph body, const FourierForm& form, const FourierLoops& loops) {
  if (loops.rows < 1) return invalid_input("a transform of no rows");
  Graph graph = body;
  FourierLoopsAdder adder(graph, form.any(), loops);
  LFARM_ASSIGN_OR_RETURN(const ComplexNode transform, adder.transform());
  std::vector<NodeId> nodes;
  std::vector<VisitedNode> visited;
  const auto add = [&](NodeId node, NodeId frequencies) {
    if (node < 0) return;
    nodes.push_back(node);
    visited.push_back(adder.visited(frequencies));
  };
  add(form.real, transform.re);
  add(form.imaginary, transform.im);
  return looped_nodes(std::move(body), std::move(nodes), std::move(graph), visited,
                      print(loops, adder.points()));
}

}  // namespace common
