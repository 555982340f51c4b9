// Operators that read or write where other tensors say: embeddings, gathers and scatters.
#include <algorithm>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"
#include "clients/pt2/families/selection.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;
using common::Coordinate;

// Shaped to broadcast against a value of `rank` axes, with its one axis at `axis`.
NodeId on_axis(Context& c, NodeId vector, int axis, int rank) {
  if (c.b.rank(vector) == 0) vector = c.b.unsqueeze(vector, 0);
  if (c.b.rank(vector) != 1) c.refuse("the index must be a vector");
  Shape shape(at(rank), Expr(1));
  shape[at(axis)] = c.b.size(vector, 0);
  return c.b.reshape(vector, shape);
}

void embedding(Context& c) {
  NodeId weight = c.tensor("weight");
  NodeId indices = c.tensor("indices");
  int rank = c.b.rank(indices);
  Sizes shape = c.b.shape(indices);
  shape.push_back(c.b.size(weight, 1));
  c.check_index(indices, {c.b.size(weight, 0)});
  NodeId index = c.b.unsqueeze(indices, rank);
  c.set(c.b.gather(weight, {index}, shape, {Coordinate{0, {}}, Coordinate{-1, Expr::index(rank)}}));
}

// True when the value cannot be negative, whatever the inputs are.
bool never_negative(Context& c, NodeId id, int depth = 0) {
  const common::Node& node = c.b.node(id);
  if (depth > 4) return false;
  switch (node.op) {
    case common::Op::kIota:
    case common::Op::kSort:
      return true;
    case common::Op::kConstant: {
      auto value = c.b.uniform_value(id);
      return value && *value >= 0;
    }
    case common::Op::kView:
    case common::Op::kCast:
      return !common::is_float(c.b.dtype(node.operands[0])) &&
             never_negative(c, node.operands[0], depth + 1);
    case common::Op::kBinary: {
      auto op = common::attr<common::BinaryAttr>(node).op;
      bool keeps = op == BinaryOp::kAdd || op == BinaryOp::kMul || op == BinaryOp::kMin;
      return keeps && never_negative(c, node.operands[0], depth + 1) &&
             never_negative(c, node.operands[1], depth + 1);
    }
    default:
      return false;
  }
}

// Negative positions count from the end.
NodeId wrapped(Context& c, NodeId index, const Expr& size) {
  if (never_negative(c, index)) return index;
  NodeId from_end = add(c, index, c.b.size_scalar(c.b.dtype(index), size));
  return c.b.select(less(c, index, 0), from_end, index);
}

// What index.Tensor and index_put address: positions broadcast together, in place of the axes
// they index, or in front where those axes are apart.
struct Addressed {
  Shape shape;                          // of the result or of the values
  std::vector<NodeId> indices;          // each broadcasts to `shape`
  std::vector<Coordinate> coordinates;  // one for each axis of the data
};

// A boolean mask among the indices selects a number of elements that only the data knows.
bool has_mask(Context& c, const std::vector<std::optional<NodeId>>& indices) {
  return std::any_of(indices.begin(), indices.end(), [&](const std::optional<NodeId>& index) {
    return index && (c.b.dtype(*index) == DType::kBool || c.b.dtype(*index) == DType::kUint8);
  });
}

// The indices with the one mask among them as the places that it selects, where the program states
// how many.
std::vector<std::optional<NodeId>> with_places(Context& c,
                                               std::vector<std::optional<NodeId>> indices) {
  size_t given = 0, at = 0;
  for (size_t k = 0; k < indices.size(); ++k) {
    if (!indices[k]) continue;
    ++given;
    at = k;
  }
  if (given != 1) c.refuse("a mask among other indices is not supported");
  NodeId mask = *indices[at];
  int64_t size = stated_size(c, static_cast<int>(at));
  if (size == 0 || c.b.rank(mask) == 0) c.refuse("an empty selection is not supported");
  std::vector<std::optional<NodeId>> out(indices.begin(), indices.begin() + static_cast<long>(at));
  for (NodeId place : stated_places(c, mask, size)) out.emplace_back(place);
  out.insert(out.end(), indices.begin() + static_cast<long>(at) + 1, indices.end());
  return out;
}

// `is_checked`: not for operators that PyTorch calls unsafe.
Addressed address(Context& c, NodeId data, std::vector<std::optional<NodeId>> indices,
                  bool is_checked) {
  Sizes from = c.b.shape(data);
  if (indices.size() > from.size()) c.refuse("more indices than axes");
  indices.resize(from.size());
  for (size_t k = 0; is_checked && k < indices.size(); ++k) {
    if (indices[k]) c.check_index(*indices[k], {from[k], true});
  }
  std::vector<int> indexed;
  Shape block;
  for (size_t k = 0; k < indices.size(); ++k) {
    if (!indices[k]) continue;
    indexed.push_back(static_cast<int>(k));
    auto joined = c.b.broadcast(block, c.b.shape(*indices[k]));
    if (!joined) c.refuse("the indices do not broadcast");
    block = *joined;
  }
  if (indexed.empty()) c.refuse("no index is given");
  bool together = indexed.back() - indexed.front() + 1 == static_cast<int>(indexed.size());
  size_t start = together ? static_cast<size_t>(indexed.front()) : 0;
  Addressed out;
  out.coordinates.resize(from.size());
  auto keep = [&](size_t k) {
    out.coordinates[k] = {-1, Expr::index(static_cast<int>(out.shape.size()))};
    out.shape.push_back(from[k]);
  };
  for (size_t k = 0; k < start; ++k) keep(k);
  out.shape.insert(out.shape.end(), block.begin(), block.end());
  for (size_t k = start; k < from.size(); ++k) {
    if (!indices[k]) keep(k);
  }
  // Index tensors gain trailing axes for what follows the block.
  size_t trailing = out.shape.size() - start - block.size();
  for (int axis : indexed) {
    NodeId index = wrapped(c, *indices[at(axis)], from[at(axis)]);
    Sizes shape = c.b.shape(index);
    shape.insert(shape.end(), trailing, Expr(1));
    out.coordinates[at(axis)] = {static_cast<int>(out.indices.size()), {}};
    out.indices.push_back(c.b.reshape(index, shape));
  }
  return out;
}

void index(Context& c, bool is_checked) {
  NodeId data = c.vmap_levels() > 0 ? c.without_levels("self") : c.tensor("self");
  auto indices = c.optional_tensors("indices");
  for (const auto& item : indices) {
    bool same = item && indices[0] && c.b.rank(*item) == c.b.rank(*indices[0]);
    if (c.vmap_levels() > 0 && !same) c.refuse("these indices are not supported in torch.vmap");
  }
  if (has_mask(c, indices)) indices = with_places(c, std::move(indices));
  Addressed a = address(c, data, std::move(indices), is_checked);
  c.set(c.b.gather(data, a.indices, a.shape, a.coordinates));
}

// Where the mask is false the fill is read, whatever the indices are.
void masked_index(Context& c) {
  NodeId data = c.tensor("self");
  Addressed a = address(c, data, c.optional_tensors("indices"), false);
  NodeId values = c.b.gather(data, a.indices, a.shape, a.coordinates);
  NodeId mask = truth(c, c.tensor("mask"));
  if (!c.b.can_expand(mask, a.shape)) c.refuse("the mask does not fit");
  NodeId fill = as(c, operand(c, "fill"), c.b.dtype(data));
  c.set(c.b.select(c.b.expand(mask, a.shape), values, fill));
}

// A mask over the leading axes blends: elsewhere the data stays, all-false masks included.
void put_by_mask(Context& c, NodeId data, NodeId mask, NodeId values, bool accumulate) {
  if (c.b.rank(mask) > c.b.rank(data)) c.refuse("the mask has more axes than the data");
  Sizes shape = c.b.shape(mask);
  Sizes whole = c.b.shape(data);
  Shape rest(whole.begin() + c.b.rank(mask), whole.end());
  shape.insert(shape.end(), rest.size(), Expr(1));
  NodeId condition = c.b.reshape(truth(c, mask), shape);
  // One value for every place (or one row for every place) needs no counting.
  bool uniform =
      c.b.rank(values) <= static_cast<int>(rest.size()) ||
      (c.b.rank(values) == static_cast<int>(rest.size()) + 1 && c.b.size(values, 0).is_constant(1));
  if (!uniform) {
    // The n-th true place takes the n-th value.
    NodeId flat = c.b.cast(flatten(c, truth(c, mask)), DType::kInt64);
    NodeId order = add(c, c.b.scan(ScanOp::kSum, flat, 0), -1.0);
    NodeId place = c.b.reshape(order, shape);
    std::vector<Coordinate> coordinates = {Coordinate{0, {}}};
    for (size_t k = 0; k < rest.size(); ++k) {
      coordinates.push_back({-1, Expr::index(c.b.rank(mask) + static_cast<int>(k))});
    }
    if (c.b.rank(values) != static_cast<int>(coordinates.size())) c.refuse("values do not fit");
    values = c.b.gather(values, {place}, c.b.shape(data), coordinates);
  }
  if (!c.b.can_expand(values, c.b.shape(data))) c.refuse("values do not fit");
  DType d = c.b.dtype(data);
  NodeId chosen = c.b.cast(values, d);
  if (accumulate) {
    DType wide = compute_dtype(d);
    chosen = c.b.cast(any_add(c, c.b.cast(data, wide), c.b.cast(chosen, wide)), d);
  }
  c.set(c.b.select(condition, chosen, data));
}

// Adds in a type that can be added: half types go through float32, booleans are ored.
NodeId scatter_in(Context& c, ScatterMode mode, NodeId base, NodeId updates,
                  const std::vector<NodeId>& indices, const std::vector<Coordinate>& where) {
  DType d = c.b.dtype(base);
  if (mode == ScatterMode::kAssign) {
    return c.b.scatter(mode, base, c.b.cast(updates, d), indices, where);
  }
  DType wide = d == DType::kBool ? DType::kInt32 : compute_dtype(d);
  NodeId out = c.b.scatter(mode, c.b.cast(base, wide), c.b.cast(updates, wide), indices, where);
  return c.b.cast(out, d);
}

void index_put(Context& c, bool is_checked) {
  NodeId data = c.tensor("self");
  NodeId values = c.tensor("values");
  bool accumulate = c.flag("accumulate", false);
  auto indices = c.optional_tensors("indices");
  if (has_mask(c, indices)) {
    size_t given = static_cast<size_t>(std::count_if(
        indices.begin(), indices.end(), [](const auto& index) { return index.has_value(); }));
    if (given != 1 || !indices[0]) c.refuse("a mask among other indices is not supported");
    return put_by_mask(c, data, *indices[0], values, accumulate);
  }
  Addressed a = address(c, data, std::move(indices), is_checked);
  if (!c.b.can_expand(values, a.shape)) c.refuse("values do not fit the indices");
  NodeId updates = c.b.expand(values, a.shape);
  c.set(scatter_in(c, accumulate ? ScatterMode::kAdd : ScatterMode::kAssign, data, updates,
                   a.indices, a.coordinates));
}

void masked_index_put(Context& c) {
  NodeId data = c.tensor("self");
  NodeId values = c.tensor("values");
  Addressed a = address(c, data, c.optional_tensors("indices"), false);
  NodeId mask = truth(c, c.tensor("mask"));
  if (!c.b.can_expand(values, a.shape) || !c.b.can_expand(mask, a.shape)) {
    c.refuse("values do not fit the indices");
  }
  NodeId kept =
      c.b.select(c.b.expand(mask, a.shape), c.b.expand(values, a.shape), number_like(c, values, 0));
  c.set(scatter_in(c, ScatterMode::kAdd, data, kept, a.indices, a.coordinates));
}

// index_copy, index_add and index_fill: whole slices at the positions of a vector. PyTorch lets
// index_fill alone count from the end.
void put_slices(Context& c, ScatterMode mode, NodeId updates, bool wraps) {
  NodeId base = c.tensor("self");
  int rank = c.b.rank(base);
  int axis = c.axis("dim", rank);
  NodeId index = c.tensor("index");
  bool scalar = rank == 0;
  if (scalar) {
    base = c.b.unsqueeze(base, 0);
    rank = 1;
  }
  Sizes shape = c.b.shape(base);
  c.check_index(index, {shape[at(axis)], wraps});
  NodeId place = on_axis(c, wrapped(c, index, shape[at(axis)]), axis, rank);
  shape[at(axis)] = c.b.size(place, axis);
  if (c.b.rank(updates) != 0 && c.b.rank(updates) != rank) updates = c.b.reshape(updates, shape);
  if (!c.b.can_expand(updates, shape)) c.refuse("the source does not fit");
  NodeId out = scatter_in(c, mode, base, c.b.expand(updates, shape), {place}, along(rank, axis));
  c.set(scalar ? c.b.squeeze(out, 0) : out);
}

void index_add(Context& c) {
  NodeId source = c.tensor("source");
  if (c.has("alpha")) {
    DType wide = compute_dtype(c.b.dtype(source));
    source = any_mul(c, c.b.cast(source, wide), as(c, operand(c, "alpha"), wide));
  }
  put_slices(c, ScatterMode::kAdd, source, false);
}

void index_fill(Context& c) {
  NodeId value = as(c, operand(c, "value"), c.b.dtype(c.tensor("self")));
  put_slices(c, ScatterMode::kAssign, value, true);
}

void index_select(Context& c) {
  NodeId x = c.tensor("self");
  if (c.b.rank(x) == 0) {
    c.check_index(c.tensor("index"), {1});
    return c.set(c.b.reshape(x, c.out_shape()));
  }
  int axis = c.axis("dim", c.b.rank(x));
  c.check_index(c.tensor("index"), {c.b.size(x, axis)});
  Sizes shape = c.b.shape(x);
  NodeId place = on_axis(c, c.tensor("index"), axis, c.b.rank(x));
  shape[at(axis)] = c.b.size(place, axis);
  c.set(c.b.gather(x, {place}, shape, along(c.b.rank(x), axis)));
}

void gather(Context& c) {
  NodeId x = c.tensor("self");
  NodeId index = c.tensor("index");
  if (c.b.rank(x) == 0) x = c.b.unsqueeze(x, 0);
  if (c.b.rank(index) == 0) index = c.b.unsqueeze(index, 0);
  // An empty index may have any rank.
  if (common::element_count(c.b.shape(index)).is_constant(0)) {
    return c.set(c.b.full(c.b.dtype(x), c.out_shape(), 0));
  }
  if (c.b.rank(index) != c.b.rank(x)) c.refuse("index and data differ in rank");
  int axis = c.axis("dim", c.b.rank(x));
  c.check_index(index, {c.b.size(x, axis)});
  NodeId values = c.b.gather(x, {index}, c.b.shape(index), along(c.b.rank(x), axis));
  c.set(c.b.reshape(values, c.out_shape()));
}

void take_along_dim(Context& c) {
  NodeId x = c.tensor("self");
  NodeId index = c.tensor("indices");
  if (!c.has("dim")) {
    x = flatten(c, x);
    index = flatten(c, index);
    c.check_index(index, {c.b.size(x, 0), true});
    NodeId place = wrapped(c, index, c.b.size(x, 0));
    return c.set(c.b.gather(x, {place}, c.b.shape(place), along(1, 0)));
  }
  int axis = c.axis("dim", c.b.rank(x));
  c.check_index(index, {c.b.size(x, axis), true});
  index = wrapped(c, index, c.b.size(x, axis));
  Sizes shape = c.out_shape();
  Shape wide = shape;
  wide[at(axis)] = c.b.size(x, axis);
  if (!c.b.can_expand(index, shape) || !c.b.can_expand(x, wide)) c.refuse("the index does not fit");
  c.set(c.b.gather(c.b.expand(x, wide), {index}, shape, along(c.b.rank(x), axis)));
}

void take(Context& c) {
  NodeId x = flatten(c, c.tensor("self"));
  c.check_index(c.tensor("index"), {c.b.size(x, 0), true});
  NodeId index = wrapped(c, c.tensor("index"), c.b.size(x, 0));
  if (c.b.rank(index) == 0) {
    NodeId one = c.b.gather(x, {c.b.unsqueeze(index, 0)}, {1}, {Coordinate{0, {}}});
    return c.set(c.b.squeeze(one, 0));
  }
  c.set(c.b.gather(x, {index}, c.b.shape(index), {Coordinate{0, {}}}));
}

void put(Context& c) {
  NodeId x = c.tensor("self");
  NodeId flat = flatten(c, x);
  NodeId index = flatten(c, c.tensor("index"));
  NodeId source = flatten(c, c.tensor("source"));
  c.check_index(index, {c.b.size(flat, 0), true});
  ScatterMode mode = c.flag("accumulate", false) ? ScatterMode::kAdd : ScatterMode::kAssign;
  NodeId out = scatter_in(c, mode, flat, source, {wrapped(c, index, c.b.size(flat, 0))},
                          {Coordinate{0, {}}});
  c.set(c.b.reshape(out, c.b.shape(x)));
}

// The source cut to the index's shape, which may be smaller.
NodeId cut_to(Context& c, NodeId source, const Shape& shape) {
  if (c.b.rank(source) == 0) return c.b.expand(source, shape);
  if (c.b.rank(source) != static_cast<int>(shape.size())) c.refuse("source and index differ");
  for (int k = 0; k < c.b.rank(source); ++k) source = c.b.slice(source, k, 0, shape[at(k)]);
  return source;
}

void scatter_with(Context& c, ScatterMode mode, NodeId updates) {
  NodeId base = c.tensor("self");
  NodeId index = c.tensor("index");
  bool scalar = c.b.rank(base) == 0;
  if (scalar) base = c.b.unsqueeze(base, 0);
  if (c.b.rank(index) == 0) index = c.b.unsqueeze(index, 0);
  if (scalar && c.b.rank(updates) == 0) updates = c.b.unsqueeze(updates, 0);
  if (c.b.rank(index) != c.b.rank(base)) c.refuse("index and data differ in rank");
  int axis = c.axis("dim", c.b.rank(base));
  c.check_index(index, {c.b.size(base, axis)});
  NodeId source = cut_to(c, updates, c.b.shape(index));
  NodeId out = scatter_in(c, mode, base, source, {index}, along(c.b.rank(base), axis));
  c.set(scalar ? c.b.squeeze(out, 0) : out);
}

ScatterMode mode_of(Context& c, const std::string& name) {
  if (name == "add" || name == "sum") return ScatterMode::kAdd;
  if (name == "multiply" || name == "prod") return ScatterMode::kMul;
  if (name == "amax") return ScatterMode::kMax;
  if (name == "amin") return ScatterMode::kMin;
  c.refuse("this way to reduce is not supported");
}

void scatter(Context& c) {
  NodeId base = c.tensor("self");
  NodeId updates = c.has("src") ? c.tensor("src") : as(c, operand(c, "value"), c.b.dtype(base));
  ScatterMode mode = c.has("reduce") ? mode_of(c, c.text("reduce", "")) : ScatterMode::kAssign;
  scatter_with(c, mode, updates);
}

// The neutral element of a reduction, for places whose old content doesn't count.
NodeId neutral(Context& c, const std::string& name, NodeId base) {
  DType d = c.b.dtype(base);
  if (d == DType::kBool) {
    return c.b.full(d, c.b.shape(base), name == "amin" || name == "prod" ? 1 : 0);
  }
  if (name == "amax" || name == "amin") {
    NodeId line = c.b.full(compute_dtype(d), {0}, 0);
    NodeId value = c.b.reduce(name == "amax" ? ReduceOp::kMax : ReduceOp::kMin, line, {0});
    return c.b.expand(c.b.cast(value, d), c.b.shape(base));
  }
  return c.b.full(d, c.b.shape(base), name == "prod" ? 1 : 0);
}

// scatter_reduce and index_reduce share their accumulation; `apply` scatters with a mode.
template <class Apply>
void reduce_into(Context& c, NodeId base, const std::string& name, bool include_self, Apply apply) {
  DType d = c.b.dtype(base);
  DType wide = d == DType::kBool ? DType::kInt32 : compute_dtype(d);
  bool averaged = name == "mean";
  NodeId start = c.b.cast(base, wide);
  NodeId zeros = c.b.full(wide, c.b.shape(base), 0);
  NodeId hits = apply(ScatterMode::kAdd, zeros, std::optional<double>(1));
  NodeId touched = truth(c, hits);
  if (!include_self) {
    NodeId fresh = c.b.cast(neutral(c, name, base), wide);
    start = c.b.select(touched, fresh, start);
  }
  NodeId out = apply(averaged ? ScatterMode::kAdd : mode_of(c, name), start, std::nullopt);
  if (averaged) {
    NodeId number = include_self ? add(c, hits, 1.0) : maximum(c, hits, 1);
    out =
        common::is_float(wide) ? div(c, out, number) : c.b.binary(BinaryOp::kFloorDiv, out, number);
  }
  c.result(c.b.reshape(out, c.out_shape()));
}

void scatter_reduce(Context& c) {
  NodeId base = c.tensor("self");
  auto with_axis = [&](NodeId x) { return c.b.rank(x) == 0 ? c.b.unsqueeze(x, 0) : x; };
  base = with_axis(base);
  NodeId index = with_axis(c.tensor("index"));
  if (c.b.rank(index) != c.b.rank(base)) c.refuse("the ranks differ");
  int axis = c.axis("dim", c.b.rank(base));
  c.check_index(index, {c.b.size(base, axis)});
  NodeId source = cut_to(c, with_axis(c.tensor("src")), c.b.shape(index));
  reduce_into(c, base, c.text("reduce", ""), c.flag("include_self", true),
              [&](ScatterMode mode, NodeId start, std::optional<double> constant) {
                DType d = c.b.dtype(start);
                NodeId updates =
                    constant ? c.b.full(d, c.b.shape(index), *constant) : c.b.cast(source, d);
                return c.b.scatter(mode, start, updates, {index}, along(c.b.rank(base), axis));
              });
}

void index_reduce(Context& c) {
  NodeId base = c.tensor("self");
  NodeId source = c.tensor("source");
  int rank = c.b.rank(base);
  int axis = c.axis("dim", rank);
  if (rank == 0) {
    base = c.b.unsqueeze(base, 0);
    source = c.b.reshape(source, {1});
    rank = 1;
  }
  c.check_index(c.tensor("index"), {c.b.size(base, axis)});
  NodeId place = on_axis(c, wrapped(c, c.tensor("index"), c.b.size(base, axis)), axis, rank);
  Sizes shape = c.b.shape(base);
  shape[at(axis)] = c.b.size(place, axis);
  if (c.b.shape(source) != shape) c.refuse("the source does not fit");
  reduce_into(c, base, c.text("reduce", ""), c.flag("include_self", true),
              [&](ScatterMode mode, NodeId start, std::optional<double> constant) {
                DType d = c.b.dtype(start);
                NodeId updates = constant ? c.b.full(d, shape, *constant) : c.b.cast(source, d);
                return c.b.scatter(mode, start, updates, {place}, along(rank, axis));
              });
}

// The n-th true place takes the n-th element of the source.
void masked_scatter(Context& c) {
  NodeId x = c.b.expand(c.tensor("self"), c.out_shape());
  NodeId mask = c.b.expand(truth(c, c.tensor("mask")), c.b.shape(x));
  NodeId source = flatten(c, c.tensor("source"));
  NodeId flat = c.b.cast(flatten(c, mask), DType::kInt64);
  NodeId order = add(c, c.b.scan(ScanOp::kSum, flat, 0), -1.0);
  NodeId values = c.b.gather(source, {order}, c.b.shape(order), {Coordinate{0, {}}});
  NodeId shaped = c.b.reshape(c.b.cast(values, c.b.dtype(x)), c.b.shape(x));
  c.set(c.b.select(mask, shaped, x));
}

// How many of the sorted edges lie below each value (or not above it): rows of edges serve the
// values of the same row. Few edges are compared with every value; among many, each step of a
// binary search reads one.
NodeId count_below(Context& c, NodeId edges, NodeId x, bool or_equal) {
  BinaryOp compare = or_equal ? BinaryOp::kLessEqual : BinaryOp::kLess;
  int rank = c.b.rank(x);
  int edge_axis = c.b.rank(edges) - 1;
  Expr size = c.b.size(edges, edge_axis);
  constexpr int64_t kFew = 16;
  int64_t most = c.b.bounds().upper(size);
  constexpr int64_t kMany = int64_t{1} << 40;
  if (most <= kFew || most > kMany) {
    NodeId line = edge_axis == 0 ? edges : c.b.unsqueeze(edges, edge_axis);
    NodeId value = c.b.unsqueeze(x, rank);
    if (!c.b.broadcast(c.b.shape(value), c.b.shape(line))) c.refuse("the shapes do not fit");
    NodeId before = c.b.cast(c.b.binary(compare, line, value), DType::kInt64);
    return c.b.reduce(ReduceOp::kSum, before, {rank});
  }
  std::vector<Coordinate> where;
  for (int k = 0; k < edge_axis; ++k) where.push_back({-1, Expr::index(k)});
  where.push_back({0, {}});
  NodeId all = c.b.size_scalar(DType::kInt64, size);
  NodeId found = c.b.full_int(DType::kInt64, c.b.shape(x), 0);
  int64_t step = 1;
  while (step <= most / 2) step *= 2;
  for (; step > 0; step /= 2) {
    NodeId next = add(c, found, c.b.scalar_int(DType::kInt64, step));
    NodeId place = sub(c, next, c.b.scalar_int(DType::kInt64, 1));
    NodeId edge = c.b.gather(edges, {place}, c.b.shape(x), where);
    NodeId passes = c.b.binary(BinaryOp::kAnd, c.b.binary(compare, edge, x),
                               c.b.binary(BinaryOp::kLessEqual, next, all));
    found = c.b.select(passes, next, found);
  }
  return found;
}

void search(Context& c, std::string_view sorted_name, std::string_view values_name) {
  NodeId sorted = c.tensor(sorted_name);
  Operand values = operand(c, values_name);
  DType d = compute_dtype(promote(c, {operand(sorted), values}));
  if (c.b.rank(sorted) == 0) c.refuse("it takes a sorted vector, or rows of them");
  if (c.has("sorter")) {
    NodeId order = c.tensor("sorter");
    if (c.b.shape(order) != c.b.shape(sorted)) c.refuse("the sorter does not fit");
    int rank = c.b.rank(sorted);
    c.check_index(order, {c.b.size(sorted, rank - 1)});
    sorted = c.b.gather(sorted, {order}, c.b.shape(order), along(rank, rank - 1));
  }
  NodeId x = as(c, values, d);
  NodeId edges = c.b.cast(sorted, d);
  int lead = c.b.rank(edges) - 1;
  bool fits = lead == 0 || lead == c.b.rank(x) - 1;
  for (int k = 0; fits && k < lead; ++k) fits = c.b.size(edges, k) == c.b.size(x, k);
  if (!fits) c.refuse("the shapes do not fit");
  bool right = c.flag("right", false) || c.text("side", "left") == "right";
  NodeId number = count_below(c, edges, x, right);
  if (common::is_float(d)) {
    // NaN sorts behind every edge.
    NodeId all = c.b.size_scalar(DType::kInt64, c.b.size(edges, lead));
    number = c.b.select(c.b.unary(UnaryOp::kIsNan, x), all, number);
  }
  c.result(number);
}

void one_hot(Context& c) {
  NodeId x = c.tensor("self");
  int rank = c.b.rank(x);
  Expr classes = c.out_size(static_cast<int>(c.out_shape().size()) - 1);
  c.check_index(x, {classes});
  NodeId hot = c.b.binary(BinaryOp::kEqual, c.b.unsqueeze(x, rank),
                          positions(c, classes, rank, rank + 1, c.b.dtype(x)));
  c.result(hot);
}

}  // namespace

void add_indexing_operators(OperatorTable* t) {
  t->add("aten.embedding", embedding);
  t->add("aten.index", [](Context& c) { index(c, true); });
  t->add("aten._unsafe_index", [](Context& c) { index(c, false); });
  t->add("aten._unsafe_masked_index", masked_index);
  t->add("aten._unsafe_masked_index_put_accumulate", masked_index_put);
  t->add("aten.index_put", [](Context& c) { index_put(c, true); });
  t->add("aten._unsafe_index_put", [](Context& c) { index_put(c, false); });
  t->add("aten.index_copy",
         [](Context& c) { put_slices(c, ScatterMode::kAssign, c.tensor("source"), false); });
  t->add("aten.index_add", index_add);
  t->add("aten.index_fill", index_fill);
  t->add("aten.index_select", index_select);
  t->add("aten.gather", gather);
  t->add("aten.take_along_dim", take_along_dim);
  t->add("aten.take", take);
  t->add("aten.put", put);
  t->add("aten.scatter", scatter);
  t->add("aten.scatter_add",
         [](Context& c) { scatter_with(c, ScatterMode::kAdd, c.tensor("src")); });
  t->add("aten.scatter_reduce", scatter_reduce);
  t->add("aten.index_reduce", index_reduce);
  t->add("aten.masked_scatter", masked_scatter);
  t->add("aten.searchsorted", [](Context& c) { search(c, "sorted_sequence", "self"); });
  t->add("aten.bucketize", [](Context& c) { search(c, "boundaries", "self"); });
  t->add("aten.one_hot", one_hot);
}

}  // namespace clients
