// Scaled dot-product attention in the forms that exports contain.
#include <cmath>
#include <limits>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/random_stream.h"
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

double minus_infinity() { return -std::numeric_limits<double>::infinity(); }

NodeId transposed(Context& c, NodeId x) {
  std::vector<int> order;
  for (int k = 0; k < c.b.rank(x); ++k) order.push_back(k);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.b.permute(x, order);
}

// softmax(query key^T * scale + mask), and what it is made of.
struct Weights {
  NodeId query = 0, key = 0, value = 0;  // with as many heads
  NodeId scale = 0;
  NodeId scores = 0;
  NodeId weights = 0;
};

NodeId scale_of(Context& c, const Expr& width, DType d) {
  if (c.has("scale")) return as(c, operand(c, "scale"), d);
  if (width.is_constant()) {
    return c.b.scalar(d, 1 / std::sqrt(static_cast<double>(width.constant())));
  }
  return c.b.unary(UnaryOp::kRsqrt, c.b.size_scalar(d, width));
}

// Whether key and value have fewer heads than the query. Fused forms find it in the shapes.
bool has_grouped_heads(Context& c, NodeId query, NodeId key) {
  if (c.flag("enable_gqa", false)) return true;
  if (c.b.rank(query) != 4 || c.b.rank(key) != 4) return false;
  Expr queries = c.b.size(query, 1);
  Expr keys = c.b.size(key, 1);
  return queries.is_constant() && keys.is_constant() && keys.constant() > 1 &&
         queries.constant() > keys.constant();
}

Weights weights_of(Context& c) {
  Weights w;
  w.query = float_tensor(c, "query");
  w.key = float_tensor(c, "key");
  w.value = float_tensor(c, "value");
  if (c.b.rank(w.query) < 2 || c.b.rank(w.key) < 2 || c.b.rank(w.value) < 2) {
    c.refuse("it takes matrices");
  }
  const Sizes q_shape = c.b.shape(w.query);
  if (has_grouped_heads(c, w.query, w.key)) {
    const Expr& heads = q_shape[q_shape.size() - 3];
    w.key = repeat_heads(c, w.key, heads);
    w.value = repeat_heads(c, w.value, heads);
  }
  w.scale = scale_of(c, q_shape.back(), c.b.dtype(w.query));
  w.scores = mul(c, matmul(c, w.query, transposed(c, w.key)), w.scale);
  NodeId hidden = number_like(c, w.scores, minus_infinity());
  if (c.flag("is_causal", false)) {
    Sizes shape = c.b.shape(w.scores);
    NodeId seen = causal_mask(c, shape[shape.size() - 2], shape.back());
    w.scores = c.b.select(seen, w.scores, hidden);
  }
  std::string_view mask_name = c.has("attn_mask") ? "attn_mask" : "attn_bias";
  bool may_hide_all = false;
  if (auto mask = c.optional_tensor(mask_name)) {
    if (!c.b.broadcast(c.b.shape(w.scores), c.b.shape(*mask))) c.refuse("the mask does not fit");
    if (c.b.dtype(*mask) == DType::kBool) {
      w.scores = c.b.select(*mask, w.scores, hidden);
      may_hide_all = true;
    } else {
      w.scores = add(c, w.scores, c.b.cast(*mask, c.b.dtype(w.scores)));
    }
  }
  int row = c.b.rank(w.scores) - 1;
  w.weights = softmax(c, w.scores, row);
  if (may_hide_all) {
    // A row without a visible key gives zeros.
    NodeId top = c.b.reduce(ReduceOp::kMax, w.scores, {row}, true);
    NodeId none = c.b.binary(BinaryOp::kEqual, top, hidden);
    w.weights = c.b.select(none, number_like(c, w.weights, 0), w.weights);
  }
  return w;
}

void attention(Context& c) {
  Weights w = weights_of(c);
  NodeId used = w.weights;
  if (double p = c.number("dropout_p", 0); p != 0) {
    used = scaled_where_kept(c, used, random_kept(c, c.b.shape(used), p), p);
  }
  c.result(matmul(c, used, w.value));
  // Fused forms also give the logarithm of each row's sum.
  if (!c.wants_output(1) || c.out_shape(1).size() + 1 != c.b.shape(w.scores).size()) return;
  std::vector<int> row = {c.b.rank(w.scores) - 1};
  NodeId top = c.b.reduce(ReduceOp::kMax, w.scores, row, true);
  NodeId sum =
      c.b.reduce(ReduceOp::kSum, c.b.unary(UnaryOp::kExp, sub(c, w.scores, top)), row, true);
  c.result(c.b.squeeze(add(c, c.b.unary(UnaryOp::kLog, sum), top), row[0]), 1);
}

// Summed over the axes along which a tensor of `shape` was broadcast, repeated heads included.
NodeId sum_to(Context& c, NodeId x, const Shape& shape) {
  while (c.b.rank(x) > static_cast<int>(shape.size())) x = c.b.reduce(ReduceOp::kSum, x, {0});
  for (int k = 0; k < c.b.rank(x); ++k) {
    const Expr& wanted = shape[static_cast<size_t>(k)];
    if (c.b.simplify(c.b.size(x, k) - wanted).is_constant(0)) continue;
    auto times = common::exact_div(c.b.size(x, k), wanted);
    if (!times) c.refuse("the gradient has another shape");
    Shape split = c.b.shape(x);
    split[static_cast<size_t>(k)] = wanted;
    split.insert(split.begin() + k + 1, *times);
    x = c.b.reduce(ReduceOp::kSum, c.b.reshape(x, split), {k + 1});
  }
  return x;
}

// Gradients to query, key, value and the mask. The weights are computed as the forward pass
// computes them, so that one graph with both passes has them once. In half precision PyTorch rounds
// what its products multiply: weights and gradients of scores.
void attention_backward(Context& c) {
  if (c.number("dropout_p", 0) != 0) {
    c.refuse("its dropout is drawn inside of the forward pass; export with the math backend");
  }
  Weights w = weights_of(c);
  NodeId gradient = float_tensor(c, c.has("grad_out") ? "grad_out" : "grad_out_");
  int row = c.b.rank(w.scores) - 1;
  NodeId to_weights = matmul(c, gradient, transposed(c, w.value));
  NodeId product = mul(c, gradient, float_tensor(c, "out"));
  NodeId sum = c.b.reduce(ReduceOp::kSum, product, {row}, true);
  NodeId to_scores = rounded(c, mul(c, w.weights, sub(c, to_weights, sum)));
  auto give = [&](NodeId x, size_t k) {
    if (c.wants_output(k)) c.result(sum_to(c, x, c.out_shape(k)), k);
  };
  give(mul(c, matmul(c, to_scores, w.key), w.scale), 0);
  give(mul(c, matmul(c, transposed(c, to_scores), w.query), w.scale), 1);
  give(matmul(c, transposed(c, rounded(c, w.weights)), gradient), 2);
  give(to_scores, 3);
}

}  // namespace

void add_attention_operators(OperatorTable* t) {
  t->add("aten.scaled_dot_product_attention", attention);
  t->add("aten._scaled_dot_product_flash_attention_for_cpu", attention);
  t->add("aten._scaled_dot_product_efficient_attention", attention);
  t->add("aten._scaled_dot_product_flash_attention", attention);
  t->add("aten._scaled_dot_product_cudnn_attention", attention);
  for (const char* name : {"aten._scaled_dot_product_flash_attention_for_cpu_backward",
                           "aten._scaled_dot_product_efficient_attention_backward",
                           "aten._scaled_dot_product_flash_attention_backward",
                           "aten._scaled_dot_product_cudnn_attention_backward"}) {
    t->add(name, attention_backward);
  }
}

}  // namespace clients
