// Cholesky factors of symmetric matrices, and what is solved with them.
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/linalg/triangular.h"

namespace clients {
namespace {

struct Cholesky {
  NodeId lower = 0;
  NodeId failed = 0;  // (batch): the first leading minor that isn't positive definite, or 0
};

// A column a step, from the lower half of symmetric matrices (Golub and Van Loan, algorithm 4.2.1).
Cholesky cholesky_of(Context& c, NodeId a) {
  int64_t n = order_of(c, a);
  auto step = [n](Context& c, NodeId k, const Values& carried, const Values&) -> Values {
    NodeId x = carried[0], failed = carried[1];
    NodeId corner = corner_at(c, x, k);
    NodeId zero = number_like(c, corner, 0);
    NodeId fails = logical_not(c, c.b.binary(BinaryOp::kLess, zero, corner));
    NodeId is_first = c.b.binary(BinaryOp::kEqual, failed, whole_number(c, 0));
    NodeId now = add(c, k, whole_number(c, 1));
    failed = c.b.select(c.b.binary(BinaryOp::kAnd, fails, is_first), now, failed);
    NodeId rows = row_numbers(c, n), columns = column_numbers(c, n);
    NodeId root = c.b.reshape(c.b.unary(UnaryOp::kSqrt, corner), {c.b.size(corner, 0), 1});
    NodeId line = div(c, column_at(c, x, k), root);
    NodeId rest = sub(c, x, outer(c, line, line));
    NodeId later = c.b.binary(BinaryOp::kLess, k, columns);
    NodeId own = c.b.binary(BinaryOp::kEqual, columns, k);
    NodeId below = c.b.binary(BinaryOp::kLessEqual, k, rows);
    NodeId column = c.b.select(c.b.binary(BinaryOp::kAnd, own, below), c.b.unsqueeze(line, 2), x);
    return {c.b.select(later, rest, column), failed};
  };
  NodeId none = c.b.full_int(DType::kInt64, {c.b.size(a, 0)}, 0);
  Values out = repeat(c, n, {a, none}, {}, step);
  return {lower_part(c, out[0]), out[1]};
}

// The flag says which half of the argument is read, and which factor is given.
void cholesky(Context& c) {
  if (gives_empty(c, "self")) return;
  bool upper = c.flag("upper", false);
  NodeId a = stack(c, "self");
  Cholesky out = cholesky_of(c, upper ? transposed(c, a) : a);
  give(c, upper ? transposed(c, out.lower) : out.lower);
  give(c, out.failed, 1);
}

// The inverse of the matrix whose factor is given.
void cholesky_inverse(Context& c) {
  if (gives_empty(c, "self")) return;
  NodeId factor = stack(c, "self");
  bool upper = c.flag("upper", false);
  NodeId lower = upper ? transposed(c, factor) : factor;
  int64_t n = order_of(c, lower);
  NodeId ones = c.b.expand(identity(c, c.b.dtype(lower), n), c.b.shape(lower));
  NodeId half = solve_triangle(c, lower, ones, {false, false});
  give(c, matmul(c, transposed(c, half), half));
}

void cholesky_solve(Context& c) {
  if (gives_empty(c, "self") || gives_empty(c, "input2")) return;
  StackPair pair = stacks_of(c, c.tensor("input2"), c.tensor("self"));
  NodeId lower = c.flag("upper", false) ? transposed(c, pair.a) : pair.a;
  NodeId half = solve_triangle(c, lower, pair.b, {false, false});
  give(c, solve_triangle(c, transposed(c, lower), half, {true, false}));
}

}  // namespace

void add_cholesky_operators(OperatorTable* t) {
  for (const char* name : {"aten.linalg_cholesky", "aten.linalg_cholesky_ex", "aten.cholesky"}) {
    t->add(name, cholesky);
  }
  t->add("aten.cholesky_inverse", cholesky_inverse);
  t->add("aten.cholesky_solve", cholesky_solve);
}

}  // namespace clients
