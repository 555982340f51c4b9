#include "clients/pt2/aten/translate_math.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/ir/hlir/half.h"

namespace clients {
namespace {

enum Category { kBoolCategory, kIntCategory, kFloatCategory };

Category category(DType d) {
  if (common::is_float(d)) return kFloatCategory;
  return d == DType::kBool ? kBoolCategory : kIntCategory;
}

// The smallest type that holds both, as torch.promote_types.
DType join(DType a, DType b) {
  if (a == b) return a;
  Category ca = category(a);
  Category cb = category(b);
  if (ca != cb) return ca > cb ? a : b;
  if (ca == kFloatCategory) {
    if (common::is_half(a) && common::is_half(b)) return DType::kFloat32;
    return common::dtype_size(a) > common::dtype_size(b) ? a : b;
  }
  // Unsigned with signed: the next signed type that holds both.
  if (a == DType::kUint8 || b == DType::kUint8) {
    DType other = a == DType::kUint8 ? b : a;
    return other == DType::kInt8 ? DType::kInt16 : other;
  }
  return common::dtype_size(a) > common::dtype_size(b) ? a : b;
}

Category category(const Scalar& scalar) {
  if (scalar.kind == Scalar::Kind::kFloat) return kFloatCategory;
  return scalar.kind == Scalar::Kind::kInt ? kIntCategory : kBoolCategory;
}

DType default_dtype(Category category) {
  if (category == kFloatCategory) return DType::kFloat32;
  return category == kIntCategory ? DType::kInt64 : DType::kBool;
}

}  // namespace

Operand operand(Context& c, std::string_view name) {
  Operand out;
  if (c.is_tensor(name)) {
    out.node = c.tensor(name);
  } else if (auto number = c.data_number(name)) {
    out.node = *number;
    out.is_number = true;
  } else {
    out.scalar = c.scalar(name);
  }
  return out;
}
Operand operand(NodeId node) {
  Operand out;
  out.node = node;
  return out;
}

DType promote(Context& c, const std::vector<Operand>& operands) {
  std::optional<DType> with_axes, without_axes;
  std::optional<Category> numbers;
  for (const Operand& item : operands) {
    if (!item.node) {
      numbers = std::max(numbers.value_or(kBoolCategory), category(item.scalar));
      continue;
    }
    if (item.is_number) {
      numbers = std::max(numbers.value_or(kBoolCategory), category(c.b.dtype(*item.node)));
      continue;
    }
    std::optional<DType>& slot = c.b.rank(*item.node) > 0 ? with_axes : without_axes;
    DType d = c.b.dtype(*item.node);
    slot = slot ? join(*slot, d) : d;
  }
  std::optional<DType> result = with_axes;
  if (!result || (without_axes && category(*without_axes) > category(*result))) {
    if (without_axes) result = without_axes;
  }
  if (!result) return default_dtype(numbers.value_or(kBoolCategory));
  if (numbers && *numbers > category(*result)) return default_dtype(*numbers);
  return *result;
}

DType compute_dtype(DType dtype) { return common::is_half(dtype) ? DType::kFloat32 : dtype; }
DType float_dtype(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

NodeId rounded(Context& c, NodeId x) {
  if (!common::is_half(c.out_dtype())) return x;
  return c.b.cast(c.b.cast(x, c.out_dtype()), c.b.dtype(x));
}

double rounded_number(DType dtype, double value) {
  auto narrow = static_cast<float>(value);
  if (dtype == DType::kBfloat16) {
    return common::float_from_bfloat16(common::bfloat16_from_float(narrow));
  }
  if (dtype == DType::kFloat16) return common::float_from_half(common::half_from_float(narrow));
  return value;
}

NodeId as_element(Context& c, const Operand& operand, DType promoted) {
  DType wide = compute_dtype(promoted);
  if (operand.node || operand.scalar.kind != Scalar::Kind::kFloat) return as(c, operand, wide);
  return c.b.scalar(wide, rounded_number(promoted, operand.scalar.number));
}

NodeId as(Context& c, const Operand& operand, DType dtype) {
  if (operand.node) return c.b.cast(*operand.node, dtype);
  const Scalar& scalar = operand.scalar;
  if (scalar.kind == Scalar::Kind::kFloat) return c.b.scalar(dtype, scalar.number);
  return c.b.size_scalar(dtype, scalar.integer);
}

NodeId float_tensor(Context& c, std::string_view name) {
  NodeId x = c.tensor(name);
  return c.b.cast(x, float_dtype(c.b.dtype(x)));
}

NodeId number_like(Context& c, NodeId x, double value) { return c.b.scalar(c.b.dtype(x), value); }

NodeId add(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kAdd, a, b); }
NodeId sub(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kSub, a, b); }
NodeId mul(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kMul, a, b); }
NodeId div(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kDiv, a, b); }
NodeId add(Context& c, NodeId a, double b) { return add(c, a, number_like(c, a, b)); }
NodeId mul(Context& c, NodeId a, double b) { return mul(c, a, number_like(c, a, b)); }
NodeId any_add(Context& c, NodeId a, NodeId b) {
  return c.b.binary(c.b.dtype(a) == DType::kBool ? BinaryOp::kOr : BinaryOp::kAdd, a, b);
}
NodeId any_mul(Context& c, NodeId a, NodeId b) {
  return c.b.binary(c.b.dtype(a) == DType::kBool ? BinaryOp::kAnd : BinaryOp::kMul, a, b);
}
NodeId less(Context& c, NodeId a, double b) {
  return c.b.binary(BinaryOp::kLess, a, number_like(c, a, b));
}
NodeId maximum(Context& c, NodeId a, double b) {
  return c.b.binary(BinaryOp::kMax, a, number_like(c, a, b));
}
NodeId minimum(Context& c, NodeId a, double b) {
  return c.b.binary(BinaryOp::kMin, a, number_like(c, a, b));
}
NodeId truth(Context& c, NodeId x) { return c.b.cast(x, DType::kBool); }
NodeId logical_not(Context& c, NodeId x) { return c.b.unary(UnaryOp::kNot, truth(c, x)); }

NodeId count(Context& c, NodeId x, const std::vector<int>& axes, DType dtype) {
  Expr n = 1;
  for (int axis : axes) n *= c.b.size(x, axis);
  return c.b.size_scalar(dtype, n);
}

NodeId mean(Context& c, NodeId x, const std::vector<int>& axes) {
  NodeId total = c.b.reduce(ReduceOp::kSum, x, axes, true);
  return div(c, total, count(c, x, axes, c.b.dtype(x)));
}

NodeId norm(Context& c, NodeId x, double p, const std::vector<int>& axes, bool keep) {
  auto sum = [&](NodeId value) { return c.b.reduce(ReduceOp::kSum, value, axes, keep); };
  NodeId size = c.b.unary(UnaryOp::kAbs, x);
  if (std::isinf(p)) return c.b.reduce(p > 0 ? ReduceOp::kMax : ReduceOp::kMin, size, axes, keep);
  if (p == 0) return sum(c.b.cast(truth(c, x), c.b.dtype(x)));
  if (p == 1) return sum(size);
  if (p == 2) return c.b.unary(UnaryOp::kSqrt, sum(mul(c, x, x)));
  NodeId total = sum(c.b.binary(BinaryOp::kPow, size, number_like(c, size, p)));
  return c.b.binary(BinaryOp::kPow, total, number_like(c, total, 1 / p));
}

NodeId softmax(Context& c, NodeId x, int axis) {
  if (c.b.rank(x) == 0) return c.b.scalar(c.b.dtype(x), 1);
  NodeId top = c.b.reduce(ReduceOp::kMax, x, {axis}, true);
  NodeId e = c.b.unary(UnaryOp::kExp, sub(c, x, top));
  return div(c, e, c.b.reduce(ReduceOp::kSum, e, {axis}, true));
}

NodeId log_softmax(Context& c, NodeId x, int axis) {
  if (c.b.rank(x) == 0) return c.b.scalar(c.b.dtype(x), 0);
  NodeId top = c.b.reduce(ReduceOp::kMax, x, {axis}, true);
  NodeId shifted = sub(c, x, top);
  NodeId e = c.b.unary(UnaryOp::kExp, shifted);
  return sub(c, shifted, c.b.unary(UnaryOp::kLog, c.b.reduce(ReduceOp::kSum, e, {axis}, true)));
}

NodeId gelu(Context& c, NodeId x, bool tanh_form) {
  if (!tanh_form) {
    NodeId e = c.b.unary(UnaryOp::kErf, mul(c, x, M_SQRT1_2));
    return mul(c, mul(c, x, 0.5), add(c, e, 1.0));
  }
  NodeId cube = mul(c, mul(c, x, x), x);
  NodeId inner = mul(c, add(c, x, mul(c, cube, 0.044715)), M_SQRT2 * M_2_SQRTPI * 0.5);
  return mul(c, mul(c, x, 0.5), add(c, c.b.unary(UnaryOp::kTanh, inner), 1.0));
}

NodeId silu(Context& c, NodeId x) { return mul(c, x, c.b.unary(UnaryOp::kSigmoid, x)); }

NodeId positions(Context& c, const Expr& length, int axis, int rank, DType dtype) {
  if (rank == 0) return c.b.scalar_int(dtype, 0);
  if (axis < 0 || axis >= rank) c.refuse("an axis is missing");
  Shape shape(static_cast<size_t>(rank), Expr(1));
  shape[static_cast<size_t>(axis)] = length;
  return c.b.reshape(c.b.iota(dtype, length), shape);
}

NodeId flatten(Context& c, NodeId x) {
  if (c.b.rank(x) == 1) return x;
  return c.b.reshape(x, {c.b.simplify(common::element_count(c.b.shape(x)))});
}

NodeId per_channel(Context& c, NodeId vector, NodeId x) {
  int rank = c.b.rank(x);
  if (rank < 2 || c.b.rank(vector) != 1) c.refuse("it takes channels on axis 1");
  Shape shape(static_cast<size_t>(rank), Expr(1));
  shape[1] = c.b.size(vector, 0);
  return c.b.reshape(c.b.cast(vector, c.b.dtype(x)), shape);
}

std::vector<common::Coordinate> along(int rank, int axis) {
  std::vector<common::Coordinate> out;
  for (int k = 0; k < rank; ++k) {
    out.push_back(k == axis ? common::Coordinate{0, {}} : common::Coordinate{-1, Expr::index(k)});
  }
  return out;
}

NodeId passed(Context& c, NodeId places, const Shape& shape) {
  int last = static_cast<int>(shape.size()) - 1;
  NodeId ones = c.b.expand(c.b.scalar_int(DType::kInt64, 1), c.b.shape(places));
  NodeId marks = c.b.scatter(ScatterMode::kAdd, c.b.full_int(DType::kInt64, shape, 0), ones,
                             {places}, along(last + 1, last));
  return c.b.scan(ScanOp::kSum, marks, last);
}

Pairs triangle(Context& c, int64_t rows, int64_t columns, int64_t offset, bool lower,
               const Expr& number) {
  auto whole = [&](int64_t value) { return c.b.scalar_int(DType::kInt64, value); };
  NodeId row = c.b.iota(DType::kInt64, rows);
  auto clamped = [&](NodeId x) {
    return c.b.binary(BinaryOp::kMin, c.b.binary(BinaryOp::kMax, x, whole(0)), whole(columns));
  };
  NodeId edge = clamped(c.b.binary(BinaryOp::kAdd, row, whole(lower ? offset + 1 : offset)));
  NodeId first = lower ? c.b.expand(whole(0), c.b.shape(row)) : edge;
  NodeId width = lower ? edge : sub(c, whole(columns), edge);
  NodeId ends = c.b.scan(ScanOp::kSum, width, 0);
  NodeId of_place = passed(c, ends, {number});
  auto at_row = [&](NodeId line) { return c.b.gather(line, {of_place}, {number}, along(1, 0)); };
  NodeId begin = at_row(sub(c, ends, width));
  NodeId inside = sub(c, c.b.iota(DType::kInt64, number), begin);
  return {of_place, add(c, at_row(first), inside)};
}

NodeId matmul(Context& c, NodeId a, NodeId b) {
  if (c.b.rank(a) == 0 || c.b.rank(b) == 0) c.refuse("matmul takes tensors with axes");
  bool vector_a = c.b.rank(a) == 1;
  bool vector_b = c.b.rank(b) == 1;
  if (vector_a) a = c.b.unsqueeze(a, 0);
  if (vector_b) b = c.b.unsqueeze(b, 1);
  NodeId out = c.b.matmul(a, b);
  if (vector_b) out = c.b.squeeze(out, c.b.rank(out) - 1);
  if (vector_a) out = c.b.squeeze(out, c.b.rank(out) - (vector_b ? 1 : 2));
  return out;
}

}  // namespace clients
