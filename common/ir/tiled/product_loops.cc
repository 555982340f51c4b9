#include "common/ir/tiled/product_loops.h"

#include <utility>

#include "common/base/cat.h"
#include "common/ir/expr/ceil_div.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/indices.h"
#include "common/ir/hlir/tile_form.h"
#include "common/ir/nest/node_adder.h"
#include "common/ir/tiled/loop_axes.h"

namespace common {
namespace {

std::vector<int> range(int first, size_t count) {
  std::vector<int> labels(count);
  for (size_t k = 0; k < count; ++k) labels[k] = first + static_cast<int>(k);
  return labels;
}

template <class T>
void to_front(std::vector<T>& values, size_t place) {
  const auto at_place = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::rotate(values.begin(), at_place, at_place + 1);
}

class ProductLoopsAdder {
 public:
  ProductLoopsAdder(Graph& graph, NodeId id, const ProductLoops& loops)
      : nodes_(graph), node_(graph.node(id)), problem_(tile_problem(graph, node_)), loops_(loops) {
    if (loops.one_row_label && !problem_.m.empty()) {
      problem_.batch.insert(problem_.batch.end(), problem_.m.begin(), problem_.m.end() - 1);
      problem_.m.erase(problem_.m.begin(), problem_.m.end() - 1);
      problem_.m_size = problem_.label_size[at(problem_.m[0])];
    }
  }

  VisitedNode run() {
    const NodeId sums = product();
    LoopAxes axes;
    LabelIndices index(problem_.label_size.size());
    Expr block;
    if (loops_.rows_outermost) block = axes.add_outermost(problem_.m_size, loops_.rows);
    index.give(problem_.batch, batch(axes));
    if (!loops_.rows_outermost) block = axes.add_outermost(problem_.m_size, loops_.rows);
    const Expr row = axes.cut_further(block, problem_.m_size, loops_.rows);
    index.give(problem_.m, own(problem_.m, row));
    index.give(problem_.n, own(problem_.n, axes.cut(problem_.n_size, loops_.columns)));
    const Expr position = linear_position(index.of(attr<ContractAttr>(node_).out), node_.shape);
    const NodeId flat = nodes_.iota(element_count(node_.shape));
    return {sums, nodes_.view(flat, axes.read({position}, -1))};
  }

 private:
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
    return nodes_.cast(nodes_.view(x, axes.read(std::move(read), 0)), DType::kFloat64);
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
    if (loops_.rows_outermost) to_front(c.out, batch);
    const Shape x = nodes_.shape(left), y = nodes_.shape(right);
    Shape shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(batch + rows));
    shape.insert(shape.end(), y.begin() + static_cast<std::ptrdiff_t>(batch),
                 y.begin() + static_cast<std::ptrdiff_t>(batch + columns));
    const auto last = static_cast<int>(shape.size());
    shape.push_back(loops_.parts);
    if (loops_.rows_outermost) to_front(shape, batch);
    const NodeId parts =
        nodes_.add({Op::kContract, DType::kFloat64, std::move(shape), {left, right}, c});
    return nodes_.reduce(ReduceOp::kSum, parts, {last});
  }

  NodeAdder nodes_;
  Node node_;
  TileProblem problem_;
  const ProductLoops& loops_;
};

std::string text(const std::vector<int64_t>& cuts) {
  std::string out;
  for (int64_t cut : cuts) out += cat(out.empty() ? "" : ", ", cut);
  return out;
}

}  // namespace

std::string print(const ProductLoops& loops) {
  std::string out = cat(loops.one_row_label ? "rows of the last axis by " : "rows by ",
                        text(loops.rows), loops.rows_outermost ? " around the batch" : "",
                        "; columns by ", text(loops.columns), "; sums by ", text(loops.depth));
  if (!loops.parts.is_constant(1)) out += cat(" in ", loops.parts.text(), " parts");
  return out;
}

VisitedNode add_product_loops(Graph& graph, NodeId contraction, const ProductLoops& loops) {
  return ProductLoopsAdder(graph, contraction, loops).run();
}

LoopedNodes looped_products(Graph body, std::vector<NodeId> contractions,
                            const ProductLoops& loops) {
  Graph graph = body;
  std::vector<VisitedNode> visited;
  for (NodeId contraction : contractions) {
    visited.push_back(add_product_loops(graph, contraction, loops));
  }
  std::string text = print(loops);
  if (contractions.size() > 1) text += cat("; ", contractions.size(), " products");
  return looped_nodes(std::move(body), std::move(contractions), std::move(graph), visited,
                      std::move(text));
}

}  // namespace common
