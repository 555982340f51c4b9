#include "clients/pt2/families/selection.h"

#include <optional>

#include "clients/pt2/aten/operators.h"

namespace clients {
namespace {

NodeId whole(Context& c, const Expr& value) { return c.b.size_scalar(DType::kInt64, value); }

// Constant sizes that are known without asking the data.
std::optional<int64_t> known_size(Context& c, int axis, size_t k) {
  try {
    Expr size = c.b.simplify(c.out_size(axis, k));
    if (size.is_constant()) return size.constant();
  } catch (const Refusal&) {
    // The size is a symbol that no input shows.
  }
  return std::nullopt;
}

}  // namespace

int64_t stated_size(Context& c, int axis, size_t k) {
  if (auto size = known_size(c, axis, k)) return *size;
  c.refuse(
      "the size of its result is known only from the data; keep every element and mask with "
      "torch.where, or state the size by torch._check(x.shape[0] == 10) or nonzero_static");
}

std::vector<NodeId> places_of(Context& c, NodeId mask, int64_t size, int64_t fill) {
  Sizes shape = c.b.shape(mask);
  NodeId flat = flatten(c, truth(c, mask));
  NodeId before = add(c, c.b.scan(ScanOp::kSum, c.b.cast(flat, DType::kInt64), 0), -1.0);
  NodeId place = c.b.select(flat, before, whole(c, size));
  NodeId position = c.b.iota(DType::kInt64, c.b.size(flat, 0));
  std::vector<NodeId> out;
  Expr below = common::element_count(shape);
  for (const Expr& extent : shape) {
    auto rest = common::exact_div(below, extent);
    if (!rest) c.refuse("an empty shape");
    below = *rest;
    NodeId step = c.b.binary(BinaryOp::kFloorDiv, position, whole(c, below));
    step = c.b.binary(BinaryOp::kMod, step, whole(c, extent));
    NodeId base = c.b.full_int(DType::kInt64, {size}, fill);
    out.push_back(c.b.scatter(ScatterMode::kAssign, base, step, {place}, along(1, 0)));
  }
  return out;
}

std::vector<NodeId> stated_places(Context& c, NodeId mask, int64_t size) {
  if (common::element_count(c.b.shape(mask)).is_constant(0)) c.refuse("an empty mask");
  NodeId flat = c.b.cast(flatten(c, truth(c, mask)), DType::kInt64);
  NodeId number = c.b.reduce(ReduceOp::kSum, flat, {0});
  c.check_index(c.b.unary(UnaryOp::kAbs, sub(c, number, whole(c, size))), {Expr(1)});
  return places_of(c, mask, size, 0);
}

namespace {

NodeId columns_of(Context& c, const std::vector<NodeId>& places) {
  std::vector<NodeId> columns;
  columns.reserve(places.size());
  for (NodeId place : places) columns.push_back(c.b.unsqueeze(place, 1));
  return c.b.concat(columns, 1);
}

// Cut or filled to a fixed number.
void nonzero_static(Context& c) {
  NodeId x = c.tensor("self");
  int64_t size = c.integer("size");
  int64_t fill = c.integer("fill_value", -1);
  Sizes shape = c.b.shape(x);
  bool empty = common::element_count(shape).is_constant(0) || size == 0;
  if (empty || shape.empty()) {
    if (!empty) return c.result(c.b.full(DType::kInt64, c.out_shape(), 0));
    return c.set(c.b.full_int(DType::kInt64, c.out_shape(), fill));
  }
  c.set(columns_of(c, places_of(c, x, size, fill)));
}

void nonzero(Context& c) {
  NodeId x = c.tensor("self");
  int64_t size = stated_size(c, 0);
  if (size == 0 || c.b.rank(x) == 0) c.refuse("it takes no scalar, and no empty selection");
  c.set(columns_of(c, stated_places(c, x, size)));
}

// One vector of places for each axis.
void nonzero_by_axis(Context& c) {
  NodeId x = c.tensor("self");
  int64_t size = stated_size(c, 0);
  if (size == 0 || c.b.rank(x) == 0) c.refuse("it takes no scalar, and no empty selection");
  std::vector<NodeId> places = stated_places(c, x, size);
  for (size_t k = 0; k < places.size(); ++k) c.set(places[k], k);
}

void masked_select(Context& c) {
  NodeId x = c.tensor("self");
  NodeId mask = c.tensor("mask");
  int64_t size = stated_size(c, 0);
  if (size == 0) return c.set(c.b.full(c.out_dtype(), c.out_shape(), 0));
  auto shape = c.b.broadcast(c.b.shape(x), c.b.shape(mask));
  if (!shape) c.refuse("the mask does not fit");
  NodeId flat = flatten(c, c.b.expand(x, *shape));
  NodeId line = flatten(c, c.b.expand(mask, *shape));
  std::vector<NodeId> places = stated_places(c, line, size);
  c.set(c.b.gather(flat, places, {size}, along(1, 0)));
}

}  // namespace

void add_selection_operators(OperatorTable* t) {
  t->add("aten.nonzero_static", nonzero_static);
  t->add("aten.nonzero", nonzero);
  t->add("aten.argwhere", nonzero);
  t->add("aten.nonzero_numpy", nonzero_by_axis);
  t->add("aten.where.default", nonzero_by_axis);
  t->add("aten.masked_select", masked_select);
}

}  // namespace clients
