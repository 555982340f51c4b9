// The exponential of matrices.
#include <cmath>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/linalg/matrices.h"

namespace clients {
namespace {

// Taylor's series of A / 2^s, whose 1-norm is at most one, squared s times (Higham, "Functions of
// matrices", 2008, chapter 10). Eighteen terms leave 1 / 19! = 8e-18.
constexpr int64_t kTerms = 18;
// The result is NaN for a norm above 2^kMaxSquarings. Its exponential overflows, or the rounding of
// more squarings leaves no digit of float64's 53 bits.
constexpr int64_t kMaxSquarings = 30;

void matrix_exp(Context& c) {
  if (gives_empty(c, "self")) return;
  NodeId a = stack(c, "self");
  int64_t n = order_of(c, a);
  NodeId sums = c.b.reduce(ReduceOp::kSum, c.b.unary(UnaryOp::kAbs, a), {1});
  NodeId size = c.b.reduce(ReduceOp::kMax, sums, {1});
  NodeId one = number_like(c, size, 1);
  NodeId steps =
      c.b.unary(UnaryOp::kCeil, c.b.unary(UnaryOp::kLog2, c.b.binary(BinaryOp::kMax, size, one)));
  NodeId shrunk = mul(c, a,
                      c.b.reshape(c.b.unary(UnaryOp::kExp2, c.b.unary(UnaryOp::kNeg, steps)),
                                  {c.b.size(a, 0), 1, 1}));
  NodeId start = c.b.expand(identity(c, c.b.dtype(a), n), c.b.shape(a));
  auto term = [n](Context& c, NodeId k, const Values& carried, const Values& fixed) -> Values {
    NodeId number = c.b.cast(sub(c, whole_number(c, kTerms), k), c.b.dtype(fixed[0]));
    NodeId next = div(c, matmul(c, fixed[0], carried[0]), number);
    return {add(c, next, identity(c, c.b.dtype(fixed[0]), n))};
  };
  NodeId series = repeat(c, kTerms, {start}, {shrunk}, term)[0];
  auto square = [](Context& c, NodeId k, const Values& carried, const Values& fixed) -> Values {
    NodeId x = carried[0];
    NodeId more = c.b.binary(BinaryOp::kLess, c.b.cast(k, c.b.dtype(x)), fixed[0]);
    NodeId squares = c.b.reshape(more, {c.b.size(x, 0), 1, 1});
    return {c.b.select(squares, matmul(c, x, x), x)};
  };
  NodeId out = repeat(c, kMaxSquarings, {series}, {steps}, square)[0];
  NodeId known = c.b.binary(BinaryOp::kLessEqual, steps, number_like(c, steps, kMaxSquarings));
  known = c.b.reshape(known, {c.b.size(a, 0), 1, 1});
  give(c, c.b.select(known, out, number_like(c, out, NAN)));
}

}  // namespace

void add_exponential_operators(OperatorTable* t) {
  t->add("aten.linalg_matrix_exp", matrix_exp);
  t->add("aten.matrix_exp", matrix_exp);
}

}  // namespace clients
