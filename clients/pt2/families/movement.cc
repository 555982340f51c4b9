// Operators that move elements: views of their operand's memory, and copies in another order.
#include <algorithm>
#include <numeric>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"
#include "common/base/contains.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;

// Axes that the model sees: a complex tensor's last one is not among them.
int logical_rank(Context& c, std::string_view name = "self") {
  return c.b.rank(c.any_tensor(name)) - (c.is_complex(name) ? 1 : 0);
}
Sizes shape_of(Context& c, std::string_view name = "self") { return c.b.shape(c.any_tensor(name)); }

// An axis that a view runs along: a scalar has none.
int axis_argument(Context& c, std::string_view name, std::optional<int64_t> fallback) {
  int rank = logical_rank(c);
  if (rank == 0) c.refuse("it takes a tensor with axes");
  return fallback ? c.axis(name, rank, *fallback) : c.axis(name, rank);
}

View composed(Context& c, const View& outer, const View& inner) {
  auto view = common::view_compose(outer, inner, c.b.symbols());
  if (!view) c.refuse("two paddings cannot be joined");
  return *view;
}

// The operand in the shape that the archive gives the result.
void reshape(Context& c) {
  if (c.vmap_levels() > 0) return c.set(c.b.reshape(c.every_level("self"), c.out_shape()));
  Sizes from = shape_of(c);
  Sizes to = c.out_shape();
  Expr difference = c.b.simplify(common::element_count(from) - common::element_count(to));
  if (difference.is_constant() && !difference.is_constant(0)) c.refuse("the element counts differ");
  c.alias("self", common::view_reshape(from, to, c.b.bounds()));
}

void permuted(Context& c, std::vector<int> order) {
  if (c.is_complex("self")) order.push_back(static_cast<int>(order.size()));
  if (order.size() != shape_of(c).size()) c.refuse("the permutation has another rank");
  c.alias("self", common::view_permute(shape_of(c), order));
}

void permute(Context& c) {
  int rank = logical_rank(c);
  std::vector<int> order;
  for (int64_t dim : c.integers("dims")) {
    int axis = static_cast<int>(dim < 0 ? dim + rank : dim);
    if (axis < 0 || axis >= rank || common::contains(order, axis)) {
      c.refuse("the permutation is malformed");
    }
    order.push_back(axis);
  }
  permuted(c, order);
}

std::vector<int> identity_order(int rank) {
  std::vector<int> order(at(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void swap_axes(Context& c, int first, int second) {
  std::vector<int> order = identity_order(logical_rank(c));
  if (!order.empty()) std::swap(order[at(first)], order[at(second)]);
  permuted(c, order);
}

void transpose(Context& c) {
  int rank = logical_rank(c);
  bool short_names = c.has("dim0");
  swap_axes(c, c.axis(short_names ? "dim0" : "axis0", rank),
            c.axis(short_names ? "dim1" : "axis1", rank));
}

void matrix_transpose(Context& c) {
  int rank = logical_rank(c);
  if (rank < 2) return c.alias("self");
  swap_axes(c, rank - 2, rank - 1);
}

void reverse_axes(Context& c) {
  std::vector<int> order = identity_order(logical_rank(c));
  std::reverse(order.begin(), order.end());
  permuted(c, order);
}

void movedim(Context& c) {
  int rank = logical_rank(c);
  std::vector<int64_t> from = c.integers("source");
  std::vector<int64_t> to = c.integers("destination");
  if (from.size() != to.size()) c.refuse("source and destination differ in length");
  std::vector<int> order(at(rank), -1);
  std::vector<bool> used(at(rank), false);
  for (size_t i = 0; i < from.size(); ++i) {
    int source = static_cast<int>(from[i] < 0 ? from[i] + rank : from[i]);
    int target = static_cast<int>(to[i] < 0 ? to[i] + rank : to[i]);
    if (source < 0 || source >= rank || target < 0 || target >= rank) c.refuse("no such axis");
    if (order[at(target)] >= 0 || used[at(source)]) c.refuse("an axis is named twice");
    order[at(target)] = source;
    used[at(source)] = true;
  }
  int next = 0;
  for (int& axis : order) {
    if (axis >= 0) continue;
    while (used[at(next)]) ++next;
    axis = next++;
  }
  permuted(c, order);
}

void expand(Context& c) {
  auto view = common::view_expand(shape_of(c), c.out_shape());
  if (!view) c.refuse("the shape cannot be expanded");
  c.alias("self", *view);
}

// A start position counted from the front; what lies past the end is never read.
Expr start_position(Context& c, const Expr& start, const Expr& size) {
  Expr front = start;
  if (c.b.bounds().upper(start) < 0) front = size + start;
  return c.b.simplify(common::max(front, 0));
}

void slice(Context& c) {
  int axis = axis_argument(c, "dim", 0);
  Sizes shape = shape_of(c);
  int64_t step = c.integer("step", 1);
  Expr start = start_position(c, c.size("start", 0), shape[at(axis)]);
  c.alias("self", common::view_slice(shape, axis, start, c.out_size(axis), step));
}

// From a place that only the data knows, counted from the end where it is negative.
void narrow_from_data(Context& c, int axis, Sizes shape) {
  NodeId start = c.b.cast(c.tensor("start"), DType::kInt64);
  NodeId size = c.b.size_scalar(DType::kInt64, shape[at(axis)]);
  NodeId zero = c.b.scalar_int(DType::kInt64, 0);
  c.check_index(start, {shape[at(axis)] + Expr(1), true, std::nullopt});
  start = add(c, start, c.b.select(c.b.binary(BinaryOp::kLess, start, zero), size, zero));
  shape[at(axis)] = c.size("length");
  int rank = static_cast<int>(shape.size());
  NodeId place = add(c, positions(c, shape[at(axis)], axis, rank), start);
  c.set(c.b.gather(c.tensor("self"), {place}, shape, along(rank, axis)));
}

void narrow(Context& c) {
  int axis = axis_argument(c, "dim", std::nullopt);
  Sizes shape = shape_of(c);
  if (c.is_tensor("start")) return narrow_from_data(c, axis, shape);
  Expr start = start_position(c, c.size("start"), shape[at(axis)]);
  c.alias("self", common::view_slice(shape, axis, start, c.size("length"), 1));
}

View select_view(Context& c, const Shape& shape, int axis, const Expr& position) {
  View one = common::view_slice(shape, axis, position, 1, 1);
  return composed(c, common::view_squeeze(one.shape, axis), one);
}

void select(Context& c) {
  int axis = axis_argument(c, "dim", std::nullopt);
  Sizes shape = shape_of(c);
  if (auto position = c.data_number("index")) {
    c.check_index(*position, {shape[at(axis)], true});
    NodeId from_end = add(c, *position, c.b.size_scalar(DType::kInt64, shape[at(axis)]));
    NodeId place = c.b.select(less(c, *position, 0), from_end, *position);
    Shape rest = shape;
    rest.erase(rest.begin() + axis);
    std::vector<common::Coordinate> coordinates;
    for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
      coordinates.push_back(k == axis ? common::Coordinate{0, {}}
                                      : common::Coordinate{-1, Expr::index(k < axis ? k : k - 1)});
    }
    NodeId value = c.b.gather(c.any_tensor("self"), {place}, rest, coordinates);
    return c.is_complex("self") ? c.set_complex(value) : c.set(value);
  }
  Expr index = c.size("index");
  if (c.b.bounds().upper(index) < 0) index = index + shape[at(axis)];
  c.alias("self", select_view(c, shape, axis, index));
}

void unbind(Context& c) {
  int axis = axis_argument(c, "dim", 0);
  Sizes shape = shape_of(c);
  for (size_t k = 0; k < c.output_count(); ++k) {
    c.alias("self", select_view(c, shape, axis, static_cast<int64_t>(k)), k);
  }
}

// Consecutive pieces of the sizes that the archive gives the results.
void split_along(Context& c, int axis) {
  if (logical_rank(c) <= axis) c.refuse("it has fewer axes");
  Sizes shape = shape_of(c);
  Expr start = 0;
  for (size_t k = 0; k < c.output_count(); ++k) {
    if (!c.wants_output(k)) c.refuse("a piece has no name");
    Expr length = c.out_size(axis, k);
    c.alias("self", common::view_slice(shape, axis, start, length, 1), k);
    start += length;
  }
}
void split(Context& c) { split_along(c, axis_argument(c, "dim", 0)); }

// Every tensor of a list in the shape that the archive gives it.
void reshape_each(Context& c) {
  std::vector<NodeId> parts = c.tensors("tensors");
  for (size_t k = 0; k < parts.size(); ++k) {
    if (c.wants_output(k)) c.set(c.b.reshape(parts[k], c.out_shape(k)), k);
  }
}

// The first elements in memory order, as many as the new shape holds; what is beyond is zero. The
// result shares the operand's memory unless it needs more.
void resize(Context& c) {
  NodeId x = flatten(c, c.tensor("self"));
  Sizes shape = c.out_shape();
  Expr wanted = c.b.simplify(common::element_count(shape));
  Expr missing = c.b.simplify(wanted - common::min(c.b.size(x, 0), wanted));
  if (missing.is_constant(0)) {
    Shape from = shape_of(c);
    View whole = common::view_reshape(from, {c.b.size(x, 0)}, c.b.bounds());
    View first = composed(c, common::view_slice({c.b.size(x, 0)}, 0, 0, wanted, 1), whole);
    View shaped = common::view_reshape({wanted}, shape, c.b.bounds());
    return c.alias("self", composed(c, shaped, first));
  }
  x = c.b.pad(x, 0, 0, missing);
  c.set(c.b.reshape(c.b.slice(x, 0, 0, wanted), shape));
}

void diagonal(Context& c, std::string_view name, int default_first, int default_second) {
  int rank = logical_rank(c, name);
  Sizes shape = shape_of(c, name);
  int64_t offset = c.integer("offset", 0);
  int first = c.axis("dim1", rank, default_first);
  int second = c.axis("dim2", rank, default_second);
  if (first == second || c.is_complex(name)) c.refuse("it takes two axes");
  View view;
  view.shape = c.out_shape();
  Expr along = Expr::index(rank - 2);
  int next = 0;
  for (int k = 0; k < rank; ++k) {
    if (k == first) {
      view.index.push_back(along + Expr(std::max<int64_t>(-offset, 0)));
    } else if (k == second) {
      view.index.push_back(along + Expr(std::max<int64_t>(offset, 0)));
    } else {
      view.index.push_back(Expr::index(next++));
    }
  }
  if (shape.size() != view.index.size()) c.refuse("the rank differs");
  c.alias(name, view);
}

void unfold(Context& c) {
  int rank = logical_rank(c);
  int axis = c.axis("dimension", rank);
  if (c.is_complex("self")) c.refuse("complex numbers are not supported here");
  Sizes shape = shape_of(c);
  if (rank == 0) return c.alias("self", common::view_unsqueeze(shape, 0));
  c.alias("self",
          common::view_unfold(shape, axis, c.out_size(axis), c.integer("size"), c.integer("step")));
}

// Positions in the operand's row-major storage.
void as_strided(Context& c) {
  NodeId x = c.tensor("self");
  std::vector<Expr> strides = c.sizes("stride");
  Expr position = c.size("storage_offset", 0);
  for (size_t k = 0; k < strides.size(); ++k) {
    position += strides[k] * Expr::index(static_cast<int>(k));
  }
  View whole = common::view_reshape(
      c.b.shape(x), {c.b.simplify(common::element_count(c.b.shape(x)))}, c.b.bounds());
  c.alias("self", composed(c, View{c.out_shape(), {position}, {}, 0}, whole));
}

void flip(Context& c) {
  NodeId x = c.tensor("self");
  // Without axes nothing is reversed, unlike in a reduction.
  if (c.integers("dims").empty()) return c.set(x);
  for (int axis : c.axes("dims", c.b.rank(x))) {
    Expr size = c.b.size(x, axis);
    x = c.b.slice(x, axis, size - 1, size, -1);
  }
  c.set(x);
}

// Reads position `index(i, size)` along an axis whose new size is `length`.
template <class Index>
NodeId remap(Context& c, NodeId x, int axis, const Expr& length, Index index) {
  View view = common::view_identity(c.b.shape(x));
  view.shape[at(axis)] = length;
  view.index[at(axis)] = index(Expr::index(axis), c.b.size(x, axis));
  return c.b.view(x, view);
}

void roll(Context& c) {
  NodeId x = c.tensor("self");
  Sizes shape = c.b.shape(x);
  std::vector<int64_t> shifts = c.integers("shifts");
  std::vector<int64_t> dims = c.integers("dims", {});
  bool flat = dims.empty();
  if (flat) {
    x = flatten(c, x);
    dims = {0};
  }
  if (shifts.size() != dims.size()) c.refuse("shifts and dims differ in length");
  for (size_t i = 0; i < dims.size(); ++i) {
    int axis = static_cast<int>(dims[i] < 0 ? dims[i] + c.b.rank(x) : dims[i]);
    if (axis < 0 || axis >= c.b.rank(x)) c.refuse("no such axis");
    x = remap(c, x, axis, c.b.size(x, axis), [&](const Expr& i0, const Expr& size) {
      return common::mod(i0 - Expr(shifts[i]), size);
    });
  }
  c.set(flat ? c.b.reshape(x, shape) : x);
}

void repeat(Context& c) {
  NodeId x = c.tensor("self");
  Sizes out = c.out_shape();
  Sizes shape = c.b.shape(x);
  if (out.size() < shape.size()) c.refuse("fewer repeats than axes");
  size_t lead = out.size() - shape.size();
  View view;
  view.shape = out;
  for (size_t k = 0; k < shape.size(); ++k) {
    view.index.push_back(common::mod(Expr::index(static_cast<int>(lead + k)), shape[k]));
  }
  c.set(c.b.view(x, view));
}

// Which element each place of the result repeats, when each has a number of its own: a mark where
// the repetitions of one end, counted along.
NodeId repeated_places(Context& c, const Expr& total) {
  if (!c.has("output_size") && !total.is_constant()) {
    c.refuse("the size of its result is known only from the data; give output_size");
  }
  NodeId ends = c.b.scan(ScanOp::kSum, c.b.cast(c.tensor("repeats"), DType::kInt64), 0);
  return passed(c, ends, {total});
}

void repeat_each(Context& c) {
  NodeId x = c.tensor("self");
  if (!c.has("dim")) x = flatten(c, x);
  int axis = c.axis("dim", c.b.rank(x), 0);
  if (c.b.rank(c.tensor("repeats")) != 1) c.refuse("it takes a vector of repeats");
  Sizes shape = c.b.shape(x);
  shape[at(axis)] = c.out_size(axis);
  Shape line(shape.size(), Expr(1));
  line[at(axis)] = shape[at(axis)];
  NodeId place = c.b.reshape(repeated_places(c, shape[at(axis)]), line);
  c.set(c.b.gather(x, {place}, shape, along(c.b.rank(x), axis)));
}

void repeat_interleave(Context& c) {
  NodeId x = c.tensor("self");
  if (!c.has("dim")) x = flatten(c, x);
  int axis = c.axis("dim", c.b.rank(x), 0);
  Expr times = c.size("repeats");
  c.set(remap(c, x, axis, c.out_size(axis),
              [&](const Expr& i, const Expr&) { return common::floor_div(i, times); }));
}

NodeId joined(Context& c, const std::vector<NodeId>& parts, int axis) {
  for (NodeId part : parts) {
    bool fits = c.b.rank(part) == c.b.rank(parts[0]);
    for (int k = 0; fits && k < c.b.rank(part); ++k) {
      fits = k == axis || c.b.size(part, k) == c.b.size(parts[0], k);
    }
    if (!fits) c.refuse("the tensors' shapes differ");
  }
  return c.b.concat(parts, axis);
}

void cat(Context& c) {
  std::vector<NodeId> parts;
  for (NodeId part : c.tensors("tensors")) {
    // An empty vector joins with anything, for old models' sake.
    bool empty = c.b.rank(part) == 1 && c.b.size(part, 0).is_constant(0);
    if (!empty || c.out_shape().size() == 1) parts.push_back(c.b.cast(part, c.out_dtype()));
  }
  if (parts.empty()) c.refuse("nothing to join");
  c.set(joined(c, parts, c.axis("dim", c.b.rank(parts[0]), 0)));
}

void stack(Context& c) {
  std::vector<NodeId> parts = c.tensors("tensors");
  if (parts.empty()) c.refuse("nothing to join");
  int axis = c.axis("dim", c.b.rank(parts[0]) + 1, 0);
  for (NodeId& part : parts) part = c.b.unsqueeze(c.b.cast(part, c.out_dtype()), axis);
  c.set(joined(c, parts, axis));
}

// Elements on one side of a diagonal, zero elsewhere.
void triangle(Context& c, bool lower) {
  NodeId x = c.tensor("self");
  int rank = c.b.rank(x);
  if (rank < 2) c.refuse("it takes matrices");
  NodeId row = positions(c, c.b.size(x, rank - 2), rank - 2, rank);
  NodeId column = positions(c, c.b.size(x, rank - 1), rank - 1, rank);
  NodeId limit = add(c, row, c.b.size_scalar(DType::kInt64, c.size("diagonal", 0)));
  NodeId inside = lower ? c.b.binary(BinaryOp::kLessEqual, column, limit)
                        : c.b.binary(BinaryOp::kLessEqual, limit, column);
  c.set(c.b.select(inside, x, number_like(c, x, 0)));
}

// The base with `updates` written where a view of it reads.
void scatter_view(Context& c, const View& view) {
  NodeId base = c.tensor("self");
  NodeId updates = c.b.cast(c.tensor("src"), c.b.dtype(base));
  if (!c.b.can_expand(updates, view.shape)) c.refuse("src has another shape");
  std::vector<common::Coordinate> coordinates;
  for (const Expr& index : view.index) coordinates.push_back({-1, index});
  c.set(c.b.scatter(ScatterMode::kAssign, base, c.b.expand(updates, view.shape), {}, coordinates));
}

void slice_scatter(Context& c) {
  NodeId base = c.tensor("self");
  int axis = c.axis("dim", c.b.rank(base), 0);
  Sizes shape = c.b.shape(base);
  Expr size = shape[at(axis)];
  Expr start = c.b.simplify(common::min(start_position(c, c.size("start", 0), size), size));
  Expr end = c.size("end", INT64_MAX);
  if (c.b.bounds().upper(end) < 0) end = end + size;
  end = c.b.simplify(common::min(common::max(end, start), size));
  int64_t step = c.integer("step", 1);
  Expr length = c.b.simplify(common::floor_div(end - start + Expr(step - 1), step));
  scatter_view(c, common::view_slice(shape, axis, start, length, step));
}

void select_scatter(Context& c) {
  NodeId base = c.tensor("self");
  int axis = c.axis("dim", c.b.rank(base));
  Sizes shape = c.b.shape(base);
  Expr index = c.size("index");
  if (c.b.bounds().upper(index) < 0) index = index + shape[at(axis)];
  scatter_view(c, select_view(c, shape, axis, index));
}

template <Translator translator>
void copied(Context& c) {
  translator(c);
  for (size_t k = 0; k < c.output_count(); ++k) c.unshare(k);
}

void add_views(OperatorTable* t) {
  for (const char* name :
       {"aten.view.default", "aten.reshape", "aten._unsafe_view", "aten.view_as", "aten.reshape_as",
        "aten.flatten", "aten.unflatten", "aten.ravel", "aten.squeeze", "aten.unsqueeze",
        "aten._reshape_alias", "aten.atleast_1d", "aten.atleast_2d", "aten.atleast_3d"}) {
    t->add(name, reshape);
  }
  for (const char* name : {"aten.view_copy.default", "aten.squeeze_copy", "aten.unsqueeze_copy",
                           "aten._reshape_copy"}) {
    t->add(name, copied<reshape>);
  }
  t->add("aten.permute", permute);
  t->add("aten.permute_copy", copied<permute>);
  t->add("aten.transpose", transpose);
  t->add("aten.transpose_copy", copied<transpose>);
  t->add("aten.t", matrix_transpose);
  t->add("aten.t_copy", copied<matrix_transpose>);
  for (const char* name : {"aten.mT", "aten.mH", "aten.matrix_H", "aten.adjoint"}) {
    t->add(name, matrix_transpose);
  }
  t->add("aten.numpy_T", reverse_axes);
  t->add("aten.movedim", movedim);
  t->add("aten.expand", expand);
  t->add("aten.expand_as", expand);
  t->add("aten.broadcast_to", expand);
  t->add("aten.expand_copy", copied<expand>);
  t->add("aten.slice", slice);
  t->add("aten.slice_copy", copied<slice>);
  t->add("aten.narrow", narrow);
  t->add("aten.narrow_copy", copied<narrow>);
  t->add("aten.select", select);
  t->add("aten.select_copy", copied<select>);
  t->add("aten.unbind", unbind);
  t->add("aten.unbind_copy", copied<unbind>);
  for (const char* name :
       {"aten.split", "aten.split_with_sizes", "aten.chunk", "aten.tensor_split"}) {
    t->add(name, split);
  }
  for (const char* name : {"aten.split_copy", "aten.split_with_sizes_copy", "aten.unsafe_split",
                           "aten.unsafe_chunk", "aten.unsafe_split_with_sizes"}) {
    t->add(name, copied<split>);
  }
  t->add("aten.hsplit", [](Context& c) { split_along(c, logical_rank(c) == 1 ? 0 : 1); });
  t->add("aten.vsplit", [](Context& c) { split_along(c, 0); });
  t->add("aten.dsplit", [](Context& c) { split_along(c, 2); });
  for (const char* name :
       {"aten.atleast_1d.Sequence", "aten.atleast_2d.Sequence", "aten.atleast_3d.Sequence"}) {
    t->add(name, reshape_each);
  }
  t->add("aten.resize", resize);
  t->add("aten.resize_as", resize);
  t->add("aten.linalg_diagonal", [](Context& c) { diagonal(c, "A", -2, -1); });
  t->add("aten.diagonal", [](Context& c) { diagonal(c, "self", 0, 1); });
  t->add("aten.diagonal_copy", [](Context& c) {
    diagonal(c, "self", 0, 1);
    c.unshare();
  });
  t->add("aten.unfold", unfold);
  t->add("aten.unfold_copy", copied<unfold>);
  t->add("aten.as_strided", as_strided);
  t->add("aten.as_strided_copy", copied<as_strided>);
}

}  // namespace

void add_movement_operators(OperatorTable* t) {
  add_views(t);
  t->add("aten.flip", flip);
  t->add("aten.roll", roll);
  t->add("aten.repeat", repeat);
  t->add("aten.tile", repeat);
  t->add("aten.repeat_interleave.self_int", repeat_interleave);
  t->add("aten.repeat_interleave.self_Tensor", repeat_each);
  t->add("aten.repeat_interleave.Tensor",
         [](Context& c) { c.result(repeated_places(c, c.out_size(0))); });
  t->add("aten.cat", cat);
  t->add("aten.stack", stack);
  t->add("aten.tril", [](Context& c) { triangle(c, true); });
  t->add("aten.triu", [](Context& c) { triangle(c, false); });
  t->add("aten.slice_scatter", slice_scatter);
  t->add("aten.select_scatter", select_scatter);
}

}  // namespace clients
