#include "common/ir/tiled/sort_items.h"

#include <utility>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/indices.h"

namespace common {
namespace {

constexpr double kNumber = 0, kNan = 1, kPadding = 2;
constexpr double kPackedKeys = 4294967296.0;  // that 32 bits tell apart

}  // namespace

SortItemsAdder::SortItemsAdder(Graph& graph, NodeId sort)
    : nodes_(graph),
      node_(graph.node(sort)),
      axis_(at(attr<SortAttr>(node_).axis)),
      lines_(node_.shape),
      length_(nodes_.shape(node_.operands[0])[axis_]),
      count_(node_.shape[axis_]) {
  lines_.erase(lines_.begin() + static_cast<std::ptrdiff_t>(axis_));
}

Result<SortItems> SortItemsAdder::items(bool packed) {
  const DType dtype = nodes_.dtype(node_.operands[0]);
  if (packed && dtype == DType::kFloat64) return invalid_input("32 bits hold no key of float64");
  const bool descends = attr<SortAttr>(node_).descending;
  Shape shape = lines_;
  shape.push_back(length_);
  LoopAxes axes;
  Indices own = axes.add_all(shape);
  const View position{shape, {own.back()}, {}, 0};
  own.insert(own.begin() + static_cast<std::ptrdiff_t>(axis_), own.back());
  own.pop_back();
  const NodeId x = nodes_.view(node_.operands[0], axes.read(std::move(own), 0));
  SortItems items;
  items.position = nodes_.view(nodes_.iota(length_), position);
  items.key_class = nodes_.full(DType::kInt64, shape, kNumber);
  if (is_float(dtype)) {
    const NodeId wide = nodes_.cast(x, DType::kFloat64);
    const NodeId is_nan = nodes_.unary(UnaryOp::kIsNan, wide);
    const NodeId nan = nodes_.full(DType::kInt64, shape, descends ? -kNan : kNan);
    items.key_class = nodes_.select(is_nan, nan, items.key_class);
    items.key = nodes_.select(is_nan, nodes_.full(DType::kFloat64, shape, 0), wide);
    if (descends) items.key = nodes_.unary(UnaryOp::kNeg, items.key);
    return items;
  }
  items.key = nodes_.cast(x, DType::kInt64);
  if (packed) {
    const NodeId half = nodes_.full(DType::kInt64, shape, kPackedKeys / 2);
    items.key = nodes_.binary(BinaryOp::kAdd, items.key, half);
    items.key =
        nodes_.binary(BinaryOp::kMod, items.key, nodes_.full(DType::kInt64, shape, kPackedKeys));
    items.key = nodes_.binary(BinaryOp::kSub, items.key, half);
  }
  if (descends) items.key = nodes_.unary(UnaryOp::kNot, items.key);
  return items;
}

SortItems SortItemsAdder::read(const SortItems& items, const LoopAxes& axes, const Expr& position) {
  Indices index;
  for (size_t d = 0; d < lines_.size(); ++d) index.push_back(Expr::index(static_cast<int>(d)));
  index.push_back(position);
  return {nodes_.view(items.key_class, axes.read(index, kPadding)),
          nodes_.view(items.key, axes.read(index, 0)),
          nodes_.view(items.position, axes.read(index, 0))};
}

SortItems SortItemsAdder::view(const SortItems& items, const View& view) {
  return {nodes_.view(items.key_class, view), nodes_.view(items.key, view),
          nodes_.view(items.position, view)};
}

SortItems SortItemsAdder::select(NodeId condition, const SortItems& a, const SortItems& b) {
  return {nodes_.select(condition, a.key_class, b.key_class),
          nodes_.select(condition, a.key, b.key), nodes_.select(condition, a.position, b.position)};
}

NodeId SortItemsAdder::is_before(const SortItems& a, const SortItems& b) {
  NodeId before = nodes_.binary(BinaryOp::kLess, a.position, b.position);
  const auto unless_equal = [&](NodeId x, NodeId y) {
    const NodeId equal = nodes_.binary(BinaryOp::kEqual, x, y);
    before = nodes_.binary(BinaryOp::kOr, nodes_.binary(BinaryOp::kLess, x, y),
                           nodes_.binary(BinaryOp::kAnd, equal, before));
  };
  unless_equal(a.key, b.key);
  unless_equal(a.key_class, b.key_class);
  return before;
}

NodeId SortItemsAdder::is_item(const SortItems& items) {
  const NodeId padding = nodes_.full(DType::kInt64, nodes_.shape(items.key_class), kPadding);
  return nodes_.binary(BinaryOp::kLess, items.key_class, padding);
}

NodeId SortItemsAdder::places(NodeId rank, NodeId is_item) {
  const NodeId flat = nodes_.flat_positions(node_.shape);
  Indices line;
  for (size_t d = 0; d < lines_.size(); ++d) line.push_back(Expr::index(static_cast<int>(d)));
  const NodeId place = nodes_.gather(flat, static_cast<int>(axis_), rank, line);
  const NodeId none = nodes_.full(DType::kInt64, nodes_.shape(rank), -1);
  if (attr<SortAttr>(node_).count != 0) {
    const NodeId count = nodes_.full(DType::kInt64, nodes_.shape(rank),
                                     static_cast<double>(attr<SortAttr>(node_).count));
    is_item = nodes_.binary(BinaryOp::kAnd, is_item, nodes_.binary(BinaryOp::kLess, rank, count));
  }
  return nodes_.select(is_item, place, none);
}

}  // namespace common
