#include "coordinator/search/partition/rewrites/needed_positions.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/contains.h"
#include "common/ir/expr/bounds.h"
#include "common/ir/expr/with_indices.h"
#include "common/ir/hlir/builder.h"

namespace coordinator {
namespace {

using common::attr;
using common::Expr;
using common::Graph;
using common::Node;
using common::NodeId;
using common::Op;
using common::Shape;

// Of each axis the one position that is read, over size symbols; empty: several are.
using Positions = std::vector<std::optional<Expr>>;

Positions all_of(const Shape& shape) { return Positions(shape.size()); }

// Of each axis of a node's shape: an index, or the position that is left.
std::vector<Expr> places(const Shape& shape, const Positions& left) {
  std::vector<Expr> found;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool is_one = shape[axis].is_constant(1);
    found.push_back(left[axis] ? *left[axis]
                    : is_one   ? Expr(0)
                               : Expr::index(static_cast<int>(axis)));
  }
  return found;
}

// Where one axis of `size` elements is read.
std::optional<Expr> position(const Expr& at, const Expr& size) {
  return at.uses_index() || size.is_constant(1) ? std::nullopt : std::optional(at);
}

// Axes of which a position depends on others, so that all are computed.
std::vector<size_t> whole_axes(const Node& node) {
  std::vector<size_t> whole;
  const size_t rank = node.shape.size();
  auto last = [&](size_t count) {
    for (size_t axis = rank - count; axis < rank; ++axis) whole.push_back(axis);
  };
  switch (node.op) {
    case Op::kView:
    case Op::kGather:
    case Op::kReduce:
      break;
    case Op::kScan:
      whole.push_back(static_cast<size_t>(attr<common::ScanAttr>(node).axis));
      break;
    case Op::kSort:
      whole.push_back(static_cast<size_t>(attr<common::SortAttr>(node).axis));
      break;
    case Op::kSoftmax:
      whole.push_back(static_cast<size_t>(attr<common::SoftmaxAttr>(node).axis));
      break;
    case Op::kNorm:
      last(static_cast<size_t>(attr<common::NormAttr>(node).axes));
      break;
    case Op::kFourier:
      last(1);
      break;
    case Op::kContract:
      if (node.operands.size() > 2) last(rank);  // kernels visit rows in an order of their own
      break;
    default:
      if (!common::is_elementwise(node.op)) last(rank);
  }
  return whole;
}

class Narrowing {
 public:
  explicit Narrowing(const Graph& graph)
      : graph_(graph), bounds_(graph.symbols, {}), builder_(graph.symbols) {}

  Graph run() {
    find_needed();
    const bool any = std::ranges::any_of(needed_, [](const std::optional<Positions>& each) {
      return each && std::ranges::any_of(*each, [](const auto& at) { return at.has_value(); });
    });
    if (!any) return graph_;
    inputs_ = builder_.inputs_like(graph_);
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      copies_.push_back(needed_[id] ? copy(static_cast<NodeId>(id)) : NodeId{-1});
    }
    for (const common::GraphOutput& output : graph_.outputs) {
      builder_.output_like(output, copies_[static_cast<size_t>(output.node)]);
    }
    return builder_.finish();
  }

 private:
  // What `node`, of which `left` is computed, reads of its operand `k`.
  Positions read_of(const Node& node, const Positions& left, size_t k) const {
    const Shape& shape = graph_.node(node.operands[k]).shape;
    Positions read = all_of(shape);
    if (common::is_elementwise(node.op)) return left;
    switch (node.op) {
      case Op::kView: {
        const common::View& view = attr<common::ViewAttr>(node).view;
        if (!view.valid.empty() || may_be_empty(node.shape)) return read;
        auto index = common::with_indices(view.index, places(node.shape, left));
        for (size_t axis = 0; axis < read.size(); ++axis) {
          read[axis] = position(index[axis], shape[axis]);
        }
        return read;
      }
      case Op::kGather: {
        if (k > 0) return left;
        if (may_be_empty(node.shape)) return read;
        const auto& coordinates = attr<common::GatherAttr>(node).coordinates;
        for (size_t axis = 0; axis < read.size(); ++axis) {
          if (coordinates[axis].slot >= 0) continue;
          Expr at = common::with_indices(coordinates[axis].expr, places(node.shape, left));
          read[axis] = position(at, shape[axis]);
        }
        return read;
      }
      case Op::kReduce: {
        size_t kept = 0;
        for (size_t axis = 0; axis < read.size(); ++axis) {
          const auto& axes = attr<common::ReduceAttr>(node).axes;
          if (!common::contains(axes, static_cast<int>(axis))) read[axis] = left[kept++];
        }
        return read;
      }
      case Op::kContract: {
        if (k > 1) return read;
        const auto& labels = attr<common::ContractAttr>(node);
        const std::vector<int>& own = k == 0 ? labels.a : labels.b;
        for (size_t axis = 0; axis < read.size(); ++axis) {
          auto found = std::ranges::find(labels.out, own[axis]);
          if (found != labels.out.end()) {
            read[axis] = left[static_cast<size_t>(found - labels.out.begin())];
          }
        }
        return read;
      }
      case Op::kScan:
      case Op::kSort:
      case Op::kSoftmax:
      case Op::kNorm:
      case Op::kFourier:
        return left;
      default:
        return read;
    }
  }

  // What has no elements reads no position: there may be none.
  bool may_be_empty(const Shape& shape) const {
    return std::ranges::any_of(shape, [&](const Expr& size) { return bounds_.lower(size) < 1; });
  }

  // From users to operands.
  void find_needed() {
    needed_.resize(graph_.nodes.size());
    for (const common::GraphOutput& output : graph_.outputs) {
      needed_[static_cast<size_t>(output.node)] = all_of(graph_.node(output.node).shape);
    }
    for (size_t id = graph_.nodes.size(); id-- > 0;) {
      if (!needed_[id]) continue;
      const Node& node = graph_.nodes[id];
      Positions& left = *needed_[id];
      for (size_t axis : whole_axes(node)) left[axis].reset();
      for (size_t k = 0; k < node.operands.size(); ++k) {
        std::optional<Positions>& needed = needed_[static_cast<size_t>(node.operands[k])];
        Positions read = read_of(node, left, k);
        if (!needed) {
          needed = std::move(read);
          continue;
        }
        for (size_t axis = 0; axis < read.size(); ++axis) {
          if ((*needed)[axis] != read[axis]) (*needed)[axis].reset();
        }
      }
    }
  }

  // The copy of an operand with what `read` says of it left.
  NodeId operand(NodeId id, const Positions& read) {
    const Positions& left = *needed_[static_cast<size_t>(id)];
    common::View view{graph_.node(id).shape, {}, {}, 0};
    bool cuts = false;
    for (size_t axis = 0; axis < read.size(); ++axis) {
      if (read[axis]) view.shape[axis] = 1;
      const bool is_cut = read[axis] && !left[axis];
      view.index.push_back(is_cut       ? *read[axis]
                           : read[axis] ? Expr(0)
                                        : Expr::index(static_cast<int>(axis)));
      cuts = cuts || is_cut;
    }
    NodeId copy = copies_[static_cast<size_t>(id)];
    return cuts ? builder_.view(copy, view) : copy;
  }

  NodeId copy(NodeId id) {
    Node node = graph_.node(id);
    if (node.op == Op::kInput) {
      return inputs_[static_cast<size_t>(attr<common::InputAttr>(node).position)];
    }
    const Positions& left = *needed_[static_cast<size_t>(id)];
    const std::vector<Expr> at = places(node.shape, left);
    const std::vector<NodeId> from = node.operands;
    for (size_t k = 0; k < from.size(); ++k) {
      const bool is_moved = (node.op == Op::kView || node.op == Op::kGather) && k == 0;
      node.operands[k] = is_moved ? copies_[static_cast<size_t>(from[k])]
                                  : operand(from[k], read_of(graph_.node(id), left, k));
    }
    for (size_t axis = 0; axis < left.size(); ++axis) {
      if (left[axis]) node.shape[axis] = 1;
    }
    if (node.op == Op::kView) {
      common::View view = attr<common::ViewAttr>(node).view;
      view.shape = node.shape;
      view.index = common::with_indices(view.index, at);
      cut_away(from[0], view.index);
      for (common::Validity& valid : view.valid) {
        valid = {common::with_indices(valid.value, at), common::with_indices(valid.bound, at)};
      }
      return builder_.view(node.operands[0], view);
    }
    if (node.op == Op::kGather) {
      auto& coordinates = std::get<common::GatherAttr>(node.attr).coordinates;
      const Positions& data = *needed_[static_cast<size_t>(from[0])];
      for (size_t axis = 0; axis < coordinates.size(); ++axis) {
        Expr& expr = coordinates[axis].expr;
        if (coordinates[axis].slot < 0)
          expr = data[axis] ? Expr(0) : common::with_indices(expr, at);
      }
    }
    return builder_.raw(std::move(node));
  }

  // Where the operand has one position left, it is read there.
  void cut_away(NodeId operand, std::vector<Expr>& index) const {
    const Positions& left = *needed_[static_cast<size_t>(operand)];
    for (size_t axis = 0; axis < index.size(); ++axis) {
      if (left[axis]) index[axis] = 0;
    }
  }

  const Graph& graph_;
  const common::Bounds bounds_;                   // of its sizes
  std::vector<std::optional<Positions>> needed_;  // of each node; empty: nothing reads it
  common::GraphBuilder builder_;
  std::vector<NodeId> inputs_;
  std::vector<NodeId> copies_;
};

}  // namespace

Graph compute_needed_positions(const Graph& graph) { return Narrowing(graph).run(); }

}  // namespace coordinator
