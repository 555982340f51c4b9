// Gradients of activation functions. PyTorch computes each in one kernel, so half types are rounded
// once, at the end.
#include <cmath>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// The gradient of the function's result, as `like` is computed in.
NodeId incoming(Context& c, NodeId like) {
  std::string_view name = c.has("grad_output") ? "grad_output" : "grad_out";
  return c.b.cast(c.tensor(name), c.b.dtype(like));
}

NodeId zero(Context& c, NodeId x) { return number_like(c, x, 0); }
NodeId exp_of(Context& c, NodeId x) { return c.b.unary(UnaryOp::kExp, x); }
NodeId sigmoid_of(Context& c, NodeId x) { return c.b.unary(UnaryOp::kSigmoid, x); }
// 1 - x
NodeId from_one(Context& c, NodeId x) { return sub(c, number_like(c, x, 1), x); }
NodeId above(Context& c, NodeId x, double limit) {
  return c.b.binary(BinaryOp::kLess, number_like(c, x, limit), x);
}
NodeId both(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kAnd, a, b); }

// The gradient times the function's derivative.
void times(Context& c, NodeId derivative) { c.result(mul(c, incoming(c, derivative), derivative)); }

// The gradient where `passes`, zero elsewhere.
void gated(Context& c, NodeId x, NodeId passes) {
  NodeId g = incoming(c, x);
  c.result(c.b.select(passes, g, zero(c, g)));
}

void threshold_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId stops = c.b.binary(BinaryOp::kLessEqual, x, as(c, operand(c, "threshold"), c.b.dtype(x)));
  gated(c, x, logical_not(c, stops));
}

void gelu_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  if (c.text("approximate", "none") != "tanh") {
    NodeId below = mul(c, add(c, c.b.unary(UnaryOp::kErf, mul(c, x, M_SQRT1_2)), 1.0), 0.5);
    NodeId density = mul(c, exp_of(c, mul(c, mul(c, x, x), -0.5)), M_2_SQRTPI * M_SQRT1_2 * 0.5);
    return times(c, add(c, below, mul(c, x, density)));
  }
  constexpr double kBeta = M_SQRT2 * M_2_SQRTPI * 0.5, kCube = 0.044715;
  NodeId square = mul(c, x, x);
  NodeId inner = mul(c, add(c, x, mul(c, mul(c, square, x), kCube)), kBeta);
  NodeId t = c.b.unary(UnaryOp::kTanh, inner);
  NodeId slope = mul(c, add(c, mul(c, square, 3 * kCube), 1.0), kBeta);
  NodeId right = mul(c, mul(c, mul(c, x, 0.5), from_one(c, mul(c, t, t))), slope);
  times(c, add(c, mul(c, add(c, t, 1.0), 0.5), right));
}

void silu_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId s = sigmoid_of(c, x);
  times(c, mul(c, s, add(c, mul(c, x, from_one(c, s)), 1.0)));
}

void mish_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId small = exp_of(c, c.b.unary(UnaryOp::kNeg, c.b.unary(UnaryOp::kAbs, x)));
  NodeId soft = add(c, maximum(c, x, 0), c.b.unary(UnaryOp::kLog1p, small));
  NodeId t = c.b.unary(UnaryOp::kTanh, soft);
  NodeId slope = mul(c, mul(c, x, sigmoid_of(c, x)), from_one(c, mul(c, t, t)));
  times(c, add(c, t, slope));
}

void elu_backward(Context& c) {
  NodeId x = float_tensor(c, "self_or_result");
  double alpha = c.number("alpha", 1) * c.number("scale", 1);
  double input_scale = c.number("input_scale", 1);
  NodeId negative = c.flag("is_result", false)
                        ? mul(c, add(c, x, alpha), input_scale)
                        : mul(c, exp_of(c, mul(c, x, input_scale)), alpha * input_scale);
  NodeId positive = number_like(c, x, c.number("scale", 1));
  times(c, c.b.select(above(c, x, 0), positive, negative));
}

void leaky_relu_backward(Context& c, double slope) {
  NodeId x = float_tensor(c, "self");
  times(c, c.b.select(above(c, x, 0), number_like(c, x, 1), number_like(c, x, slope)));
}

void rrelu_backward(Context& c) {
  if (!c.flag("training", false)) {
    return leaky_relu_backward(c, (c.number("lower", 0.125) + c.number("upper", 1.0 / 3)) / 2);
  }
  times(c, float_tensor(c, "noise"));
}

void softplus_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId scaled = mul(c, x, c.number("beta", 1));
  NodeId linear = above(c, scaled, c.number("threshold", 20));
  times(c, c.b.select(linear, number_like(c, x, 1), sigmoid_of(c, scaled)));
}

void hardswish_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId slope = add(c, div(c, x, number_like(c, x, 3)), 0.5);
  NodeId high = c.b.select(less(c, x, 3), slope, number_like(c, x, 1));
  times(c,
        c.b.select(c.b.binary(BinaryOp::kLessEqual, x, number_like(c, x, -3)), zero(c, x), high));
}

void shrink_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId limit = number_like(c, x, c.number("lambd", 0.5));
  NodeId inside = c.b.binary(BinaryOp::kLessEqual, c.b.unary(UnaryOp::kAbs, x), limit);
  gated(c, x, logical_not(c, inside));
}

void logit_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId slope = div(c, number_like(c, x, 1), mul(c, x, from_one(c, x)));
  double low = c.number("eps", 0);
  NodeId inside = both(c, c.b.binary(BinaryOp::kLessEqual, number_like(c, x, low), x),
                       c.b.binary(BinaryOp::kLessEqual, x, number_like(c, x, 1 - low)));
  NodeId g = incoming(c, x);
  NodeId outside = number_like(c, x, c.has("eps") ? 0 : NAN);
  c.result(c.b.select(inside, mul(c, g, slope), outside));
}

void glu_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  int axis = c.axis("dim", c.b.rank(x));
  Expr half = common::floor_div(c.b.size(x, axis), 2);
  NodeId g = incoming(c, x);
  NodeId first = c.b.slice(x, axis, 0, half);
  NodeId gate = sigmoid_of(c, c.b.slice(x, axis, half, half));
  NodeId to_first = mul(c, g, gate);
  NodeId to_gate = mul(c, mul(c, to_first, from_one(c, gate)), first);
  c.result(c.b.concat({to_first, to_gate}, axis));
}

// The weight has x's axes already.
void prelu_kernel(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId scaled = mul(c, x, float_tensor(c, "weight"));
  c.result(c.b.select(above(c, x, 0), x, scaled));
}

void prelu_kernel_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId g = incoming(c, x);
  NodeId positive = above(c, x, 0);
  c.result(c.b.select(positive, g, mul(c, g, float_tensor(c, "weight"))));
  if (c.wants_output(1)) c.result(c.b.select(positive, zero(c, x), mul(c, g, x)), 1);
}

// The buffer helps PyTorch's gradient, which is computed here from the input alone.
void log_sigmoid_forward(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId small = exp_of(c, c.b.unary(UnaryOp::kNeg, c.b.unary(UnaryOp::kAbs, x)));
  c.result(sub(c, minimum(c, x, 0), c.b.unary(UnaryOp::kLog1p, small)));
  if (!c.wants_output(1)) return;
  bool is_full = c.out_shape(1) == c.out_shape(0);
  c.result(is_full ? small : c.b.full(c.out_dtype(1), c.out_shape(1), 0), 1);
}

}  // namespace

void add_activation_backward_operators(OperatorTable* t) {
  t->add("aten.sigmoid_backward", [](Context& c) {
    NodeId y = float_tensor(c, "output");
    times(c, mul(c, y, from_one(c, y)));
  });
  t->add("aten.tanh_backward", [](Context& c) {
    NodeId y = float_tensor(c, "output");
    times(c, from_one(c, mul(c, y, y)));
  });
  t->add("aten.threshold_backward", threshold_backward);
  t->add("aten.gelu_backward", gelu_backward);
  t->add("aten.silu_backward", silu_backward);
  t->add("aten.mish_backward", mish_backward);
  t->add("aten.elu_backward", elu_backward);
  t->add("aten.hardtanh_backward", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    NodeId low = c.b.binary(BinaryOp::kLessEqual, x, number_like(c, x, c.number("min_val", -1)));
    NodeId high = c.b.binary(BinaryOp::kLessEqual, number_like(c, x, c.number("max_val", 1)), x);
    gated(c, x, logical_not(c, c.b.binary(BinaryOp::kOr, low, high)));
  });
  t->add("aten.leaky_relu_backward",
         [](Context& c) { leaky_relu_backward(c, c.number("negative_slope", 0.01)); });
  t->add("aten.rrelu_with_noise_backward", rrelu_backward);
  t->add("aten.softplus_backward", softplus_backward);
  t->add("aten.log_sigmoid_forward", log_sigmoid_forward);
  t->add("aten.log_sigmoid_backward", [](Context& c) {
    times(c, sigmoid_of(c, c.b.unary(UnaryOp::kNeg, float_tensor(c, "self"))));
  });
  t->add("aten.hardsigmoid_backward", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    NodeId slope = number_like(c, x, 1.0 / 6);
    times(c, c.b.select(both(c, above(c, x, -3), less(c, x, 3)), slope, zero(c, x)));
  });
  t->add("aten.hardswish_backward", hardswish_backward);
  t->add("aten.hardshrink_backward", shrink_backward);
  t->add("aten.softshrink_backward", shrink_backward);
  t->add("aten.logit_backward", logit_backward);
  t->add("aten.glu_backward", glu_backward);
  t->add("aten._prelu_kernel", prelu_kernel);
  t->add("aten._prelu_kernel_backward", prelu_kernel_backward);
}

}  // namespace clients
