#include "common/ir/tiled/grouped_loops.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/ir/expr/ceil_div.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/indices.h"
#include "common/ir/nest/node_adder.h"
#include "common/ir/tiled/loop_axes.h"

namespace common {
namespace {

constexpr int kBlock = 0, kPlace = 1;  // the first two axes: of blocks, and of rows in a block

class GroupedLoopsAdder {
 public:
  // `graph` has the nodes of `group`.
  GroupedLoopsAdder(Graph& graph, const GroupProduct& group, const GroupedForm& form,
                    const GroupedLoops& loops)
      : graph_(graph),
        nodes_(graph),
        group_(group),
        form_(form),
        loops_(loops),
        node_(graph.node(group.product)) {}

  VisitedNode run() {
    find_rows();
    const auto& c = attr<ContractAttr>(node_);
    const int block = group_.group + 1, place = group_.group + 2;
    ContractAttr product;
    Node looped{Op::kContract, node_.dtype, {}, {}, {}};
    for (size_t side : {size_t{0}, size_t{1}}) {
      const std::vector<int>& labels = side == 0 ? c.a : c.b;
      const bool is_matrix = static_cast<int>(side) == form_.matrices;
      const int label = is_matrix ? group_.group : form_.row;
      looped.operands.push_back(
          gathered(node_.operands[side], axis_of(labels, label), is_matrix ? matrices_ : rows_));
      (side == 0 ? product.a : product.b) = with_rows(labels, label, block, place);
    }
    product.out = with_rows(c.out, form_.row, block, place);
    looped.shape = with_row_axes(node_.shape, axis_of(c.out, form_.row));
    looped.attr = product;
    const Shape shape = looped.shape;
    const VisitedNode visited =
        add_product_loops(graph_, nodes_.add(std::move(looped)), loops_.product);
    return {visited.values, in_memory(visited.places, shape, axis_of(c.out, form_.row))};
  }

 private:
  static int axis_of(const std::vector<int>& labels, int label) {
    return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }
  static std::vector<int> with_rows(std::vector<int> labels, int label, int block, int place) {
    labels.erase(labels.begin() + axis_of(labels, label));
    labels.insert(labels.begin(), {block, place});
    return labels;
  }
  Expr blocks() const { return ceil_div(group_.rows, loops_.span); }
  Shape with_row_axes(Shape shape, int axis) const {
    shape.erase(shape.begin() + axis);
    shape.insert(shape.begin(), {blocks(), loops_.span});
    return shape;
  }

  // The rows of each block, and the matrix of the run in which each is.
  void find_rows() {
    LoopAxes axes;
    const Expr block = axes.add(blocks()), place = axes.add(loops_.span);
    const Expr position = block * loops_.span + place;
    axes.inside.push_back({position, group_.rows});
    is_row_ = nodes_.view(nodes_.full(DType::kBool, {group_.rows}, 1), axes.read({position}, 0));
    const NodeId order = nodes_.cast(group_.order, DType::kInt64);
    rows_ = nodes_.gather(nodes_.iota(group_.rows), 0, nodes_.view(order, axes.read({position}, 0)),
                          {});
    const NodeId group = nodes_.gather(nodes_.cast(group_.group_of, DType::kInt64), 0, rows_, {});
    const NodeId matrix = nodes_.gather(nodes_.iota(group_.groups), 0, group, {});
    // A run begins where the row before has another matrix.
    const Shape shape = axes.extents;
    LoopAxes before;
    const Expr same = before.add(blocks()), earlier = before.add(loops_.span) - Expr(1);
    before.inside.push_back({earlier, loops_.span});
    const NodeId begins = nodes_.binary(BinaryOp::kNotEqual, matrix,
                                        nodes_.view(matrix, before.read({same, earlier}, -1)));
    const NodeId places = nodes_.view(nodes_.iota(loops_.span), {shape, {place}, {}, 0});
    const NodeId starts = nodes_.scan(
        ScanOp::kMax, nodes_.select(begins, places, nodes_.full(DType::kInt64, shape, 0)), kPlace);
    matrices_ = nodes_.gather(matrix, kPlace, starts, {Expr::index(kBlock)});
  }

  // The operand with axes of blocks and places first, in place of one at which `index` says what
  // is read.
  NodeId gathered(NodeId x, int axis, NodeId index) {
    const Shape shape = with_row_axes(nodes_.shape(x), axis);
    std::vector<int> others;
    std::vector<Expr> at_others;
    for (int d = kPlace + 1; d < static_cast<int>(shape.size()); ++d) {
      others.push_back(d);
      at_others.push_back(Expr::index(d));
    }
    return nodes_.gather(x, axis, nodes_.widened(index, shape, others), at_others);
  }

  // Of positions in `shape`, which begins with blocks and places, those in the node's memory.
  NodeId in_memory(NodeId positions, const Shape& shape, int row_axis) {
    const NodeId place = gathered(nodes_.flat_positions(node_.shape), row_axis, rows_);
    std::vector<int> others;
    for (int d = kPlace + 1; d < static_cast<int>(shape.size()); ++d) others.push_back(d);
    const NodeId none = nodes_.full(DType::kInt64, shape, -1);
    const NodeId table = nodes_.select(nodes_.widened(is_row_, shape, others), place, none);
    const Indices index = unfold(shape, Expr::index(0));
    const NodeId flat = nodes_.view(table, {{element_count(shape)}, index, {}, 0});
    const Shape visited = nodes_.shape(positions);
    const NodeId is_left_out =
        nodes_.binary(BinaryOp::kLess, positions, nodes_.full(DType::kInt64, visited, 0));
    return nodes_.select(is_left_out, positions, nodes_.gather(flat, 0, positions, {}));
  }

  Graph& graph_;
  NodeAdder nodes_;
  const GroupProduct& group_;
  const GroupedForm& form_;
  const GroupedLoops& loops_;
  Node node_;
  NodeId rows_ = 0, matrices_ = 0, is_row_ = 0;
};

}  // namespace

std::string print(const GroupedLoops& loops) {
  return cat("blocks of ", loops.span.text(), " rows in their order, run by run of one matrix; ",
             print(loops.product));
}

LoopedNodes looped_groups(Graph body, const GroupedForm& form, const GroupedLoops& loops) {
  const GroupProduct group = group_product(body, form);
  Graph graph = group.body;
  const VisitedNode visited = GroupedLoopsAdder(graph, group, form, loops).run();
  return looped_nodes(std::move(body), {form.product}, std::move(graph), {visited}, print(loops));
}

}  // namespace common
