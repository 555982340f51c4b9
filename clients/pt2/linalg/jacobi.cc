#include "clients/pt2/linalg/jacobi.h"

#include <bit>

#include "clients/pt2/linalg/qr.h"

namespace clients {
namespace {

// Columns on the left half meet those on the right. n is even.
struct Rotation {
  NodeId cosine = 0;  // (batch, n / 2)
  NodeId sine = 0;
};

// The one that makes the pair's product vanish, from both squares and their product. Pairs whose
// product is rounding already stay.
Rotation rotation(Context& c, NodeId left, NodeId right, NodeId product) {
  NodeId one = number_like(c, product, 1), zero = number_like(c, product, 0);
  NodeId stays = c.b.binary(BinaryOp::kEqual, product, zero);
  NodeId safe = c.b.select(stays, one, product);
  NodeId cotangent = div(c, sub(c, right, left), mul(c, safe, 2.0));
  NodeId root = c.b.binary(BinaryOp::kHypot, cotangent, one);
  NodeId tangent = div(c, one, add(c, c.b.unary(UnaryOp::kAbs, cotangent), root));
  tangent = c.b.binary(BinaryOp::kCopysign, tangent, cotangent);
  tangent = c.b.select(stays, zero, tangent);
  NodeId secant = c.b.unary(UnaryOp::kSqrt, add(c, mul(c, tangent, tangent), 1.0));
  NodeId cosine = div(c, one, secant);
  return {cosine, mul(c, tangent, cosine)};
}

// Both halves of an axis after the rotation.
NodeId rotated(Context& c, NodeId x, const Rotation& by, int axis, int64_t n) {
  int across = axis == 2 ? 1 : 2;
  NodeId cosine = c.b.unsqueeze(by.cosine, across), sine = c.b.unsqueeze(by.sine, across);
  NodeId left = c.b.slice(x, axis, 0, n / 2), right = c.b.slice(x, axis, n / 2, n / 2);
  return c.b.concat({sub(c, mul(c, cosine, left), mul(c, sine, right)),
                     add(c, mul(c, sine, left), mul(c, cosine, right))},
                    axis);
}

// The next round of the tournament: the first place stays, all others move on by one in a circle
// that runs along the left half from its second place on and back along the right half. After n - 1
// rounds everyone is where they were.
NodeId next_round(Context& c, NodeId x, int axis, int64_t n) {
  if (n == 2) return x;
  int64_t h = n / 2;
  auto part = [&](int64_t from, int64_t length) { return c.b.slice(x, axis, from, length); };
  std::vector<NodeId> parts = {part(0, 1), part(h, 1)};
  if (h > 2) parts.push_back(part(1, h - 2));
  parts.push_back(part(h + 1, h - 1));
  parts.push_back(part(h - 1, 1));
  return c.b.concat(parts, axis);
}

// Sweeps of n - 1 rounds. What is left after them is rounding for matrices of any condition that
// the dtype resolves; numerical libraries stop at about as many.
int64_t rounds(int64_t n) {
  constexpr int64_t kSweeps = 7;
  int64_t sweeps = kSweeps + std::bit_width(static_cast<uint64_t>(n));
  return n == 2 ? 2 : sweeps * (n - 1);
}

double rounding(Context& c, NodeId x) {
  return c.b.dtype(x) == DType::kFloat64 ? 0x1p-53 : 0x1p-24;
}

// Zero where the product is small beside the two lengths.
NodeId without_rounding(Context& c, NodeId product, NodeId scale, double rounding) {
  NodeId size = c.b.unary(UnaryOp::kAbs, product);
  NodeId small = c.b.binary(BinaryOp::kLessEqual, size, mul(c, scale, rounding));
  return c.b.select(small, number_like(c, product, 0), product);
}

NodeId even_columns(Context& c, NodeId x, int64_t n) {
  return n % 2 == 0 ? x : c.b.pad(x, 2, 0, 1);
}

}  // namespace

Eigen eigen_of(Context& c, NodeId a) {
  int64_t n = order_of(c, a);
  NodeId lower = lower_part(c, a, -1);
  NodeId diagonal = sub(c, lower_part(c, a), lower);
  a = add(c, add(c, lower, transposed(c, lower)), diagonal);
  int64_t even = n + n % 2;
  if (even != n) a = c.b.pad(c.b.pad(a, 1, 0, 1), 2, 0, 1);
  auto step = [=](Context& c, NodeId, const Values& carried, const Values&) -> Values {
    NodeId x = carried[0], v = carried[1];
    int64_t h = even / 2;
    NodeId line = diagonal_of(c, x);
    NodeId left = c.b.slice(line, 1, 0, h), right = c.b.slice(line, 1, h, h);
    NodeId product = diagonal_of(c, c.b.slice(c.b.slice(x, 1, 0, h), 2, h, h));
    // Below a quarter of the last digit of both it changes neither.
    NodeId scale =
        c.b.binary(BinaryOp::kMin, c.b.unary(UnaryOp::kAbs, left), c.b.unary(UnaryOp::kAbs, right));
    product = without_rounding(c, product, scale, rounding(c, x) / 4);
    Rotation by = rotation(c, left, right, product);
    x = rotated(c, rotated(c, x, by, 2, even), by, 1, even);
    x = next_round(c, next_round(c, x, 2, even), 1, even);
    return {x, next_round(c, rotated(c, v, by, 2, even), 2, even)};
  };
  NodeId ones = c.b.expand(identity(c, c.b.dtype(a), even), c.b.shape(a));
  Values out = n == 1 ? Values{a, ones} : repeat(c, rounds(even), {a, ones}, {}, step);
  NodeId values = c.b.slice(diagonal_of(c, out[0]), 1, 0, n);
  NodeId vectors = c.b.slice(c.b.slice(out[1], 1, 0, n), 2, 0, n);
  NodeId order = c.b.sort_indices(values, 1, false);
  return {in_order(c, values, order), columns_in_order(c, vectors, order)};
}

namespace {

// A V with orthogonal columns, and V, for m by n matrices with m >= n (Hestenes).
struct Orthogonal {
  NodeId columns = 0;
  NodeId v = 0;
};

Orthogonal orthogonal_columns(Context& c, NodeId a) {
  int64_t n = columns_of(c, a), even = n + n % 2;
  auto step = [=](Context& c, NodeId, const Values& carried, const Values&) -> Values {
    NodeId x = carried[0], v = carried[1];
    NodeId left = c.b.slice(x, 2, 0, even / 2), right = c.b.slice(x, 2, even / 2, even / 2);
    auto sum = [&](NodeId p, NodeId q) { return c.b.reduce(ReduceOp::kSum, mul(c, p, q), {1}); };
    NodeId of_left = sum(left, left), of_right = sum(right, right);
    NodeId lengths =
        mul(c, c.b.unary(UnaryOp::kSqrt, of_left), c.b.unary(UnaryOp::kSqrt, of_right));
    NodeId product = without_rounding(c, sum(left, right), lengths, rounding(c, x));
    Rotation by = rotation(c, of_left, of_right, product);
    return {next_round(c, rotated(c, x, by, 2, even), 2, even),
            next_round(c, rotated(c, v, by, 2, even), 2, even)};
  };
  Shape square = {c.b.size(a, 0), even, even};
  NodeId ones = c.b.expand(identity(c, c.b.dtype(a), even), square);
  Values start = {even_columns(c, a, n), ones};
  Values out = n == 1 ? start : repeat(c, rounds(even), start, {}, step);
  return {c.b.slice(out[0], 2, 0, n), c.b.slice(c.b.slice(out[1], 1, 0, n), 2, 0, n)};
}

NodeId lengths_of(Context& c, NodeId columns) { return norm(c, columns, 2, {1}); }

// Singular values and vectors of matrices with no more columns than rows.
Singular of_tall(Context& c, NodeId a, bool full) {
  int64_t m = rows_of(c, a), n = columns_of(c, a);
  Orthogonal out = orthogonal_columns(c, a);
  NodeId values = lengths_of(c, out.columns);
  NodeId order = c.b.sort_indices(values, 1, true);
  values = in_order(c, values, order);
  NodeId columns = columns_in_order(c, out.columns, order);
  // Reflections make columns of length one of them, and of what is zero others beside them.
  NodeId safe = c.b.select(c.b.binary(BinaryOp::kEqual, values, number_like(c, values, 0)),
                           number_like(c, values, 1), values);
  Qr qr = qr_of(c, div(c, columns, c.b.unsqueeze(safe, 1)), full);
  NodeId turned = c.b.binary(BinaryOp::kCopysign, number_like(c, values, 1), diagonal_of(c, qr.r));
  if (full && m > n) turned = c.b.pad(turned, 1, 0, m - n, 1);
  return {mul(c, qr.q, c.b.unsqueeze(turned, 1)), values, columns_in_order(c, out.v, order)};
}

}  // namespace

Singular singular_of(Context& c, NodeId a, bool full) {
  if (rows_of(c, a) >= columns_of(c, a)) return of_tall(c, a, full);
  Singular out = of_tall(c, transposed(c, a), full);
  return {out.v, out.values, out.u};
}

NodeId singular_values(Context& c, NodeId a) {
  if (rows_of(c, a) < columns_of(c, a)) a = transposed(c, a);
  NodeId values = lengths_of(c, orthogonal_columns(c, a).columns);
  return in_order(c, values, c.b.sort_indices(values, 1, true));
}

}  // namespace clients
