// Quantisation to integers and back, as exported quantised models (quantized_decomposed) and
// quantisation-aware training (fake_quantize) write it.
//
//     q = clamp(round(x / scale) + zero_point, quant_min, quant_max)
//     x = (q - zero_point) * scale
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// What maps numbers to integers; both broadcast over the tensor and have the type of arithmetic.
struct Mapping {
  NodeId scale = 0;
  NodeId inverse = 0;  // 1 / scale
  NodeId zero_point = 0;
};

// An argument that is a number, or a tensor of one element.
NodeId number_argument(Context& c, std::string_view name, DType d) {
  NodeId x = as(c, operand(c, name), d);
  return c.b.rank(x) == 0 ? x : c.b.reshape(x, {});
}

NodeId inverse_of(Context& c, NodeId scale) { return div(c, number_like(c, scale, 1), scale); }

// A scale is a Python number or becomes one, so its inverse is rounded from float64.
Mapping of_numbers(Context& c, DType d) {
  NodeId scale = number_argument(c, "scale", DType::kFloat64);
  return {c.b.cast(scale, d), c.b.cast(inverse_of(c, scale), d),
          number_argument(c, "zero_point", d)};
}

// A vector of one number for each position along `axis` of the input.
NodeId along_axis(Context& c, NodeId vector, int axis, int rank) {
  if (c.b.rank(vector) != 1) c.refuse("scales and zero points of channels are vectors");
  Shape shape(static_cast<size_t>(rank), Expr(1));
  shape[static_cast<size_t>(axis)] = c.b.size(vector, 0);
  return c.b.reshape(vector, shape);
}

// The type of arithmetic on float32 values with these scales.
DType type_with(Context& c, std::string_view scales) {
  return c.b.dtype(c.tensor(scales)) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

Mapping of_tensors(Context& c, std::string_view scales, std::string_view zero_points,
                   const std::function<NodeId(NodeId)>& shaped) {
  DType d = type_with(c, scales);
  NodeId scale = shaped(c.b.cast(c.tensor(scales), d));
  NodeId zero =
      c.has(zero_points) ? shaped(c.b.cast(c.tensor(zero_points), d)) : number_like(c, scale, 0);
  return {scale, inverse_of(c, scale), zero};
}

Mapping of_channels(Context& c, std::string_view input, std::string_view scales,
                    std::string_view zero_points) {
  int rank = c.b.rank(c.tensor(input));
  int axis = c.axis("axis", rank);
  return of_tensors(c, scales, zero_points, [&](NodeId x) { return along_axis(c, x, axis, rank); });
}

NodeId within_limits(Context& c, NodeId x) {
  NodeId low = number_argument(c, "quant_min", c.b.dtype(x));
  NodeId high = number_argument(c, "quant_max", c.b.dtype(x));
  return c.b.binary(BinaryOp::kMin, c.b.binary(BinaryOp::kMax, x, low), high);
}

NodeId rounded_to_whole(Context& c, NodeId x) { return c.b.unary(UnaryOp::kRound, x); }

// round(x / scale) + zero_point, not clamped yet.
NodeId whole_numbers(Context& c, NodeId x, const Mapping& m) {
  NodeId scaled = mul(c, c.b.cast(x, c.b.dtype(m.scale)), m.inverse);
  return add(c, rounded_to_whole(c, scaled), m.zero_point);
}

NodeId restored(Context& c, NodeId q, const Mapping& m) {
  return mul(c, sub(c, c.b.cast(q, c.b.dtype(m.scale)), m.zero_point), m.scale);
}

void quantize(Context& c, const Mapping& m) {
  c.result(within_limits(c, whole_numbers(c, c.tensor("input"), m)));
}

void dequantize(Context& c, const Mapping& m) { c.result(restored(c, c.tensor("input"), m)); }

// Of tokens and groups the zero point is added before the rounding.
NodeId quantized_at_once(Context& c, NodeId x, const Mapping& m) {
  NodeId scaled = mul(c, c.b.cast(x, c.b.dtype(m.scale)), m.inverse);
  return within_limits(c, rounded_to_whole(c, add(c, scaled, m.zero_point)));
}

// Scales and zero points of shape (..., 1) over the last axis.
Mapping of_tokens(Context& c) {
  return of_tensors(c, "scales", "zero_points", [](NodeId x) { return x; });
}

// Values (rows, columns) as (groups, group_size), and one scale a group.
struct Groups {
  NodeId values = 0;
  Mapping mapping;
};
Groups groups_of(Context& c) {
  NodeId x = c.tensor("input");
  Expr size = c.size("group_size", Expr(128));
  if (c.b.rank(x) != 2) c.refuse("groups are taken along the rows of a matrix");
  auto count = common::exact_div(c.b.size(x, 1), size.is_constant() ? size.constant() : 0);
  if (!count) c.refuse("the size of a group does not divide the columns");
  Expr groups = c.b.size(x, 0) * *count;
  Mapping m = of_tensors(c, "scales", "zero_points", [&](NodeId v) {
    return c.b.reshape(v, {groups, Expr(1)});
  });
  return {c.b.reshape(x, {groups, size}), m};
}

void quantize_groups(Context& c) {
  auto [x, m] = groups_of(c);
  c.result(c.b.reshape(quantized_at_once(c, x, m), c.out_shape()));
}

void dequantize_groups(Context& c) {
  auto [q, m] = groups_of(c);
  c.result(c.b.reshape(restored(c, q, m), c.out_shape()));
}

// ---- Scales from the values -------------------------------------------------------------------

struct Range {
  NodeId low = 0;   // the least value, at most 0
  NodeId high = 0;  // the greatest value, at least 0
};
Range range_of(Context& c, NodeId x, const std::vector<int>& axes) {
  return {minimum(c, c.b.reduce(ReduceOp::kMin, x, axes, true), 0),
          maximum(c, c.b.reduce(ReduceOp::kMax, x, axes, true), 0)};
}

// One scale and zero point, each of shape (1), from a tensor's range.
void choose_parameters(Context& c, bool symmetric) {
  NodeId x = flatten(c, float_tensor(c, "input"));
  double low = c.scalar("quant_min").value(), high = c.scalar("quant_max").value();
  Range range = range_of(c, x, {0});
  NodeId scale = 0, zero = number_like(c, x, 0);
  if (symmetric) {
    NodeId reach = c.b.binary(BinaryOp::kMax, c.b.unary(UnaryOp::kNeg, range.low), range.high);
    scale = mul(c, reach, 1 / ((high - low) / 2));
    if (c.dtype("dtype") == DType::kUint8) zero = number_like(c, x, 128);
  } else {
    scale = div(c, sub(c, range.high, range.low), number_like(c, x, high - low));
  }
  scale = maximum(c, scale, rounded_number(c.b.dtype(x), c.number("eps", 0)));
  if (!symmetric) {
    NodeId below = rounded_to_whole(c, div(c, range.low, scale));
    zero = within_limits(c, sub(c, number_like(c, x, low), below));
  }
  c.result(c.b.reshape(scale, c.out_shape(0)), 0);
  c.result(c.b.expand(c.b.reshape(zero, {Expr(1)}), c.out_shape(1)), 1);
}

// One symmetric scale for each row of the last axis, zero points 0.
void choose_per_token(Context& c) {
  NodeId x = c.tensor("input");
  int last = c.b.rank(x) - 1;
  NodeId wide = c.b.cast(x, float_dtype(c.b.dtype(x)));
  NodeId reach = c.b.reduce(ReduceOp::kMax, c.b.unary(UnaryOp::kAbs, wide), {last}, true);
  NodeId scale = div(c, maximum(c, reach, 1e-5), number_like(c, reach, 127));
  c.result(scale, 0);
  c.result(mul(c, scale, 0.0), 1);
}

// One scale and zero point in [-128, 127] for each row of the last axis. The zero point comes from
// the end of the range whose rounding error is smaller.
void choose_per_token_asymmetric(Context& c) {
  constexpr double kLow = -128, kHigh = 127, kEpsilon = 1.1920928955078125e-07;
  NodeId x = float_tensor(c, "input");
  Range range = range_of(c, x, {c.b.rank(x) - 1});
  NodeId scale = div(c, sub(c, range.high, range.low), number_like(c, x, kHigh - kLow));
  scale = maximum(c, scale, kEpsilon);
  NodeId low = div(c, range.low, scale), high = div(c, range.high, scale);
  NodeId errors = add(c, add(c, low, kLow), add(c, high, kHigh));
  NodeId zero =
      c.b.select(c.b.binary(BinaryOp::kLess, number_like(c, errors, 0), errors),
                 sub(c, number_like(c, low, kLow), low), sub(c, number_like(c, high, kHigh), high));
  zero = minimum(c, maximum(c, zero, kLow), kHigh);
  c.result(scale, 0);
  c.result(rounded_to_whole(c, zero), 1);
}

// ---- Quantisation-aware training --------------------------------------------------------------

// The values after a round trip, and a mask of those that were not clamped.
void fake_quantize(Context& c, NodeId x, const Mapping& m) {
  NodeId q = whole_numbers(c, x, m);
  NodeId kept = within_limits(c, q);
  NodeId value = restored(c, kept, m);
  NodeId inside = c.b.binary(BinaryOp::kEqual, q, kept);
  if (c.has("fake_quant_enabled")) {
    NodeId on = truth(c, number_argument(c, "fake_quant_enabled", DType::kInt64));
    value = c.b.select(on, value, c.b.cast(x, c.b.dtype(value)));
    inside = c.b.binary(BinaryOp::kOr, inside, logical_not(c, on));
  }
  c.result(value, 0);
  if (c.wants_output(1)) c.result(inside, 1);
}

void fake_quantize_tensor(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId scale = number_argument(c, "scale", c.b.dtype(x));
  fake_quantize(c, x,
                {scale, inverse_of(c, scale), number_argument(c, "zero_point", c.b.dtype(x))});
}

void fake_quantize_channels(Context& c) {
  fake_quantize(c, float_tensor(c, "self"), of_channels(c, "self", "scale", "zero_point"));
}

void fake_quantize_backward(Context& c) {
  NodeId grad = float_tensor(c, "grad");
  c.result(c.b.select(truth(c, c.tensor("mask")), grad, number_like(c, grad, 0)));
}

}  // namespace

void add_quantization_operators(OperatorTable* t) {
  t->add("quantized_decomposed.quantize_per_tensor",
         [](Context& c) { quantize(c, of_numbers(c, DType::kFloat32)); });
  t->add("quantized_decomposed.dequantize_per_tensor", [](Context& c) {
    DType d = compute_dtype(c.out_dtype());
    dequantize(c, of_numbers(c, d));
  });
  t->add("quantized_decomposed.quantize_per_channel",
         [](Context& c) { quantize(c, of_channels(c, "input", "scales", "zero_points")); });
  t->add("quantized_decomposed.dequantize_per_channel",
         [](Context& c) { dequantize(c, of_channels(c, "input", "scales", "zero_points")); });
  t->add("quantized_decomposed.quantize_per_token",
         [](Context& c) { c.result(quantized_at_once(c, c.tensor("input"), of_tokens(c))); });
  t->add("quantized_decomposed.dequantize_per_token",
         [](Context& c) { dequantize(c, of_tokens(c)); });
  t->add("quantized_decomposed.quantize_per_channel_group", quantize_groups);
  t->add("quantized_decomposed.dequantize_per_channel_group", dequantize_groups);
  t->add("quantized_decomposed.choose_qparams", [](Context& c) { choose_parameters(c, false); });
  t->add("quantized_decomposed.choose_qparams_symmetric",
         [](Context& c) { choose_parameters(c, true); });
  t->add("quantized_decomposed.choose_qparams_per_token", choose_per_token);
  for (const char* name : {"quantized_decomposed.choose_qparams_per_token_asymmetric",
                           "quantized_decomposed._choose_qparams_per_token_asymmetric_impl"}) {
    t->add(name, choose_per_token_asymmetric);
  }
  t->add("quantized_decomposed.fake_quant_per_channel", [](Context& c) {
    fake_quantize(c, float_tensor(c, "input"), of_channels(c, "input", "scales", "zero_points"));
  });
  t->add("quantized_decomposed.convert_element_type",
         [](Context& c) { c.result(c.tensor("input")); });
  for (const char* name :
       {"aten.fake_quantize_per_tensor_affine", "aten.fake_quantize_per_tensor_affine_cachemask",
        "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams"}) {
    t->add(name, fake_quantize_tensor);
  }
  for (const char* name : {"aten.fake_quantize_per_channel_affine",
                           "aten.fake_quantize_per_channel_affine_cachemask"}) {
    t->add(name, fake_quantize_channels);
  }
  for (const char* name : {"aten.fake_quantize_per_tensor_affine_cachemask_backward",
                           "aten.fake_quantize_per_channel_affine_cachemask_backward"}) {
    t->add(name, fake_quantize_backward);
  }
}

}  // namespace clients
