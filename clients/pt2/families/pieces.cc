// Reductions of pieces: bags of embeddings and segments of an axis, with their gradients.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

using common::Coordinate;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- Bags of embeddings ----------------------------------------------------------------------

NodeId whole(Context& c, int64_t value) { return c.b.scalar_int(DType::kInt64, value); }

constexpr int64_t kMean = 1, kMax = 2;

// The bag that each index is in, of bags that begin where `offsets` says.
NodeId bag_of_index(Context& c, NodeId indices) {
  NodeId offsets = c.b.cast(c.tensor("offsets"), DType::kInt64);
  if (c.b.rank(indices) != 1 || c.b.rank(offsets) != 1) c.refuse("it takes flat bags");
  return add(c, passed(c, offsets, {c.b.size(indices, 0)}), whole(c, -1));
}

// Whether each index counts, where some may not.
std::optional<NodeId> counts(Context& c, NodeId indices) {
  int64_t padding = c.integer("padding_idx", -1);
  if (padding < 0) return std::nullopt;
  NodeId pad = c.b.binary(BinaryOp::kEqual, indices, c.b.scalar_int(c.b.dtype(indices), padding));
  return logical_not(c, pad);
}

// x, zero where an index does not count.
NodeId counted(Context& c, NodeId indices, NodeId x) {
  auto kept = counts(c, indices);
  if (!kept) return x;
  NodeId mask = c.b.rank(x) > 1 ? c.b.unsqueeze(*kept, 1) : *kept;
  return c.b.select(mask, x, number_like(c, x, 0));
}

// The first row, of those in a bag, that has the bag's greatest element: its index into the
// weights, for each bag and column; 0 for a bag without rows.
void give_maxima(Context& c, NodeId rows, NodeId indices, NodeId bag, NodeId top) {
  Expr number = c.b.size(indices, 0);
  NodeId own = c.b.gather(top, {c.b.unsqueeze(bag, 1)}, c.b.shape(rows), along(2, 0));
  NodeId place = c.b.unsqueeze(c.b.iota(DType::kInt64, number), 1);
  NodeId none = c.b.size_scalar(DType::kInt64, number);
  NodeId found = c.b.select(c.b.binary(BinaryOp::kEqual, rows, own), place, none);
  NodeId base = c.b.expand(none, c.b.shape(top));
  NodeId first = c.b.scatter(ScatterMode::kMin, base, found, {c.b.unsqueeze(bag, 1)}, along(2, 0));
  NodeId index =
      c.b.gather(c.b.cast(indices, DType::kInt64), {first}, c.b.shape(top), {Coordinate{0, {}}});
  NodeId exists = c.b.binary(BinaryOp::kLess, first, none);
  NodeId value = c.b.select(exists, index, whole(c, 0));
  if (c.out_shape(3) == c.b.shape(value)) c.result(value, 3);
}

int64_t mode_of_bags(Context& c) {
  int64_t mode = c.integer("mode", 0);
  if (mode < 0 || mode > kMax) c.refuse("it takes sums, means or maxima of bags");
  return mode;
}

// Sums, means or greatest elements of the rows that each bag of indices names; rows of the padding
// index don't count. Beside them the bag of each index, the bags' sizes and the rows of greatest
// elements, for gradients; PyTorch leaves some of these empty.
void embedding_bag(Context& c) {
  NodeId weight = c.tensor("weight");
  NodeId indices = c.tensor("indices");
  int64_t mode = mode_of_bags(c);
  NodeId bag = bag_of_index(c, indices);
  c.check_index(indices, {c.b.size(weight, 0)});
  DType d = compute_dtype(c.b.dtype(weight));
  Expr number = c.b.size(indices, 0);
  Sizes out = c.out_shape();
  std::vector<Coordinate> rows_at = along(2, 0);
  NodeId rows = c.b.cast(
      c.b.gather(weight, {c.b.unsqueeze(indices, 1)}, {number, c.b.size(weight, 1)}, rows_at), d);
  if (auto scale = c.optional_tensor("per_sample_weights")) {
    rows = mul(c, rows, c.b.unsqueeze(c.b.cast(*scale, d), 1));
  }
  NodeId place = bag;
  NodeId ones = counted(c, indices, c.b.full_int(DType::kInt64, {number}, 1));
  if (auto kept = counts(c, indices)) {
    place = c.b.select(*kept, bag, c.b.size_scalar(DType::kInt64, out[0]));  // past the last one
  }
  NodeId sizes = c.b.scatter(ScatterMode::kAdd, c.b.full_int(DType::kInt64, {out[0]}, 0), ones,
                             {place}, along(1, 0));
  NodeId base = c.b.full(d, out, mode == kMax ? -kInfinity : 0);
  NodeId value = c.b.scatter(mode == kMax ? ScatterMode::kMax : ScatterMode::kAdd, base, rows,
                             {c.b.unsqueeze(place, 1)}, rows_at);
  NodeId column = c.b.unsqueeze(sizes, 1);
  if (c.wants_output(3) && mode == kMax) give_maxima(c, rows, indices, place, value);
  if (mode == kMean) value = div(c, value, c.b.cast(maximum(c, column, 1), d));
  if (mode == kMax) value = c.b.select(truth(c, column), value, number_like(c, value, 0));
  c.result(value);
  auto give = [&](size_t k, NodeId x) {
    if (!c.wants_output(k)) return;
    Sizes shape = c.out_shape(k);
    bool fits = shape == c.b.shape(x);
    c.result(fits ? x : c.b.full_int(DType::kInt64, shape, 0), k);
  };
  give(1, bag);
  give(2, sizes);
  if (mode != kMax) give(3, c.b.full_int(DType::kInt64, {out[0]}, 0));
}

NodeId bag_of_gradient(Context& c, NodeId indices) {
  if (c.has("offsets")) return bag_of_index(c, indices);
  NodeId bag = c.b.cast(c.tensor("offset2bag"), DType::kInt64);
  if (c.b.shape(bag) != c.b.shape(indices)) c.refuse("nothing says which bag an index is in");
  return bag;
}

// Rows of the incoming gradient, one for each index.
NodeId gradient_rows(Context& c, NodeId indices, NodeId bag) {
  NodeId gradient = float_tensor(c, "grad");
  Shape shape = {c.b.size(indices, 0), c.b.size(gradient, 1)};
  return c.b.gather(gradient, {c.b.unsqueeze(bag, 1)}, shape, along(2, 0));
}

// Each index's part of its bag's gradient, added up by rows of the weights.
void embedding_bag_backward(Context& c) {
  if (c.flag("sparse", false)) c.refuse("sparse gradients are not supported");
  NodeId indices = c.tensor("indices");
  int64_t mode = mode_of_bags(c);
  Sizes out = c.out_shape();
  if (mode == kMax) {
    NodeId gradient = float_tensor(c, "grad");
    NodeId base = c.b.full(c.b.dtype(gradient), out, 0);
    NodeId filled = truth(c, c.b.unsqueeze(c.tensor("bag_size"), 1));
    gradient = c.b.select(filled, gradient, number_like(c, gradient, 0));
    NodeId rows = c.b.cast(c.tensor("maximum_indices"), DType::kInt64);
    return c.result(c.b.scatter(ScatterMode::kAdd, base, gradient, {rows}, along(2, 0)));
  }
  NodeId bag = bag_of_gradient(c, indices);
  NodeId rows = gradient_rows(c, indices, bag);
  DType d = c.b.dtype(rows);
  auto scaled = [&](NodeId factor) { rows = mul(c, rows, c.b.unsqueeze(factor, 1)); };
  auto divided = [&](NodeId divisor) {
    NodeId column = c.b.cast(c.b.unsqueeze(maximum(c, divisor, 1), 1), d);
    rows = div(c, rows, column);
  };
  Shape line = c.b.shape(indices);
  if (auto scale = c.optional_tensor("per_sample_weights")) scaled(c.b.cast(*scale, d));
  if (mode == kMean) {
    NodeId sizes = c.b.cast(c.tensor("bag_size"), DType::kInt64);
    divided(c.b.gather(sizes, {bag}, line, along(1, 0)));
  }
  if (c.flag("scale_grad_by_freq", false)) {
    NodeId none = c.b.full_int(DType::kInt64, {out[0]}, 0);
    NodeId ones = c.b.full_int(DType::kInt64, line, 1);
    NodeId uses = c.b.scatter(ScatterMode::kAdd, none, ones, {indices}, along(1, 0));
    divided(c.b.gather(uses, {indices}, line, along(1, 0)));
  }
  rows = counted(c, indices, rows);
  c.result(c.b.scatter(ScatterMode::kAdd, c.b.full(d, out, 0), rows, {c.b.unsqueeze(indices, 1)},
                       along(2, 0)));
}

// Of each index's own factor: its row of the weights times its bag's gradient.
void per_sample_weights_backward(Context& c) {
  NodeId indices = c.tensor("indices");
  NodeId rows = gradient_rows(c, indices, bag_of_gradient(c, indices));
  NodeId weight = c.b.cast(c.tensor("weight"), c.b.dtype(rows));
  NodeId own = c.b.gather(weight, {c.b.unsqueeze(indices, 1)}, c.b.shape(rows), along(2, 0));
  NodeId value = c.b.reduce(ReduceOp::kSum, mul(c, rows, own), {1});
  c.result(counted(c, indices, value));
}

// ---- Segments --------------------------------------------------------------------------------

// Consecutive pieces of an axis, whose lengths (or where they begin) are data; the axes before it
// have pieces of their own.
struct Segments {
  NodeId lengths = 0;
  NodeId piece = 0;  // of every position along the axis, with axes of size 1 after it
  int axis = 0;
  int rank = 0;
};

Segments segments_of(Context& c) {
  NodeId x = c.tensor("data");
  Segments out;
  out.rank = c.b.rank(x);
  out.axis = c.axis("axis", out.rank, 0);
  if (c.has("lengths")) {
    out.lengths = c.b.cast(c.tensor("lengths"), DType::kInt64);
  } else {
    NodeId offsets = c.b.cast(c.tensor("offsets"), DType::kInt64);
    int last = c.b.rank(offsets) - 1;
    Expr n = c.b.size(offsets, last) - 1;
    out.lengths = sub(c, c.b.slice(offsets, last, 1, n), c.b.slice(offsets, last, 0, n));
  }
  if (out.rank == 0 || c.b.rank(out.lengths) != out.axis + 1) {
    c.refuse("the lengths have another rank");
  }
  Sizes shape = c.b.shape(x);
  Shape line(shape.begin(), shape.begin() + out.axis + 1);
  NodeId piece = passed(c, c.b.scan(ScanOp::kSum, out.lengths, out.axis), line);
  line.resize(shape.size(), Expr(1));
  out.piece = c.b.reshape(piece, line);
  return out;
}

// The lengths beside results of this shape.
NodeId lengths_beside(Context& c, const Segments& s, const Sizes& shape) {
  Shape sizes(shape.begin(), shape.begin() + s.axis + 1);
  sizes.resize(shape.size(), Expr(1));
  return c.b.reshape(s.lengths, sizes);
}

// Elements of the piece that each position is in.
NodeId at_positions(Context& c, const Segments& s, NodeId pieces, const Shape& shape) {
  return c.b.gather(pieces, {s.piece}, shape, along(s.rank, s.axis));
}

NodeId reduced(Context& c, const Segments& s, ScatterMode mode, NodeId x, NodeId base) {
  return c.b.scatter(mode, base, x, {s.piece}, along(s.rank, s.axis));
}

void segment_reduce(Context& c) {
  NodeId x = c.b.cast(c.tensor("data"), compute_dtype(c.out_dtype()));
  DType d = c.b.dtype(x);
  Segments s = segments_of(c);
  Sizes out = c.out_shape();
  if (static_cast<int>(out.size()) != s.rank) c.refuse("the result has another rank");
  std::string kind = c.text("reduce", "");
  ScatterMode mode = kind == "prod"  ? ScatterMode::kMul
                     : kind == "max" ? ScatterMode::kMax
                     : kind == "min" ? ScatterMode::kMin
                                     : ScatterMode::kAdd;
  double neutral = kind == "prod" ? 1 : kind == "max" ? -kInfinity : kind == "min" ? kInfinity : 0;
  NodeId base = c.b.full(d, out, c.number("initial", neutral));
  NodeId value = reduced(c, s, mode, x, base);
  if (kind == "mean") {
    NodeId count = lengths_beside(c, s, out);
    NodeId divided = div(c, value, c.b.cast(count, d));
    NodeId nothing = number_like(c, value, c.number("initial", NAN));
    value = c.b.select(truth(c, count), divided, nothing);
  }
  c.result(value);
}

// Of products: what the others of a piece multiply to, also where one of them is zero.
NodeId product_of_others(Context& c, const Segments& s, NodeId x, const Shape& pieces) {
  NodeId zero = number_like(c, x, 0), one = number_like(c, x, 1);
  NodeId is_zero = c.b.binary(BinaryOp::kEqual, x, zero);
  NodeId none = c.b.full(c.b.dtype(x), pieces, 0);
  NodeId zeros = reduced(c, s, ScatterMode::kAdd, c.b.cast(is_zero, c.b.dtype(x)), none);
  NodeId start = c.b.full(c.b.dtype(x), pieces, c.number("initial", 1));
  NodeId factors = c.b.select(is_zero, one, x);
  NodeId product =
      at_positions(c, s, reduced(c, s, ScatterMode::kMul, factors, start), c.b.shape(x));
  NodeId others = sub(c, at_positions(c, s, zeros, c.b.shape(x)), c.b.cast(is_zero, c.b.dtype(x)));
  NodeId value = c.b.select(is_zero, product, div(c, product, factors));
  return c.b.select(c.b.binary(BinaryOp::kEqual, others, zero), value, zero);
}

void segment_reduce_backward(Context& c) {
  DType d = compute_dtype(c.out_dtype());
  NodeId x = c.b.cast(c.tensor("data"), d);
  NodeId gradient = c.b.cast(c.tensor("grad"), d);
  Segments s = segments_of(c);
  Shape shape = c.b.shape(x);
  Sizes pieces = c.b.shape(gradient);
  std::string kind = c.text("reduce", "");
  if (kind == "mean") gradient = div(c, gradient, c.b.cast(lengths_beside(c, s, pieces), d));
  NodeId own = at_positions(c, s, gradient, shape);
  NodeId zero = number_like(c, x, 0);
  if (kind == "max" || kind == "min") {
    // Equal ones share it.
    NodeId best = at_positions(c, s, c.b.cast(c.tensor("output"), d), shape);
    NodeId same = c.b.binary(BinaryOp::kOr, c.b.binary(BinaryOp::kEqual, x, best),
                             c.b.unary(UnaryOp::kIsNan, x));
    NodeId number = reduced(c, s, ScatterMode::kAdd, c.b.cast(same, d), c.b.full(d, pieces, 0));
    NodeId shares = maximum(c, at_positions(c, s, number, shape), 1);
    own = c.b.select(same, div(c, own, shares), zero);
  } else if (kind == "prod") {
    own = mul(c, own, product_of_others(c, s, x, pieces));
  }
  // What lies behind the last piece is in none.
  NodeId last = c.b.size_scalar(DType::kInt64, pieces[static_cast<size_t>(s.axis)]);
  c.result(c.b.select(c.b.binary(BinaryOp::kLess, s.piece, last), own, zero));
}

}  // namespace

void add_pieces_operators(OperatorTable* t) {
  t->add("aten._embedding_bag_forward_only", embedding_bag);
  t->add("aten._embedding_bag", embedding_bag);
  t->add("aten.embedding_bag", embedding_bag);
  t->add("aten._embedding_bag_backward", embedding_bag_backward);
  t->add("aten._embedding_bag_dense_backward", embedding_bag_backward);
  t->add("aten._embedding_bag_per_sample_weights_backward", per_sample_weights_backward);
  t->add("aten.segment_reduce", segment_reduce);
  t->add("aten._segment_reduce_backward", segment_reduce_backward);
}

}  // namespace clients
