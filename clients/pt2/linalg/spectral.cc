// Eigenvalues of symmetric matrices, singular values, and what is made of them: pseudoinverses,
// ranks and least squares. Vectors are known up to their sign, in PyTorch as here.
#include <algorithm>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/linalg/jacobi.h"

namespace clients {
namespace {

void nothing_in(Context& c, size_t k) {
  if (c.wants_output(k)) c.set(c.b.full(c.out_dtype(k), c.out_shape(k), 0), k);
}

// ---- Decompositions --------------------------------------------------------------------------

void eigh(Context& c) {
  if (gives_empty(c, "self")) return;
  NodeId a = stack(c, "self");
  std::string half = c.text("UPLO", "L");
  Eigen out = eigen_of(c, half == "U" || half == "u" ? transposed(c, a) : a);
  give(c, out.values);
  if (!c.flag("compute_v", true)) return nothing_in(c, 1);
  give(c, out.vectors, 1);
}

// `v_is_adjoint`: the third result is the transposed V.
void svd(Context& c, bool full, bool v_is_adjoint) {
  if (gives_empty(c, "self")) return;
  NodeId a = stack(c, "self");
  if (!c.flag("compute_uv", true)) {
    give(c, singular_values(c, a), 1);
    nothing_in(c, 0);
    return nothing_in(c, 2);
  }
  Singular out = singular_of(c, a, full);
  give(c, out.u);
  give(c, out.values, 1);
  give(c, v_is_adjoint ? transposed(c, out.v) : out.v, 2);
}

void svdvals(Context& c) {
  if (!gives_empty(c, "self")) give(c, singular_values(c, stack(c, "self")));
}

// ---- Pseudoinverses and ranks ----------------------------------------------------------------

// A tolerance (batch, 1): a number, a tensor of the leading shape, or what PyTorch takes for none.
NodeId tolerance(Context& c, std::string_view name, NodeId values, const Shape& leading,
                 double none) {
  DType d = c.b.dtype(values);
  Shape column = {c.b.size(values, 0), 1};
  if (!c.has(name)) return c.b.full(d, column, none);
  return c.b.reshape(c.b.expand(as(c, operand(c, name), d), leading), column);
}

// Names of the tolerances in the overload at hand.
struct Tolerances {
  std::string_view absolute = "atol";
  std::string_view relative = "rtol";
};

// Matrices with the leading axes that tolerances broadcast them to.
struct Judged {
  NodeId matrices = 0;
  Shape leading;
};

Judged judged(Context& c, const Tolerances& names) {
  NodeId a = c.tensor("self");
  Sizes shape = c.b.shape(a);
  Judged out{a, shape.without_last(2)};
  for (std::string_view name : {names.absolute, names.relative}) {
    if (!c.has(name) || !c.is_tensor(name)) continue;
    auto joined = c.b.broadcast(out.leading, c.b.shape(c.tensor(name)));
    if (!joined) c.refuse("the tolerances do not broadcast");
    out.leading = *joined;
  }
  Shape whole = out.leading;
  Sizes matrix = shape.last(2);
  whole.insert(whole.end(), matrix.begin(), matrix.end());
  out.matrices = stack_of(c, c.b.expand(a, whole));
  return out;
}

// Below it singular values count as zero: the absolute one or the relative one's share of the
// greatest, whichever is greater. Without a relative one it is the rounding of the size, or zero
// beside an absolute one.
NodeId threshold(Context& c, NodeId values, const Tolerances& names, const Judged& of) {
  auto size = static_cast<double>(std::max(rows_of(c, of.matrices), columns_of(c, of.matrices)));
  double digit = c.b.dtype(values) == DType::kFloat64 ? 0x1p-52 : 0x1p-23;
  NodeId least = tolerance(c, names.absolute, values, of.leading, 0);
  NodeId share = tolerance(c, names.relative, values, of.leading, digit * size);
  NodeId zero = number_like(c, values, 0);
  if (!c.has(names.relative) && c.has(names.absolute)) {
    share = c.b.select(c.b.binary(BinaryOp::kLess, zero, least), zero, share);
  }
  NodeId top = c.b.reduce(ReduceOp::kMax, values, {1}, true);
  return c.b.binary(BinaryOp::kMax, least, mul(c, share, top));
}

// U, S and V, or vectors and sizes of eigenvalues of symmetric matrices: A = U diag(S) V'.
Singular decomposed(Context& c, NodeId a) {
  if (!c.flag("hermitian", false)) return singular_of(c, a, false);
  Eigen eigen = eigen_of(c, a);
  NodeId size = c.b.unary(UnaryOp::kAbs, eigen.values);
  NodeId signs = c.b.binary(BinaryOp::kCopysign, number_like(c, size, 1), eigen.values);
  return {mul(c, eigen.vectors, c.b.unsqueeze(signs, 1)), size, eigen.vectors};
}

// V diag(1 / S) times what U' x is.
NodeId pseudoinverse_times(Context& c, const Singular& d, NodeId least, NodeId x) {
  NodeId counts = c.b.binary(BinaryOp::kLess, least, d.values);
  NodeId one = number_like(c, d.values, 1), zero = number_like(c, d.values, 0);
  NodeId inverse = c.b.select(counts, div(c, one, c.b.select(counts, d.values, one)), zero);
  return matmul(c, mul(c, d.v, c.b.unsqueeze(inverse, 1)), matmul(c, transposed(c, d.u), x));
}

void pinv(Context& c, const Tolerances& names) {
  if (gives_empty(c, "self")) return;
  Judged a = judged(c, names);
  Singular d = decomposed(c, a.matrices);
  NodeId least = threshold(c, d.values, names, a);
  NodeId ones = identity(c, c.b.dtype(a.matrices), rows_of(c, a.matrices));
  give(c, pseudoinverse_times(c, d, least, ones));
}

NodeId rank_of(Context& c, NodeId values, NodeId least) {
  NodeId counts = c.b.binary(BinaryOp::kLess, least, values);
  return c.b.reduce(ReduceOp::kSum, c.b.cast(counts, DType::kInt64), {1});
}

void matrix_rank(Context& c, const Tolerances& names) {
  if (gives_empty(c, "self")) return;
  Judged a = judged(c, names);
  NodeId values = c.flag("hermitian", false)
                      ? c.b.unary(UnaryOp::kAbs, eigen_of(c, a.matrices).values)
                      : singular_values(c, a.matrices);
  give(c, rank_of(c, values, threshold(c, values, names, a)));
}

// The shortest of the solutions that come closest.
void lstsq(Context& c) {
  if (gives_empty(c, "self") || gives_empty(c, "b")) return;
  NodeId a = c.tensor("self"), b = c.tensor("b");
  if (c.b.rank(b) + 1 == c.b.rank(a)) b = c.b.unsqueeze(b, c.b.rank(b));
  StackPair pair = stacks_of(c, a, b);
  Singular d = singular_of(c, pair.a, false);
  NodeId top = c.b.reduce(ReduceOp::kMax, d.values, {1}, true);
  double digit = c.b.dtype(top) == DType::kFloat64 ? 0x1p-52 : 0x1p-23;
  double share = c.number(
      "rcond", digit * static_cast<double>(std::max(rows_of(c, pair.a), columns_of(c, pair.a))));
  NodeId least = mul(c, top, share);
  NodeId x = pseudoinverse_times(c, d, least, pair.b);
  give(c, x);
  auto has_elements = [&](size_t k) {
    if (!c.wants_output(k)) return false;
    if (!c.b.simplify(common::element_count(c.out_shape(k))).is_constant(0)) return true;
    nothing_in(c, k);
    return false;
  };
  if (has_elements(1)) {
    NodeId rest = sub(c, matmul(c, pair.a, x), pair.b);
    give(c, c.b.reduce(ReduceOp::kSum, mul(c, rest, rest), {1}), 1);
  }
  if (has_elements(2)) give(c, rank_of(c, d.values, least), 2);
  if (has_elements(3)) give(c, d.values, 3);
}

// ---- Roots and polar factors -----------------------------------------------------------------

void matrix_sqrth(Context& c) {
  if (gives_empty(c, "self")) return;
  Eigen e = eigen_of(c, stack(c, "self"));
  NodeId root = c.b.unsqueeze(c.b.unary(UnaryOp::kSqrt, e.values), 1);
  give(c, matmul(c, mul(c, e.vectors, root), transposed(c, e.vectors)));
}

// A = U H with orthonormal columns in U and a symmetric H.
void polar(Context& c) {
  if (gives_empty(c, "self")) return;
  Singular d = singular_of(c, stack(c, "self"), false);
  NodeId adjoint = transposed(c, d.v);
  give(c, matmul(c, d.u, adjoint));
  give(c, matmul(c, mul(c, d.v, c.b.unsqueeze(d.values, 1)), adjoint), 1);
}

}  // namespace

void add_spectral_operators(OperatorTable* t) {
  for (const char* name : {"aten.linalg_eigh", "aten._linalg_eigh", "aten.linalg_eigvalsh"}) {
    t->add(name, eigh);
  }
  t->add("aten.linalg_svd", [](Context& c) { svd(c, c.flag("full_matrices", true), true); });
  t->add("aten._linalg_svd", [](Context& c) { svd(c, c.flag("full_matrices", false), true); });
  t->add("aten.svd", [](Context& c) { svd(c, !c.flag("some", true), false); });
  t->add("aten.linalg_svdvals", svdvals);
  t->add("aten.linalg_pinv", [](Context& c) {
    bool old = c.has("rcond");
    pinv(c, old ? Tolerances{"", "rcond"} : Tolerances{});
  });
  t->add("aten.pinverse", [](Context& c) { pinv(c, {"", "rcond"}); });
  t->add("aten.linalg_matrix_rank", [](Context& c) {
    bool old = c.has("tol");
    matrix_rank(c, old ? Tolerances{"tol", ""} : Tolerances{});
  });
  t->add("aten.linalg_lstsq", lstsq);
  t->add("aten.linalg_matrix_sqrth", matrix_sqrth);
  t->add("aten.linalg_polar", polar);
}

}  // namespace clients
