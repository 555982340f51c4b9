// Functions of complex numbers, and the operators whose plain form serves complex tensors by parts.
#include <cmath>
#include <numeric>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/complex/complex.h"

namespace clients {
namespace {

Complex number(Context& c, const Complex& like, double real, double imaginary = 0) {
  return {number_like(c, like.real, real), number_like(c, like.real, imaginary)};
}
Complex plus(Context& c, const Complex& a, const Complex& b) {
  return {add(c, a.real, b.real), add(c, a.imaginary, b.imaginary)};
}
Complex minus(Context& c, const Complex& a, const Complex& b) {
  return {sub(c, a.real, b.real), sub(c, a.imaginary, b.imaginary)};
}
Complex scaled(Context& c, const Complex& z, double factor) {
  return {mul(c, z.real, factor), mul(c, z.imaginary, factor)};
}
// i z and -i z.
Complex turned(Context& c, const Complex& z) { return {negated(c, z.imaginary), z.real}; }
Complex turned_back(Context& c, const Complex& z) { return {z.imaginary, negated(c, z.real)}; }
NodeId square_size(Context& c, const Complex& z) {
  return add(c, mul(c, z.real, z.real), mul(c, z.imaginary, z.imaginary));
}
NodeId f(Context& c, UnaryOp op, NodeId x) { return c.b.unary(op, x); }
NodeId is_zero(Context& c, NodeId x) {
  return c.b.binary(BinaryOp::kEqual, x, number_like(c, x, 0));
}
Complex chosen(Context& c, NodeId condition, const Complex& a, const Complex& b) {
  return {c.b.select(condition, a.real, b.real), c.b.select(condition, a.imaginary, b.imaginary)};
}

Complex reciprocal(Context& c, const Complex& z) {
  NodeId size = square_size(c, z);
  return {div(c, z.real, size), div(c, negated(c, z.imaginary), size)};
}

Complex quotient(Context& c, const Complex& a, const Complex& b) {
  return times(c, a, reciprocal(c, b));
}

Complex exponential(Context& c, const Complex& z) {
  return from_polar(c, f(c, UnaryOp::kExp, z.real), z.imaginary);
}

Complex logarithm(Context& c, const Complex& z) {
  return {f(c, UnaryOp::kLog, size_of(c, z)), angle_of(c, z)};
}

// The principal root, without cancellation: one part by a root, the other by a quotient.
Complex root(Context& c, const Complex& z) {
  NodeId width = f(c, UnaryOp::kAbs, z.real);
  NodeId large = f(c, UnaryOp::kSqrt, mul(c, add(c, size_of(c, z), width), 0.5));
  NodeId zero = is_zero(c, large);
  NodeId safe = c.b.select(zero, number_like(c, large, 1), large);
  NodeId small = mul(c, div(c, z.imaginary, safe), 0.5);
  NodeId left = less(c, z.real, 0);
  Complex on_left{f(c, UnaryOp::kAbs, small), c.b.binary(BinaryOp::kCopysign, large, z.imaginary)};
  return chosen(c, left, on_left, {large, small});
}

Complex sine(Context& c, const Complex& z) {
  return {mul(c, f(c, UnaryOp::kSin, z.real), f(c, UnaryOp::kCosh, z.imaginary)),
          mul(c, f(c, UnaryOp::kCos, z.real), f(c, UnaryOp::kSinh, z.imaginary))};
}
Complex hyperbolic_sine(Context& c, const Complex& z) {
  return turned_back(c, sine(c, turned(c, z)));
}
Complex hyperbolic_cosine(Context& c, const Complex& z) {
  return {mul(c, f(c, UnaryOp::kCosh, z.real), f(c, UnaryOp::kCos, z.imaginary)),
          mul(c, f(c, UnaryOp::kSinh, z.real), f(c, UnaryOp::kSin, z.imaginary))};
}
Complex cosine(Context& c, const Complex& z) { return hyperbolic_cosine(c, turned(c, z)); }

// (sinh 2x + i sin 2y) / (cosh 2x + cos 2y); far out the quotient is the sign of x.
Complex hyperbolic_tangent(Context& c, const Complex& z) {
  constexpr double kFar = 20;
  NodeId limited = maximum(c, minimum(c, z.real, kFar), -kFar);
  NodeId x = mul(c, limited, 2.0);
  NodeId y = mul(c, z.imaginary, 2.0);
  NodeId divisor = add(c, f(c, UnaryOp::kCosh, x), f(c, UnaryOp::kCos, y));
  return {div(c, f(c, UnaryOp::kSinh, x), divisor), div(c, f(c, UnaryOp::kSin, y), divisor)};
}
Complex tangent(Context& c, const Complex& z) {
  return turned_back(c, hyperbolic_tangent(c, turned(c, z)));
}

Complex inverse_hyperbolic_sine(Context& c, const Complex& z) {
  return logarithm(c, plus(c, z, root(c, plus(c, times(c, z, z), number(c, z, 1)))));
}
Complex inverse_sine(Context& c, const Complex& z) {
  return turned_back(c, inverse_hyperbolic_sine(c, turned(c, z)));
}
Complex inverse_cosine(Context& c, const Complex& z) {
  return minus(c, number(c, z, M_PI_2), inverse_sine(c, z));
}
Complex inverse_hyperbolic_cosine(Context& c, const Complex& z) {
  Complex above = root(c, plus(c, z, number(c, z, 1)));
  Complex below = root(c, minus(c, z, number(c, z, 1)));
  return logarithm(c, plus(c, z, times(c, above, below)));
}
Complex inverse_hyperbolic_tangent(Context& c, const Complex& z) {
  Complex above = logarithm(c, plus(c, number(c, z, 1), z));
  Complex below = logarithm(c, minus(c, number(c, z, 1), z));
  return scaled(c, minus(c, above, below), 0.5);
}
Complex inverse_tangent(Context& c, const Complex& z) {
  return turned_back(c, inverse_hyperbolic_tangent(c, turned(c, z)));
}

Complex power(Context& c, const Complex& base, const Complex& exponent) {
  Complex value = exponential(c, times(c, exponent, logarithm(c, base)));
  NodeId none = is_zero(c, size_of(c, base));
  NodeId flat = is_zero(c, size_of(c, exponent));
  Complex at_zero{c.b.cast(flat, c.b.dtype(base.real)), zero_like(c, base.real)};
  auto shape = c.b.broadcast(c.b.shape(value.real), c.b.shape(at_zero.real));
  if (!shape) c.refuse("the operands do not broadcast");
  return chosen(c, none, broadcasted(c, at_zero, *shape), value);
}

Complex power_of_two(Context& c, const Complex& z) { return exponential(c, scaled(c, z, M_LN2)); }
Complex exponential_less_one(Context& c, const Complex& z) {
  return minus(c, exponential(c, z), number(c, z, 1));
}
Complex binary_logarithm(Context& c, const Complex& z) {
  return scaled(c, logarithm(c, z), M_LOG2E);
}
Complex decimal_logarithm(Context& c, const Complex& z) {
  return scaled(c, logarithm(c, z), M_LOG10E);
}
Complex logarithm_past_one(Context& c, const Complex& z) {
  return logarithm(c, plus(c, z, number(c, z, 1)));
}
Complex reciprocal_root(Context& c, const Complex& z) { return reciprocal(c, root(c, z)); }
Complex square(Context& c, const Complex& z) { return times(c, z, z); }
Complex sigmoid(Context& c, const Complex& z) {
  Complex e = exponential(c, {negated(c, z.real), negated(c, z.imaginary)});
  return reciprocal(c, plus(c, e, number(c, z, 1)));
}

void power_of(Context& c) {
  DType d = c.out_dtype();
  Complex base = parts(c, "self", d);
  Complex exponent = parts(c, "exponent", d);
  bool plain = !c.is_tensor("exponent") && !c.complex_number("exponent");
  if (plain && c.number("exponent", 0) == 2) return set_parts(c, times(c, base, base));
  if (plain && c.number("exponent", 0) == 0.5) return set_parts(c, root(c, base));
  set_parts(c, power(c, base, exponent));
}

template <Complex (*function)(Context&, const Complex&)>
void unary(Context& c) {
  set_parts(c, function(c, parts(c, "self", c.out_dtype())));
}

Complex sinc(Context& c, const Complex& z) {
  Complex angle = scaled(c, z, M_PI);
  Complex value = quotient(c, sine(c, angle), angle);
  return chosen(c, is_zero(c, size_of(c, z)), broadcasted(c, number(c, z, 1), c.b.shape(z.real)),
                value);
}

Complex sign(Context& c, const Complex& z) {
  NodeId size = size_of(c, z);
  NodeId safe = c.b.select(is_zero(c, size), number_like(c, size, 1), size);
  return {div(c, z.real, safe), div(c, z.imaginary, safe)};
}

// ---- Tests -----------------------------------------------------------------------------------

DType pair_dtype(Context& c, std::string_view name) {
  return c.is_tensor(name) && c.b.dtype(c.any_tensor(name)) == DType::kFloat64 ? DType::kFloat64
                                                                               : DType::kFloat32;
}

NodeId equal_parts(Context& c) {
  DType d = pair_dtype(c, "self");
  Complex a = parts(c, "self", d);
  Complex b = parts(c, "other", d);
  return c.b.binary(BinaryOp::kAnd, c.b.binary(BinaryOp::kEqual, a.real, b.real),
                    c.b.binary(BinaryOp::kEqual, a.imaginary, b.imaginary));
}

// |a - b| <= atol + rtol |b|, and equal infinities.
void is_close(Context& c) {
  DType d = pair_dtype(c, "self");
  Complex a = parts(c, "self", d);
  Complex b = parts(c, "other", d);
  NodeId allowed = add(c, mul(c, size_of(c, b), c.number("rtol", 1e-5)), c.number("atol", 1e-8));
  NodeId gap = size_of(c, minus(c, a, b));
  NodeId finite = logical_not(c, f(c, UnaryOp::kIsInf, gap));
  NodeId near = c.b.binary(BinaryOp::kAnd, finite, c.b.binary(BinaryOp::kLessEqual, gap, allowed));
  NodeId same = equal_parts(c);
  if (c.flag("equal_nan", false)) {
    auto nan = [&](const Complex& z) {
      return c.b.binary(BinaryOp::kOr, f(c, UnaryOp::kIsNan, z.real),
                        f(c, UnaryOp::kIsNan, z.imaginary));
    };
    same = c.b.binary(BinaryOp::kOr, same, c.b.binary(BinaryOp::kAnd, nan(a), nan(b)));
  }
  c.result(c.b.binary(BinaryOp::kOr, near, same));
}

NodeId nonzero(Context& c, std::string_view name) {
  if (!c.is_complex(name)) return truth(c, c.tensor(name));
  Complex z = split(c, c.any_tensor(name));
  return c.b.binary(BinaryOp::kOr, truth(c, z.real), truth(c, z.imaginary));
}

template <BinaryOp op>
void logical(Context& c) {
  c.result(c.b.binary(op, nonzero(c, "self"), nonzero(c, "other")));
}

template <UnaryOp test>
void any_part(Context& c) {
  Complex z = split(c, c.any_tensor("self"));
  c.result(c.b.binary(BinaryOp::kOr, f(c, test, z.real), f(c, test, z.imaginary)));
}

template <ReduceOp op>
void test_all(Context& c) {
  NodeId x = nonzero(c, "self");
  if (op == ReduceOp::kSum) x = c.b.cast(x, DType::kInt64);
  c.result(c.b.reduce(op, x, c.axes("dim", c.b.rank(x)), c.flag("keepdim", false)));
}

// ---- Reductions ------------------------------------------------------------------------------

Complex sliced(Context& c, const Complex& z, int axis, const Expr& start, const Expr& length) {
  return {c.b.slice(z.real, axis, start, length), c.b.slice(z.imaginary, axis, start, length)};
}

int64_t constant_size(Context& c, const Complex& z, int axis) {
  Expr size = c.b.size(z.real, axis);
  if (!size.is_constant()) c.refuse("complex products along symbolic sizes are not supported");
  return size.constant();
}

// Halves are multiplied with each other until one is left.
Complex product_along(Context& c, Complex z, int axis) {
  int64_t n = constant_size(c, z, axis);
  if (n == 0) {
    Sizes shape = c.b.shape(z.real);
    shape[static_cast<size_t>(axis)] = 1;
    return broadcasted(c, number(c, z, 1), shape);
  }
  while (n > 1) {
    int64_t half = n / 2;
    Complex next = times(c, sliced(c, z, axis, 0, half), sliced(c, z, axis, half, half));
    if (n % 2 != 0) {
      Complex last = sliced(c, z, axis, n - 1, 1);
      next = {c.b.concat({next.real, last.real}, axis),
              c.b.concat({next.imaginary, last.imaginary}, axis)};
    }
    z = next;
    n = half + n % 2;
  }
  return z;
}

void product(Context& c) {
  Complex z = parts(c, "self", c.out_dtype());
  std::vector<int> axes = c.axes("dim", c.b.rank(z.real));
  for (int axis : axes) z = product_along(c, z, axis);
  if (!c.flag("keepdim", false)) {
    for (size_t i = axes.size(); i-- > 0;) {
      z = {c.b.squeeze(z.real, axes[i]), c.b.squeeze(z.imaginary, axes[i])};
    }
  }
  set_parts(c, z);
}

// Each step multiplies with what lies 1, 2, 4, ... places before.
void running_product(Context& c) {
  Complex z = parts(c, "self", c.out_dtype());
  if (c.b.rank(z.real) == 0) return set_parts(c, z);
  int axis = c.axis("dim", c.b.rank(z.real));
  int64_t n = constant_size(c, z, axis);
  for (int64_t step = 1; step < n; step *= 2) {
    Complex before = sliced(c, z, axis, 0, n - step);
    before = {c.b.pad(before.real, axis, step, 0, 1), c.b.pad(before.imaginary, axis, step, 0, 0)};
    z = times(c, z, before);
  }
  set_parts(c, z);
}

void variance(Context& c, bool root_of, bool with_mean) {
  Complex z = split(c, c.any_tensor("self"));
  std::vector<int> axes = c.axes("dim", c.b.rank(z.real));
  double correction =
      c.has("correction") ? c.number("correction", 1) : (c.flag("unbiased", true) ? 1 : 0);
  Complex average{mean(c, z.real, axes), mean(c, z.imaginary, axes)};
  NodeId total = c.b.reduce(ReduceOp::kSum, square_size(c, minus(c, z, average)), axes, true);
  NodeId divisor = add(c, count(c, z.real, axes, c.b.dtype(total)), -correction);
  NodeId value = div(c, total, maximum(c, divisor, 0));
  if (!c.flag("keepdim", false)) {
    for (size_t i = axes.size(); i-- > 0;) {
      value = c.b.squeeze(value, axes[i]);
      average = {c.b.squeeze(average.real, axes[i]), c.b.squeeze(average.imaginary, axes[i])};
    }
  }
  c.result(root_of ? f(c, UnaryOp::kSqrt, value) : value);
  if (with_mean) set_parts(c, average, 1);
}

void vector_norm(Context& c, std::string_view order) {
  NodeId size = size_of(c, split(c, c.any_tensor("self")));
  c.result(
      norm(c, size, c.number(order, 2), c.axes("dim", c.b.rank(size)), c.flag("keepdim", false)));
}

void distance(Context& c) {
  DType d = c.out_dtype();
  NodeId gap = flatten(c, size_of(c, minus(c, parts(c, "self", d), parts(c, "other", d))));
  c.result(norm(c, gap, c.number("p", 2), {0}));
}

// self + value * (tensor1 op tensor2)
void add_combined(Context& c, bool quotient_of) {
  DType d = c.out_dtype();
  Complex a = parts(c, "tensor1", d);
  Complex b = parts(c, "tensor2", d);
  Complex inner = quotient_of ? quotient(c, a, b) : times(c, a, b);
  if (c.has("value")) inner = times(c, inner, parts(c, "value", d));
  set_parts(c, plus(c, parts(c, "self", d), inner));
}

void lerp(Context& c) {
  DType d = c.out_dtype();
  Complex start = parts(c, "self", d);
  Complex way = minus(c, parts(c, "end", d), start);
  set_parts(c, plus(c, start, times(c, parts(c, "weight", d), way)));
}

void dot_conjugate(Context& c) {
  DType d = c.out_dtype();
  Complex a = parts(c, "self", d);
  Complex product = times(c, {a.real, negated(c, a.imaginary)}, parts(c, "other", d));
  if (c.b.rank(product.real) != 1) c.refuse("it takes two vectors");
  set_parts(c, {c.b.reduce(ReduceOp::kSum, product.real, {0}),
                c.b.reduce(ReduceOp::kSum, product.imaginary, {0})});
}

void conjugate_transpose(Context& c) {
  Complex z = split(c, c.any_tensor("self"));
  int rank = c.b.rank(z.real);
  if (rank < 2) c.refuse("it takes matrices");
  std::vector<int> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  set_parts(c, {c.b.permute(z.real, order), negated(c, c.b.permute(z.imaginary, order))});
}

void ones(Context& c) {
  if (!c.out_is_complex()) c.refuse("the result should be complex");
  Sizes shape = c.out_shape();
  shape.pop_back();
  NodeId one = c.b.full(c.out_dtype(), shape, 1);
  set_parts(c, {one, zero_like(c, one)});
}

void add_functions(OperatorTable* t) {
  t->add_complex("aten.reciprocal", unary<reciprocal>);
  t->add_complex("aten.log", unary<logarithm>);
  t->add_complex("aten.sqrt", unary<root>);
  t->add_complex("aten.sin", unary<sine>);
  t->add_complex("aten.cos", unary<cosine>);
  t->add_complex("aten.tan", unary<tangent>);
  t->add_complex("aten.sinh", unary<hyperbolic_sine>);
  t->add_complex("aten.cosh", unary<hyperbolic_cosine>);
  t->add_complex("aten.tanh", unary<hyperbolic_tangent>);
  t->add_complex("aten.asin", unary<inverse_sine>);
  t->add_complex("aten.acos", unary<inverse_cosine>);
  t->add_complex("aten.atan", unary<inverse_tangent>);
  t->add_complex("aten.asinh", unary<inverse_hyperbolic_sine>);
  t->add_complex("aten.acosh", unary<inverse_hyperbolic_cosine>);
  t->add_complex("aten.atanh", unary<inverse_hyperbolic_tangent>);
  t->add_complex("aten.sinc", unary<sinc>);
  t->add_complex("aten.sgn", unary<sign>);
  t->add_complex("aten.exp", unary<exponential>);
  t->add_complex("aten.exp2", unary<power_of_two>);
  t->add_complex("aten.expm1", unary<exponential_less_one>);
  t->add_complex("aten.log2", unary<binary_logarithm>);
  t->add_complex("aten.log10", unary<decimal_logarithm>);
  t->add_complex("aten.log1p", unary<logarithm_past_one>);
  t->add_complex("aten.rsqrt", unary<reciprocal_root>);
  t->add_complex("aten.square", unary<square>);
  t->add_complex("aten.sigmoid", unary<sigmoid>);
  for (const char* name : {"aten.mH", "aten.matrix_H", "aten.adjoint"}) {
    t->add_complex(name, conjugate_transpose);
  }
  t->add_complex("aten.pow", power_of);
  t->add_complex("aten.float_power", power_of);
}

void add_tests(OperatorTable* t) {
  t->add_complex("aten.eq", [](Context& c) { c.result(equal_parts(c)); });
  t->add_complex("aten.ne", [](Context& c) { c.result(logical_not(c, equal_parts(c))); });
  t->add_complex("aten.isclose", is_close);
  t->add_complex("aten.logical_and", logical<BinaryOp::kAnd>);
  t->add_complex("aten.logical_or", logical<BinaryOp::kOr>);
  t->add_complex("aten.logical_xor", logical<BinaryOp::kXor>);
  t->add_complex("aten.logical_not",
                 [](Context& c) { c.result(logical_not(c, nonzero(c, "self"))); });
  t->add_complex("aten.isnan", any_part<UnaryOp::kIsNan>);
  t->add_complex("aten.isinf", any_part<UnaryOp::kIsInf>);
  t->add_complex("aten.isfinite", [](Context& c) {
    Complex z = split(c, c.any_tensor("self"));
    NodeId sum = add(c, mul(c, z.real, 0.0), mul(c, z.imaginary, 0.0));
    c.result(logical_not(c, f(c, UnaryOp::kIsNan, sum)));
  });
  t->add_complex("aten.isreal", [](Context& c) {
    c.result(is_zero(c, split(c, c.any_tensor("self")).imaginary));
  });
  t->add_complex("aten.any", test_all<ReduceOp::kAny>);
  t->add_complex("aten.all", test_all<ReduceOp::kAll>);
  t->add_complex("aten.count_nonzero", test_all<ReduceOp::kSum>);
}

void add_reductions(OperatorTable* t) {
  t->add_complex("aten.prod", product);
  t->add_complex("aten.cumprod", running_product);
  t->add_complex("aten.var", [](Context& c) { variance(c, false, false); });
  t->add_complex("aten.std", [](Context& c) { variance(c, true, false); });
  t->add_complex("aten.var_mean", [](Context& c) { variance(c, false, true); });
  t->add_complex("aten.std_mean", [](Context& c) { variance(c, true, true); });
  t->add_complex("aten.linalg_vector_norm", [](Context& c) { vector_norm(c, "ord"); });
  t->add_complex("aten.norm", [](Context& c) { vector_norm(c, "p"); });
  t->add_complex("aten.dist", distance);
  t->add_complex("aten.addcmul", [](Context& c) { add_combined(c, false); });
  t->add_complex("aten.addcdiv", [](Context& c) { add_combined(c, true); });
  t->add_complex("aten.lerp", lerp);
  t->add_complex("aten.vdot", dot_conjugate);
  t->add_complex("aten.ones", ones);
  t->add_complex("aten.ones_like", ones);
  t->add_complex("aten.new_ones", ones);
}

constexpr std::string_view kLinear[] = {"aten.flip",
                                        "aten.fliplr",
                                        "aten.flipud",
                                        "aten.roll",
                                        "aten.rot90",
                                        "aten.repeat",
                                        "aten.tile",
                                        "aten.repeat_interleave",
                                        "aten.cat",
                                        "aten.stack",
                                        "aten.hstack",
                                        "aten.vstack",
                                        "aten.dstack",
                                        "aten.column_stack",
                                        "aten.block_diag",
                                        "aten.meshgrid",
                                        "aten.cartesian_prod",
                                        "aten.combinations",
                                        "aten.broadcast_tensors",
                                        "aten.constant_pad_nd",
                                        "aten.pad",
                                        "aten.reflection_pad1d",
                                        "aten.reflection_pad2d",
                                        "aten.reflection_pad3d",
                                        "aten.replication_pad1d",
                                        "aten.replication_pad2d",
                                        "aten.replication_pad3d",
                                        "aten.tril",
                                        "aten.triu",
                                        "aten.slice_scatter",
                                        "aten.select_scatter",
                                        "aten.diagonal",
                                        "aten.diagonal_copy",
                                        "aten.diagonal_scatter",
                                        "aten.unfold",
                                        "aten.unfold_copy",
                                        "aten.as_strided",
                                        "aten.as_strided_copy",
                                        "aten.as_strided_scatter",
                                        "aten.diag",
                                        "aten.diag_embed",
                                        "aten.diagflat",
                                        "aten.trace",
                                        "aten.index",
                                        "aten._unsafe_index",
                                        "aten.index_put",
                                        "aten._unsafe_index_put",
                                        "aten.index_copy",
                                        "aten.index_add",
                                        "aten.index_fill",
                                        "aten.index_select",
                                        "aten.gather",
                                        "aten.take_along_dim",
                                        "aten.take",
                                        "aten.put",
                                        "aten.scatter",
                                        "aten.scatter_add",
                                        "aten.masked_scatter",
                                        "aten.masked_fill",
                                        "aten.where",
                                        "aten.embedding",
                                        "aten.full",
                                        "aten.full_like",
                                        "aten.new_full",
                                        "aten.fill",
                                        "aten.scalar_tensor",
                                        "aten.zeros",
                                        "aten.zeros_like",
                                        "aten.new_zeros",
                                        "aten.zero",
                                        "aten.empty",
                                        "aten.empty_like",
                                        "aten.new_empty",
                                        "aten.empty_strided",
                                        "aten.new_empty_strided",
                                        "aten.empty_permuted",
                                        "aten.copy",
                                        "aten.linspace",
                                        "aten.cumsum",
                                        "aten.diff",
                                        "aten.rsub",
                                        "aten.nan_to_num",
                                        "aten.sum_to_size",
                                        "aten.resize",
                                        "aten.atleast_1d",
                                        "aten.atleast_2d",
                                        "aten.atleast_3d",
                                        "aten.linalg_diagonal",
                                        "aten._unsafe_masked_index",
                                        "aten._unsafe_masked_index_put_accumulate",
                                        "aten._chunk_cat",
                                        "aten.pixel_shuffle",
                                        "aten.pixel_unshuffle",
                                        "aten.channel_shuffle"};

void add_products(OperatorTable* t) {
  for (const char* name : {"aten.mm", "aten.bmm"}) t->add_bilinear(name, "self", "mat2");
  for (const char* name : {"aten.matmul", "aten.inner", "aten.kron", "aten.tensordot", "aten.cross",
                           "aten.linalg_cross"}) {
    t->add_bilinear(name, "self", "other");
  }
  t->add_bilinear("aten.mv", "self", "vec");
  t->add_bilinear("aten.dot", "self", "tensor");
  t->add_bilinear("aten.outer", "self", "vec2");
  t->add_bilinear("aten.addmm", "mat1", "mat2");
  t->add_bilinear("aten.addmv", "mat", "vec");
  t->add_bilinear("aten.baddbmm", "batch1", "batch2");
  t->add_bilinear("aten.addbmm", "batch1", "batch2");
  t->add_bilinear("aten.addr", "vec1", "vec2");
  t->add_bilinear("aten.linear", "input", "weight");
  t->add_bilinear("aten.einsum", "tensors[0]", "tensors[1]");
  for (const char* name :
       {"aten.convolution", "aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.conv_transpose1d",
        "aten.conv_transpose2d", "aten.conv_transpose3d"}) {
    t->add_bilinear(name, "input", "weight");
  }
}

}  // namespace

void add_complex_math_operators(OperatorTable* t) {
  add_functions(t);
  add_tests(t);
  add_reductions(t);
  for (std::string_view name : kLinear) t->add_linear(name);
  t->add_linear("aten.gradient", "spacing");
  add_products(t);
}

}  // namespace clients
