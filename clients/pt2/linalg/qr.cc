#include "clients/pt2/linalg/qr.h"

#include <algorithm>

#include "clients/pt2/aten/operators.h"

namespace clients {
namespace {

struct Reflector {
  NodeId vector = 0;  // (batch, m): zero above place k, where it is 1
  NodeId scale = 0;   // (batch, 1)
  NodeId corner = 0;  // (batch, 1): what becomes of the element at k
};

// The reflection that takes the part of a column from place k on to a multiple of the first unit
// vector, of the other sign (LAPACK's larfg).
Reflector reflector(Context& c, NodeId column, NodeId corner, NodeId k, int64_t m) {
  NodeId place = positions(c, m, 1, 2);
  NodeId zero = number_like(c, column, 0), one = number_like(c, column, 1);
  NodeId below = c.b.select(c.b.binary(BinaryOp::kLess, k, place), column, zero);
  // Scaled by the greatest element, so that no square overflows.
  NodeId top = c.b.reduce(ReduceOp::kMax, c.b.unary(UnaryOp::kAbs, below), {1}, true);
  NodeId stays = c.b.binary(BinaryOp::kEqual, top, zero);
  NodeId shrunk = div(c, below, c.b.select(stays, one, top));
  NodeId rest =
      c.b.unary(UnaryOp::kSqrt, c.b.reduce(ReduceOp::kSum, mul(c, shrunk, shrunk), {1}, true));
  NodeId length = c.b.binary(BinaryOp::kHypot, corner, mul(c, rest, top));
  NodeId beta = c.b.unary(UnaryOp::kNeg, c.b.binary(BinaryOp::kCopysign, length, corner));
  NodeId divisor = c.b.select(stays, one, sub(c, corner, beta));
  NodeId at_k = c.b.binary(BinaryOp::kEqual, place, k);
  NodeId scale = div(c, sub(c, beta, corner), c.b.select(stays, one, beta));
  return {c.b.select(at_k, one, div(c, below, divisor)), c.b.select(stays, zero, scale),
          c.b.select(stays, corner, beta)};
}

// x - scale * vector (vector' x)
NodeId applied(Context& c, NodeId x, NodeId vector, NodeId scale) {
  NodeId row = c.b.reduce(ReduceOp::kSum, mul(c, c.b.unsqueeze(vector, 2), x), {1});
  return sub(c, x, outer(c, mul(c, scale, vector), row));
}

// The vector of reflection k, with its zeros and its one.
NodeId vector_at(Context& c, NodeId packed, NodeId k, int64_t m) {
  NodeId line = column_at(c, packed, k);
  NodeId place = positions(c, m, 1, 2);
  NodeId below = c.b.select(c.b.binary(BinaryOp::kLess, k, place), line, number_like(c, line, 0));
  return c.b.select(c.b.binary(BinaryOp::kEqual, place, k), number_like(c, line, 1), below);
}

NodeId scale_at(Context& c, NodeId scales, NodeId k) {
  return c.b.gather(scales, {k}, {c.b.size(scales, 0), 1}, {{-1, Expr::index(0)}, {0, {}}});
}

}  // namespace

Reflections reflections_of(Context& c, NodeId a) {
  int64_t m = rows_of(c, a), n = columns_of(c, a), r = std::min(m, n);
  auto step = [=](Context& c, NodeId k, const Values& carried, const Values&) -> Values {
    NodeId x = carried[0];
    NodeId corner = c.b.unsqueeze(corner_at(c, x, k), 1);
    Reflector h = reflector(c, column_at(c, x, k), corner, k, m);
    NodeId rest = applied(c, x, h.vector, h.scale);
    NodeId rows = row_numbers(c, m), columns = column_numbers(c, n);
    NodeId below = c.b.binary(BinaryOp::kLess, k, rows);
    NodeId column = c.b.select(below, c.b.unsqueeze(h.vector, 2), x);
    column = c.b.select(c.b.binary(BinaryOp::kEqual, rows, k), c.b.unsqueeze(h.corner, 2), column);
    NodeId own = c.b.binary(BinaryOp::kEqual, columns, k);
    NodeId right = c.b.binary(BinaryOp::kLess, k, columns);
    NodeId at_k = c.b.binary(BinaryOp::kEqual, positions(c, r, 1, 2), k);
    return {c.b.select(own, column, c.b.select(right, rest, x)),
            c.b.select(at_k, h.scale, carried[1])};
  };
  NodeId scales = c.b.full(c.b.dtype(a), {c.b.size(a, 0), r}, 0);
  Values out = repeat(c, r, {a, scales}, {}, step);
  return {out[0], out[1]};
}

NodeId reflected(Context& c, const Reflections& q, NodeId x, bool adjoint) {
  int64_t m = rows_of(c, q.packed);
  int64_t r = c.b.size(q.scales, 1).constant();
  auto step = [=](Context& c, NodeId k, const Values& carried, const Values& fixed) -> Values {
    NodeId number = adjoint ? k : sub(c, whole_number(c, r - 1), k);
    NodeId vector = vector_at(c, fixed[0], number, m);
    return {applied(c, carried[0], vector, scale_at(c, fixed[1], number))};
  };
  return repeat(c, r, {x}, {q.packed, q.scales}, step)[0];
}

NodeId product_of(Context& c, const Reflections& q, int64_t columns) {
  int64_t m = rows_of(c, q.packed);
  NodeId ones = c.b.binary(BinaryOp::kEqual, row_numbers(c, m), column_numbers(c, columns));
  Shape shape = {c.b.size(q.packed, 0), m, columns};
  NodeId start = c.b.expand(c.b.cast(ones, c.b.dtype(q.packed)), shape);
  return reflected(c, q, start, false);
}

Qr qr_of(Context& c, NodeId a, bool complete) {
  int64_t m = rows_of(c, a);
  int64_t columns = complete ? m : std::min(m, columns_of(c, a));
  Reflections q = reflections_of(c, a);
  return {product_of(c, q, columns), c.b.slice(upper_part(c, q.packed), 1, 0, columns)};
}

namespace {

void linalg_qr(Context& c, std::string_view name, const std::string& mode) {
  if (gives_empty(c, name)) return;
  NodeId a = stack(c, name);
  if (mode == "r") {
    int64_t r = std::min(rows_of(c, a), columns_of(c, a));
    give(c, c.b.slice(upper_part(c, reflections_of(c, a).packed), 1, 0, r), 1);
    if (c.wants_output(0)) c.set(c.b.full(c.out_dtype(), c.out_shape(), 0));
    return;
  }
  if (mode != "reduced" && mode != "complete") c.refuse("unknown mode");
  Qr out = qr_of(c, a, mode == "complete");
  give(c, out.q);
  give(c, out.r, 1);
}

void geqrf(Context& c) {
  if (gives_empty(c, "self")) return;
  Reflections q = reflections_of(c, stack(c, "self"));
  give(c, q.packed);
  give(c, q.scales, 1);
}

Reflections given_reflections(Context& c, std::string_view vectors, std::string_view scales) {
  NodeId packed = stack(c, vectors);
  NodeId scale = c.tensor(scales);
  int last = c.b.rank(scale) - 1;
  return {packed, c.b.reshape(scale, {c.b.size(packed, 0), c.b.size(scale, last)})};
}

void householder_product(Context& c, std::string_view scales) {
  if (gives_empty(c, "input")) return;
  if (gives_empty(c, scales)) c.refuse("a product of no reflections is not supported");
  Reflections q = given_reflections(c, "input", scales);
  give(c, product_of(c, q, columns_of(c, q.packed)));
}

void ormqr(Context& c) {
  if (gives_empty(c, "self") || gives_empty(c, "input3")) return;
  Reflections q = given_reflections(c, "self", "input2");
  NodeId x = stack(c, "input3");
  bool left = c.flag("left", true), adjoint = c.flag("transpose", false);
  if (left) return give(c, reflected(c, q, x, adjoint));
  give(c, transposed(c, reflected(c, q, transposed(c, x), !adjoint)));
}

}  // namespace

void add_qr_operators(OperatorTable* t) {
  t->add("aten.linalg_qr", [](Context& c) { linalg_qr(c, "self", c.text("mode", "reduced")); });
  t->add("aten.qr",
         [](Context& c) { linalg_qr(c, "self", c.flag("some", true) ? "reduced" : "complete"); });
  t->add("aten.geqrf", geqrf);
  t->add("aten.linalg_householder_product", [](Context& c) { householder_product(c, "tau"); });
  t->add("aten.orgqr", [](Context& c) { householder_product(c, "input2"); });
  t->add("aten.ormqr", ormqr);
}

}  // namespace clients
