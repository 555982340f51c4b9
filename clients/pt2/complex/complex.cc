// Complex arithmetic, on pairs of reals along a last axis of two.
#include "clients/pt2/complex/complex.h"

#include <cmath>

#include "clients/pt2/aten/operators.h"

namespace clients {

NodeId zero_like(Context& c, NodeId x) { return c.b.full(c.b.dtype(x), c.b.shape(x), 0); }
NodeId negated(Context& c, NodeId x) { return c.b.unary(UnaryOp::kNeg, x); }

Complex split(Context& c, NodeId pairs) {
  int axis = c.b.rank(pairs) - 1;
  return {c.b.squeeze(c.b.slice(pairs, axis, 0, 1), axis),
          c.b.squeeze(c.b.slice(pairs, axis, 1, 1), axis)};
}

NodeId join(Context& c, const Complex& z) {
  int axis = c.b.rank(z.real);
  return c.b.concat({c.b.unsqueeze(z.real, axis), c.b.unsqueeze(z.imaginary, axis)}, axis);
}

Complex parts(Context& c, std::string_view name, DType d) {
  if (c.is_complex(name)) {
    Complex z = split(c, c.any_tensor(name));
    return {c.b.cast(z.real, d), c.b.cast(z.imaginary, d)};
  }
  if (auto number = c.complex_number(name)) {
    return {c.b.scalar(d, number->real), c.b.scalar(d, number->imaginary)};
  }
  NodeId real = as(c, operand(c, name), d);
  return {real, zero_like(c, real)};
}

Complex from_polar(Context& c, NodeId size, NodeId angle) {
  return {mul(c, size, c.b.unary(UnaryOp::kCos, angle)),
          mul(c, size, c.b.unary(UnaryOp::kSin, angle))};
}

NodeId size_of(Context& c, const Complex& z) {
  return c.b.binary(BinaryOp::kHypot, z.real, z.imaginary);
}

NodeId angle_of(Context& c, const Complex& z) {
  return c.b.binary(BinaryOp::kAtan2, z.imaginary, z.real);
}

Complex times(Context& c, const Complex& a, const Complex& b) {
  return {sub(c, mul(c, a.real, b.real), mul(c, a.imaginary, b.imaginary)),
          add(c, mul(c, a.real, b.imaginary), mul(c, a.imaginary, b.real))};
}

Complex broadcasted(Context& c, Complex z, const Shape& shape) {
  if (!c.b.can_expand(z.real, shape)) c.refuse("the operands do not broadcast");
  return {c.b.expand(z.real, shape), c.b.expand(z.imaginary, shape)};
}

void set_parts(Context& c, Complex z, size_t k) {
  if (!c.out_is_complex(k)) c.refuse("the result should be complex");
  Sizes shape = c.out_shape(k);
  shape.pop_back();
  z = broadcasted(c, z, shape);
  c.set_complex(join(c, z), k);
}

namespace {

void convert(Context& c) {
  DType d = c.out_dtype();
  bool from_complex = c.is_complex("self");
  Complex z = parts(c, "self", d);
  z = {c.b.cast(z.real, d), c.b.cast(z.imaginary, d)};
  if (c.out_is_complex()) return set_parts(c, z);
  if (from_complex) c.result(z.real);  // the imaginary part is dropped
}

void add_parts(Context& c, double sign) {
  DType d = c.out_dtype();
  Complex a = parts(c, "self", d);
  Complex b = parts(c, "other", d);
  double scale = sign * c.number("alpha", 1);
  if (scale != 1) b = {mul(c, b.real, scale), mul(c, b.imaginary, scale)};
  set_parts(c, {add(c, a.real, b.real), add(c, a.imaginary, b.imaginary)});
}

void multiply(Context& c) {
  DType d = c.out_dtype();
  set_parts(c, times(c, parts(c, "self", d), parts(c, "other", d)));
}

void divide(Context& c) {
  DType d = c.out_dtype();
  Complex a = parts(c, "self", d);
  if (!c.is_complex("other")) {
    NodeId b = parts(c, "other", d).real;
    return set_parts(c, {div(c, a.real, b), div(c, a.imaginary, b)});
  }
  Complex b = parts(c, "other", d);
  NodeId size = add(c, mul(c, b.real, b.real), mul(c, b.imaginary, b.imaginary));
  Complex product = times(c, a, {b.real, negated(c, b.imaginary)});
  set_parts(c, {div(c, product.real, size), div(c, product.imaginary, size)});
}

void conjugate(Context& c) {
  Complex z = split(c, c.any_tensor("self"));
  c.set_complex(join(c, {z.real, negated(c, z.imaginary)}));
}

void negate(Context& c) { c.set_complex(negated(c, c.any_tensor("self"))); }

View part_view(Context& c, int64_t part) {
  Sizes shape = c.b.shape(c.any_tensor("self"));
  int axis = static_cast<int>(shape.size()) - 1;
  View one = common::view_slice(shape, axis, part, 1, 1);
  auto view = common::view_compose(common::view_squeeze(one.shape, axis), one, c.b.symbols());
  if (!view) c.refuse("the parts cannot be viewed");
  return *view;
}

// Views of the pairs are set through a real tensor, as the storage is one.
void real_part(Context& c) {
  if (!c.is_complex("self")) return c.alias("self");
  c.set(c.b.view(c.any_tensor("self"), part_view(c, 0)));
}
void imaginary_part(Context& c) { c.set(c.b.view(c.any_tensor("self"), part_view(c, 1))); }

void magnitude(Context& c) { c.result(size_of(c, split(c, c.any_tensor("self")))); }

void angle(Context& c) {
  if (c.is_complex("self")) {
    return c.result(angle_of(c, split(c, c.any_tensor("self"))));
  }
  NodeId x = float_tensor(c, "self");
  NodeId turned = c.b.select(less(c, x, 0), number_like(c, x, M_PI), number_like(c, x, 0));
  c.result(c.b.select(c.b.unary(UnaryOp::kIsNan, x), x, turned));
}

void make_complex(Context& c) {
  Complex z{c.tensor("real"), c.tensor("imag")};
  set_parts(c, z);
}

void polar(Context& c) { set_parts(c, from_polar(c, c.tensor("abs"), c.tensor("angle"))); }

void total(Context& c) {
  NodeId x = c.any_tensor("self");
  c.set_complex(
      c.b.reduce(ReduceOp::kSum, x, c.axes("dim", c.b.rank(x) - 1), c.flag("keepdim", false)));
}

void mean_of(Context& c) {
  NodeId x = c.any_tensor("self");
  std::vector<int> axes = c.axes("dim", c.b.rank(x) - 1);
  NodeId sum = c.b.reduce(ReduceOp::kSum, x, axes, c.flag("keepdim", false));
  c.set_complex(div(c, sum, count(c, x, axes, c.b.dtype(x))));
}

}  // namespace

void add_complex_operators(OperatorTable* t) {
  t->add_complex("aten._to_copy", convert);
  t->add_complex("aten.to", convert);
  t->add_complex("aten.add", [](Context& c) { add_parts(c, 1); });
  t->add_complex("aten.sub", [](Context& c) { add_parts(c, -1); });
  t->add_complex("aten.mul", multiply);
  t->add_complex("aten.div", divide);
  t->add_complex("aten.neg", negate);
  t->add_complex("aten._conj", conjugate);
  t->add_complex("aten.conj", conjugate);
  t->add_complex("aten.conj_physical", conjugate);
  t->add_complex("aten._conj_physical", conjugate);
  t->add_complex("aten.real", real_part);
  t->add_complex("aten.imag", imaginary_part);
  t->add_complex("aten.abs", magnitude);
  t->add_complex("aten.sum", total);
  t->add_complex("aten.mean", mean_of);
  t->add_complex("aten.complex", make_complex);
  t->add_complex("aten.polar", polar);
  t->add_complex("aten.view_as_real", [](Context& c) { c.set(c.any_tensor("self")); });
  t->add_complex("aten.view_as_complex", [](Context& c) { c.set_complex(c.any_tensor("self")); });
  t->add("aten.real", real_part);
  t->add("aten.angle", angle);
  t->add_complex("aten.angle", angle);
}

}  // namespace clients
