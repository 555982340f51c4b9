// Operators that PyTorch itself composes of others: stacks, grids, products of several tensors.
#include <algorithm>
#include <numeric>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"
#include "common/base/contains.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;

std::vector<NodeId> in_result_dtype(Context& c, std::string_view name) {
  std::vector<NodeId> parts = c.tensors(name);
  if (parts.empty()) c.refuse("nothing to join");
  for (NodeId& part : parts) part = c.b.cast(part, c.out_dtype());
  return parts;
}

// At least `rank` axes, as torch.atleast_Nd adds them.
NodeId at_least(Context& c, NodeId x, int rank) {
  while (c.b.rank(x) < rank) {
    bool behind = rank == 3 && c.b.rank(x) == 2;
    x = c.b.unsqueeze(x, behind ? 2 : 0);
  }
  return x;
}

void join(Context& c, int rank, int axis) {
  std::vector<NodeId> parts = in_result_dtype(c, "tensors");
  for (NodeId& part : parts) part = at_least(c, part, rank);
  for (NodeId part : parts) {
    bool fits = c.b.rank(part) == c.b.rank(parts[0]);
    for (int k = 0; fits && k < c.b.rank(part); ++k) {
      fits = k == axis || c.b.size(part, k) == c.b.size(parts[0], k);
    }
    if (!fits) c.refuse("the tensors' shapes differ");
  }
  c.set(c.b.concat(parts, axis));
}

void hstack(Context& c) {
  bool lines = true;
  for (NodeId part : c.tensors("tensors")) lines = lines && c.b.rank(part) <= 1;
  join(c, 1, lines ? 0 : 1);
}

// Vectors become columns.
void column_stack(Context& c) {
  std::vector<NodeId> parts = in_result_dtype(c, "tensors");
  for (NodeId& part : parts) {
    if (c.b.rank(part) <= 1) part = c.b.unsqueeze(at_least(c, part, 1), 1);
  }
  c.set(c.b.concat(parts, 1));
}

void block_diag(Context& c) {
  std::vector<NodeId> parts = in_result_dtype(c, "tensors");
  Expr columns = 0;
  for (NodeId& part : parts) {
    part = at_least(c, part, 2);
    columns += c.b.size(part, 1);
  }
  Expr before = 0;
  for (NodeId& part : parts) {
    Expr width = c.b.size(part, 1);
    part = c.b.pad(part, 1, before, c.b.simplify(columns - before - width));
    before += width;
  }
  c.set(c.b.concat(parts, 0));
}

// Tensors of different first sizes as one, each padded to the longest.
void pad_sequence(Context& c) {
  std::vector<NodeId> parts = in_result_dtype(c, "sequences");
  bool batch_first = c.flag("batch_first", false);
  Expr longest = c.out_size(batch_first ? 1 : 0);
  bool left = c.text("padding_side", "right") == "left";
  for (NodeId& part : parts) {
    Expr missing = c.b.simplify(longest - c.b.size(part, 0));
    part = c.b.pad(part, 0, left ? missing : Expr(0), left ? Expr(0) : missing,
                   c.number("padding_value", 0));
    part = c.b.unsqueeze(part, batch_first ? 0 : 1);
  }
  c.set(c.b.concat(parts, batch_first ? 0 : 1));
}

// Vector k runs along axis k of a grid of all of them.
std::vector<NodeId> grid(Context& c, const std::vector<NodeId>& lines) {
  Shape shape;
  for (NodeId line : lines) shape.push_back(c.b.size(at_least(c, line, 1), 0));
  std::vector<NodeId> out;
  for (size_t k = 0; k < lines.size(); ++k) {
    Shape one(shape.size(), Expr(1));
    one[k] = shape[k];
    out.push_back(c.b.expand(c.b.reshape(lines[k], one), shape));
  }
  return out;
}

void meshgrid(Context& c) {
  std::vector<NodeId> lines = c.tensors("tensors");
  bool columns_first = c.text("indexing", "ij") == "xy" && lines.size() > 1;
  if (columns_first) std::swap(lines[0], lines[1]);
  std::vector<NodeId> grids = grid(c, lines);
  if (columns_first) std::swap(grids[0], grids[1]);
  for (size_t k = 0; k < grids.size(); ++k) c.set(grids[k], k);
}

void cartesian_product(Context& c) {
  std::vector<NodeId> lines = c.tensors("tensors");
  if (lines.size() == 1) return c.set(lines[0]);
  std::vector<NodeId> columns;
  for (NodeId value : grid(c, lines)) columns.push_back(c.b.unsqueeze(flatten(c, value), 1));
  if (columns.empty()) c.refuse("nothing to join");
  c.set(c.b.concat(columns, 1));
}

void broadcast_tensors(Context& c) {
  std::vector<NodeId> parts = c.tensors("tensors");
  for (size_t k = 0; k < parts.size(); ++k) {
    if (c.wants_output(k)) c.set(c.b.expand(parts[k], c.out_shape(k)), k);
  }
}

// ---- Products --------------------------------------------------------------------------------

NodeId factor(Context& c, std::string_view name) {
  return c.b.cast(c.tensor(name), compute_dtype(c.out_dtype()));
}

// The sum over the pairs of axes (first[k], second[k]); the other axes stay, a's before b's.
NodeId contracted(Context& c, NodeId a, NodeId b, const std::vector<int>& first,
                  const std::vector<int>& second) {
  if (first.size() != second.size()) c.refuse("the summed axes differ in number");
  auto kept = [&](NodeId x, const std::vector<int>& summed) {
    std::vector<int> out;
    for (int k = 0; k < c.b.rank(x); ++k) {
      if (!common::contains(summed, k)) out.push_back(k);
    }
    return out;
  };
  auto product_of = [&](NodeId x, const std::vector<int>& axes) {
    Expr n = 1;
    for (int k : axes) n *= c.b.size(x, k);
    return c.b.simplify(n);
  };
  std::vector<int> rows = kept(a, first);
  std::vector<int> columns = kept(b, second);
  Shape shape;
  for (int k : rows) shape.push_back(c.b.size(a, k));
  for (int k : columns) shape.push_back(c.b.size(b, k));
  Expr m = product_of(a, rows);
  Expr n = product_of(b, columns);
  Expr inner = product_of(a, first);
  std::vector<int> a_order = rows;
  a_order.insert(a_order.end(), first.begin(), first.end());
  std::vector<int> b_order = second;
  b_order.insert(b_order.end(), columns.begin(), columns.end());
  NodeId left = c.b.reshape(c.b.permute(a, a_order), {m, inner});
  NodeId right = c.b.reshape(c.b.permute(b, b_order), {inner, n});
  return c.b.reshape(c.b.matmul(left, right), shape);
}

void tensordot(Context& c) {
  NodeId a = factor(c, "self");
  NodeId b = factor(c, "other");
  std::vector<int> first = c.ordered_axes("dims_self", c.b.rank(a));
  std::vector<int> second = c.ordered_axes("dims_other", c.b.rank(b));
  // An axis of one element goes with an axis of any length, which is summed before.
  for (size_t k = 0; k < std::min(first.size(), second.size()); ++k) {
    bool one_a = c.b.size(a, first[k]).is_constant(1);
    bool one_b = c.b.size(b, second[k]).is_constant(1);
    if (one_a == one_b) continue;
    NodeId& longer = one_a ? b : a;
    longer = rounded(c, c.b.reduce(ReduceOp::kSum, longer, {one_a ? second[k] : first[k]}, true));
  }
  c.result(contracted(c, a, b, first, second));
}

void inner(Context& c) {
  NodeId a = factor(c, "self");
  NodeId b = factor(c, "other");
  if (c.b.rank(a) == 0 || c.b.rank(b) == 0) return c.result(any_mul(c, a, b));
  c.result(contracted(c, a, b, {c.b.rank(a) - 1}, {c.b.rank(b) - 1}));
}

// Every element of one times the whole of the other.
void kron(Context& c) {
  NodeId a = factor(c, "self");
  NodeId b = factor(c, "other");
  int rank = std::max(c.b.rank(a), c.b.rank(b));
  while (c.b.rank(a) < rank) a = c.b.unsqueeze(a, 0);
  while (c.b.rank(b) < rank) b = c.b.unsqueeze(b, 0);
  for (int k = 0; k < rank; ++k) {
    a = c.b.unsqueeze(a, 2 * k + 1);
    b = c.b.unsqueeze(b, 2 * k);
  }
  c.result(c.b.reshape(any_mul(c, a, b), c.out_shape()));
}

// Whether A(BC) takes fewer multiplications than (AB)C, as PyTorch decides it.
bool last_pair_first(Context& c, const std::vector<NodeId>& parts) {
  auto size = [&](NodeId x, int axis) { return c.b.rank(x) == 1 ? Expr(1) : c.b.size(x, axis); };
  Expr rows = size(parts[0], 0);
  Expr columns = size(parts[2], 1);
  Expr first = c.b.size(parts[1], 0);
  Expr second = c.b.size(parts[2], 0);
  Expr left = c.b.simplify(rows * second * (first + columns));
  Expr right = c.b.simplify(first * columns * (rows + second));
  return left.is_constant() && right.is_constant() && left.constant() > right.constant();
}

void chain_matmul(Context& c, std::string_view name) {
  std::vector<NodeId> parts = c.tensors(name);
  if (parts.empty()) c.refuse("nothing to multiply");
  DType d = compute_dtype(c.out_dtype());
  for (NodeId& part : parts) part = c.b.cast(part, d);
  if (parts.size() == 3 && last_pair_first(c, parts)) {
    return c.result(matmul(c, parts[0], rounded(c, matmul(c, parts[1], parts[2]))));
  }
  NodeId value = parts[0];
  for (size_t k = 1; k < parts.size(); ++k) value = matmul(c, rounded(c, value), parts[k]);
  c.result(value);
}

// Component i of the cross product is a[i+1] b[i+2] - a[i+2] b[i+1], counted modulo three.
void cross(Context& c) {
  NodeId a = factor(c, "self");
  NodeId b = factor(c, "other");
  auto shape = c.b.broadcast(c.b.shape(a), c.b.shape(b));
  if (!shape) c.refuse("the operands do not broadcast");
  a = c.b.expand(a, *shape);
  b = c.b.expand(b, *shape);
  int axis = 0;
  if (c.has("dim") || c.node->target.find("linalg_cross") != std::string::npos) {
    axis = c.axis("dim", c.b.rank(a), -1);
  } else {
    // Without a dim, the first axis of three.
    while (axis < c.b.rank(a) && !c.b.size(a, axis).is_constant(3)) ++axis;
  }
  if (!c.b.size(a, axis).is_constant(3)) c.refuse("it takes vectors of three components");
  auto turned = [&](NodeId x, int64_t by) {
    View view = common::view_identity(c.b.shape(x));
    view.index[at(axis)] = common::mod(Expr::index(axis) + Expr(by), 3);
    return c.b.view(x, view);
  };
  auto product = [&](int64_t i, int64_t k) {
    return rounded(c, mul(c, turned(a, i), turned(b, k)));
  };
  c.result(sub(c, product(1, 2), product(2, 1)));
}

void linalg_vecdot(Context& c) {
  NodeId product = rounded(c, any_mul(c, factor(c, "x"), factor(c, "y")));
  c.result(c.b.reduce(ReduceOp::kSum, product, {c.axis("dim", c.b.rank(product), -1)}));
}

// y[o] = x1 W[o] x2 + b[o]
void bilinear(Context& c) {
  NodeId a = factor(c, "input1");
  NodeId b = factor(c, "input2");
  NodeId w = factor(c, "weight");
  int rank = c.b.rank(a);
  if (rank == 0 || c.b.rank(w) != 3) c.refuse("it takes vectors and a stack of matrices");
  NodeId rows = rounded(c, contracted(c, a, w, {rank - 1}, {1}));  // (..., out, in2)
  NodeId sum = c.b.reduce(ReduceOp::kSum, mul(c, rows, c.b.unsqueeze(b, rank - 1)), {rank});
  sum = rounded(c, sum);
  if (c.has("bias")) sum = add(c, sum, factor(c, "bias"));
  c.result(sum);
}

void trilinear(Context& c) {
  auto spread = [&](std::string_view name, std::string_view axes) {
    NodeId x = factor(c, name);
    for (int64_t axis : c.integers(axes)) x = c.b.unsqueeze(x, static_cast<int>(axis));
    return x;
  };
  NodeId product =
      mul(c, mul(c, spread("i1", "expand1"), spread("i2", "expand2")), spread("i3", "expand3"));
  std::vector<int> summed = c.ordered_axes("sumdim", c.b.rank(product));
  std::sort(summed.begin(), summed.end());
  c.result(c.b.reduce(ReduceOp::kSum, product, summed));
}

// ---- Matrices --------------------------------------------------------------------------------

NodeId diagonal_of(Context& c, NodeId x, int64_t offset) {
  View view;
  Expr i = Expr::index(0);
  view.shape = c.out_shape();
  view.index = {i + Expr(std::max<int64_t>(-offset, 0)), i + Expr(std::max<int64_t>(offset, 0))};
  return c.b.view(x, view);
}

NodeId on_diagonal(Context& c, NodeId line, int64_t offset) {
  Sizes shape = c.out_shape();
  if (shape.size() != 2) c.refuse("the result is no matrix");
  Expr row = Expr::index(0) + Expr(offset < 0 ? offset : 0);
  NodeId spread = c.b.view(line, View{shape, {row}, {{row, c.b.size(line, 0)}}, 0});
  NodeId diagonal = add(c, positions(c, shape[0], 0, 2), static_cast<double>(offset));
  NodeId on = c.b.binary(BinaryOp::kEqual, diagonal, positions(c, shape[1], 1, 2));
  return c.b.select(on, spread, number_like(c, line, 0));
}

// A vector becomes a matrix with it on a diagonal; of a matrix the diagonal is taken.
void diag(Context& c) {
  NodeId x = c.tensor("self");
  int64_t offset = c.integer("diagonal", 0);
  if (c.b.rank(x) == 2) return c.set(diagonal_of(c, x, offset));
  if (c.b.rank(x) != 1) c.refuse("it takes a vector or a matrix");
  c.set(on_diagonal(c, x, offset));
}

void diagflat(Context& c) {
  c.set(on_diagonal(c, flatten(c, c.tensor("self")), c.integer("offset", 0)));
}

void trace(Context& c) {
  NodeId x = factor(c, "self");
  if (c.b.rank(x) != 2) c.refuse("it takes a matrix");
  Expr n = c.b.simplify(common::min(c.b.size(x, 0), c.b.size(x, 1)));
  NodeId line = c.b.view(x, View{{n}, {Expr::index(0), Expr::index(0)}, {}, 0});
  c.result(c.b.reduce(ReduceOp::kSum, line, {0}));
}

void triangle_indices(Context& c, bool lower) {
  Pairs pairs =
      triangle(c, c.integer("row"), c.integer("col"), c.integer("offset", 0), lower, c.out_size(1));
  c.result(c.b.concat({c.b.unsqueeze(pairs.row, 0), c.b.unsqueeze(pairs.column, 0)}, 0));
}

// Every choice of r elements in order.
void combinations(Context& c) {
  NodeId x = c.tensor("self");
  int64_t r = c.integer("r", 2);
  bool again = c.flag("with_replacement", false);
  if (c.b.rank(x) != 1 || !c.b.size(x, 0).is_constant())
    c.refuse("it takes a vector of known size");
  int64_t n = c.b.size(x, 0).constant();
  Expr number = c.out_size(0);
  std::vector<NodeId> columns;
  if (r == 1) {
    columns.push_back(c.b.iota(DType::kInt64, n));
  } else if (r == 2) {
    Pairs pairs = triangle(c, n, n, again ? 0 : 1, false, number);
    columns = {pairs.row, pairs.column};
  } else if (r == 3) {
    // Pairs of the pairs: the last element follows the second one.
    Expr pair_number = again ? n * (n + 1) / 2 : n * (n - 1) / 2;
    Pairs pairs = triangle(c, n, n, again ? 0 : 1, false, pair_number);
    NodeId first = again ? pairs.column : add(c, pairs.column, 1.0);
    NodeId width = sub(c, c.b.scalar_int(DType::kInt64, n), first);
    NodeId ends = c.b.scan(ScanOp::kSum, width, 0);
    NodeId pair = passed(c, ends, {number});
    auto of = [&](NodeId line) { return c.b.gather(line, {pair}, {number}, along(1, 0)); };
    NodeId inside = sub(c, c.b.iota(DType::kInt64, number), of(sub(c, ends, width)));
    columns = {of(pairs.row), of(pairs.column), add(c, of(first), inside)};
  } else {
    c.refuse("more than three elements at once are not supported");
  }
  std::vector<NodeId> picked;
  for (NodeId column : columns) {
    NodeId values = c.b.gather(x, {column}, {number}, along(1, 0));
    picked.push_back(c.b.unsqueeze(values, 1));
  }
  c.set(c.b.concat(picked, 1));
}

void vander(Context& c) {
  NodeId x = factor(c, "x");
  int rank = c.b.rank(x);
  Expr n = c.out_size(rank);
  bool increasing =
      c.node->target.find("linalg_vander") != std::string::npos || c.flag("increasing", false);
  NodeId power = positions(c, n, rank, rank + 1);
  if (!increasing) power = sub(c, c.b.size_scalar(DType::kInt64, n - 1), power);
  power = c.b.cast(power, c.b.dtype(x));
  c.result(c.b.binary(BinaryOp::kPow, c.b.unsqueeze(x, rank), power));
}

// ---- Turned and shuffled ---------------------------------------------------------------------

void channel_shuffle(Context& c) {
  NodeId x = c.tensor("self");
  int64_t groups = c.integer("groups");
  Sizes shape = c.b.shape(x);
  if (shape.size() < 3) c.refuse("it takes images");
  auto each = common::exact_div(shape[1], groups);
  if (!each) c.refuse("the groups do not divide the channels");
  Shape split = {shape[0], groups, *each};
  split.insert(split.end(), shape.begin() + 2, shape.end());
  std::vector<int> order(split.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[1], order[2]);
  c.set(c.b.reshape(c.b.permute(c.b.reshape(x, split), order), shape));
}

void rot90(Context& c) {
  NodeId x = c.tensor("self");
  std::vector<int> axes = c.has("dims") ? c.ordered_axes("dims", c.b.rank(x)) : std::vector{0, 1};
  if (axes.size() != 2 || axes[0] == axes[1] || c.b.rank(x) < 2) c.refuse("it takes two axes");
  int64_t turns = ((c.integer("k", 1) % 4) + 4) % 4;
  auto flipped = [&](NodeId v, int axis) {
    Expr n = c.b.size(v, axis);
    return c.b.slice(v, axis, n - 1, n, -1);
  };
  std::vector<int> order(at(c.b.rank(x)));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[at(axes[0])], order[at(axes[1])]);
  if (turns == 1) x = c.b.permute(flipped(x, axes[1]), order);
  if (turns == 2) x = flipped(flipped(x, axes[0]), axes[1]);
  if (turns == 3) x = flipped(c.b.permute(x, order), axes[1]);
  c.set(x);
}

void flip_axis(Context& c, int axis) {
  NodeId x = c.tensor("self");
  Expr n = c.b.size(x, axis);
  c.set(c.b.slice(x, axis, n - 1, n, -1));
}

}  // namespace

void add_composite_operators(OperatorTable* t) {
  t->add("aten.hstack", hstack);
  t->add("aten.vstack", [](Context& c) { join(c, 2, 0); });
  t->add("aten.dstack", [](Context& c) { join(c, 3, 2); });
  t->add("aten.column_stack", column_stack);
  t->add("aten.block_diag", block_diag);
  t->add("aten.pad_sequence", pad_sequence);
  t->add("aten.meshgrid", meshgrid);
  t->add("aten.cartesian_prod", cartesian_product);
  t->add("aten.broadcast_tensors", broadcast_tensors);
  t->add("aten.tensordot", tensordot);
  t->add("aten.inner", inner);
  t->add("aten.kron", kron);
  t->add("aten.chain_matmul", [](Context& c) { chain_matmul(c, "matrices"); });
  t->add("aten.linalg_multi_dot", [](Context& c) { chain_matmul(c, "tensors"); });
  t->add("aten.cross", cross);
  t->add("aten.linalg_cross", cross);
  t->add("aten.linalg_vecdot", linalg_vecdot);
  t->add("aten.bilinear", bilinear);
  t->add("aten._trilinear", trilinear);
  t->add("aten.diag", diag);
  t->add("aten.diagflat", diagflat);
  t->add("aten.trace", trace);
  t->add("aten.tril_indices", [](Context& c) { triangle_indices(c, true); });
  t->add("aten.triu_indices", [](Context& c) { triangle_indices(c, false); });
  t->add("aten.combinations", combinations);
  t->add("aten.vander", vander);
  t->add("aten.linalg_vander", vander);
  t->add("aten.channel_shuffle", channel_shuffle);
  t->add("aten.native_channel_shuffle", channel_shuffle);
  t->add("aten.rot90", rot90);
  t->add("aten.fliplr", [](Context& c) { flip_axis(c, 1); });
  t->add("aten.flipud", [](Context& c) { flip_axis(c, 0); });
}

}  // namespace clients
