// Elementwise operators: arithmetic, comparisons, logic, selection and activations.
#include <cmath>
#include <limits>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Pair {
  NodeId a = 0;
  NodeId b = 0;
  DType promoted{};
};

// Two arguments in the dtype they are computed in.
Pair pair(Context& c, std::string_view first, std::string_view second, bool to_float = false) {
  Operand a = operand(c, first);
  Operand b = operand(c, second);
  DType d = promote(c, {a, b});
  DType wide = to_float ? float_dtype(d) : compute_dtype(d);
  return {as(c, a, wide), as(c, b, wide), d};
}

// As pair(), for sums: numbers are rounded to the tensors' type.
Pair summands(Context& c, std::string_view first, std::string_view second) {
  Operand a = operand(c, first);
  Operand b = operand(c, second);
  DType d = promote(c, {a, b});
  return {as_element(c, a, d), as_element(c, b, d), d};
}

void add_scaled(Context& c, bool minus) {
  Pair p = summands(c, "self", "other");
  bool one = !c.has("alpha") || (c.scalar("alpha").kind != Scalar::Kind::kFloat &&
                                 c.scalar("alpha").integer.is_constant(1));
  if (!one) p.b = any_mul(c, as_element(c, operand(c, "alpha"), p.promoted), p.b);
  if (c.b.dtype(p.a) == DType::kBool) {
    c.result(c.b.binary(minus ? BinaryOp::kXor : BinaryOp::kOr, p.a, p.b));
    return;
  }
  c.result(c.b.binary(minus ? BinaryOp::kSub : BinaryOp::kAdd, p.a, p.b));
}

void multiply(Context& c) {
  Pair p = pair(c, "self", "other");
  c.result(c.b.binary(c.b.dtype(p.a) == DType::kBool ? BinaryOp::kAnd : BinaryOp::kMul, p.a, p.b));
}

void divide(Context& c) {
  std::string mode = c.text("rounding_mode", "");
  if (mode.empty()) {
    Pair p = pair(c, "self", "other", true);
    c.result(c.b.binary(BinaryOp::kDiv, p.a, p.b));
    return;
  }
  Pair p = pair(c, "self", "other");
  if (mode == "floor") {
    c.result(c.b.binary(BinaryOp::kFloorDiv, p.a, p.b));
    return;
  }
  NodeId quotient = c.b.binary(BinaryOp::kDiv, p.a, p.b);
  bool real = common::is_float(c.b.dtype(p.a));
  c.result(real ? c.b.unary(UnaryOp::kTrunc, quotient) : quotient);
}

template <BinaryOp op, bool to_float = false>
void plain_binary(Context& c) {
  Pair p = pair(c, "self", "other", to_float);
  c.result(c.b.binary(op, p.a, p.b));
}

template <BinaryOp op, bool swapped = false>
void compare(Context& c) {
  Operand a = operand(c, "self");
  Operand b = operand(c, "other");
  DType d = promote(c, {a, b});
  NodeId x = as_element(c, a, d);
  NodeId y = as_element(c, b, d);
  c.result(c.b.binary(op, swapped ? y : x, swapped ? x : y));
}

template <BinaryOp op>
void logical(Context& c) {
  c.result(c.b.binary(op, truth(c, c.tensor("self")), truth(c, c.tensor("other"))));
}

template <BinaryOp op>
void bitwise(Context& c) {
  Pair p = pair(c, "self", "other");
  if (common::is_float(p.promoted)) c.refuse("it takes integers and booleans");
  c.result(c.b.binary(op, p.a, p.b));
}

template <UnaryOp op>
void float_unary(Context& c) {
  c.result(c.b.unary(op, float_tensor(c, "self")));
}

// Rounding an integer changes nothing.
template <UnaryOp op>
void rounding(Context& c) {
  NodeId x = c.tensor("self");
  if (!common::is_float(c.b.dtype(x))) return c.set(x);
  c.result(c.b.unary(op, c.b.cast(x, compute_dtype(c.b.dtype(x)))));
}

template <UnaryOp op>
void signed_unary(Context& c) {
  NodeId x = c.tensor("self");
  if (c.b.dtype(x) == DType::kBool) return c.set(x);
  c.result(c.b.unary(op, c.b.cast(x, compute_dtype(c.b.dtype(x)))));
}

template <UnaryOp op>
void float_test(Context& c) {
  NodeId x = c.tensor("self");
  if (!common::is_float(c.b.dtype(x))) {
    c.result(c.b.full(DType::kBool, c.b.shape(x), 0));
    return;
  }
  c.result(c.b.unary(op, c.b.cast(x, compute_dtype(c.b.dtype(x)))));
}

void bitwise_not(Context& c) { c.result(c.b.unary(UnaryOp::kNot, c.tensor("self"))); }

NodeId power_by_number(Context& c, NodeId x, double e) {
  if (e == 0) return c.b.full(c.b.dtype(x), c.b.shape(x), 1);
  if (e == 1) return x;
  if (e == 2) return mul(c, x, x);
  if (e == 3) return mul(c, mul(c, x, x), x);
  if (common::is_float(c.b.dtype(x))) {
    if (e == 0.5) return c.b.unary(UnaryOp::kSqrt, x);
    if (e == -0.5) return c.b.unary(UnaryOp::kRsqrt, x);
    if (e == -1) return c.b.unary(UnaryOp::kRecip, x);
    if (e == -2) return c.b.unary(UnaryOp::kRecip, mul(c, x, x));
  }
  return c.b.binary(BinaryOp::kPow, x, number_like(c, x, e));
}

void power(Context& c) {
  Operand base = operand(c, "self");
  Operand exponent = operand(c, "exponent");
  DType d = promote(c, {base, exponent});
  DType wide = compute_dtype(d);
  if (wide == DType::kBool) c.refuse("powers of booleans are not supported");
  NodeId x = as(c, base, wide);
  if (!exponent.node) {
    c.result(power_by_number(c, x, exponent.scalar.value()));
    return;
  }
  c.result(c.b.binary(BinaryOp::kPow, x, as(c, exponent, wide)));
}

void where(Context& c) {
  Operand a = operand(c, "self");
  Operand b = operand(c, "other");
  DType d = promote(c, {a, b});
  NodeId condition = truth(c, c.tensor("condition"));
  NodeId x = as(c, a, d);
  NodeId y = as(c, b, d);
  auto shape = c.b.broadcast(c.b.shape(x), c.b.shape(y));
  if (!shape || !c.b.broadcast(*shape, c.b.shape(condition))) {
    c.refuse("the operands do not broadcast");
  }
  c.result(c.b.select(condition, x, y));
}

void masked_fill(Context& c) {
  NodeId x = c.tensor("self");
  NodeId value = as(c, operand(c, "value"), c.b.dtype(x));
  NodeId mask = truth(c, c.tensor("mask"));
  if (!c.b.can_expand(value, c.b.shape(x)) && c.b.rank(value) > 0) c.refuse("value has axes");
  c.result(c.b.select(mask, value, x));
}

// Bounds of clamp, with the number or tensor each may be.
void clamp_between(Context& c, std::optional<std::string_view> low,
                   std::optional<std::string_view> high) {
  std::vector<Operand> all = {operand(c, "self")};
  bool has_low = low && c.has(*low);
  bool has_high = high && c.has(*high);
  if (has_low) all.push_back(operand(c, *low));
  if (has_high) all.push_back(operand(c, *high));
  DType wide = compute_dtype(promote(c, all));
  NodeId x = as(c, all[0], wide);
  if (has_low) x = c.b.binary(BinaryOp::kMax, x, as(c, all[1], wide));
  if (has_high) x = c.b.binary(BinaryOp::kMin, x, as(c, all.back(), wide));
  c.result(x);
}

void round_decimals(Context& c) {
  NodeId x = c.tensor("self");
  if (!common::is_float(c.b.dtype(x))) return c.set(x);
  int64_t decimals = c.integer("decimals", 0);
  NodeId wide = float_tensor(c, "self");
  double scale = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  NodeId factor = number_like(c, wide, scale);
  NodeId scaled = decimals < 0 ? div(c, wide, factor) : mul(c, wide, factor);
  NodeId whole = c.b.unary(UnaryOp::kRound, scaled);
  c.result(decimals < 0 ? mul(c, whole, factor) : div(c, whole, factor));
}

void rsub(Context& c) {
  Pair p = summands(c, "other", "self");
  if (c.has("alpha")) p.b = any_mul(c, as_element(c, operand(c, "alpha"), p.promoted), p.b);
  c.result(c.b.binary(BinaryOp::kSub, p.a, p.b));
}

// self + value * (tensor1 op tensor2)
template <BinaryOp op>
void add_combined(Context& c) {
  Operand x = operand(c, "self");
  Operand t1 = operand(c, "tensor1");
  Operand t2 = operand(c, "tensor2");
  DType wide = compute_dtype(promote(c, {x, t1, t2}));
  NodeId inner = c.b.binary(op, as(c, t1, wide), as(c, t2, wide));
  if (c.has("value")) inner = mul(c, as(c, operand(c, "value"), wide), inner);
  c.result(c.b.binary(BinaryOp::kAdd, as(c, x, wide), inner));
}

void lerp(Context& c) {
  NodeId a = float_tensor(c, "self");
  NodeId end = float_tensor(c, "end");
  NodeId weight = as(c, operand(c, "weight"), c.b.dtype(a));
  NodeId difference = c.b.binary(BinaryOp::kSub, end, a);
  // The end that is closer is the exact one.
  NodeId near = less(c, c.b.unary(UnaryOp::kAbs, weight), 0.5);
  NodeId from_start = c.b.binary(BinaryOp::kAdd, a, c.b.binary(BinaryOp::kMul, weight, difference));
  NodeId rest = sub(c, number_like(c, a, 1), weight);
  NodeId from_end = c.b.binary(BinaryOp::kSub, end, c.b.binary(BinaryOp::kMul, difference, rest));
  c.result(c.b.select(near, from_start, from_end));
}

// NaN loses, unlike in minimum and maximum.
template <BinaryOp op>
void nan_loses(Context& c) {
  Pair p = pair(c, "self", "other");
  if (!common::is_float(c.b.dtype(p.a))) {
    c.result(c.b.binary(op, p.a, p.b));
    return;
  }
  NodeId both = c.b.binary(op, p.a, p.b);
  NodeId right = c.b.select(c.b.unary(UnaryOp::kIsNan, p.b), p.a, both);
  c.result(c.b.select(c.b.unary(UnaryOp::kIsNan, p.a), p.b, right));
}

void logaddexp(Context& c, bool base_two) {
  Pair p = pair(c, "self", "other", true);
  NodeId top = c.b.binary(BinaryOp::kMax, p.a, p.b);
  NodeId gap =
      c.b.unary(UnaryOp::kNeg, c.b.unary(UnaryOp::kAbs, c.b.binary(BinaryOp::kSub, p.a, p.b)));
  NodeId tail = base_two
                    ? mul(c, c.b.unary(UnaryOp::kLog1p, c.b.unary(UnaryOp::kExp2, gap)), M_LOG2E)
                    : c.b.unary(UnaryOp::kLog1p, c.b.unary(UnaryOp::kExp, gap));
  // Equal infinities have no gap.
  NodeId infinite = c.b.binary(BinaryOp::kAnd, c.b.unary(UnaryOp::kIsInf, p.a),
                               c.b.binary(BinaryOp::kEqual, p.a, p.b));
  c.result(c.b.select(infinite, top, add(c, top, tail)));
}

void xlogy(Context& c) {
  Pair p = pair(c, "self", "other", true);
  NodeId product = c.b.binary(BinaryOp::kMul, p.a, c.b.unary(UnaryOp::kLog, p.b));
  NodeId zero = c.b.binary(BinaryOp::kEqual, p.a, number_like(c, p.a, 0));
  NodeId kept = c.b.select(zero, number_like(c, p.a, 0), product);
  c.result(c.b.select(c.b.unary(UnaryOp::kIsNan, p.b), number_like(c, p.a, NAN), kept));
}

void nan_to_num(Context& c) {
  NodeId x = c.tensor("self");
  if (!common::is_float(c.b.dtype(x))) return c.set(x);
  double greatest = c.out_dtype() == DType::kFloat64   ? std::numeric_limits<double>::max()
                    : c.out_dtype() == DType::kFloat16 ? 65504.0
                    : c.out_dtype() == DType::kBfloat16
                        ? 3.3895313892515355e38
                        : static_cast<double>(std::numeric_limits<float>::max());
  NodeId wide = float_tensor(c, "self");
  NodeId infinite = c.b.unary(UnaryOp::kIsInf, wide);
  NodeId above = c.b.binary(BinaryOp::kLess, number_like(c, wide, 0), wide);
  NodeId limits = c.b.select(above, number_like(c, wide, c.number("posinf", greatest)),
                             number_like(c, wide, c.number("neginf", -greatest)));
  NodeId finite = c.b.select(infinite, limits, wide);
  NodeId nan = c.b.unary(UnaryOp::kIsNan, wide);
  c.result(c.b.select(nan, number_like(c, wide, c.number("nan", 0)), finite));
}

void signbit(Context& c) {
  NodeId x = c.tensor("self");
  if (!common::is_float(c.b.dtype(x))) {
    if (c.b.dtype(x) == DType::kBool) return c.result(c.b.full(DType::kBool, c.b.shape(x), 0));
    return c.result(less(c, x, 0));
  }
  NodeId wide = float_tensor(c, "self");
  c.result(less(c, c.b.binary(BinaryOp::kCopysign, number_like(c, wide, 1), wide), 0));
}

void infinite(Context& c, bool positive) {
  NodeId x = c.tensor("self");
  if (!common::is_float(c.b.dtype(x))) return c.result(c.b.full(DType::kBool, c.b.shape(x), 0));
  NodeId wide = float_tensor(c, "self");
  double limit = positive ? kInfinity : -kInfinity;
  c.result(c.b.binary(BinaryOp::kEqual, wide, number_like(c, wide, limit)));
}

void heaviside(Context& c) {
  NodeId x = c.tensor("self");
  NodeId values = c.tensor("values");
  DType d = compute_dtype(c.b.dtype(x));
  NodeId wide = c.b.cast(x, d);
  NodeId zero = number_like(c, wide, 0);
  NodeId step = c.b.cast(c.b.binary(BinaryOp::kLess, zero, wide), d);
  NodeId nan =
      common::is_float(d) ? c.b.select(c.b.unary(UnaryOp::kIsNan, wide), wide, step) : step;
  c.result(c.b.select(c.b.binary(BinaryOp::kEqual, wide, zero), c.b.cast(values, d), nan));
}

// Near enough: |a - b| <= atol + rtol |b|, and equal infinities.
void is_close(Context& c) {
  Pair exact = pair(c, "self", "other");
  Pair p = pair(c, "self", "other", true);
  NodeId gap = c.b.unary(UnaryOp::kAbs, sub(c, p.a, p.b));
  NodeId size = c.b.unary(UnaryOp::kAbs, p.b);
  NodeId allowed = add(c, mul(c, size, c.number("rtol", 1e-5)), c.number("atol", 1e-8));
  NodeId near = c.b.binary(BinaryOp::kAnd, c.b.binary(BinaryOp::kLessEqual, gap, allowed),
                           less(c, gap, kInfinity));
  NodeId same = c.b.binary(BinaryOp::kEqual, exact.a, exact.b);
  if (c.flag("equal_nan", false)) {
    NodeId both = c.b.binary(BinaryOp::kAnd, c.b.unary(UnaryOp::kIsNan, p.a),
                             c.b.unary(UnaryOp::kIsNan, p.b));
    same = c.b.binary(BinaryOp::kOr, same, both);
  }
  c.result(c.b.binary(BinaryOp::kOr, near, same));
}

void sinc(Context& c) {
  NodeId angle = mul(c, float_tensor(c, "self"), M_PI);
  NodeId zero = c.b.binary(BinaryOp::kEqual, angle, number_like(c, angle, 0));
  NodeId value = div(c, c.b.unary(UnaryOp::kSin, angle), angle);
  c.result(c.b.select(zero, number_like(c, angle, 1), value));
}

// The logarithm of the multivariate gamma function.
void mvlgamma(Context& c) {
  NodeId x = float_tensor(c, "self");
  int64_t p = c.integer("p");
  if (p < 1 || p > 64) c.refuse("p must be from 1 to 64");
  double constant = static_cast<double>(p * (p - 1)) / 4 * std::log(M_PI);
  NodeId sum = number_like(c, x, constant);
  for (int64_t k = 0; k < p; ++k) {
    NodeId shifted = add(c, x, -0.5 * static_cast<double>(k));
    sum = add(c, c.b.unary(UnaryOp::kLgamma, shifted), sum);
  }
  c.result(sum);
}

// x * 2^-exponent, in two steps, for one factor might not be a finite number.
NodeId divided_by_power(Context& c, NodeId x, NodeId exponent) {
  NodeId half = c.b.unary(UnaryOp::kFloor, mul(c, exponent, 0.5));
  auto step = [&](NodeId power) {
    return c.b.unary(UnaryOp::kExp2, c.b.unary(UnaryOp::kNeg, power));
  };
  return mul(c, mul(c, x, step(half)), step(sub(c, exponent, half)));
}

// A mantissa in [0.5, 1) and an exponent of two. The logarithm may be off by one next to a power.
void frexp(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId size = c.b.unary(UnaryOp::kAbs, x);
  NodeId zero = number_like(c, x, 0);
  NodeId plain = c.b.binary(
      BinaryOp::kOr, c.b.binary(BinaryOp::kEqual, x, zero),
      c.b.binary(BinaryOp::kOr, c.b.unary(UnaryOp::kIsNan, x), c.b.unary(UnaryOp::kIsInf, x)));
  NodeId safe = c.b.select(plain, number_like(c, x, 1), size);
  NodeId exponent = add(c, c.b.unary(UnaryOp::kFloor, c.b.unary(UnaryOp::kLog2, safe)), 1.0);
  NodeId mantissa = divided_by_power(c, safe, exponent);
  exponent = c.b.select(less(c, mantissa, 0.5), add(c, exponent, -1.0), exponent);
  exponent = c.b.select(less(c, mantissa, 1), exponent, add(c, exponent, 1.0));
  exponent = c.b.select(plain, zero, exponent);
  c.result(divided_by_power(c, x, exponent));
  if (c.wants_output(1)) c.result(exponent, 1);
}

void add_arithmetic(OperatorTable* t) {
  t->add("aten.add", [](Context& c) { add_scaled(c, false); });
  t->add("aten.sub", [](Context& c) { add_scaled(c, true); });
  t->add("aten.rsub", rsub);
  t->add("aten.mul", multiply);
  t->add("aten.div", divide);
  t->add("aten.floor_divide", plain_binary<BinaryOp::kFloorDiv>);
  t->add("aten.remainder", plain_binary<BinaryOp::kMod>);
  t->add("aten.fmod", plain_binary<BinaryOp::kFmod>);
  t->add("aten.maximum", plain_binary<BinaryOp::kMax>);
  t->add("aten.minimum", plain_binary<BinaryOp::kMin>);
  t->add("aten.max.other", plain_binary<BinaryOp::kMax>);
  t->add("aten.min.other", plain_binary<BinaryOp::kMin>);
  t->add("aten.fmax", nan_loses<BinaryOp::kMax>);
  t->add("aten.fmin", nan_loses<BinaryOp::kMin>);
  t->add("aten.atan2", plain_binary<BinaryOp::kAtan2, true>);
  t->add("aten.copysign", plain_binary<BinaryOp::kCopysign, true>);
  t->add("aten.hypot", plain_binary<BinaryOp::kHypot, true>);
  t->add("aten.nextafter", plain_binary<BinaryOp::kNextafter, true>);
  t->add("aten.pow", power);
  t->add("aten.square", [](Context& c) {
    NodeId x = c.tensor("self");
    NodeId wide = c.b.cast(x, compute_dtype(c.b.dtype(x)));
    c.result(any_mul(c, wide, wide));
  });
  t->add("aten.addcmul", add_combined<BinaryOp::kMul>);
  t->add("aten.addcdiv", add_combined<BinaryOp::kDiv>);
  t->add("aten.lerp", lerp);
  t->add("aten.logaddexp", [](Context& c) { logaddexp(c, false); });
  t->add("aten.logaddexp2", [](Context& c) { logaddexp(c, true); });
  t->add("aten.xlogy", xlogy);
  t->add("aten.isclose", is_close);
  t->add("aten.sinc", sinc);
  t->add("aten.mvlgamma", mvlgamma);
  t->add("aten.float_power", [](Context& c) {
    NodeId x = as(c, operand(c, "self"), DType::kFloat64);
    c.result(c.b.binary(BinaryOp::kPow, x, as(c, operand(c, "exponent"), DType::kFloat64)));
  });
  t->add("aten.heaviside", heaviside);
  t->add("aten.ldexp", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    NodeId power_of_two = c.b.unary(UnaryOp::kExp2, c.b.cast(c.tensor("other"), c.b.dtype(x)));
    c.result(c.b.binary(BinaryOp::kMul, x, rounded(c, power_of_two)));
  });
  t->add("aten.frexp", frexp);
}

void add_comparisons(OperatorTable* t) {
  t->add("aten.lt", compare<BinaryOp::kLess>);
  t->add("aten.le", compare<BinaryOp::kLessEqual>);
  t->add("aten.gt", compare<BinaryOp::kLess, true>);
  t->add("aten.ge", compare<BinaryOp::kLessEqual, true>);
  t->add("aten.eq", compare<BinaryOp::kEqual>);
  t->add("aten.ne", compare<BinaryOp::kNotEqual>);
  t->add("aten.isreal",
         [](Context& c) { c.result(c.b.full(DType::kBool, c.b.shape(c.tensor("self")), 1)); });
  t->add("aten.logical_and", logical<BinaryOp::kAnd>);
  t->add("aten.logical_or", logical<BinaryOp::kOr>);
  t->add("aten.logical_xor", logical<BinaryOp::kXor>);
  t->add("aten.logical_not", [](Context& c) { c.result(logical_not(c, c.tensor("self"))); });
  t->add("aten.bitwise_and", bitwise<BinaryOp::kAnd>);
  t->add("aten.bitwise_or", bitwise<BinaryOp::kOr>);
  t->add("aten.bitwise_xor", bitwise<BinaryOp::kXor>);
  t->add("aten.__and__", bitwise<BinaryOp::kAnd>);
  t->add("aten.__or__", bitwise<BinaryOp::kOr>);
  t->add("aten.__xor__", bitwise<BinaryOp::kXor>);
  t->add("aten.bitwise_left_shift", bitwise<BinaryOp::kShl>);
  t->add("aten.bitwise_right_shift", bitwise<BinaryOp::kShr>);
  t->add("aten.__lshift__", bitwise<BinaryOp::kShl>);
  t->add("aten.__rshift__", bitwise<BinaryOp::kShr>);
  t->add("aten.bitwise_not", bitwise_not);
  t->add("aten.isnan", float_test<UnaryOp::kIsNan>);
  t->add("aten.isinf", float_test<UnaryOp::kIsInf>);
  t->add("aten.isposinf", [](Context& c) { infinite(c, true); });
  t->add("aten.isneginf", [](Context& c) { infinite(c, false); });
  t->add("aten.isfinite", [](Context& c) {
    NodeId x = c.tensor("self");
    if (!common::is_float(c.b.dtype(x))) return c.result(c.b.full(DType::kBool, c.b.shape(x), 1));
    NodeId size = c.b.unary(UnaryOp::kAbs, float_tensor(c, "self"));
    c.result(less(c, size, kInfinity));
  });
  t->add("aten.signbit", signbit);
  t->add("aten.where", where);
  t->add("aten.masked_fill", masked_fill);
  t->add("aten.clamp", [](Context& c) { clamp_between(c, "min", "max"); });
  t->add("aten.clamp_min", [](Context& c) { clamp_between(c, "min", std::nullopt); });
  t->add("aten.clamp_max", [](Context& c) { clamp_between(c, std::nullopt, "max"); });
}

void add_unary(OperatorTable* t) {
  t->add("aten.neg", signed_unary<UnaryOp::kNeg>);
  t->add("aten.abs", signed_unary<UnaryOp::kAbs>);
  t->add("aten.sign", signed_unary<UnaryOp::kSign>);
  t->add("aten.sgn", signed_unary<UnaryOp::kSign>);
  t->add("aten.exp", float_unary<UnaryOp::kExp>);
  t->add("aten.exp2", float_unary<UnaryOp::kExp2>);
  t->add("aten.expm1", float_unary<UnaryOp::kExpm1>);
  t->add("aten.log", float_unary<UnaryOp::kLog>);
  t->add("aten.log2", float_unary<UnaryOp::kLog2>);
  t->add("aten.log10", float_unary<UnaryOp::kLog10>);
  t->add("aten.log1p", float_unary<UnaryOp::kLog1p>);
  t->add("aten.sqrt", float_unary<UnaryOp::kSqrt>);
  t->add("aten.rsqrt", float_unary<UnaryOp::kRsqrt>);
  t->add("aten.reciprocal", float_unary<UnaryOp::kRecip>);
  t->add("aten.sin", float_unary<UnaryOp::kSin>);
  t->add("aten.cos", float_unary<UnaryOp::kCos>);
  t->add("aten.tan", float_unary<UnaryOp::kTan>);
  t->add("aten.asin", float_unary<UnaryOp::kAsin>);
  t->add("aten.acos", float_unary<UnaryOp::kAcos>);
  t->add("aten.atan", float_unary<UnaryOp::kAtan>);
  t->add("aten.sinh", float_unary<UnaryOp::kSinh>);
  t->add("aten.cosh", float_unary<UnaryOp::kCosh>);
  t->add("aten.tanh", float_unary<UnaryOp::kTanh>);
  t->add("aten.asinh", float_unary<UnaryOp::kAsinh>);
  t->add("aten.acosh", float_unary<UnaryOp::kAcosh>);
  t->add("aten.atanh", float_unary<UnaryOp::kAtanh>);
  t->add("aten.erf", float_unary<UnaryOp::kErf>);
  t->add("aten.erfc", float_unary<UnaryOp::kErfc>);
  t->add("aten.erfinv", float_unary<UnaryOp::kErfinv>);
  t->add("aten.lgamma", float_unary<UnaryOp::kLgamma>);
  t->add("aten.digamma", float_unary<UnaryOp::kDigamma>);
  t->add("aten.floor", rounding<UnaryOp::kFloor>);
  t->add("aten.ceil", rounding<UnaryOp::kCeil>);
  t->add("aten.trunc", rounding<UnaryOp::kTrunc>);
  t->add("aten.round.decimals", round_decimals);
  t->add("aten.special_round", round_decimals);
  t->add("aten.round", rounding<UnaryOp::kRound>);
  t->add("aten.frac", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    c.result(sub(c, x, c.b.unary(UnaryOp::kTrunc, x)));
  });
  t->add("aten.deg2rad", [](Context& c) { c.result(mul(c, float_tensor(c, "self"), M_PI / 180)); });
  t->add("aten.rad2deg", [](Context& c) { c.result(mul(c, float_tensor(c, "self"), 180 / M_PI)); });
  t->add("aten.nan_to_num", nan_to_num);
}

}  // namespace

void add_pointwise_operators(OperatorTable* t) {
  add_arithmetic(t);
  add_comparisons(t);
  add_unary(t);
}

}  // namespace clients
