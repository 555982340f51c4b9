#include "coordinator/search/partition/rewrites/layout_assignment.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/builder.h"
#include "coordinator/search/partition/rewrites/product_sum.h"

namespace coordinator {
namespace {

using common::at;
using common::attr;
using common::Expr;
using common::Node;
using common::NodeId;
using common::Op;
using common::ReduceAttr;
using common::ReduceOp;
using common::View;
using common::ViewAttr;

// The axes that a reduction keeps, in order.
std::vector<int> kept_axes(const Node& operand, const std::vector<int>& reduced) {
  std::vector<int> kept;
  for (int k = 0; k < static_cast<int>(operand.shape.size()); ++k) {
    if (!common::contains(reduced, k)) kept.push_back(k);
  }
  return kept;
}

// Which loop indices an expression reads.
std::vector<char> indices_of(const Expr& e, size_t rank) {
  std::vector<char> found(rank, 0);
  e.visit_vars([&](common::Var v) {
    if (v.kind == common::Var::Kind::kIndex) found[at(v.id)] = 1;
  });
  return found;
}

class Assignment {
 public:
  explicit Assignment(const common::Graph& graph)
      : graph_(graph), builder_(graph.symbols), from_weights_(graph.nodes.size(), 0) {
    int axes = 0;
    for (const Node& node : graph.nodes) {
      first_.push_back(axes);
      axes += static_cast<int>(node.shape.size());
    }
    class_.resize(at(axes));
    std::iota(class_.begin(), class_.end(), 0);
    is_last_.assign(at(axes), 0);
  }

  // Empty where every value keeps its order.
  std::optional<common::Graph> run() {
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      from_weights_[id] = depends_on_weights_alone(graph_.nodes[id]);
      if (is_free(id)) join_operands(id);
    }
    const std::vector<WeightedSum> sums = weighted_sums();
    for (const WeightedSum& each : sums) {
      if (!has_columns(each)) join_channels(each);
    }
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      if (is_pool(id)) join_pool(id);
    }
    for (const WeightedSum& each : sums) {
      if (has_columns(each)) want_order(each);
    }
    bool changes = false;
    for (size_t id = 0; id < graph_.nodes.size() && !changes; ++id) {
      std::vector<int> order = order_of(id);
      changes = order.size() != graph_.nodes[id].shape.size() ||
                !std::is_sorted(order.begin(), order.end());
    }
    if (!changes) return std::nullopt;
    inputs_ = builder_.inputs_like(graph_);
    for (size_t id = 0; id < graph_.nodes.size(); ++id) copies_.push_back(copied(id));
    for (const common::GraphOutput& output : graph_.outputs) {
      builder_.output_like(output, as_given(output.node));
    }
    return builder_.finish();
  }

 private:
  bool depends_on_weights_alone(const Node& node) const {
    if (node.op == Op::kInput) {
      return graph_.inputs[at(attr<common::InputAttr>(node).position)].kind ==
             common::InputKind::kWeight;
    }
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [&](NodeId operand) { return from_weights_[at(operand)] != 0; });
  }

  // Whether a node of this kind can have its axes in any order, given that its operands have.
  bool is_free(size_t id) const {
    const Node& node = graph_.nodes[id];
    if (from_weights_[id] != 0) return false;
    switch (node.op) {
      case Op::kCast:
      case Op::kUnary:
      case Op::kBinary:
      case Op::kSelect:
      case Op::kPhilox:
        return true;
      case Op::kReduce: {
        ReduceOp op = attr<ReduceAttr>(node).op;
        return op != ReduceOp::kArgmax && op != ReduceOp::kArgmin;
      }
      default:
        return false;
    }
  }

  // Axes that must have the same place.
  int find(int axis) {
    while (class_[at(axis)] != axis) axis = class_[at(axis)] = class_[at(class_[at(axis)])];
    return axis;
  }
  int axis_of(size_t id, int k) const { return first_[id] + k; }
  void join(int a, int b) { class_[at(find(a))] = find(b); }

  void join_operands(size_t id) {
    const Node& node = graph_.nodes[id];
    for (NodeId operand : node.operands) {
      if (!is_free(at(operand))) continue;
      std::vector<int> kept(node.shape.size());
      std::iota(kept.begin(), kept.end(), 0);
      if (node.op == Op::kReduce) {
        kept = kept_axes(graph_.node(operand), attr<ReduceAttr>(node).axes);
      }
      for (size_t k = 0; k < kept.size(); ++k) {
        join(axis_of(id, static_cast<int>(k)), axis_of(at(operand), kept[k]));
      }
    }
  }

  void want_last(size_t id, int k) {
    if (is_free(id)) is_last_[at(find(axis_of(id, k)))] = 1;
  }

  // A sum of products of something computed, the image, and something that depends on weights
  // alone.
  struct WeightedSum {
    size_t sum = 0;
    NodeId product = -1, image = -1, weight = -1;
  };

  std::vector<WeightedSum> weighted_sums() const {
    std::vector<WeightedSum> found;
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      const Node& sum = graph_.nodes[id];
      if (!is_product_sum(graph_, sum)) continue;
      const Node& product = graph_.node(sum.operands[0]);
      const std::vector<int>& summed = attr<ReduceAttr>(sum).axes;
      if (std::all_of(summed.begin(), summed.end(),
                      [&](int axis) { return product.shape[at(axis)].is_constant(1); })) {
        continue;
      }
      for (size_t side : {0, 1}) {
        NodeId image = product.operands[side], weight = product.operands[1 - side];
        if (from_weights_[at(weight)] == 0 || from_weights_[at(image)] != 0) continue;
        found.push_back({id, sum.operands[0], image, weight});
      }
    }
    return found;
  }

  // The axes of the product that the sum keeps and the weight has.
  std::vector<int> weight_axes(const WeightedSum& s) const {
    const Node& product = graph_.node(s.product);
    std::vector<char> in_weight = read_axes(s.weight, product.shape.size());
    std::vector<int> axes = kept_axes(product, attr<ReduceAttr>(graph_.nodes[s.sum]).axes);
    std::erase_if(axes, [&](int axis) {
      return in_weight[at(axis)] == 0 || product.shape[at(axis)].is_constant(1);
    });
    return axes;
  }

  // Whether each place of an image is multiplied by several columns of the weight.
  bool has_columns(const WeightedSum& s) const {
    std::vector<char> in_image = read_axes(s.image, graph_.node(s.product).shape.size());
    std::vector<int> axes = weight_axes(s);
    return std::any_of(axes.begin(), axes.end(), [&](int axis) { return in_image[at(axis)] == 0; });
  }

  // Without columns, as where each channel is weighed by a filter of its own, a sum is as good
  // along the rows of an image as along its channels, but both sides must agree: the channels of
  // the result lie where those of the image do, and of what reads the result elementwise.
  void join_channels(const WeightedSum& s) {
    const NodeId x = beneath_casts(s.image);
    if (graph_.node(x).op != Op::kView || !is_free(s.sum)) return;
    const NodeId image = graph_.node(x).operands[0];
    const std::vector<int> kept =
        kept_axes(graph_.node(s.product), attr<ReduceAttr>(graph_.nodes[s.sum]).axes);
    for (int axis : weight_axes(s)) {
      const auto k = static_cast<int>(std::find(kept.begin(), kept.end(), axis) - kept.begin());
      auto d = axis_along(x, axis);
      if (d && is_free(at(image))) join(axis_of(s.sum, k), axis_of(at(image), *d));
      join_readers(s.sum, k);
    }
  }

  // A maximum or a sum over windows of an image.
  bool is_pool(size_t id) const {
    const Node& reduce = graph_.nodes[id];
    if (reduce.op != Op::kReduce || !is_free(id)) return false;
    const Node& windows = graph_.node(beneath_casts(reduce.operands[0]));
    if (windows.op != Op::kView || !is_free(at(windows.operands[0]))) return false;
    const View& view = attr<ViewAttr>(windows).view;
    return std::ranges::any_of(view.index, [&](const Expr& e) {
      bool place = false, tap = false;
      e.visit_vars([&](common::Var v) {
        if (v.kind != common::Var::Kind::kIndex) return;
        (common::contains(attr<ReduceAttr>(reduce).axes, v.id) ? tap : place) = true;
      });
      return place && tap;
    });
  }

  // The channels of what it gives lie where those of the image do: windows are computed a vector
  // of channels at a time, and beside each other where the image's rows lie last.
  void join_pool(size_t id) {
    const Node& reduce = graph_.nodes[id];
    const NodeId windows = beneath_casts(reduce.operands[0]);
    const NodeId image = graph_.node(windows).operands[0];
    const std::vector<int> kept = kept_axes(graph_.node(windows), attr<ReduceAttr>(reduce).axes);
    for (size_t k = 0; k < kept.size(); ++k) {
      auto d = axis_along(windows, kept[k]);
      if (!d || reduce.shape[k].is_constant(1)) continue;
      join(axis_of(id, static_cast<int>(k)), axis_of(at(image), *d));
      join_readers(id, static_cast<int>(k));
    }
  }

  // Joins the axis with those of elementwise nodes that read it through a view.
  void join_readers(size_t source, int axis) {
    for (size_t id = source + 1; id < graph_.nodes.size(); ++id) {
      if (!is_free(id) || graph_.nodes[id].op == Op::kReduce) continue;
      for (NodeId operand : graph_.nodes[id].operands) {
        const Node& view = graph_.node(operand);
        if (view.op != Op::kView || at(view.operands[0]) != source) continue;
        for (int k = 0; k < static_cast<int>(view.shape.size()); ++k) {
          if (axis_along(operand, k) == axis) join(axis_of(source, axis), axis_of(id, k));
        }
      }
    }
  }

  // The axis of what a view reads that the view's axis runs along.
  std::optional<int> axis_along(NodeId view_node, int axis) const {
    const View& view = attr<ViewAttr>(graph_.node(view_node)).view;
    for (size_t d = 0; d < view.index.size(); ++d) {
      const Expr position = view.index[d].substitute([&](common::Var v) {
        const bool is_one =
            v.kind == common::Var::Kind::kIndex && view.shape[at(v.id)].is_constant(1);
        return is_one ? Expr(0) : Expr::var(v);
      });
      if (position == Expr::index(axis)) return static_cast<int>(d);
    }
    return std::nullopt;
  }

  void want_order(const WeightedSum& s) {
    const Node& product = graph_.node(s.product);
    const size_t sum = s.sum;
    std::vector<char> in_weight = read_axes(s.weight, product.shape.size());
    std::vector<int> kept = kept_axes(product, attr<ReduceAttr>(graph_.nodes[sum]).axes);
    for (size_t k = 0; k < kept.size(); ++k) {
      if (in_weight[at(kept[k])] != 0) want_last(sum, static_cast<int>(k));
    }
    for (int axis : attr<ReduceAttr>(graph_.nodes[sum]).axes) {
      want_last(at(graph_.nodes[sum].operands[0]), axis);
    }
    NodeId x = beneath_casts(s.image);
    if (graph_.node(x).op != Op::kView) return;
    const View& view = attr<ViewAttr>(graph_.node(x)).view;
    NodeId image = graph_.node(x).operands[0];
    for (size_t d = 0; d < view.index.size(); ++d) {
      std::vector<char> read = indices_of(view.index[d], product.shape.size());
      bool any = false, all = true;
      for (size_t k = 0; k < read.size(); ++k) {
        any = any || read[k] != 0;
        all = all && (read[k] == 0 || in_weight[k] != 0);
      }
      // Windows mix an axis of the output with one of the weight's. Axes that are parts of the
      // weight's, such as heads, stay as whoever writes them likes it.
      all = all && common::affine_form(view.index[d], static_cast<int>(read.size()));
      if (any && all) want_last(at(image), static_cast<int>(d));
    }
  }

  NodeId beneath_casts(NodeId id) const {
    while (graph_.node(id).op == Op::kCast) id = graph_.node(id).operands[0];
    return id;
  }

  // The axes along which a value differs from place to place.
  std::vector<char> read_axes(NodeId id, size_t rank) const {
    id = beneath_casts(id);
    std::vector<char> result(rank, 1);
    if (graph_.node(id).op != Op::kView) return result;
    std::fill(result.begin(), result.end(), 0);
    for (const Expr& e : attr<ViewAttr>(graph_.node(id)).view.index) {
      std::vector<char> read = indices_of(e, rank);
      for (size_t k = 0; k < rank; ++k) result[k] |= read[k];
    }
    return result;
  }

  // The node's axes as they lie in its copy; those of size 1 are missing where any order will do.
  std::vector<int> order_of(size_t id) {
    const common::Shape& shape = graph_.nodes[id].shape;
    std::vector<int> order;
    for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
      if (!is_free(id) || !shape[at(k)].is_constant(1)) order.push_back(k);
    }
    if (is_free(id)) {
      std::stable_partition(order.begin(), order.end(),
                            [&](int k) { return is_last_[at(find(axis_of(id, k)))] == 0; });
    }
    return order;
  }

  NodeId as_given(NodeId id) {
    View view{graph_.node(id).shape, {}, {}, 0};
    for (int axis : order_of(at(id))) view.index.push_back(Expr::index(axis));
    return builder_.view(copies_[at(id)], view);
  }

  // Axes of size 1 may be missing in the order.
  NodeId in_order(NodeId id, const std::vector<int>& order) {
    if (order_of(at(id)) == order) return copies_[at(id)];
    const common::Shape& shape = graph_.node(id).shape;
    View view{{}, std::vector<Expr>(shape.size(), Expr(0)), {}, 0};
    for (size_t k = 0; k < order.size(); ++k) {
      view.shape.push_back(shape[at(order[k])]);
      view.index[at(order[k])] = Expr::index(static_cast<int>(k));
    }
    return builder_.view(as_given(id), view);
  }

  NodeId copied(size_t id) {
    Node node = graph_.nodes[id];
    if (node.op == Op::kInput) return inputs_[at(attr<common::InputAttr>(node).position)];
    if (node.op == Op::kView)
      return builder_.view(as_given(node.operands[0]), attr<ViewAttr>(node).view);
    if (!is_free(id)) {
      for (NodeId& operand : node.operands) operand = as_given(operand);
      return builder_.raw(std::move(node));
    }
    if (node.op == Op::kReduce) return reduced(id);
    std::vector<int> order = order_of(id);
    for (NodeId& operand : node.operands) operand = in_order(operand, order);
    node.shape = builder_.shape(node.operands[0]);
    return builder_.raw(std::move(node));
  }

  NodeId reduced(size_t id) {
    const Node& node = graph_.nodes[id];
    const std::vector<int>& axes = attr<ReduceAttr>(node).axes;
    NodeId operand = node.operands[0];
    std::vector<int> order = order_of(at(operand));
    if (!is_free(at(operand))) {
      std::vector<int> kept = kept_axes(graph_.node(operand), axes);
      order.clear();
      for (int k : order_of(id)) order.push_back(kept[at(k)]);
      for (int axis : axes) {
        if (!graph_.node(operand).shape[at(axis)].is_constant(1)) order.push_back(axis);
      }
    }
    std::vector<int> places;
    for (int axis : axes) {
      auto place = std::find(order.begin(), order.end(), axis);
      if (place != order.end()) places.push_back(static_cast<int>(place - order.begin()));
    }
    return builder_.reduce(attr<ReduceAttr>(node).op, in_order(operand, order), places);
  }

  const common::Graph& graph_;
  common::GraphBuilder builder_;
  std::vector<char> from_weights_;  // per node
  std::vector<int> first_;          // per node: the number of its first axis
  std::vector<int> class_;          // per axis of a node: a tree of those that go together
  std::vector<char> is_last_;       // per class
  std::vector<NodeId> inputs_;
  std::vector<NodeId> copies_;  // per node
};

// Whether some view reads an element for several places, as windows of images that overlap do.
bool has_windows(const common::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    if (node.op != Op::kView) return false;
    const common::View& view = attr<common::ViewAttr>(node).view;
    const common::Shape& operand = graph.node(node.operands[0]).shape;
    for (size_t k = 0; k < view.index.size(); ++k) {
      int indices = 0;
      common::Expr places = 1;
      view.index[k].visit_vars([&](common::Var v) {
        if (v.kind != common::Var::Kind::kIndex) return;
        ++indices;
        places *= view.shape[at(v.id)];
      });
      bool overlap = indices > 1 && places.is_constant() && operand[k].is_constant() &&
                     places.constant() > operand[k].constant();
      if (overlap) return true;
    }
    return false;
  });
}

}  // namespace

common::Graph assign_layouts(const common::Graph& graph, common::Machine machine) {
  if (common::is_gpu(machine) && !has_windows(graph)) return graph;
  return Assignment(graph).run().value_or(graph);
}

}  // namespace coordinator
