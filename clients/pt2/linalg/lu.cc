// LU factors with partial pivoting, and what follows from them: solutions, inverses, determinants
// and powers.
#include <algorithm>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/linalg/triangular.h"

namespace clients {
namespace {

// P A = L U, of m by n matrices with r = min(m, n) pivots.
struct Lu {
  NodeId packed = 0;  // L below the diagonal, whose own is of ones, and U: (batch, m, n)
  NodeId pivots = 0;  // (batch, r): the row that changed places with row k, from 0
  NodeId rows = 0;    // (batch, m): which row of A is at each place
  NodeId sign = 0;    // (batch): of the permutation
  NodeId failed = 0;  // (batch): the first pivot that is zero, from 1, or 0
};

// Of places 0 to n - 1: each one itself, but `a` (scalar) and `b` (batch, 1) for one another.
NodeId swapped(Context& c, int64_t n, NodeId a, NodeId b) {
  NodeId place = positions(c, n, 1, 2);
  NodeId at_a = c.b.binary(BinaryOp::kEqual, place, a);
  NodeId at_b = c.b.binary(BinaryOp::kEqual, place, b);
  return c.b.select(at_a, b, c.b.select(at_b, a, place));
}

// The row of the greatest element of column k, at or below row k: (batch, 1).
NodeId pivot_row(Context& c, NodeId x, NodeId k, int64_t m) {
  NodeId size = c.b.unary(UnaryOp::kAbs, column_at(c, x, k));
  NodeId below = c.b.binary(BinaryOp::kLessEqual, k, positions(c, m, 1, 2));
  NodeId candidates = c.b.select(below, size, number_like(c, size, -1));
  return c.b.reduce(ReduceOp::kArgmax, candidates, {1}, true);
}

// x after column k is eliminated below its diagonal, where the multipliers stay.
NodeId eliminated(Context& c, NodeId x, NodeId k, int64_t m, int64_t n) {
  NodeId corner = c.b.unsqueeze(corner_at(c, x, k), 1);
  NodeId line = column_at(c, x, k);
  // Below a pivot of zero there are only zeros.
  NodeId zero = number_like(c, line, 0);
  NodeId stays = c.b.binary(BinaryOp::kEqual, corner, zero);
  NodeId factors = c.b.select(stays, line, div(c, line, corner));
  NodeId rows = row_numbers(c, m), columns = column_numbers(c, n);
  NodeId below = c.b.binary(BinaryOp::kLess, k, rows);
  NodeId right = c.b.binary(BinaryOp::kLess, k, columns);
  NodeId own = c.b.binary(BinaryOp::kEqual, columns, k);
  NodeId rest = sub(c, x, outer(c, factors, row_at(c, x, k)));
  NodeId column = c.b.select(c.b.binary(BinaryOp::kAnd, below, own), c.b.unsqueeze(factors, 2), x);
  return c.b.select(c.b.binary(BinaryOp::kAnd, below, right), rest, column);
}

// A column a step (Golub and Van Loan, algorithm 3.4.1).
Lu lu_of(Context& c, NodeId a, bool pivots = true) {
  int64_t m = rows_of(c, a), n = columns_of(c, a), r = std::min(m, n);
  auto step = [=](Context& c, NodeId k, const Values& carried, const Values&) -> Values {
    NodeId x = carried[0], chosen = carried[1], rows = carried[2], sign = carried[3];
    if (pivots) {
      NodeId row = pivot_row(c, x, k, m);
      NodeId order = swapped(c, m, k, row);
      x = rows_in_order(c, x, order);
      rows = in_order(c, rows, order);
      NodeId place = positions(c, r, 1, 2);
      chosen = c.b.select(c.b.binary(BinaryOp::kEqual, place, k), row, chosen);
      NodeId stays = c.b.squeeze(c.b.binary(BinaryOp::kEqual, row, k), 1);
      sign = c.b.select(stays, sign, c.b.unary(UnaryOp::kNeg, sign));
    }
    return {eliminated(c, x, k, m, n), chosen, rows, sign};
  };
  Expr batch = c.b.size(a, 0);
  NodeId places = c.b.expand(positions(c, r, 1, 2), {batch, r});
  NodeId lines = c.b.expand(positions(c, m, 1, 2), {batch, m});
  NodeId sign = c.b.full(c.b.dtype(a), {batch}, 1);
  Values out = repeat(c, r, {a, places, lines, sign}, {}, step);
  NodeId diagonal = diagonal_of(c, out[0]);
  NodeId is_zero = c.b.binary(BinaryOp::kEqual, diagonal, number_like(c, diagonal, 0));
  NodeId number = add(c, positions(c, r, 1, 2), whole_number(c, 1));
  NodeId first =
      c.b.reduce(ReduceOp::kMin, c.b.select(is_zero, number, whole_number(c, r + 1)), {1});
  NodeId fails = c.b.binary(BinaryOp::kLessEqual, first, whole_number(c, r));
  return {out[0], out[1], out[2], out[3], c.b.select(fails, first, whole_number(c, 0))};
}

// What PyTorch factorises for determinants and solutions: of a real matrix that lies row by row,
// the transposed one. The factors it keeps for gradients are those.
bool factorises_transposed(Context& c, std::string_view name) {
  const TensorMeta& meta = c.layout(name);
  int64_t expected = 1;
  for (size_t k = meta.sizes.size(); k-- > 0;) {
    if (meta.sizes[k].is_symbolic() || meta.strides[k].is_symbolic()) return true;
    if (meta.sizes[k].value != 1 && meta.strides[k].value != expected) return false;
    expected *= meta.sizes[k].value;
  }
  return true;
}

NodeId pivots_from_one(Context& c, const Lu& lu) { return add(c, lu.pivots, whole_number(c, 1)); }

// The order of rows that pivots (batch, r), from 0, make of m rows.
NodeId rows_after(Context& c, NodeId pivots, int64_t m) {
  auto step = [m](Context& c, NodeId k, const Values& carried, const Values& fixed) -> Values {
    NodeId row =
        c.b.gather(fixed[0], {k}, {c.b.size(fixed[0], 0), 1}, {{-1, Expr::index(0)}, {0, {}}});
    return {in_order(c, carried[0], swapped(c, m, k, row))};
  };
  NodeId lines = c.b.expand(positions(c, m, 1, 2), {c.b.size(pivots, 0), m});
  int64_t r = c.b.size(pivots, 1).constant();
  return repeat(c, r, {lines}, {pivots}, step)[0];
}

// P of A = P L U: row i of it has its one where row `rows[j]` of A went to place j = column.
NodeId permutation(Context& c, NodeId rows, DType d) {
  int64_t m = c.b.size(rows, 1).constant();
  NodeId same = c.b.binary(BinaryOp::kEqual, row_numbers(c, m), c.b.unsqueeze(rows, 1));
  return c.b.cast(same, d);
}

NodeId unit_lower(Context& c, NodeId packed) {
  int64_t m = rows_of(c, packed), r = std::min(m, columns_of(c, packed));
  NodeId lower = lower_part(c, c.b.slice(packed, 2, 0, r), -1);
  NodeId ones = c.b.binary(BinaryOp::kEqual, row_numbers(c, m), column_numbers(c, r));
  return add(c, lower, c.b.cast(ones, c.b.dtype(packed)));
}

NodeId upper_of(Context& c, NodeId packed) {
  int64_t r = std::min(rows_of(c, packed), columns_of(c, packed));
  return upper_part(c, c.b.slice(packed, 1, 0, r));
}

// ---- Solutions -------------------------------------------------------------------------------

// X of A X = B, or of the transposed A, where `rows` says where A's rows went.
NodeId solve_with(Context& c, NodeId packed, NodeId rows, NodeId b, bool adjoint) {
  if (!adjoint) {
    NodeId half = solve_triangle(c, packed, rows_in_order(c, b, rows), {false, true});
    return solve_triangle(c, packed, half, {true, false});
  }
  NodeId turned = transposed(c, packed);
  NodeId half = solve_triangle(c, turned, b, {false, false});
  NodeId x = solve_triangle(c, turned, half, {true, true});
  // The inverse of the permutation sorts it.
  return rows_in_order(c, x, c.b.sort_indices(rows, 1, false));
}

NodeId solve(Context& c, NodeId a, NodeId b) {
  Lu lu = lu_of(c, a);
  return solve_with(c, lu.packed, lu.rows, b, false);
}

NodeId inverse_of(Context& c, NodeId a) {
  NodeId ones = identity(c, c.b.dtype(a), order_of(c, a));
  return solve(c, a, c.b.expand(ones, c.b.shape(a)));
}

// A vector, or a stack of vectors, where PyTorch takes one: as many axes as A's less one, and the
// same leading sizes.
bool is_vector(Context& c, NodeId a, NodeId b) {
  Sizes matrices = c.b.shape(a);
  if (c.b.rank(b) == 1) return true;
  return c.b.rank(b) + 1 == c.b.rank(a) && c.b.shape(b) == matrices.without_last(1);
}

// Results of linalg_solve: the solution, then what `extra` asks for.
void linalg_solve(Context& c, bool gives_factors) {
  if (gives_empty(c, "self") || gives_empty(c, "B")) return;
  NodeId a = c.tensor("self"), b = c.tensor("B");
  bool left = c.flag("left", true);
  bool vector = is_vector(c, a, b);
  if (vector) b = c.b.unsqueeze(b, c.b.rank(b));
  bool turned = gives_factors && factorises_transposed(c, "self");
  StackPair pair = stacks_of(c, a, b);
  // X A = B is A' X' = B'.
  NodeId right = left || vector ? pair.b : transposed(c, pair.b);
  bool adjoint = (!left && !vector) != turned;
  Lu lu = lu_of(c, turned ? transposed(c, pair.a) : pair.a);
  NodeId x = solve_with(c, lu.packed, lu.rows, right, adjoint);
  give(c, left || vector ? x : transposed(c, x));
  if (!gives_factors) return give(c, lu.failed, 1);
  Lu own = lu_of(c, turned ? transposed(c, stack_of(c, a)) : stack_of(c, a));
  give(c, own.packed, 1);
  give(c, pivots_from_one(c, own), 2);
  give(c, own.failed, 3);
}

void lu_solve(Context& c, std::string_view factors, std::string_view pivots,
              std::string_view name) {
  if (gives_empty(c, name) || gives_empty(c, factors)) return;
  StackPair pair = stacks_of(c, c.tensor(factors), c.tensor(name));
  NodeId places = add(c, c.b.cast(c.tensor(pivots), DType::kInt64), whole_number(c, -1));
  // They broadcast as the matrices that they belong to.
  Sizes own = c.b.shape(c.tensor(factors)), other = c.b.shape(c.tensor(name));
  Shape shape = *c.b.broadcast(own.without_last(2), other.without_last(2));
  int64_t n = order_of(c, pair.a);
  shape.emplace_back(n);
  places = c.b.reshape(c.b.expand(places, shape), {c.b.size(pair.a, 0), n});
  NodeId rows = rows_after(c, places, n);
  bool left = c.flag("left", true);
  NodeId b = left ? pair.b : transposed(c, pair.b);
  NodeId x = solve_with(c, pair.a, rows, b, c.flag("adjoint", false) == left);
  give(c, left ? x : transposed(c, x));
}

void inverse(Context& c) {
  if (gives_empty(c, "self")) return;
  NodeId a = stack(c, "self");
  Lu lu = lu_of(c, a);
  NodeId ones = c.b.expand(identity(c, c.b.dtype(a), order_of(c, a)), c.b.shape(a));
  give(c, solve_with(c, lu.packed, lu.rows, ones, false));
  give(c, lu.failed, 1);
}

// A tensor as the square matrix of its first axes and its other ones.
NodeId as_square(Context& c, NodeId x, int first_axes) {
  Sizes shape = c.b.shape(x);
  Expr rows(1);
  for (int k = 0; k < first_axes; ++k) rows = rows * shape[static_cast<size_t>(k)];
  return c.b.reshape(x, {Expr(1), rows, rows});
}

void tensor_inverse(Context& c) {
  if (gives_empty(c, "self")) return;
  NodeId x = c.tensor("self");
  c.result(c.b.reshape(inverse_of(c, as_square(c, x, static_cast<int>(c.integer("ind", 2)))),
                       c.out_shape()));
}

// The tensor X with the sum of A over X's axes, A's last ones, equal to B. Axes in `dims` become
// A's last ones first.
void tensor_solve(Context& c) {
  if (gives_empty(c, "self")) return;
  NodeId a = c.tensor("self"), b = c.tensor("other");
  int rank = c.b.rank(a);
  if (c.has("dims")) {
    std::vector<int> last = c.ordered_axes("dims", rank);
    std::vector<int> order;
    for (int k = 0; k < rank; ++k) {
      if (std::find(last.begin(), last.end(), k) == last.end()) order.push_back(k);
    }
    order.insert(order.end(), last.begin(), last.end());
    a = c.b.permute(a, order);
  }
  NodeId square = as_square(c, a, c.b.rank(b));
  NodeId column = c.b.reshape(b, {Expr(1), c.b.size(square, 1), Expr(1)});
  c.result(c.b.reshape(solve(c, square, column), c.out_shape()));
}

// The power of a positive exponent by squaring.
NodeId power(Context& c, NodeId x, int64_t n) {
  std::optional<NodeId> value;
  for (NodeId square = x; n > 0; n >>= 1) {
    if ((n & 1) != 0) value = value ? matmul(c, *value, square) : square;
    if (n > 1) square = matmul(c, square, square);
  }
  return *value;
}

void matrix_power(Context& c) {
  NodeId x = c.b.cast(c.tensor("self"), compute_dtype(c.out_dtype()));
  int64_t n = c.integer("n");
  int rank = c.b.rank(x);
  if (rank < 2) c.refuse("it takes matrices");
  if (n > 0) return c.result(power(c, x, n));
  if (n == 0) {
    Expr size = c.b.size(x, rank - 1);
    NodeId one = c.b.binary(BinaryOp::kEqual, positions(c, size, rank - 2, rank),
                            positions(c, size, rank - 1, rank));
    return c.result(c.b.expand(c.b.cast(one, c.b.dtype(x)), c.b.shape(x)));
  }
  if (gives_empty(c, "self")) return;
  give(c, power(c, inverse_of(c, stack_of(c, x)), -n));
}

// ---- Factors ---------------------------------------------------------------------------------

void lu_factor(Context& c) {
  if (gives_empty(c, "self")) return;
  Lu lu = lu_of(c, stack(c, "self"), c.flag("pivot", true));
  give(c, lu.packed);
  give(c, pivots_from_one(c, lu), 1);
  give(c, lu.failed, 2);
}

void give_parts(Context& c, NodeId packed, std::optional<NodeId> rows) {
  if (rows) give(c, permutation(c, *rows, c.b.dtype(packed)));
  give(c, unit_lower(c, packed), 1);
  give(c, upper_of(c, packed), 2);
}

void linalg_lu(Context& c) {
  bool pivots = c.flag("pivot", true);
  if (!pivots) c.refuse("PyTorch computes it without pivots on GPUs alone");
  if (gives_empty(c, "self")) return;
  Lu lu = lu_of(c, stack(c, "self"));
  give_parts(c, lu.packed, lu.rows);
}

void lu_unpack(Context& c) {
  if (gives_empty(c, "LU_data")) return;
  NodeId packed = stack(c, "LU_data");
  bool data = c.flag("unpack_data", true), places = c.flag("unpack_pivots", true);
  std::optional<NodeId> rows;
  if (places) {
    NodeId given = c.b.cast(c.tensor("LU_pivots"), DType::kInt64);
    NodeId pivots = c.b.reshape(given, {c.b.size(packed, 0), c.b.size(given, c.b.rank(given) - 1)});
    rows = rows_after(c, add(c, pivots, whole_number(c, -1)), rows_of(c, packed));
  }
  if (!places && c.wants_output(0)) c.set(c.b.full(c.out_dtype(), c.out_shape(), 0));
  if (data) return give_parts(c, packed, rows);
  give(c, permutation(c, *rows, c.b.dtype(packed)));
  for (size_t k : {1, 2}) {
    if (c.wants_output(k)) c.set(c.b.full(c.out_dtype(k), c.out_shape(k), 0), k);
  }
}

// ---- Determinants ----------------------------------------------------------------------------

Lu lu_for_determinant(Context& c, size_t first) {
  NodeId a = stack(c, "self");
  order_of(c, a);
  Lu lu = lu_of(c, factorises_transposed(c, "self") ? transposed(c, a) : a);
  give(c, lu.packed, first);
  give(c, pivots_from_one(c, lu), first + 1);
  return lu;
}

void determinant(Context& c) {
  if (gives_empty(c, "self", {1, 0})) return;
  Lu lu = lu_for_determinant(c, 1);
  give(c, mul(c, c.b.reduce(ReduceOp::kProd, diagonal_of(c, lu.packed), {1}), lu.sign));
}

NodeId log_size(Context& c, const Lu& lu) {
  NodeId size = c.b.unary(UnaryOp::kAbs, diagonal_of(c, lu.packed));
  return c.b.reduce(ReduceOp::kSum, c.b.unary(UnaryOp::kLog, size), {1});
}

NodeId sign_of(Context& c, const Lu& lu) {
  NodeId signs = c.b.unary(UnaryOp::kSign, diagonal_of(c, lu.packed));
  return mul(c, c.b.reduce(ReduceOp::kProd, signs, {1}), lu.sign);
}

void slogdet(Context& c) {
  if (gives_empty(c, "self", {1, 0})) return;
  Lu lu = lu_for_determinant(c, 2);
  give(c, sign_of(c, lu));
  give(c, log_size(c, lu), 1);
}

// The logarithm of a negative determinant is not a number.
void logdet(Context& c) {
  if (gives_empty(c, "self")) return;
  NodeId a = stack(c, "self");
  order_of(c, a);
  Lu lu = lu_of(c, a);
  give(c, add(c, log_size(c, lu), c.b.unary(UnaryOp::kLog, sign_of(c, lu))));
}

}  // namespace

void add_lu_operators(OperatorTable* t) {
  for (const char* name :
       {"aten.linalg_lu_factor", "aten.linalg_lu_factor_ex", "aten._lu_with_info"}) {
    t->add(name, lu_factor);
  }
  t->add("aten.linalg_lu", linalg_lu);
  t->add("aten.lu_unpack", lu_unpack);
  t->add("aten.linalg_lu_solve", [](Context& c) { lu_solve(c, "LU", "pivots", "B"); });
  t->add("aten.lu_solve", [](Context& c) { lu_solve(c, "LU_data", "LU_pivots", "self"); });
  for (const char* name : {"aten.linalg_solve", "aten.linalg_solve_ex"}) {
    t->add(name, [](Context& c) { linalg_solve(c, false); });
  }
  t->add("aten._linalg_solve_ex", [](Context& c) { linalg_solve(c, true); });
  for (const char* name : {"aten.linalg_inv", "aten.linalg_inv_ex", "aten.inverse"}) {
    t->add(name, inverse);
  }
  t->add("aten.linalg_tensorinv", tensor_inverse);
  t->add("aten.linalg_tensorsolve", tensor_solve);
  t->add("aten.linalg_matrix_power", matrix_power);
  for (const char* name : {"aten.linalg_det", "aten._linalg_det", "aten.det"}) {
    t->add(name, determinant);
  }
  for (const char* name : {"aten.linalg_slogdet", "aten._linalg_slogdet", "aten.slogdet"}) {
    t->add(name, slogdet);
  }
  t->add("aten.logdet", logdet);
}

}  // namespace clients
