// Scaled dot-product attention in the forms that exports contain.
#include <cmath>
#include <limits>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// Repeats the key's or value's heads so that they are as many as the query's.
NodeId repeat_heads(Context& c, NodeId x, const Expr& heads) {
  Sizes shape = c.b.shape(x);
  if (shape.size() < 3) c.refuse("grouped heads need a head axis");
  size_t axis = shape.size() - 3;
  auto times = common::exact_div(heads, shape[axis]);
  if (!times) c.refuse("the heads are not a multiple");
  if (times->is_constant(1)) return x;
  View view = common::view_identity(shape);
  view.shape[axis] = heads;
  view.index[axis] = common::floor_div(Expr::index(static_cast<int>(axis)), *times);
  return c.b.view(x, view);
}

NodeId causal_mask(Context& c, const Expr& rows, const Expr& columns) {
  return c.b.binary(BinaryOp::kLessEqual, positions(c, columns, 1, 2), positions(c, rows, 0, 2));
}

void attention(Context& c) {
  NodeId query = float_tensor(c, "query");
  NodeId key = float_tensor(c, "key");
  NodeId value = float_tensor(c, "value");
  if (c.number("dropout_p", 0) != 0) c.refuse("dropout is random; export the model in eval mode");
  int rank = c.b.rank(query);
  if (rank < 2 || c.b.rank(key) < 2 || c.b.rank(value) < 2) c.refuse("it takes matrices");
  const Sizes q_shape = c.b.shape(query);
  if (c.flag("enable_gqa", false)) {
    const Expr& heads = q_shape[q_shape.size() - 3];
    key = repeat_heads(c, key, heads);
    value = repeat_heads(c, value, heads);
  }
  const Expr& width = q_shape.back();
  DType d = c.b.dtype(query);
  NodeId scale = 0;
  if (c.has("scale")) {
    scale = as(c, operand(c, "scale"), d);
  } else if (width.is_constant()) {
    scale = c.b.scalar(d, 1 / std::sqrt(static_cast<double>(width.constant())));
  } else {
    scale = c.b.unary(UnaryOp::kRsqrt, c.b.size_scalar(d, width));
  }
  std::vector<int> order;
  for (int k = 0; k < c.b.rank(key); ++k) order.push_back(k);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  NodeId scores = mul(c, matmul(c, query, c.b.permute(key, order)), scale);
  double minus_infinity = -std::numeric_limits<double>::infinity();
  NodeId hidden = number_like(c, scores, minus_infinity);
  if (c.flag("is_causal", false)) {
    Sizes shape = c.b.shape(scores);
    scores = c.b.select(causal_mask(c, shape[shape.size() - 2], shape.back()), scores, hidden);
  }
  std::string_view mask_name = c.has("attn_mask") ? "attn_mask" : "attn_bias";
  bool may_hide_all = false;
  if (auto mask = c.optional_tensor(mask_name)) {
    if (!c.b.broadcast(c.b.shape(scores), c.b.shape(*mask))) c.refuse("the mask does not fit");
    if (c.b.dtype(*mask) == DType::kBool) {
      scores = c.b.select(*mask, scores, hidden);
      may_hide_all = true;
    } else {
      scores = add(c, scores, c.b.cast(*mask, c.b.dtype(scores)));
    }
  }
  NodeId weights = softmax(c, scores, c.b.rank(scores) - 1);
  if (may_hide_all) {
    // A row without a visible key gives zeros.
    NodeId top = c.b.reduce(ReduceOp::kMax, scores, {c.b.rank(scores) - 1}, true);
    NodeId none = c.b.binary(BinaryOp::kEqual, top, hidden);
    weights = c.b.select(none, number_like(c, weights, 0), weights);
  }
  c.result(matmul(c, weights, value));
  // Fused forms also give the logarithm of each row's sum.
  if (!c.wants_output(1) || c.out_shape(1).size() + 1 != c.b.shape(scores).size()) return;
  std::vector<int> row = {c.b.rank(scores) - 1};
  NodeId top = c.b.reduce(ReduceOp::kMax, scores, row, true);
  NodeId sum = c.b.reduce(ReduceOp::kSum, c.b.unary(UnaryOp::kExp, sub(c, scores, top)), row, true);
  c.result(c.b.squeeze(add(c, c.b.unary(UnaryOp::kLog, sum), top), row[0]), 1);
}

}  // namespace

void add_attention_operators(OperatorTable* t) {
  t->add("aten.scaled_dot_product_attention", attention);
  t->add("aten._scaled_dot_product_flash_attention_for_cpu", attention);
  t->add("aten._scaled_dot_product_efficient_attention", attention);
  t->add("aten._scaled_dot_product_flash_attention", attention);
  t->add("aten._scaled_dot_product_cudnn_attention", attention);
}

}  // namespace clients
