#include "common/ir/nest/product_loops.h"

#include <utility>

#include "common/base/cat.h"
#include "common/ir/expr/ceil_div.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/indices.h"
#include "common/ir/hlir/tile_form.h"

namespace common {
namespace {

// Axes of a graph's tensor that are loops, and what they leave out.
struct LoopAxes {
  Shape extents;
  std::vector<Validity> inside;

  Expr add(const Expr& extent) {
    extents.push_back(extent);
    return Expr::index(static_cast<int>(extents.size()) - 1);
  }
  // Adds the loops of an axis and returns the position on it. The last tile of a block that its
  // tiles do not divide ends with the block.
  Expr cut(const Expr& extent, const std::vector<int64_t>& cuts) {
    std::vector<Expr> begin = {add(ceil_div(extent, Expr(cuts[0]))) * Expr(cuts[0])};
    for (size_t k = 1; k <= cuts.size(); ++k) {
      const int64_t step = k < cuts.size() ? cuts[k] : 1;
      begin.push_back(add(ceil_div(Expr(cuts[k - 1]), Expr(step))) * Expr(step));
    }
    Expr within;
    for (size_t k = cuts.size(); k > 0; --k) {
      within += begin[k];
      if (k < cuts.size() && cuts[k - 1] % cuts[k] == 0) continue;
      inside.push_back({within, Expr(cuts[k - 1])});
    }
    Expr position = begin[0] + within;
    inside.push_back({position, extent});
    return position;
  }
};

std::vector<int> range(int first, size_t count) {
  std::vector<int> labels(count);
  for (size_t k = 0; k < count; ++k) labels[k] = first + static_cast<int>(k);
  return labels;
}

class ProductGraphBuilder {
 public:
  ProductGraphBuilder(const Graph& body, NodeId id, const ProductLoops& loops)
      : node_(body.node(id)), problem_(tile_problem(body, node_)), loops_(loops) {
    graph_.symbols = body.symbols;
    graph_.inputs = body.inputs;
    graph_.nodes.assign(body.nodes.begin(), body.nodes.begin() + id + 1);
    if (loops.one_row_label && !problem_.m.empty()) {
      problem_.batch.insert(problem_.batch.end(), problem_.m.begin(), problem_.m.end() - 1);
      problem_.m.erase(problem_.m.begin(), problem_.m.end() - 1);
      problem_.m_size = problem_.label_size[at(problem_.m[0])];
    }
  }

  Graph build() {
    const NodeId sums = product();
    LoopAxes axes;
    LabelIndices index(problem_.label_size.size());
    index.give(problem_.batch, batch(axes));
    index.give(problem_.m, own(problem_.m, axes.cut(problem_.m_size, loops_.rows)));
    index.give(problem_.n, own(problem_.n, axes.cut(problem_.n_size, loops_.columns)));
    const Expr position = linear_position(index.of(attr<ContractAttr>(node_).out), node_.shape);
    const NodeId flat = add(Op::kIota, DType::kInt64, {element_count(node_.shape)}, {}, {});
    const NodeId places = view(flat, {axes.extents, {position}, axes.inside, -1});
    for (NodeId output : {sums, places}) graph_.outputs.push_back({OutputKind::kUser, output, -1});
    return std::move(graph_);
  }

 private:
  NodeId add(Op op, DType dtype, Shape shape, std::vector<NodeId> operands, Attr attribute) {
    graph_.nodes.push_back(
        {op, dtype, std::move(shape), std::move(operands), std::move(attribute)});
    return static_cast<NodeId>(graph_.nodes.size()) - 1;
  }
  NodeId view(NodeId x, View view) {
    Shape shape = view.shape;
    return add(Op::kView, graph_.node(x).dtype, std::move(shape), {x}, ViewAttr{std::move(view)});
  }
  NodeId cast(NodeId x, DType dtype) {
    return add(Op::kCast, dtype, graph_.node(x).shape, {x}, {});
  }

  std::vector<Expr> batch(LoopAxes& axes) const {
    std::vector<Expr> indices;
    for (int label : problem_.batch) indices.push_back(axes.add(problem_.label_size[at(label)]));
    return indices;
  }
  std::vector<Expr> own(const std::vector<int>& labels, const Expr& position) const {
    Shape sizes;
    for (int label : labels) sizes.push_back(problem_.label_size[at(label)]);
    return unfold(sizes, position);
  }

  // One operand in blocks: batch, the loops of its own axis, parts, and the loops of the depth.
  // Steps beyond an end are 0.
  NodeId blocks(bool is_left, size_t& own_loops) {
    const auto& c = attr<ContractAttr>(node_);
    const bool is_first = is_left != problem_.swapped;
    LoopAxes axes;
    LabelIndices index(problem_.label_size.size());
    index.give(problem_.batch, batch(axes));
    const std::vector<int>& labels = is_left ? problem_.m : problem_.n;
    const Expr& size = is_left ? problem_.m_size : problem_.n_size;
    index.give(labels, own(labels, axes.cut(size, is_left ? loops_.rows : loops_.columns)));
    own_loops = axes.extents.size() - problem_.batch.size();
    const Expr step(loops_.depth[0]);
    const Expr share = ceil_div(problem_.k_size, loops_.parts * step) * step;
    const Expr part = axes.add(loops_.parts);
    const Expr position = part * share + axes.cut(share, loops_.depth);
    axes.inside.push_back({position, problem_.k_size});
    index.give(problem_.k, own(problem_.k, position));
    Indices read = index.of(is_first ? c.a : c.b);
    const NodeId x = node_.operands[is_first ? 0 : 1];
    // A sum is rounded once, as the interpreter's sums are: parts are not.
    return cast(view(x, {axes.extents, std::move(read), axes.inside, 0}), DType::kFloat64);
  }

  NodeId product() {
    size_t rows = 0, columns = 0;
    const NodeId left = blocks(true, rows), right = blocks(false, columns);
    const size_t batch = problem_.batch.size(), depth = loops_.depth.size() + 2;
    const auto first = [](size_t label) { return static_cast<int>(label); };
    ContractAttr c;
    const std::vector<int> shared = range(0, batch), own_rows = range(first(batch), rows);
    const std::vector<int> own_columns = range(first(batch + rows), columns);
    const std::vector<int> summed = range(first(batch + rows + columns), depth);
    for (const auto* labels : {&shared, &own_rows, &summed}) {
      c.a.insert(c.a.end(), labels->begin(), labels->end());
    }
    for (const auto* labels : {&shared, &own_columns, &summed}) {
      c.b.insert(c.b.end(), labels->begin(), labels->end());
    }
    // Parts stay apart, and are added at the end.
    const std::vector<int> part = {summed[0]};
    for (const auto* labels : {&shared, &own_rows, &own_columns, &part}) {
      c.out.insert(c.out.end(), labels->begin(), labels->end());
    }
    const Shape &x = graph_.node(left).shape, &y = graph_.node(right).shape;
    Shape shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(batch + rows));
    shape.insert(shape.end(), y.begin() + static_cast<std::ptrdiff_t>(batch),
                 y.begin() + static_cast<std::ptrdiff_t>(batch + columns));
    Shape sums = shape;
    shape.push_back(loops_.parts);
    const NodeId parts = add(Op::kContract, DType::kFloat64, std::move(shape), {left, right}, c);
    const int last = static_cast<int>(sums.size());
    return add(Op::kReduce, DType::kFloat64, std::move(sums), {parts},
               ReduceAttr{ReduceOp::kSum, {last}});
  }

  const Node& node_;
  TileProblem problem_;
  const ProductLoops& loops_;
  Graph graph_;
};

std::string text(const std::vector<int64_t>& cuts) {
  std::string out;
  for (int64_t cut : cuts) out += cat(out.empty() ? "" : ", ", cut);
  return out;
}

}  // namespace

std::string print(const ProductLoops& loops) {
  std::string out =
      cat(loops.one_row_label ? "rows of the last axis by " : "rows by ", text(loops.rows),
          "; columns by ", text(loops.columns), "; sums by ", text(loops.depth));
  if (!loops.parts.is_constant(1)) out += cat(" in ", loops.parts.text(), " parts");
  return out;
}

Graph product_graph(const Graph& body, NodeId contraction, const ProductLoops& loops) {
  return ProductGraphBuilder(body, contraction, loops).build();
}

Graph after_product(const Graph& body, NodeId contraction) {
  Graph rest = body;
  const Node& product = body.node(contraction);
  rest.inputs.push_back({InputKind::kUser, DType::kFloat64, product.shape, ""});
  const InputAttr given{static_cast<int>(rest.inputs.size()) - 1};
  rest.nodes[at(contraction)] = {Op::kCast, product.dtype, product.shape, {contraction}, {}};
  rest.nodes.insert(rest.nodes.begin() + contraction,
                    {Op::kInput, DType::kFloat64, product.shape, {}, given});
  for (size_t k = at(contraction) + 2; k < rest.nodes.size(); ++k) {
    for (NodeId& operand : rest.nodes[k].operands) operand += operand >= contraction ? 1 : 0;
  }
  for (GraphOutput& output : rest.outputs) output.node += output.node >= contraction ? 1 : 0;
  return rest;
}

}  // namespace common
