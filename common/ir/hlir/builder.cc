#include "common/ir/hlir/builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "common/base/cat.h"
#include "common/base/hash64.h"
#include "common/ir/hlir/half.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"

namespace common {
namespace {

// Parts of a concatenation that are chosen from one after the other.
constexpr size_t kPartsInRow = 4;

uint64_t node_hash(const Node& node) {
  uint64_t hash = hash64(describe(node));
  for (NodeId operand : node.operands) hash = combine64(hash, static_cast<uint64_t>(operand));
  return hash;
}

template <class T>
Bytes bytes_of(T value) {
  Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

Bytes encode_float(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat16:
      return bytes_of(half_from_float(static_cast<float>(value)));
    case DType::kBfloat16:
      return bytes_of(bfloat16_from_float(static_cast<float>(value)));
    case DType::kFloat32:
      return bytes_of(static_cast<float>(value));
    case DType::kFloat64:
      return bytes_of(value);
    default: {
      float pair[2] = {static_cast<float>(value), 0};
      Bytes bytes(sizeof pair);
      std::memcpy(bytes.data(), pair, sizeof pair);
      return bytes;
    }
  }
}

Bytes encode_int(DType dtype, int64_t value) {
  Bytes bytes(static_cast<size_t>(dtype_size(dtype)));
  if (dtype == DType::kBool) value = value != 0;
  std::memcpy(bytes.data(), &value, bytes.size());  // little-endian
  return bytes;
}

double decode_element(DType dtype, const std::byte* p) {
  auto read = [p](auto zero) {
    std::memcpy(&zero, p, sizeof zero);
    return zero;
  };
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return read(uint8_t{});
    case DType::kInt8:
      return read(int8_t{});
    case DType::kInt16:
      return read(int16_t{});
    case DType::kInt32:
      return read(int32_t{});
    case DType::kInt64:
      return static_cast<double>(read(int64_t{}));
    case DType::kFloat16:
      return float_from_half(read(uint16_t{}));
    case DType::kBfloat16:
      return float_from_bfloat16(read(uint16_t{}));
    case DType::kFloat64:
      return read(double{});
    default:
      return read(float{});
  }
}

}  // namespace

GraphBuilder::GraphBuilder(std::vector<SymbolRange> symbols) {
  graph_.symbols = std::move(symbols);
}

Expr GraphBuilder::new_symbol(SymbolRange range) {
  graph_.symbols.push_back(range);
  return Expr::symbol(static_cast<int>(graph_.symbols.size()) - 1);
}

NodeId GraphBuilder::add(Node node) {
  auto type = infer_type(graph_, node);
  LFARM_CHECK(type.ok(), type.ok() ? "" : type.error().message);
  node.dtype = type->dtype;
  node.shape = std::move(type->shape);
  uint64_t hash = node_hash(node);
  auto [begin, end] = known_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (graph_.node(it->second) == node) return it->second;
  }
  auto id = static_cast<NodeId>(graph_.nodes.size());
  graph_.nodes.push_back(std::move(node));
  known_.emplace(hash, id);
  return id;
}

NodeId GraphBuilder::raw(Node node) { return add(std::move(node)); }

NodeId GraphBuilder::input(InputKind kind, DType dtype, Shape shape, std::string name) {
  int position = static_cast<int>(graph_.inputs.size());
  graph_.inputs.push_back({kind, dtype, shape, std::move(name)});
  return add({Op::kInput, dtype, std::move(shape), {}, InputAttr{position}});
}

std::vector<NodeId> GraphBuilder::inputs_like(const Graph& graph) {
  std::vector<NodeId> inputs;
  for (const GraphInput& like : graph.inputs) {
    inputs.push_back(input(like.kind, like.dtype, like.shape, like.name));
  }
  return inputs;
}

NodeId GraphBuilder::constant(DType dtype, const std::vector<int64_t>& sizes, Bytes data) {
  Shape shape(sizes.begin(), sizes.end());
  return add({Op::kConstant,
              dtype,
              std::move(shape),
              {},
              ConstantAttr{std::make_shared<const Bytes>(std::move(data))}});
}

NodeId GraphBuilder::scalar(DType dtype, double value) {
  if (is_float(dtype) || dtype == DType::kComplex64) {
    return constant(dtype, {}, encode_float(dtype, value));
  }
  return scalar_int(dtype, dtype == DType::kBool ? value != 0 : static_cast<int64_t>(value));
}

NodeId GraphBuilder::scalar_int(DType dtype, int64_t value) {
  if (is_float(dtype) || dtype == DType::kComplex64) {
    return constant(dtype, {}, encode_float(dtype, static_cast<double>(value)));
  }
  return constant(dtype, {}, encode_int(dtype, value));
}

NodeId GraphBuilder::full(DType dtype, const Shape& shape, double value) {
  return expand(scalar(dtype, value), shape);
}
NodeId GraphBuilder::full_int(DType dtype, const Shape& shape, int64_t value) {
  return expand(scalar_int(dtype, value), shape);
}

NodeId GraphBuilder::size_scalar(DType dtype, const Expr& value) {
  if (value.is_constant()) return scalar_int(dtype, value.constant());
  // Element `value` of 0, 1, 2, ... is the value itself.
  NodeId line = iota(DType::kInt64, value + 1);
  return cast(view(line, View{{}, {value}, {}, 0}), dtype);
}

NodeId GraphBuilder::iota(DType dtype, const Expr& length) {
  return add({Op::kIota, dtype, {length}, {}, {}});
}

NodeId GraphBuilder::view(NodeId x, const View& wanted) {
  View view = wanted;
  if (node(x).op == Op::kView) {
    const View& inner = attr<ViewAttr>(node(x)).view;
    if (auto composed = view_compose(view, inner, graph_.symbols)) {
      NodeId base = node(x).operands[0];
      if (view_is_identity(*composed, shape(base))) return base;
      return add({Op::kView, {}, {}, {base}, ViewAttr{std::move(*composed)}});
    }
  }
  // Composing with the identity simplifies the view's expressions.
  if (auto simple = view_compose(view, view_identity(shape(x)), graph_.symbols)) {
    view = std::move(*simple);
  }
  if (view_is_identity(view, shape(x))) return x;
  return add({Op::kView, {}, {}, {x}, ViewAttr{std::move(view)}});
}

NodeId GraphBuilder::permute(NodeId x, const std::vector<int>& order) {
  return view(x, view_permute(shape(x), order));
}

bool GraphBuilder::can_expand(NodeId x, const Shape& wanted) const {
  return view_expand(shape(x), wanted).has_value();
}

NodeId GraphBuilder::expand(NodeId x, const Shape& wanted) {
  auto expanded = view_expand(shape(x), wanted);
  LFARM_CHECK(expanded.has_value(),
              cat("cannot expand ", shape_text(shape(x)), " to ", shape_text(wanted)));
  return view(x, *expanded);
}

NodeId GraphBuilder::reshape(NodeId x, const Shape& wanted) {
  return view(x, view_reshape(shape(x), wanted, bounds()));
}

NodeId GraphBuilder::slice(NodeId x, int axis, const Expr& start, const Expr& length,
                           int64_t step) {
  return view(x, view_slice(shape(x), axis, start, length, step));
}

NodeId GraphBuilder::pad(NodeId x, int axis, const Expr& before, const Expr& after, double fill) {
  return view(x, view_pad(shape(x), axis, before, after, fill));
}

NodeId GraphBuilder::unsqueeze(NodeId x, int axis) {
  return view(x, view_unsqueeze(shape(x), axis));
}
NodeId GraphBuilder::squeeze(NodeId x, int axis) { return view(x, view_squeeze(shape(x), axis)); }

NodeId GraphBuilder::concat(const std::vector<NodeId>& parts, int axis) {
  LFARM_CHECK(!parts.empty(), "nothing to concatenate");
  // Each select is as long as all that it chooses from: of many parts, halves by themselves.
  if (parts.size() > kPartsInRow) {
    auto middle = parts.begin() + static_cast<std::ptrdiff_t>((parts.size() + 1) / 2);
    return concat({concat({parts.begin(), middle}, axis), concat({middle, parts.end()}, axis)},
                  axis);
  }
  auto k = static_cast<size_t>(axis);
  Expr total = 0;
  for (NodeId part : parts) total += shape(part)[k];
  Expr begin = total;
  NodeId result = -1;
  for (size_t p = parts.size(); p-- > 0;) {
    Expr length = shape(parts[p])[k];
    Expr end = begin;
    begin = begin - length;
    NodeId padded = pad(parts[p], axis, begin, total - end);
    if (result < 0) {
      result = padded;
      continue;
    }
    Shape column(static_cast<size_t>(rank(padded)), Expr(1));
    column[k] = total;
    NodeId position = reshape(iota(DType::kInt64, total), column);
    NodeId inside = binary(BinaryOp::kLess, position, size_scalar(DType::kInt64, end));
    result = select(inside, padded, result);
  }
  return result;
}

NodeId GraphBuilder::cast(NodeId x, DType wanted) {
  if (dtype(x) == wanted) return x;
  if (node(x).op == Op::kView && attr<ViewAttr>(node(x)).view.valid.empty() &&
      node(node(x).operands[0]).op == Op::kConstant) {
    View v = attr<ViewAttr>(node(x)).view;  // cast the few elements, not the broadcast ones
    NodeId base = cast(node(x).operands[0], wanted);
    return view(base, v);
  }
  if (node(x).op == Op::kConstant && shape(x).empty() && !is_half(dtype(x)) &&
      dtype(x) != DType::kComplex64) {
    const auto& data = *attr<ConstantAttr>(node(x)).data;
    if (is_float(dtype(x))) {
      double value = decode_element(dtype(x), data.data());
      if (is_float(wanted) || std::abs(value) < 9e18) return scalar(wanted, value);
    } else {
      int64_t value = 0;
      std::memcpy(&value, data.data(), data.size());
      if (is_integer(dtype(x)) && dtype(x) != DType::kUint8 && data.size() < 8) {
        value = static_cast<int64_t>(decode_element(dtype(x), data.data()));
      }
      return scalar_int(wanted, value);
    }
  }
  Node cast_node{Op::kCast, wanted, shape(x), {x}, {}};
  return add(std::move(cast_node));
}

NodeId GraphBuilder::unary(UnaryOp op, NodeId x) {
  return add({Op::kUnary, {}, {}, {x}, UnaryAttr{op}});
}

std::optional<Shape> GraphBuilder::broadcast(const Shape& a, const Shape& b) const {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  size_t lead = longer.size() - shorter.size();
  for (size_t k = 0; k < shorter.size(); ++k) {
    Expr& size = result[lead + k];
    if (size == shorter[k] || shorter[k].is_constant(1)) continue;
    if (!size.is_constant(1)) return std::nullopt;
    size = shorter[k];
  }
  return result;
}

NodeId GraphBuilder::binary(BinaryOp op, NodeId a, NodeId b) {
  auto common_shape = broadcast(shape(a), shape(b));
  LFARM_CHECK(common_shape.has_value(),
              cat("cannot broadcast ", shape_text(shape(a)), " and ", shape_text(shape(b))));
  NodeId left = expand(a, *common_shape);
  NodeId right = expand(b, *common_shape);
  return add({Op::kBinary, {}, {}, {left, right}, BinaryAttr{op}});
}

NodeId GraphBuilder::select(NodeId condition, NodeId a, NodeId b) {
  auto branches = broadcast(shape(a), shape(b));
  auto all = branches ? broadcast(*branches, shape(condition)) : std::nullopt;
  LFARM_CHECK(all.has_value(), "cannot broadcast the operands of select");
  NodeId c = expand(condition, *all);
  NodeId x = expand(a, *all);
  NodeId y = expand(b, *all);
  return add({Op::kSelect, {}, {}, {c, x, y}, {}});
}

NodeId GraphBuilder::philox(DType dtype, NodeId seed, NodeId offset, NodeId subsequence,
                            NodeId word) {
  std::vector<NodeId> operands = {seed, offset, subsequence, word};
  std::optional<Shape> all = shape(seed);
  for (NodeId operand : operands) {
    if (all) all = broadcast(*all, shape(operand));
  }
  LFARM_CHECK(all.has_value(), "cannot broadcast the operands of philox");
  for (NodeId& operand : operands) operand = expand(operand, *all);
  return add({Op::kPhilox, dtype, {}, std::move(operands), {}});
}

NodeId GraphBuilder::reduce(ReduceOp op, NodeId x, std::vector<int> axes, bool keep) {
  std::sort(axes.begin(), axes.end());
  Shape kept = shape(x);
  for (int axis : axes) kept[static_cast<size_t>(axis)] = 1;
  NodeId result = x;
  if (!axes.empty()) result = add({Op::kReduce, {}, {}, {x}, ReduceAttr{op, std::move(axes)}});
  return keep ? reshape(result, kept) : result;
}

NodeId GraphBuilder::scan(ScanOp op, NodeId x, int axis) {
  return add({Op::kScan, {}, {}, {x}, ScanAttr{op, axis}});
}

NodeId GraphBuilder::fourier(NodeId real, std::optional<NodeId> imaginary,
                             const FourierAttr& part) {
  Node node{Op::kFourier, {}, {}, {real}, part};
  if (imaginary) node.operands.push_back(*imaginary);
  return add(std::move(node));
}

NodeId GraphBuilder::sort_indices(NodeId x, int axis, bool descending, int64_t count) {
  return add({Op::kSort, {}, {}, {x}, SortAttr{axis, descending, count}});
}

NodeId GraphBuilder::gather(NodeId data, const std::vector<NodeId>& indices, const Shape& wanted,
                            std::vector<Coordinate> coordinates) {
  Node gather_node{Op::kGather, {}, wanted, {data}, GatherAttr{std::move(coordinates)}};
  for (NodeId index : indices) gather_node.operands.push_back(expand(index, wanted));
  return add(std::move(gather_node));
}

NodeId GraphBuilder::scatter(ScatterMode mode, NodeId base, NodeId updates,
                             const std::vector<NodeId>& indices,
                             std::vector<Coordinate> coordinates) {
  Node scatter_node{
      Op::kScatter, {}, {}, {base, updates}, ScatterAttr{mode, std::move(coordinates)}};
  for (NodeId index : indices) scatter_node.operands.push_back(expand(index, shape(updates)));
  return add(std::move(scatter_node));
}

NodeId GraphBuilder::matmul(NodeId a, NodeId b) {
  LFARM_CHECK(rank(a) >= 2 && rank(b) >= 2, "matmul takes at least two axes");
  Shape lead_a = shape(a);
  Shape lead_b = shape(b);
  lead_a.resize(lead_a.size() - 2);
  lead_b.resize(lead_b.size() - 2);
  auto lead = broadcast(lead_a, lead_b);
  LFARM_CHECK(lead.has_value(), "matmul: leading axes do not broadcast");
  Expr m = shape(a)[shape(a).size() - 2];
  Expr k = shape(a).back();
  Expr n = shape(b).back();
  LFARM_CHECK(shape(b)[shape(b).size() - 2] == k, "matmul: inner sizes differ");
  Shape full_shape = *lead;
  full_shape.insert(full_shape.end(), {m, n, k});
  NodeId left = expand(unsqueeze(a, rank(a) - 1), full_shape);
  std::vector<int> order(static_cast<size_t>(rank(b)));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  NodeId transposed = permute(b, order);
  NodeId right = expand(unsqueeze(transposed, rank(transposed) - 2), full_shape);
  NodeId product = binary(BinaryOp::kMul, left, right);
  return reduce(ReduceOp::kSum, product, {rank(product) - 1});
}

void GraphBuilder::output(NodeId id) { graph_.outputs.push_back({OutputKind::kUser, id, -1}); }
void GraphBuilder::mutate(int input, NodeId id) {
  graph_.outputs.push_back({OutputKind::kMutate, id, input});
}
void GraphBuilder::check(int input, NodeId id, const Expr& limit, bool wraps) {
  graph_.outputs.push_back({OutputKind::kCheck, id, input, limit, wraps});
}
void GraphBuilder::output_like(const GraphOutput& output, NodeId node) {
  graph_.outputs.push_back(output);
  graph_.outputs.back().node = node;
}

std::optional<double> uniform_constant(const Node& constant) {
  if (constant.dtype == DType::kComplex64) return std::nullopt;
  const Bytes& data = *attr<ConstantAttr>(constant).data;
  auto size = static_cast<size_t>(dtype_size(constant.dtype));
  if (data.empty()) return std::nullopt;
  for (size_t i = size; i < data.size(); i += size) {
    if (std::memcmp(data.data(), data.data() + i, size) != 0) return std::nullopt;
  }
  return decode_element(constant.dtype, data.data());
}

std::optional<double> GraphBuilder::uniform_value(NodeId id) const {
  const Node* n = &node(id);
  while (n->op == Op::kView && attr<ViewAttr>(*n).view.valid.empty()) n = &node(n->operands[0]);
  return n->op == Op::kConstant ? uniform_constant(*n) : std::nullopt;
}

Graph GraphBuilder::finish() {
  Graph result = without_dead_nodes(graph_);
  graph_ = {};
  known_.clear();
  return result;
}

}  // namespace common
