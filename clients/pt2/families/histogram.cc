// Histograms over edges, in one or several dimensions. A bin holds its lower edge; the last one
// holds both.
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// `count` + 1 edges at equal distances, from both ends as torch.linspace has them.
NodeId even_edges(Context& c, NodeId low, NodeId high, int64_t count) {
  if (count < 1) c.refuse("it takes at least one bin");
  NodeId place = c.b.iota(c.b.dtype(low), count + 1);
  NodeId step = div(c, sub(c, high, low), number_like(c, low, static_cast<double>(count)));
  NodeId from_low = add(c, low, mul(c, step, place));
  NodeId to_go = sub(c, number_like(c, low, static_cast<double>(count)), place);
  NodeId from_high = sub(c, high, mul(c, step, to_go));
  int64_t half = (count + 1) / 2;
  return c.b.select(less(c, place, static_cast<double>(half)), from_low, from_high);
}

// The ends that `range` gives dimension k of several, or those of the data.
NodeId data_edges(Context& c, NodeId x, int64_t count, size_t k) {
  if (const auto* range = c.floats("range"); range != nullptr && range->size() >= 2 * k + 2) {
    NodeId low = number_like(c, x, (*range)[2 * k]);
    NodeId high = number_like(c, x, (*range)[2 * k + 1]);
    if ((*range)[2 * k] < (*range)[2 * k + 1]) return even_edges(c, low, high, count);
    return even_edges(c, add(c, low, -0.5), add(c, high, 0.5), count);
  }
  NodeId low = c.b.reduce(ReduceOp::kMin, x, {0});
  NodeId high = c.b.reduce(ReduceOp::kMax, x, {0});
  NodeId flat = c.b.binary(BinaryOp::kEqual, low, high);
  return even_edges(c, c.b.select(flat, add(c, low, -0.5), low),
                    c.b.select(flat, add(c, high, 0.5), high), count);
}

// Counts, or sums of weights, of the rows of `columns`, one column a dimension.
NodeId filled(Context& c, const std::vector<NodeId>& columns, const std::vector<NodeId>& edges) {
  DType d = c.b.dtype(columns[0]);
  NodeId flat = c.b.scalar_int(DType::kInt64, 0);
  NodeId inside = c.b.scalar_int(DType::kBool, 1);
  Shape shape;
  Expr total = 1;
  for (size_t k = 0; k < columns.size(); ++k) {
    NodeId line = c.b.cast(edges[k], d);
    if (c.b.rank(line) != 1) c.refuse("the edges are no vector");
    Expr count = c.b.simplify(c.b.size(line, 0) - 1);
    NodeId x = columns[k];
    NodeId below = c.b.binary(BinaryOp::kLessEqual, c.b.unsqueeze(line, 0), c.b.unsqueeze(x, 1));
    NodeId passed = c.b.reduce(ReduceOp::kSum, c.b.cast(below, DType::kInt64), {1});
    NodeId last = c.b.squeeze(c.b.slice(line, 0, count, 1), 0);
    NodeId bins = c.b.size_scalar(DType::kInt64, count);
    NodeId place = c.b.binary(BinaryOp::kMin, passed, bins);
    NodeId hit =
        c.b.binary(BinaryOp::kAnd, c.b.binary(BinaryOp::kLessEqual, x, last), truth(c, passed));
    inside = c.b.binary(BinaryOp::kAnd, inside, hit);
    flat = add(c, mul(c, flat, bins), add(c, place, -1.0));
    shape.push_back(count);
    total *= count;
  }
  total = c.b.simplify(total);
  // Past the end, where a scatter drops it.
  NodeId place = c.b.select(inside, flat, c.b.size_scalar(DType::kInt64, total));
  NodeId weight = c.has("weight") ? c.b.cast(flatten(c, c.tensor("weight")), d)
                                  : c.b.full(d, c.b.shape(columns[0]), 1);
  if (c.b.shape(weight) != c.b.shape(columns[0])) c.refuse("the weights have another shape");
  NodeId sums = c.b.scatter(ScatterMode::kAdd, c.b.full(d, {total}, 0), weight, {place},
                            {common::Coordinate{0, {}}});
  if (c.flag("density", false)) sums = div(c, sums, c.b.reduce(ReduceOp::kSum, sums, {0}));
  sums = c.b.reshape(sums, shape);
  for (size_t k = 0; c.flag("density", false) && k < columns.size(); ++k) {
    NodeId line = c.b.cast(edges[k], d);
    NodeId width = sub(c, c.b.slice(line, 0, 1, shape[k]), c.b.slice(line, 0, 0, shape[k]));
    Shape along_k(shape.size(), Expr(1));
    along_k[k] = shape[k];
    sums = div(c, sums, c.b.reshape(width, along_k));
  }
  return sums;
}

void histogram(Context& c) {
  NodeId x = flatten(c, float_tensor(c, "self"));
  NodeId edges =
      c.is_tensor("bins") ? c.tensor("bins") : data_edges(c, x, c.integer("bins", 100), 0);
  c.result(filled(c, {x}, {edges}));
  if (c.wants_output(1)) c.result(edges, 1);
}

// The coordinates of rows (..., dimensions), a column each.
std::vector<NodeId> columns_of(Context& c) {
  NodeId x = float_tensor(c, "self");
  int last = c.b.rank(x) - 1;
  if (last < 1 || !c.b.size(x, last).is_constant()) c.refuse("it takes rows of coordinates");
  std::vector<NodeId> out;
  for (int64_t k = 0; k < c.b.size(x, last).constant(); ++k) {
    out.push_back(flatten(c, c.b.squeeze(c.b.slice(x, last, k, 1), last)));
  }
  if (out.empty()) c.refuse("it takes rows of coordinates");
  return out;
}

std::vector<NodeId> edges_of(Context& c, const std::vector<NodeId>& columns) {
  if (c.is_tensor_list("bins")) {
    std::vector<NodeId> given = c.tensors("bins");
    if (given.size() != columns.size()) c.refuse("it takes edges for each dimension");
    return given;
  }
  std::vector<int64_t> counts = c.integers("bins");
  if (counts.size() == 1) counts.resize(columns.size(), counts[0]);
  if (counts.size() != columns.size()) c.refuse("it takes a number of bins for each dimension");
  std::vector<NodeId> out;
  for (size_t k = 0; k < columns.size(); ++k) {
    out.push_back(data_edges(c, columns[k], counts[k], k));
  }
  return out;
}

void histogramdd(Context& c) {
  std::vector<NodeId> columns = columns_of(c);
  std::vector<NodeId> edges = edges_of(c, columns);
  c.result(filled(c, columns, edges));
  for (size_t k = 0; k < edges.size(); ++k) {
    if (c.wants_output(k + 1)) c.result(edges[k], k + 1);
  }
}

void histogramdd_edges(Context& c) {
  std::vector<NodeId> edges = edges_of(c, columns_of(c));
  for (size_t k = 0; k < edges.size(); ++k) {
    if (c.wants_output(k)) c.result(edges[k], k);
  }
}

}  // namespace

void add_histogram_operators(OperatorTable* t) {
  t->add("aten.histogram", histogram);
  t->add("aten.histogramdd", histogramdd);
  t->add("aten._histogramdd_from_bin_cts", histogramdd);
  t->add("aten._histogramdd_from_bin_tensors", histogramdd);
  t->add("aten._histogramdd_bin_edges", histogramdd_edges);
}

}  // namespace clients
