// Arithmetic that several operator families share: type promotion, means, exponentials.
#pragma once

#include <optional>
#include <vector>

#include "clients/pt2/aten/translate_context.h"

namespace clients {

// A tensor or a Python number.
struct Operand {
  std::optional<NodeId> node;
  bool is_number = false;  // `node` is a number that only the data knows
  Scalar scalar;
};
Operand operand(Context& c, std::string_view name);
Operand operand(NodeId node);

// PyTorch's result type: tensors with axes decide, then scalar tensors of a higher category
// (bool < integer < float), then numbers of a higher category.
DType promote(Context& c, const std::vector<Operand>& operands);
// The dtype arithmetic is done in: float32 for the half types, else the dtype itself.
DType compute_dtype(DType dtype);
// As compute_dtype, but float32 for integers and booleans.
DType float_dtype(DType dtype);

// Rounded as if the node's result were of this value, where operators that PyTorch runs one after
// the other round each time: to the result's half type and back.
NodeId rounded(Context& c, NodeId x);

// A number as an element of `dtype` holds it.
double rounded_number(DType dtype, double value);
// The operand in the dtype that arithmetic on `promoted` is done in, a number rounded to `promoted`
// first: how PyTorch adds and compares, whereas it multiplies by numbers as they are.
NodeId as_element(Context& c, const Operand& operand, DType promoted);

// The operand in `dtype`, a number as a scalar.
NodeId as(Context& c, const Operand& operand, DType dtype);
// The named argument cast to where arithmetic on it happens (float_dtype).
NodeId float_tensor(Context& c, std::string_view name);
// A number in x's dtype.
NodeId number_like(Context& c, NodeId x, double value);

NodeId add(Context& c, NodeId a, NodeId b);
NodeId sub(Context& c, NodeId a, NodeId b);
NodeId mul(Context& c, NodeId a, NodeId b);
NodeId div(Context& c, NodeId a, NodeId b);
NodeId add(Context& c, NodeId a, double b);
NodeId mul(Context& c, NodeId a, double b);
// a + b for any dtype; logical or for booleans.
NodeId any_add(Context& c, NodeId a, NodeId b);
NodeId any_mul(Context& c, NodeId a, NodeId b);
NodeId less(Context& c, NodeId a, double b);
NodeId maximum(Context& c, NodeId a, double b);
NodeId minimum(Context& c, NodeId a, double b);
// x is a bool or becomes one: x != 0.
NodeId truth(Context& c, NodeId x);
NodeId logical_not(Context& c, NodeId x);

// Over `axes` of a float32 or float64 value, kept with size 1.
NodeId mean(Context& c, NodeId x, const std::vector<int>& axes);
// The number of elements along `axes` as a scalar of `dtype`.
NodeId count(Context& c, NodeId x, const std::vector<int>& axes, DType dtype);
// The p-norm over `axes`, for any p: 0 counts nonzeros, infinities take the extremes. keep: the
// axes stay with size 1.
NodeId norm(Context& c, NodeId x, double p, const std::vector<int>& axes, bool keep = false);
NodeId softmax(Context& c, NodeId x, int axis);
NodeId log_softmax(Context& c, NodeId x, int axis);
NodeId gelu(Context& c, NodeId x, bool tanh_form);
NodeId silu(Context& c, NodeId x);

// A vector of one number for each channel, in x's dtype, to broadcast over x's (batch, channel,
// ...).
NodeId per_channel(Context& c, NodeId vector, NodeId x);

// Positions along `axis`, shaped to broadcast against a value of rank `rank`.
NodeId positions(Context& c, const Expr& length, int axis, int rank, DType dtype = DType::kInt64);
NodeId flatten(Context& c, NodeId x);
// Coordinates that read the loop index on every axis but one, which reads index tensor 0.
std::vector<common::Coordinate> along(int rank, int axis);
// Of every position along the last axis of an int64 tensor of this shape: how many of `places`
// (on the same leading axes) lie at or before it. Ends of pieces number the pieces.
NodeId passed(Context& c, NodeId places, const Shape& shape);
// Row and column of each element on one side of a diagonal, row by row; `number` is how many there
// are.
struct Pairs {
  NodeId row = 0;
  NodeId column = 0;
};
Pairs triangle(Context& c, int64_t rows, int64_t columns, int64_t offset, bool lower,
               const Expr& number);
// a[..., m, k] times b[..., k, n] with one or two axes on either side, as torch.matmul.
NodeId matmul(Context& c, NodeId a, NodeId b);

}  // namespace clients
