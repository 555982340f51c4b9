// Activation functions of neural networks.
#include <cmath>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

void relu(Context& c) {
  NodeId x = c.tensor("self");
  c.result(maximum(c, c.b.cast(x, compute_dtype(c.b.dtype(x))), 0));
}

NodeId clamped(Context& c, NodeId x, double low, double high) {
  return minimum(c, maximum(c, x, low), high);
}

void hardtanh(Context& c) {
  NodeId x = c.tensor("self");
  NodeId wide = c.b.cast(x, compute_dtype(c.b.dtype(x)));
  c.result(clamped(c, wide, c.number("min_val", -1), c.number("max_val", 1)));
}

// elu and its relatives: scale * x above 0, scale * alpha * expm1(x * input_scale) below.
void elu_like(Context& c, double alpha, double scale, double input_scale) {
  NodeId x = float_tensor(c, "self");
  NodeId negative = mul(c, c.b.unary(UnaryOp::kExpm1, mul(c, x, input_scale)), alpha * scale);
  NodeId positive = scale == 1 ? x : mul(c, x, scale);
  c.result(c.b.select(c.b.binary(BinaryOp::kLess, number_like(c, x, 0), x), positive, negative));
}

void leaky(Context& c, double slope) {
  NodeId x = float_tensor(c, "self");
  c.result(c.b.select(c.b.binary(BinaryOp::kLess, number_like(c, x, 0), x), x, mul(c, x, slope)));
}

void rrelu(Context& c) {
  if (c.flag("training", false)) c.refuse("it is random in training; export in eval mode");
  leaky(c, (c.number("lower", 0.125) + c.number("upper", 1.0 / 3)) / 2);
}

void softplus(Context& c) {
  NodeId x = float_tensor(c, "self");
  double beta = c.number("beta", 1);
  double threshold = c.number("threshold", 20);
  NodeId scaled = mul(c, x, beta);
  NodeId soft = mul(c, c.b.unary(UnaryOp::kLog1p, c.b.unary(UnaryOp::kExp, scaled)), 1 / beta);
  NodeId linear = c.b.binary(BinaryOp::kLess, number_like(c, x, threshold), scaled);
  c.result(c.b.select(linear, x, soft));
}

// log(1 + exp(x)) without overflow.
NodeId log1p_exp(Context& c, NodeId x) {
  NodeId small = c.b.unary(UnaryOp::kExp, c.b.unary(UnaryOp::kNeg, c.b.unary(UnaryOp::kAbs, x)));
  return add(c, maximum(c, x, 0), c.b.unary(UnaryOp::kLog1p, small));
}

void log_sigmoid(Context& c) {
  NodeId x = float_tensor(c, "self");
  c.result(c.b.unary(UnaryOp::kNeg, log1p_exp(c, c.b.unary(UnaryOp::kNeg, x))));
}

}  // namespace

// Long because it is a table: one row per operator.
void add_activation_operators(OperatorTable* t) {
  t->add("aten.sigmoid",
         [](Context& c) { c.result(c.b.unary(UnaryOp::kSigmoid, float_tensor(c, "self"))); });
  t->add("aten.relu", relu);
  t->add("aten.relu6", [](Context& c) { c.result(clamped(c, float_tensor(c, "self"), 0, 6)); });
  t->add("aten.hardtanh", hardtanh);
  t->add("aten.gelu", [](Context& c) {
    c.result(gelu(c, float_tensor(c, "self"), c.text("approximate", "none") == "tanh"));
  });
  t->add("aten.silu", [](Context& c) { c.result(silu(c, float_tensor(c, "self"))); });
  t->add("aten.mish", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    c.result(mul(c, x, c.b.unary(UnaryOp::kTanh, log1p_exp(c, x))));
  });
  t->add("aten.elu", [](Context& c) {
    elu_like(c, c.number("alpha", 1), c.number("scale", 1), c.number("input_scale", 1));
  });
  t->add("aten.celu", [](Context& c) {
    double alpha = c.number("alpha", 1);
    elu_like(c, alpha, 1, 1 / alpha);
  });
  t->add("aten.selu", [](Context& c) {
    elu_like(c, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
  });
  t->add("aten.leaky_relu", [](Context& c) { leaky(c, c.number("negative_slope", 0.01)); });
  for (const char* name : {"aten.rrelu", "aten.rrelu_with_noise"}) t->add(name, rrelu);
  t->add("aten.rrelu_with_noise_functional", [](Context& c) {
    rrelu(c);
    if (c.wants_output(1)) c.result(c.tensor("noise"), 1);
  });
  t->add("aten.softplus", softplus);
  t->add("aten.log_sigmoid", log_sigmoid);
  t->add("aten.hardsigmoid", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    c.result(div(c, clamped(c, add(c, x, 3.0), 0, 6), number_like(c, x, 6)));
  });
  t->add("aten.hardswish", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    c.result(div(c, mul(c, x, clamped(c, add(c, x, 3.0), 0, 6)), number_like(c, x, 6)));
  });
  t->add("aten.threshold", [](Context& c) {
    NodeId x = c.tensor("self");
    NodeId wide = c.b.cast(x, compute_dtype(c.b.dtype(x)));
    NodeId limit = as(c, operand(c, "threshold"), c.b.dtype(wide));
    NodeId value = as(c, operand(c, "value"), c.b.dtype(wide));
    c.result(c.b.select(c.b.binary(BinaryOp::kLessEqual, wide, limit), value, wide));
  });
  t->add("aten.hardshrink", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    NodeId inside = c.b.binary(BinaryOp::kLessEqual, c.b.unary(UnaryOp::kAbs, x),
                               number_like(c, x, c.number("lambd", 0.5)));
    c.result(c.b.select(inside, number_like(c, x, 0), x));
  });
  t->add("aten.softshrink", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    double lambda = c.number("lambd", 0.5);
    NodeId inside =
        c.b.binary(BinaryOp::kLessEqual, c.b.unary(UnaryOp::kAbs, x), number_like(c, x, lambda));
    NodeId shrunk = sub(c, x, mul(c, c.b.unary(UnaryOp::kSign, x), lambda));
    c.result(c.b.select(inside, mul(c, x, 0.0), shrunk));
  });
  t->add("aten.prelu", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    NodeId weight = float_tensor(c, "weight");
    if (c.b.rank(x) > 1 && c.b.rank(weight) == 1) {
      Shape shape(static_cast<size_t>(c.b.rank(x)), Expr(1));
      shape[1] = c.b.size(weight, 0);
      weight = c.b.reshape(weight, shape);
    }
    NodeId scaled = c.b.binary(BinaryOp::kMul, x, weight);
    c.result(c.b.select(c.b.binary(BinaryOp::kLess, number_like(c, x, 0), x), x, scaled));
  });
  t->add("aten.logit", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    if (c.has("eps")) x = clamped(c, x, c.number("eps", 0), 1 - c.number("eps", 0));
    NodeId odds = div(c, x, sub(c, number_like(c, x, 1), x));
    c.result(c.b.unary(UnaryOp::kLog, odds));
  });
  t->add("aten.glu", [](Context& c) {
    NodeId x = float_tensor(c, "self");
    int axis = c.axis("dim", c.b.rank(x), -1);
    Expr half = common::floor_div(c.b.size(x, axis), 2);
    NodeId gate = c.b.unary(UnaryOp::kSigmoid, c.b.slice(x, axis, half, half));
    c.result(mul(c, c.b.slice(x, axis, 0, half), gate));
  });
}

}  // namespace clients
