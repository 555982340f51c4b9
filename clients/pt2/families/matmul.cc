// Matrix products and their relatives, as multiply and sum in float32 (or the operands' own type).
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// The named operand in the type products are accumulated in.
NodeId factor(Context& c, std::string_view name) {
  NodeId x = c.tensor(name);
  if (c.b.dtype(x) == DType::kBool) c.refuse("products of booleans are not supported");
  return c.b.cast(x, compute_dtype(c.b.dtype(x)));
}

NodeId product(Context& c, std::string_view first, std::string_view second) {
  NodeId a = factor(c, first);
  NodeId b = factor(c, second);
  if (c.b.dtype(a) != c.b.dtype(b)) c.refuse("the operands differ in dtype");
  return matmul(c, a, b);
}

NodeId transposed(Context& c, NodeId x) {
  std::vector<int> order;
  for (int k = 0; k < c.b.rank(x); ++k) order.push_back(k);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.b.permute(x, order);
}

NodeId checked_add(Context& c, NodeId a, NodeId b) {
  if (!c.b.broadcast(c.b.shape(a), c.b.shape(b))) c.refuse("the operands do not broadcast");
  return add(c, a, b);
}

void linear(Context& c) {
  NodeId x = factor(c, "input");
  NodeId weight = factor(c, "weight");
  if (c.b.dtype(x) != c.b.dtype(weight)) c.refuse("the operands differ in dtype");
  NodeId turned = c.b.rank(weight) == 1 ? weight : transposed(c, weight);
  NodeId out = matmul(c, x, turned);
  if (c.has("bias")) out = checked_add(c, out, c.b.cast(c.tensor("bias"), c.b.dtype(out)));
  c.result(out);
}

// Products of int8 matrices, summed in int32.
void int8_product(Context& c) {
  NodeId a = c.b.cast(c.tensor("self"), DType::kInt32);
  c.result(matmul(c, a, c.b.cast(c.tensor("mat2"), DType::kInt32)));
}

// x times int8 weights (outputs, inputs), each row of which has a scale.
void int8_linear(Context& c) {
  NodeId x = factor(c, "self");
  NodeId weight = c.b.cast(c.tensor("mat2"), c.b.dtype(x));
  NodeId scales = c.b.cast(c.tensor("scales"), c.b.dtype(x));
  c.result(mul(c, matmul(c, x, transposed(c, weight)), scales));
}

// beta * self + alpha * product
void add_product(Context& c, NodeId value) {
  DType d = c.b.dtype(value);
  auto scaled = [&](NodeId x, std::string_view name) {
    if (!c.has(name)) return x;
    Scalar scalar = c.scalar(name);
    if (scalar.kind != Scalar::Kind::kFloat && scalar.integer.is_constant(1)) return x;
    if (scalar.kind == Scalar::Kind::kFloat && scalar.number == 1) return x;
    return mul(c, x, as(c, operand(c, name), d));
  };
  value = scaled(value, "alpha");
  // With beta 0 the addend is ignored, NaN included.
  if (c.has("beta") && c.scalar("beta").value() == 0) return c.result(value);
  NodeId base = scaled(c.b.cast(c.tensor("self"), d), "beta");
  c.result(checked_add(c, base, value));
}

// In half precision PyTorch rounds after each matrix of the batch.
void addbmm_rounded(Context& c, NodeId products, int64_t batch) {
  DType d = c.b.dtype(products);
  auto factor = [&](std::string_view name) { return as(c, operand(c, name), d); };
  NodeId sum = c.b.cast(c.tensor("self"), d);
  if (c.has("beta")) {
    bool ignored = c.scalar("beta").value() == 0;
    sum = ignored ? number_like(c, sum, 0) : mul(c, sum, factor("beta"));
  }
  if (c.has("alpha")) products = mul(c, products, factor("alpha"));
  for (int64_t k = 0; k < batch; ++k) {
    NodeId one = c.b.squeeze(c.b.slice(products, 0, k, 1), 0);
    sum = rounded(c, add(c, sum, one));
  }
  c.result(sum);
}

void addbmm(Context& c) {
  NodeId value = product(c, "batch1", "batch2");
  constexpr int64_t kMaxRounded = 16;
  Expr batch = c.b.size(value, 0);
  bool few = batch.is_constant() && batch.constant() > 0 && batch.constant() <= kMaxRounded;
  if (few && common::is_half(c.out_dtype())) return addbmm_rounded(c, value, batch.constant());
  add_product(c, c.b.reduce(ReduceOp::kSum, value, {0}));
}

NodeId outer_product(Context& c, std::string_view first, std::string_view second) {
  NodeId a = c.tensor(first);
  NodeId b = c.tensor(second);
  DType d = compute_dtype(promote(c, {operand(a), operand(b)}));
  if (c.b.rank(a) != 1 || c.b.rank(b) != 1) c.refuse("it takes two vectors");
  return any_mul(c, c.b.unsqueeze(c.b.cast(a, d), 1), c.b.unsqueeze(c.b.cast(b, d), 0));
}

void addr(Context& c) {
  NodeId value = outer_product(c, "vec1", "vec2");
  if (c.b.dtype(value) == DType::kBool) {
    return c.result(any_add(c, c.b.cast(c.tensor("self"), DType::kBool), value));
  }
  if (!common::is_half(c.out_dtype())) return add_product(c, value);
  // In half precision each of beta * self + (alpha * vec1) * vec2 is rounded.
  DType d = c.b.dtype(value);
  auto factor = [&](std::string_view name) {
    return c.has(name) ? as_element(c, operand(c, name), c.out_dtype()) : c.b.scalar(d, 1);
  };
  NodeId column = rounded(c, mul(c, c.b.cast(c.tensor("vec1"), d), factor("alpha")));
  NodeId row = c.b.cast(c.tensor("vec2"), d);
  value = rounded(c, mul(c, c.b.unsqueeze(column, 1), c.b.unsqueeze(row, 0)));
  if (c.has("beta") && c.scalar("beta").value() == 0) return c.result(value);
  c.result(
      checked_add(c, rounded(c, mul(c, c.b.cast(c.tensor("self"), d), factor("beta"))), value));
}

void dot(Context& c, std::string_view other) {
  NodeId a = factor(c, "self");
  NodeId b = factor(c, other);
  if (c.b.rank(a) != 1 || c.b.shape(a) != c.b.shape(b)) c.refuse("it takes two vectors");
  c.result(c.b.reduce(ReduceOp::kSum, mul(c, a, b), {0}));
}

// One label of an einsum equation for each axis; '.' stands for an axis of the ellipsis.
struct Term {
  std::string labels;
  NodeId value = 0;
};

std::string spell_out(Context& c, std::string text, int rank, int ellipsis_rank) {
  size_t at = text.find("...");
  if (at == std::string::npos) {
    if (rank >= 0 && static_cast<int>(text.size()) != rank) c.refuse("the equation does not fit");
    return text;
  }
  int missing = rank >= 0 ? rank - static_cast<int>(text.size()) + 3 : ellipsis_rank;
  if (missing < 0 || missing > 10) c.refuse("the equation does not fit");
  // Ellipsis axes are aligned at their end, so they are numbered from there.
  std::string axes;
  for (int k = missing; k-- > 0;) axes += static_cast<char>('0' + k);
  return text.replace(at, 3, axes);
}

// The operand with its axes in the order of `labels`, repeated labels on the diagonal.
NodeId aligned(Context& c, const Term& term, const std::string& labels) {
  Sizes shape = c.b.shape(term.value);
  View view;
  for (char label : labels) {
    size_t at = term.labels.find(label);
    view.shape.push_back(at == std::string::npos ? Expr(1) : shape[at]);
  }
  for (char label : term.labels) {
    view.index.push_back(Expr::index(static_cast<int>(labels.find(label))));
  }
  return c.b.view(term.value, view);
}

void einsum(Context& c) {
  std::string equation = c.text("equation", "");
  std::erase(equation, ' ');
  std::vector<NodeId> operands = c.tensors("tensors");
  size_t arrow = equation.find("->");
  std::string inputs = equation.substr(0, arrow);
  std::vector<Term> terms;
  DType d = compute_dtype(c.out_dtype());
  int ellipsis = 0;
  for (size_t start = 0; start <= inputs.size();) {
    size_t comma = std::min(inputs.find(',', start), inputs.size());
    if (terms.size() == operands.size()) c.refuse("the equation has another number of operands");
    NodeId value = c.b.cast(operands[terms.size()], d);
    std::string text = inputs.substr(start, comma - start);
    std::string labels = spell_out(c, text, c.b.rank(value), 0);
    if (text.find("...") != std::string::npos) {
      ellipsis = std::max(ellipsis, static_cast<int>(labels.size() + 3 - text.size()));
    }
    terms.push_back({labels, value});
    start = comma + 1;
  }
  if (terms.size() != operands.size()) c.refuse("the equation has another number of operands");
  std::string all;
  for (const Term& term : terms) {
    for (char label : term.labels) {
      if (all.find(label) == std::string::npos) all += label;
    }
  }
  std::string out;
  if (arrow != std::string::npos) {
    out = spell_out(c, equation.substr(arrow + 2), -1, ellipsis);
  } else {
    for (char label : all) {
      size_t uses = 0;
      for (const Term& term : terms) {
        uses += static_cast<size_t>(std::count(term.labels.begin(), term.labels.end(), label));
      }
      if (uses == 1 || (label >= '0' && label <= '9')) out += label;
    }
    std::sort(out.begin(), out.end());
  }
  std::string order = out;
  for (char label : all) {
    if (order.find(label) == std::string::npos) order += label;
  }
  NodeId value = aligned(c, terms[0], order);
  for (size_t i = 1; i < terms.size(); ++i) {
    NodeId next = aligned(c, terms[i], order);
    if (!c.b.broadcast(c.b.shape(value), c.b.shape(next))) c.refuse("the operands do not fit");
    value = any_mul(c, value, next);
  }
  std::vector<int> summed;
  for (size_t k = out.size(); k < order.size(); ++k) summed.push_back(static_cast<int>(k));
  c.result(c.b.reduce(ReduceOp::kSum, value, summed));
}

}  // namespace

void add_matmul_operators(OperatorTable* t) {
  t->add("aten._int_mm", int8_product);
  t->add("aten._weight_int8pack_mm", int8_linear);
  t->add("aten.linear", linear);
  t->add("aten.mm", [](Context& c) { c.result(product(c, "self", "mat2")); });
  t->add("aten.bmm", [](Context& c) { c.result(product(c, "self", "mat2")); });
  t->add("aten.mv", [](Context& c) { c.result(product(c, "self", "vec")); });
  t->add("aten.matmul", [](Context& c) { c.result(product(c, "self", "other")); });
  t->add("aten.addmm", [](Context& c) { add_product(c, product(c, "mat1", "mat2")); });
  t->add("aten.addmv", [](Context& c) { add_product(c, product(c, "mat", "vec")); });
  t->add("aten.baddbmm", [](Context& c) { add_product(c, product(c, "batch1", "batch2")); });
  t->add("aten.addbmm", addbmm);
  t->add("aten.addr", addr);
  t->add("aten.outer", [](Context& c) { c.result(outer_product(c, "self", "vec2")); });
  t->add("aten.dot", [](Context& c) { dot(c, "tensor"); });
  t->add("aten.vdot", [](Context& c) { dot(c, "other"); });
  t->add("aten.einsum", einsum);
}

}  // namespace clients
