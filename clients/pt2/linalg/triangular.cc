#include "clients/pt2/linalg/triangular.h"

#include "clients/pt2/aten/operators.h"

namespace clients {

NodeId solve_triangle(Context& c, NodeId a, NodeId b, Triangle form) {
  int64_t n = order_of(c, a);
  if (rows_of(c, b) != n) c.refuse("the operands do not fit");
  auto step = [n, form](Context& c, NodeId k, const Values& carried,
                        const Values& fixed) -> Values {
    NodeId a = fixed[0], x = carried[0];
    NodeId row = form.upper ? sub(c, whole_number(c, n - 1), k) : k;
    NodeId solved = row_at(c, x, row);
    if (!form.unit) solved = div(c, solved, c.b.unsqueeze(corner_at(c, a, row), 1));
    NodeId rows = row_numbers(c, n);
    NodeId after = form.upper ? c.b.binary(BinaryOp::kLess, rows, row)
                              : c.b.binary(BinaryOp::kLess, row, rows);
    NodeId rest = sub(c, x, outer(c, column_at(c, a, row), solved));
    NodeId own = c.b.binary(BinaryOp::kEqual, rows, row);
    return {c.b.select(own, c.b.unsqueeze(solved, 1), c.b.select(after, rest, x))};
  };
  return repeat(c, n, {b}, {a}, step)[0];
}

NodeId solve_triangle(Context& c, NodeId a, NodeId b, Triangle form, bool left) {
  if (left) return solve_triangle(c, a, b, form);
  Triangle turned = {!form.upper, form.unit};
  return transposed(c, solve_triangle(c, transposed(c, a), transposed(c, b), turned));
}

namespace {

void linalg_solve_triangular(Context& c) {
  if (gives_empty(c, "B") || gives_empty(c, "self")) return;
  StackPair pair = stacks_of(c, c.tensor("self"), c.tensor("B"));
  Triangle form = {c.flag("upper", false), c.flag("unitriangular", false)};
  give(c, solve_triangle(c, pair.a, pair.b, form, c.flag("left", true)));
}

void triangular_solve(Context& c) {
  if (gives_empty(c, "self") || gives_empty(c, "A")) return;
  NodeId given = c.tensor("A");
  StackPair pair = stacks_of(c, given, c.tensor("self"));
  Triangle form = {c.flag("upper", true), c.flag("unitriangular", false)};
  NodeId a = pair.a;
  if (c.flag("transpose", false)) {
    a = transposed(c, a);
    form.upper = !form.upper;
  }
  give(c, solve_triangle(c, a, pair.b, form));
  give(c, pair.a, 1);
}

}  // namespace

void add_triangular_operators(OperatorTable* t) {
  t->add("aten.linalg_solve_triangular", linalg_solve_triangular);
  t->add("aten.triangular_solve", triangular_solve);
}

}  // namespace clients
