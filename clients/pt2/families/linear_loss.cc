// A linear layer with its cross entropy as one operator, which PyTorch computes in pieces of the
// batch to keep the logits small, and whose gradients it computes in the forward pass.
#include <limits>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

struct LinearLoss {
  NodeId x = 0;        // (batch, features)
  NodeId matrix = 0;   // (classes, features)
  NodeId logits = 0;   // (batch, classes), less the row's greatest
  NodeId shares = 0;   // softmax's denominators, (batch, 1)
  NodeId wanted = 0;   // how much of each class: weighted, (batch, classes)
  NodeId per_row = 0;  // the sum of `wanted` along a row, (batch, 1)
};

// The probability of each class that the target asks for, by the class's weight.
NodeId wanted_of(Context& c, NodeId logits) {
  NodeId target = c.tensor("target");
  DType d = c.b.dtype(logits);
  NodeId wanted = 0;
  if (common::is_float(c.b.dtype(target))) {
    wanted = c.b.cast(target, d);
  } else {
    int64_t ignored = c.integer("ignore_index", -100);
    Expr classes = c.b.size(logits, 1);
    c.check_index(target, {classes, false, ignored});
    NodeId column = positions(c, classes, 1, 2, c.b.dtype(target));
    NodeId label = c.b.unsqueeze(target, 1);
    NodeId skipped =
        c.b.binary(BinaryOp::kEqual, label, c.b.scalar_int(c.b.dtype(target), ignored));
    NodeId own = c.b.binary(BinaryOp::kAnd, c.b.binary(BinaryOp::kEqual, column, label),
                            logical_not(c, skipped));
    wanted = c.b.cast(own, d);
  }
  if (!c.has("weight")) return wanted;
  return mul(c, wanted, c.b.unsqueeze(c.b.cast(c.tensor("weight"), d), 0));
}

LinearLoss linear_loss(Context& c) {
  if (c.number("label_smoothing", 0) != 0) c.refuse("it takes no smoothed labels");
  LinearLoss out;
  out.x = float_tensor(c, "input");
  out.matrix = float_tensor(c, "linear_weight");
  if (c.b.rank(out.x) != 2 || c.b.rank(out.matrix) != 2) c.refuse("it takes matrices");
  NodeId logits = matmul(c, out.x, c.b.permute(out.matrix, {1, 0}));
  if (c.has("linear_bias"))
    logits = add(c, logits, c.b.unsqueeze(float_tensor(c, "linear_bias"), 0));
  logits = sub(c, logits, c.b.reduce(ReduceOp::kMax, logits, {1}, true));
  out.logits = logits;
  out.shares = c.b.reduce(ReduceOp::kSum, c.b.unary(UnaryOp::kExp, logits), {1}, true);
  out.wanted = wanted_of(c, logits);
  out.per_row = c.b.reduce(ReduceOp::kSum, out.wanted, {1}, true);
  return out;
}

// (batch)
NodeId row_losses(Context& c, const LinearLoss& l) {
  NodeId certain = c.b.reduce(ReduceOp::kSum, mul(c, l.wanted, l.logits), {1});
  NodeId all = mul(c, l.per_row, c.b.unary(UnaryOp::kLog, l.shares));
  return sub(c, c.b.squeeze(all, 1), certain);
}

void reduced_loss(Context& c) {
  LinearLoss l = linear_loss(c);
  NodeId total = c.b.reduce(ReduceOp::kSum, row_losses(c, l), {0});
  std::string reduction = c.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum") c.refuse("unknown reduction");
  DType d = c.b.dtype(total);
  NodeId scale = c.b.scalar(d, 1);
  if (reduction == "mean") {
    bool probabilities = common::is_float(c.b.dtype(c.tensor("target")));
    NodeId divisor = probabilities ? c.b.size_scalar(d, c.b.size(l.x, 0))
                                   : c.b.reduce(ReduceOp::kSum, l.per_row, {0, 1});
    scale = div(c, scale, divisor);
    // Without a label that counts there is no mean.
    NodeId none = c.b.binary(BinaryOp::kEqual, divisor, number_like(c, divisor, 0));
    scale =
        c.b.select(none, number_like(c, scale, std::numeric_limits<double>::quiet_NaN()), scale);
  }
  c.result(mul(c, total, scale));
  NodeId softmax = div(c, c.b.unary(UnaryOp::kExp, l.logits), l.shares);
  NodeId slope = mul(c, sub(c, mul(c, softmax, l.per_row), l.wanted), scale);
  auto give = [&](size_t k, std::string_view flag, auto gradient) {
    if (!c.wants_output(k)) return;
    if (c.flag(flag, false)) return c.result(gradient(), k);
    c.set(c.b.full(c.out_dtype(k), c.out_shape(k), 0), k);
  };
  give(1, "compute_input_grad", [&] { return matmul(c, slope, l.matrix); });
  give(2, "compute_linear_weight_grad", [&] { return matmul(c, c.b.permute(slope, {1, 0}), l.x); });
  give(3, "compute_linear_bias_grad", [&] { return c.b.reduce(ReduceOp::kSum, slope, {0}); });
}

}  // namespace

void add_linear_loss_operators(OperatorTable* t) {
  t->add("torch_nn._linear_cross_entropy_batch_chunked", reduced_loss);
  t->add("torch_nn._linear_cross_entropy_batch_chunked_no_reduction",
         [](Context& c) { c.result(row_losses(c, linear_loss(c))); });
}

}  // namespace clients
