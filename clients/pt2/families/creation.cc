// Operators that make tensors from numbers, and those that copy or convert one.
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

void fill_with(Context& c, double value) {
  if (c.is_complex("self")) c.refuse("complex numbers are not supported here");
  c.set(c.b.full(c.out_dtype(), c.out_shape(), value));
}

void fill_value(Context& c, std::string_view name) {
  c.set(c.b.expand(as(c, operand(c, name), c.out_dtype()), c.out_shape()));
}

// start + step * position, in exact integers or in float64 before the one rounding.
void arange(Context& c) {
  DType d = c.out_dtype();
  Expr length = c.out_size(0);
  DType wide = common::is_float(d) ? DType::kFloat64 : DType::kInt64;
  auto number = [&](std::string_view name, int64_t fallback) {
    return c.has(name) ? as(c, operand(c, name), wide) : c.b.scalar_int(wide, fallback);
  };
  NodeId x = c.b.iota(wide, length);
  if (c.has("step")) x = mul(c, x, number("step", 1));
  bool from_zero = !c.has("start") || (c.scalar("start").kind != Scalar::Kind::kFloat &&
                                       c.scalar("start").integer.is_constant(0));
  if (!from_zero) x = add(c, x, number("start", 0));
  c.result(x);
}

void linspace(Context& c) {
  DType d = c.out_dtype();
  DType wide = d == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  int64_t steps = c.integer("steps");
  NodeId start = as(c, operand(c, "start"), wide);
  NodeId end = as(c, operand(c, "end"), wide);
  if (c.b.rank(start) != 0 || c.b.rank(end) != 0) c.refuse("the ends must be numbers");
  if (steps == 0) return c.set(c.b.full(d, c.out_shape(), 0));
  if (steps == 1) return c.result(c.b.expand(start, c.out_shape()));
  NodeId step = div(c, sub(c, end, start), c.b.scalar(wide, static_cast<double>(steps - 1)));
  NodeId place = c.b.iota(wide, steps);
  NodeId from_start = add(c, start, mul(c, step, place));
  NodeId to_go = sub(c, c.b.scalar(wide, static_cast<double>(steps - 1)), place);
  NodeId from_end = sub(c, end, mul(c, step, to_go));
  int64_t middle = steps / 2;
  NodeId first_half = less(c, place, static_cast<double>(middle));
  c.result(c.b.select(first_half, from_start, from_end));
}

void eye(Context& c) {
  Sizes shape = c.out_shape();
  NodeId same =
      c.b.binary(BinaryOp::kEqual, positions(c, shape[0], 0, 2), positions(c, shape[1], 1, 2));
  c.result(same);
}

void copy_of(Context& c) {
  c.alias("self");
  c.unshare();
}

// The operand itself where nothing changes, as PyTorch returns it, else a converted copy.
void convert(Context& c) {
  if (c.is_complex("self")) return c.flag("copy", false) ? copy_of(c) : c.alias("self");
  NodeId x = c.tensor("self");
  if (c.b.dtype(x) == c.out_dtype() && !c.flag("copy", false)) return c.alias("self");
  c.result(x);
}

void convert_copy(Context& c) {
  if (c.is_complex("self")) return copy_of(c);
  c.result(c.tensor("self"));
}

void copy_into(Context& c) {
  NodeId source = c.tensor("src");
  Sizes shape = c.out_shape();
  if (!c.b.can_expand(source, shape)) c.refuse("the source does not fit");
  c.result(c.b.expand(source, shape));
}

void diag_embed(Context& c) {
  NodeId x = c.tensor("self");
  int rank = c.b.rank(x);
  int64_t offset = c.integer("offset", 0);
  int first = c.axis("dim1", rank + 1, -2);
  int second = c.axis("dim2", rank + 1, -1);
  Sizes shape = c.out_shape();
  // Row and column meet on the diagonal, everything else is zero.
  Expr row = Expr::index(first) + Expr(offset < 0 ? offset : 0);
  View view;
  view.shape = shape;
  int next = 0;
  for (int k = 0; k < rank - 1; ++k) {
    while (next == first || next == second) ++next;
    view.index.push_back(Expr::index(next++));
  }
  view.index.push_back(row);
  view.valid.push_back({row, c.b.size(x, c.b.rank(x) - 1)});
  NodeId spread = c.b.view(x, view);
  int out_rank = static_cast<int>(shape.size());
  NodeId rows = positions(c, shape[static_cast<size_t>(first)], first, out_rank);
  NodeId columns = positions(c, shape[static_cast<size_t>(second)], second, out_rank);
  NodeId on = c.b.binary(BinaryOp::kEqual, add(c, rows, static_cast<double>(offset)), columns);
  c.set(c.b.select(on, spread, number_like(c, x, 0)));
}

// A matrix's diagonal ends with its shorter side; with `wrap` another one begins a row below the
// square. Of tensors with more axes, which have one size, elements whose positions are all equal.
void fill_diagonal(Context& c) {
  NodeId x = c.tensor("self");
  int rank = c.b.rank(x);
  if (rank < 2) c.refuse("it takes tensors of two axes or more");
  NodeId first = positions(c, c.b.size(x, 0), 0, rank);
  if (rank == 2 && c.flag("wrap", false)) {
    NodeId period = c.b.size_scalar(DType::kInt64, c.b.size(x, 1) + 1);
    first = c.b.binary(BinaryOp::kMod, first, period);
  }
  NodeId on = c.b.binary(BinaryOp::kEqual, first, positions(c, c.b.size(x, 1), 1, rank));
  for (int k = 2; k < rank; ++k) {
    NodeId same = c.b.binary(BinaryOp::kEqual, first, positions(c, c.b.size(x, k), k, rank));
    on = c.b.binary(BinaryOp::kAnd, on, same);
  }
  c.set(c.b.select(on, as(c, operand(c, "fill_value"), c.b.dtype(x)), x));
}

}  // namespace

void add_creation_operators(OperatorTable* t) {
  for (const char* name : {"aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.empty",
                           "aten.empty_like", "aten.new_empty", "aten.empty_strided",
                           "aten.new_empty_strided", "aten.empty_permuted", "aten.zero"}) {
    // What an empty tensor holds is anybody's guess: zeros are as good.
    t->add(name, [](Context& c) { fill_with(c, 0); });
  }
  for (const char* name : {"aten.ones", "aten.ones_like", "aten.new_ones"}) {
    t->add(name, [](Context& c) { fill_with(c, 1); });
  }
  for (const char* name : {"aten.full", "aten.full_like", "aten.new_full"}) {
    t->add(name, [](Context& c) { fill_value(c, "fill_value"); });
  }
  t->add("aten.fill", [](Context& c) { fill_value(c, "value"); });
  t->add("aten.scalar_tensor", [](Context& c) { fill_value(c, "s"); });
  t->add("aten.arange", arange);
  t->add("aten.linspace", linspace);
  t->add("aten.eye", eye);
  t->add("aten.diag_embed", diag_embed);
  t->add("aten.fill_diagonal", fill_diagonal);
  t->add("aten.clone", copy_of);
  t->add("aten.lift_fresh_copy", copy_of);
  t->add("aten.alias_copy", copy_of);
  t->add("aten.copy", copy_into);
  t->add("aten._to_copy", convert_copy);
  t->add("prims.convert_element_type", [](Context& c) { c.result(c.tensor("a")); });
  t->add("aten.to", convert);
  t->add("aten.type_as", convert);
  for (const char* name : {"aten.float", "aten.double", "aten.half", "aten.bfloat16", "aten.int",
                           "aten.long", "aten.short", "aten.char", "aten.byte", "aten.bool"}) {
    t->add(name, convert);
  }
}

}  // namespace clients
