#include "clients/pt2/aten/value_range.h"

#include <algorithm>
#include <cstring>

namespace clients {
namespace {

using common::attr;
using common::Node;
using common::Op;

// Chains of arithmetic on indices are short; what lies deeper is not looked at.
constexpr int kDepthMax = 24;

// Sums and products of values below this stay far from overflow.
constexpr int64_t kMagnitudeMax = int64_t{1} << 31;

ValueRange between(Expr low, Expr high) { return {std::move(low), std::move(high)}; }

ValueRange range_of_dtype(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return between(0, 1);
    case DType::kUint8:
      return between(0, UINT8_MAX);
    case DType::kInt8:
      return between(INT8_MIN, INT8_MAX);
    case DType::kInt16:
      return between(INT16_MIN, INT16_MAX);
    case DType::kInt32:
      return between(INT32_MIN, INT32_MAX);
    default:
      return {};
  }
}

int64_t read_integer(DType dtype, const std::byte* data) {
  auto read = [data](auto value) {
    std::memcpy(&value, data, sizeof value);
    return static_cast<int64_t>(value);
  };
  switch (dtype) {
    case DType::kInt8:
      return read(int8_t{});
    case DType::kInt16:
      return read(int16_t{});
    case DType::kInt32:
      return read(int32_t{});
    case DType::kInt64:
      return read(int64_t{});
    default:
      return read(uint8_t{});
  }
}

ValueRange of_constant(const Node& node) {
  const common::Bytes& data = *attr<common::ConstantAttr>(node).data;
  auto size = static_cast<size_t>(common::dtype_size(node.dtype));
  if (data.size() < size) return {};
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (size_t at = 0; at + size <= data.size(); at += size) {
    int64_t value = read_integer(node.dtype, data.data() + at);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return between(low, high);
}

bool has_index(const Expr& expr) {
  bool found = false;
  expr.visit_vars([&](common::Var v) { found = found || v.kind == common::Var::Kind::kIndex; });
  return found;
}

bool is_small(const std::optional<Expr>& bound) {
  return bound && (!bound->is_constant() ||
                   (bound->constant() < kMagnitudeMax && bound->constant() > -kMagnitudeMax));
}

}  // namespace

ValueRange ValueRanges::of(NodeId id, int depth) {
  if (auto known = known_.find(id); known != known_.end()) return known->second;
  if (depth > kDepthMax) return {};
  ValueRange range = derive(id, depth);
  if (!fits(b_.dtype(id), range)) range = {};
  ValueRange whole = range_of_dtype(b_.dtype(id));
  if (!range.low) range.low = whole.low;
  if (!range.high) range.high = whole.high;
  return known_[id] = range;
}

// False where the values may have wrapped around in their dtype.
bool ValueRanges::fits(DType dtype, const ValueRange& range) const {
  ValueRange whole = range_of_dtype(dtype);
  if (!whole.low) return true;
  common::Bounds bounds = b_.bounds();
  return range.low && range.high && bounds.lower(*range.low) >= whole.low->constant() &&
         bounds.upper(*range.high) <= whole.high->constant();
}

ValueRange ValueRanges::derive(NodeId id, int depth) {
  const Node node = b_.node(id);
  if (common::is_float(node.dtype) || node.dtype == DType::kComplex64) return {};
  auto operand = [&](size_t k) { return of(node.operands[k], depth + 1); };
  switch (node.op) {
    case Op::kConstant:
      return of_constant(node);
    case Op::kIota:
      return between(0, node.shape[0] - 1);
    case Op::kSort: {
      auto axis = static_cast<size_t>(attr<common::SortAttr>(node).axis);
      return between(0, b_.shape(node.operands[0])[axis] - 1);
    }
    case Op::kView:
      return of_view(node, depth);
    case Op::kCast:
      return of_cast(node, depth);
    case Op::kBinary:
      return of_binary(node, depth);
    case Op::kSelect:
      return joined(operand(1), operand(2));
    case Op::kReduce:
      return of_reduction(node, depth);
    case Op::kScan:
      return of_scan(node, depth);
    case Op::kGather:
      return operand(0);
    case Op::kPhilox:
      return between(0, int64_t{0xffffffff});
    case Op::kScatter:
      if (attr<common::ScatterAttr>(node).mode != ScatterMode::kAssign) return {};
      return joined(operand(0), operand(1));
    default:
      return {};
  }
}

ValueRange ValueRanges::of_view(const Node& node, int depth) {
  const View& view = attr<common::ViewAttr>(node).view;
  NodeId base = node.operands[0];
  if (b_.node(base).op == Op::kIota && view.valid.empty()) {
    const Expr& at = view.index[0];
    if (!has_index(at)) return between(at, at);
    common::Bounds loop = common::loop_bounds(view.shape, b_.symbols());
    ValueRange whole = of(base, depth + 1);
    int64_t low = loop.lower(at), high = loop.upper(at);
    if (low > 0) whole.low = low;
    if (high < b_.bounds().upper(*whole.high)) whole.high = high;
    return whole;
  }
  ValueRange range = of(base, depth + 1);
  if (view.valid.empty()) return range;
  auto fill = static_cast<int64_t>(view.fill);
  return joined(range, between(fill, fill));
}

ValueRange ValueRanges::of_cast(const Node& node, int depth) {
  DType from = b_.dtype(node.operands[0]);
  if (node.dtype == DType::kBool || common::is_float(from) || from == DType::kComplex64) return {};
  return of(node.operands[0], depth + 1);
}

ValueRange ValueRanges::of_binary(const Node& node, int depth) {
  auto op = attr<common::BinaryAttr>(node).op;
  if (common::is_comparison(op) || node.dtype == DType::kBool) return {};
  ValueRange a = of(node.operands[0], depth + 1);
  ValueRange b = of(node.operands[1], depth + 1);
  common::Bounds bounds = b_.bounds();
  bool is_bounded = is_small(a.low) && is_small(a.high) && is_small(b.low) && is_small(b.high);
  bool is_positive = a.low && b.low && bounds.lower(*a.low) >= 0 && bounds.lower(*b.low) >= 0;
  bool by_positive = b.low && b.high && bounds.lower(*b.low) > 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (!is_bounded) return {};
      return between(*a.low + *b.low, *a.high + *b.high);
    case BinaryOp::kSub:
      if (!is_bounded) return {};
      return between(*a.low - *b.high, *a.high - *b.low);
    case BinaryOp::kMul:
      if (!is_bounded || !is_positive) return {};
      return between(*a.low * *b.low, *a.high * *b.high);
    case BinaryOp::kMin:
      return {
          a.low && b.low ? std::optional(lesser(*a.low, *b.low)) : std::nullopt,
          a.high && b.high ? std::optional(lesser(*a.high, *b.high)) : (a.high ? a.high : b.high)};
    case BinaryOp::kMax:
      return {a.low && b.low ? std::optional(greater(*a.low, *b.low)) : (a.low ? a.low : b.low),
              a.high && b.high ? std::optional(greater(*a.high, *b.high)) : std::nullopt};
    case BinaryOp::kMod:
      return by_positive ? between(0, *b.high - 1) : ValueRange{};
    case BinaryOp::kFloorDiv:
    case BinaryOp::kDiv:
      // Of positive numbers alone, where both round alike.
      if (!by_positive || !is_positive || !a.high || !(*b.low == *b.high)) return {};
      return between(common::floor_div(*a.low, *b.low), common::floor_div(*a.high, *b.low));
    default:
      return {};
  }
}

ValueRange ValueRanges::of_reduction(const Node& node, int depth) {
  const auto& reduce = attr<common::ReduceAttr>(node);
  Shape from = b_.shape(node.operands[0]);
  Expr count = 1;
  for (int axis : reduce.axes) count *= from[static_cast<size_t>(axis)];
  switch (reduce.op) {
    case ReduceOp::kArgmax:
    case ReduceOp::kArgmin:
      return between(0, count - 1);
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      // Of nothing, these are the dtype's ends.
      if (b_.bounds().lower(count) < 1) return {};
      return of(node.operands[0], depth + 1);
    case ReduceOp::kSum:
      return summed(of(node.operands[0], depth + 1), count);
    default:
      return {};
  }
}

ValueRange ValueRanges::of_scan(const Node& node, int depth) {
  const auto& scan = attr<common::ScanAttr>(node);
  ValueRange range = of(node.operands[0], depth + 1);
  if (scan.op == ScanOp::kMin || scan.op == ScanOp::kMax) return range;
  if (scan.op != ScanOp::kSum) return {};
  return summed(range, node.shape[static_cast<size_t>(scan.axis)]);
}

ValueRange ValueRanges::summed(const ValueRange& range, const Expr& count) const {
  if (!is_small(range.low) || !is_small(range.high)) return {};
  return between(lesser(*range.low, *range.low * count), greater(*range.high, *range.high * count));
}

ValueRange ValueRanges::joined(const ValueRange& a, const ValueRange& b) const {
  ValueRange out;
  if (a.low && b.low) out.low = lesser(*a.low, *b.low);
  if (a.high && b.high) out.high = greater(*a.high, *b.high);
  return out;
}

Expr ValueRanges::lesser(const Expr& a, const Expr& b) const {
  return b_.simplify(common::min(a, b));
}
Expr ValueRanges::greater(const Expr& a, const Expr& b) const {
  return b_.simplify(common::max(a, b));
}

}  // namespace clients
