// Operators that compute nothing: aliases, assertions, modes, and arithmetic on sizes.
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

void same(Context& c) { c.alias("self"); }

void nothing(Context&) {}

void size_of(Context& c) {
  int rank = c.b.rank(c.any_tensor("self"));
  int axis = c.axis("dim", rank);
  c.set_size(c.b.shape(c.any_tensor("self"))[static_cast<size_t>(axis)]);
}

void element_number(Context& c) { c.set_size(common::element_count(c.b.shape(c.tensor("self")))); }

void stride_of(Context& c) {
  const TensorMeta& layout = c.layout("self");
  int axis = c.axis("dim", static_cast<int>(layout.strides.size()));
  if (layout.strides.empty()) c.refuse("it takes a tensor with axes");
  c.set_size(c.expr_of(layout.strides[static_cast<size_t>(axis)]));
}

void storage_offset_of(Context& c) { c.set_size(c.expr_of(c.layout("self").storage_offset)); }

// What the exporter saw: row-major without gaps, axes of one element aside.
void is_contiguous(Context& c) {
  const TensorMeta& layout = c.layout("self");
  Expr expected = 1;
  bool contiguous = true;
  for (size_t k = layout.sizes.size(); k-- > 0;) {
    Expr size = c.expr_of(layout.sizes[k]);
    Expr gap = c.b.simplify(c.expr_of(layout.strides[k]) - expected);
    contiguous = contiguous && (gap.is_constant(0) || size.is_constant(1));
    expected = expected * size;
  }
  c.set_data_number(c.b.scalar_int(DType::kBool, contiguous ? 1 : 0));
}

// A scalar tensor's value as a Python number.
void item(Context& c) {
  NodeId x = c.tensor("self");
  DType d = c.b.dtype(x);
  DType wide = common::is_float(d) ? DType::kFloat64 : d == DType::kBool ? d : DType::kInt64;
  c.set_data_number(c.b.cast(c.b.reshape(x, {}), wide));
}

// ---- Arithmetic on numbers of the graph ------------------------------------------------------

// A size or a number that only the data knows, as a scalar: integers as int64, others as float64.
NodeId number(Context& c, std::string_view name) {
  if (auto data = c.data_number(name)) return *data;
  Scalar value = c.scalar(name);
  bool real = value.kind == Scalar::Kind::kFloat;
  return as(c, Operand{std::nullopt, false, value}, real ? DType::kFloat64 : DType::kInt64);
}

bool is_size(Context& c, std::string_view name) {
  return !c.data_number(name) && c.scalar(name).kind != Scalar::Kind::kFloat;
}

// Sizes stay expressions; everything else is arithmetic on scalar tensors.
template <class Combine>
void combine(Context& c, Combine expression, BinaryOp op) {
  if (is_size(c, "a") && is_size(c, "b")) return c.set_size(expression(c.size("a"), c.size("b")));
  NodeId a = number(c, "a");
  NodeId b = number(c, "b");
  bool real = common::is_float(c.b.dtype(a)) || common::is_float(c.b.dtype(b));
  DType d = real ? DType::kFloat64 : DType::kInt64;
  c.set_data_number(c.b.binary(op, c.b.cast(a, d), c.b.cast(b, d)));
}

void divide(Context& c) {
  NodeId a = c.b.cast(number(c, "a"), DType::kFloat64);
  c.set_data_number(div(c, a, c.b.cast(number(c, "b"), DType::kFloat64)));
}

// Python's floor, ceil, trunc and round of a number. The archive says what size it is, if it is
// one.
template <UnaryOp op>
void to_whole(Context& c) {
  if (c.set_size_as_exported()) return;
  NodeId x = c.b.cast(number(c, "a"), DType::kFloat64);
  c.set_data_number(c.b.cast(c.b.unary(op, x), DType::kInt64));
}

template <UnaryOp op>
void real_function(Context& c) {
  c.set_data_number(c.b.unary(op, c.b.cast(number(c, "a"), DType::kFloat64)));
}

void negate(Context& c) {
  if (is_size(c, "a")) return c.set_size(-c.size("a"));
  c.set_data_number(c.b.unary(UnaryOp::kNeg, number(c, "a")));
}

void raise(Context& c) {
  if (c.set_size_as_exported()) return;
  NodeId a = c.b.cast(number(c, "a"), DType::kFloat64);
  c.set_data_number(c.b.binary(BinaryOp::kPow, a, c.b.cast(number(c, "b"), DType::kFloat64)));
}

template <BinaryOp op>
void compare(Context& c) {
  // Comparisons of sizes guard what the exporter already knows.
  if (is_size(c, "a") && is_size(c, "b")) return;
  NodeId a = number(c, "a");
  NodeId b = number(c, "b");
  bool swapped = c.node->target.find("gt") != std::string::npos ||
                 c.node->target.find("ge") != std::string::npos;
  DType d = DType::kFloat64;
  if (!common::is_float(c.b.dtype(a)) && !common::is_float(c.b.dtype(b))) d = DType::kInt64;
  a = c.b.cast(a, d);
  b = c.b.cast(b, d);
  c.set_data_number(c.b.binary(op, swapped ? b : a, swapped ? a : b));
}

// One number or another, as a condition says that only the data knows.
void choose(Context& c) {
  auto condition = c.data_number("b");
  if (!condition) {
    if (c.set_size_as_exported()) return;
    c.refuse("the condition is known neither from the data nor from the sizes");
  }
  NodeId yes = number(c, "t");
  NodeId no = number(c, "f");
  bool real = common::is_float(c.b.dtype(yes)) || common::is_float(c.b.dtype(no));
  DType d = real ? DType::kFloat64 : DType::kInt64;
  c.set_data_number(c.b.select(truth(c, *condition), c.b.cast(yes, d), c.b.cast(no, d)));
}

void add_number_operators(OperatorTable* t) {
  t->add("_operator.add", [](Context& c) {
    combine(
        c, [](const Expr& a, const Expr& b) { return a + b; }, BinaryOp::kAdd);
  });
  t->add("_operator.sub", [](Context& c) {
    combine(
        c, [](const Expr& a, const Expr& b) { return a - b; }, BinaryOp::kSub);
  });
  t->add("_operator.mul", [](Context& c) {
    combine(
        c, [](const Expr& a, const Expr& b) { return a * b; }, BinaryOp::kMul);
  });
  t->add("_operator.floordiv", [](Context& c) {
    combine(
        c, [](const Expr& a, const Expr& b) { return common::floor_div(a, b); },
        BinaryOp::kFloorDiv);
  });
  t->add("_operator.mod", [](Context& c) {
    combine(
        c, [](const Expr& a, const Expr& b) { return common::mod(a, b); }, BinaryOp::kMod);
  });
  t->add("torch.sym_max", [](Context& c) {
    combine(
        c, [](const Expr& a, const Expr& b) { return common::max(a, b); }, BinaryOp::kMax);
  });
  t->add("torch.sym_min", [](Context& c) {
    combine(
        c, [](const Expr& a, const Expr& b) { return common::min(a, b); }, BinaryOp::kMin);
  });
  t->add("_operator.neg", negate);
  t->add("_operator.truediv", divide);
  t->add("_operator.pow", raise);
  t->add("math.floor", to_whole<UnaryOp::kFloor>);
  t->add("math.ceil", to_whole<UnaryOp::kCeil>);
  t->add("math.trunc", to_whole<UnaryOp::kTrunc>);
  t->add("_operator.trunc", to_whole<UnaryOp::kTrunc>);
  t->add("torch.sym_int", to_whole<UnaryOp::kTrunc>);
  t->add("torch.sym_float",
         [](Context& c) { c.set_data_number(c.b.cast(number(c, "a"), DType::kFloat64)); });
  t->add("torch._sym_sqrt", real_function<UnaryOp::kSqrt>);
  t->add("math.sqrt", real_function<UnaryOp::kSqrt>);
  t->add("torch.sym_ite", choose);
  t->add("_operator.lt", compare<BinaryOp::kLess>);
  t->add("_operator.gt", compare<BinaryOp::kLess>);
  t->add("_operator.le", compare<BinaryOp::kLessEqual>);
  t->add("_operator.ge", compare<BinaryOp::kLessEqual>);
  t->add("_operator.eq", compare<BinaryOp::kEqual>);
  t->add("_operator.ne", compare<BinaryOp::kNotEqual>);
}

}  // namespace

void add_state_operators(OperatorTable* t) {
  for (const char* name :
       {"aten.alias", "aten.detach", "aten.detach_", "aten.lift_fresh", "aten.contiguous",
        "aten.positive", "aten.resolve_conj", "aten.resolve_neg", "aten.real_if_close",
        "aten.conj_physical", "aten._conj_physical", "aten.conj", "aten._conj",
        "aten.requires_grad_"}) {
    t->add(name, same);
  }
  for (const char* name :
       {"aten._assert_tensor_metadata", "aten._assert_async", "aten._assert_scalar",
        "aten.sym_constrain_range", "aten.sym_constrain_range_for_size", "_operator.and_",
        "_operator.or_", "_operator.not_", "torch.sym_not"}) {
    t->add(name, nothing);
  }
  t->add("aten.item", item);
  t->add("aten._local_scalar_dense", item);
  t->add("aten.sym_size", size_of);
  t->add("aten.sym_numel", element_number);
  t->add("aten.sym_stride", stride_of);
  t->add("aten.sym_storage_offset", storage_offset_of);
  t->add("aten.sym_is_contiguous", is_contiguous);
  add_number_operators(t);
}

}  // namespace clients
