#include "common/schedule/kernels/tile_reads.h"

#include <algorithm>
#include <vector>

namespace common {

namespace {

// The operand's element at indices that are bound for the question only.
struct Trial {
  Trial(const Contraction& product, const TileSteps& steps, Side side)
      : graph(product.body()),
        writer(graph.symbols),
        emitter(graph, writer),
        steps(steps),
        side(side) {
    for (const Expr& size : product.sizes_of(product.problem().batch)) {
      batch.push_back(Expr::index(bind(size)));
    }
  }
  int bind(const Expr& extent) {
    ends.push_back(extent);
    return writer.bind_index("t", extent, 0);
  }
  std::optional<PlainRead> read(const Contraction& product, const Indices& at) {
    auto found = tile_read(product, steps, side, at, emitter);
    if (!found || !emitter.status().ok()) return std::nullopt;
    found->offset = writer.simplify(found->offset);
    return found;
  }

  const Graph& graph;
  CodeWriter writer;
  BodyEmitter emitter;
  const TileSteps& steps;
  Side side;
  std::vector<Expr> batch;
  std::vector<Expr> ends;  // of each index, in the order they were bound
};

// The greatest value of an expression; empty where sizes are symbolic, or where an index may make
// it less.
std::optional<int64_t> greatest(const Expr& e, const std::vector<Expr>& ends) {
  for (size_t id = 0; id < ends.size(); ++id) {
    int64_t stride = stride_along(e, static_cast<int>(id));
    if (!ends[id].is_constant() || stride < 0 || stride == INT32_MAX) return std::nullopt;
  }
  Expr value = e.substitute([&](Var v) -> Expr {
    bool known = v.kind == Var::Kind::kIndex && static_cast<size_t>(v.id) < ends.size();
    return known ? Expr(ends[static_cast<size_t>(v.id)].constant() - 1) : Expr::var(v);
  });
  if (!value.is_constant()) return std::nullopt;
  return value.constant();
}

int64_t row_elements(const Contraction& product, const TileSteps& steps) {
  Trial trial(product, steps, Side::kLeft);
  int own = trial.bind(product.problem().m_size);
  std::vector<Expr> sizes = product.sizes_of(product.problem().k);
  std::vector<int> indices;
  Expr k = 0;
  for (const Expr& size : sizes) {
    indices.push_back(trial.bind(size));
    k = k * size + Expr::index(indices.back());
  }
  auto found =
      trial.read(product, product.operand_at(Side::kLeft, trial.batch, Expr::index(own), k));
  if (!found) return 0;
  int64_t run = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d].is_constant(1)) continue;
    if (stride_along(found->offset, indices[d]) != run) return run == 1 ? 0 : run;
    if (!sizes[d].is_constant()) return d == 0 ? kWholeRow : 0;
    run *= sizes[d].constant();
  }
  return kWholeRow;
}

}  // namespace

std::optional<PlainRead> tile_read(const Contraction& product, const TileSteps& steps, Side side,
                                   const Indices& at, BodyEmitter& emitter) {
  if (auto own = product.read_at(side, at, emitter)) {
    const GraphInput& input = product.body().inputs[static_cast<size_t>(own->input)];
    return input.dtype == steps.dtype ? own : std::nullopt;
  }
  if (side == Side::kLeft || steps.dtype != DType::kFloat32) return std::nullopt;
  return plain_half_read(product.operand(side), at, emitter);
}

int64_t rows_lie_in_place(const Contraction& product, const TileSteps& steps) {
  int64_t run = row_elements(product, steps);
  if (run == kWholeRow) return run;
  return run % steps.length == 0 ? run / steps.length : 0;
}

bool runs_lie_alike(const Contraction& product, const TileSteps& steps) {
  Trial trial(product, steps, Side::kLeft);
  const int own = trial.bind(product.problem().m_size);
  Indices first, further;
  for (const Expr& size : product.sizes_of(product.problem().k)) {
    first.emplace_back(0);
    further.push_back(Expr::index(trial.bind(size)));
  }
  const Indices rows = unfold(product.sizes_of(product.own_labels(Side::kLeft)), Expr::index(own));
  auto begin = trial.read(product, product.operand_at(Side::kLeft, trial.batch, rows, first));
  auto later = trial.read(product, product.operand_at(Side::kLeft, trial.batch, rows, further));
  if (!begin || !later || begin->input != later->input) return false;
  const Expr distance = trial.writer.simplify(later->offset - begin->offset);
  bool is_alike = true;
  distance.visit_vars([&](Var v) {
    bool is_of_k = v.kind == Var::Kind::kIndex && v.id > own;
    is_alike = is_alike && is_of_k;
  });
  return is_alike;
}

std::optional<int64_t> columns_lie_in_place(const Contraction& product, const TileSteps& steps,
                                            int64_t lanes) {
  const Expr& columns = product.problem().n_size;
  if (!columns.is_constant() || columns.constant() < 1 || product.problem().n.empty()) {
    return std::nullopt;
  }
  Trial trial(product, steps, Side::kRight);
  // Label by label, where the last one holds whole vectors: no division hides them then.
  std::vector<Expr> sizes = product.sizes_of(product.problem().n);
  bool whole = sizes.back().constant() % lanes == 0;
  const Expr& length = whole ? sizes.back() : columns;
  int chunk = trial.bind(Expr((length.constant() + lanes - 1) / lanes));
  int inside = trial.bind(Expr(lanes));
  int k = trial.bind(steps.count);
  Expr position = Expr::index(chunk) * Expr(lanes) + Expr::index(inside);
  std::vector<Expr> own = unfold(sizes, position);
  for (size_t d = 0; whole && d < sizes.size(); ++d) {
    own[d] = d + 1 == sizes.size() ? position : Expr::index(trial.bind(sizes[d]));
  }
  int half = trial.bind(Expr(steps.length));
  Indices depth = steps.elements(product, unfold(steps.sizes, Expr::index(k)), Expr::index(half));
  auto found = trial.read(product, product.operand_at(Side::kRight, trial.batch, own, depth));
  if (!found || stride_along(found->offset, inside) != steps.length) return std::nullopt;
  if (steps.has_pairs() && stride_along(found->offset, half) != 1) return std::nullopt;
  int64_t along_k = stride_along(found->offset, k);
  if (along_k == INT32_MAX || along_k < 0 || along_k % steps.length != 0) return std::nullopt;
  if (columns.constant() % lanes != 0 || steps.may_be_odd) {
    auto last = greatest(found->offset, trial.ends);
    const Shape& shape = trial.graph.inputs[static_cast<size_t>(found->input)].shape;
    Expr elements = element_count(shape);
    if (!last || !elements.is_constant() || *last >= elements.constant()) return std::nullopt;
  }
  return along_k / steps.length;
}

OperandMemory operand_memory(const Contraction& product, const TileSteps& steps, Side side) {
  OperandMemory result;
  int votes = side == Side::kLeft ? 1 : 0;  // in doubt nothing is transposed
  CodeWriter trial(product.body().symbols);
  BodyEmitter emitter(product.body(), trial);
  auto index = [&](const char* name, const Expr& extent) {
    return Expr::index(trial.bind_index(name, extent, 0));
  };
  auto indices = [&](const char* name, const std::vector<Expr>& extents) {
    Indices all;
    for (const Expr& extent : extents) all.push_back(index(name, extent));
    return all;
  };
  Indices batch = indices("b", product.sizes_of(product.problem().batch));
  std::vector<Expr> own_sizes = product.sizes_of(product.own_labels(side));
  Expr k = index("k", steps.count);
  Expr flat = index("f", product.own_size(side));
  Indices step = steps.elements(product, unfold(steps.sizes, k), 0);
  emitter.value(product.operand(side),
                product.operand_at(side, batch, unfold(own_sizes, flat), step));
  for (const auto& division : trial.divided()) {
    (division.index == "k" ? result.k_runs : result.own_runs) = true;
  }
  // Strides are seen label by label, where no division hides them.
  Indices own_values = indices("o", own_sizes);
  Indices k_values = indices("s", product.sizes_of(product.problem().k));
  size_t first = emitter.load_offsets().size();
  emitter.value(product.operand(side), product.operand_at(side, batch, own_values, k_values));
  for (size_t i = first; i < emitter.load_offsets().size(); ++i) {
    const Expr& offset = emitter.load_offsets()[i];
    auto runs = [&](const Indices& values) {
      return !values.empty() && stride_along(offset, values.back().as_var()->id) == 1 ? 2 : 0;
    };
    votes += runs(k_values) - runs(own_values);
  }
  result.along_k = votes > 0;
  return result;
}

bool products_lie_side_by_side(const Contraction& product, const TileSteps& steps) {
  if (product.problem().batch.empty()) return false;
  Trial trial(product, steps, Side::kLeft);
  auto bind = [&](const std::vector<int>& labels) {
    Indices indices;
    for (const Expr& size : product.sizes_of(labels)) {
      indices.push_back(Expr::index(trial.bind(size)));
    }
    return indices;
  };
  const Indices rows = bind(product.own_labels(Side::kLeft)), k = bind(product.problem().k);
  trial.emitter.value(product.operand(Side::kLeft),
                      product.operand_at(Side::kLeft, trial.batch, rows, k));
  // The least distance between neighbours along one of the axes; 0 where none is known.
  auto least = [](const Expr& offset, const Indices& along) {
    int64_t result = 0;
    for (const Expr& index : along) {
      if (!index.as_var()) continue;  // of size 1
      const int64_t stride = stride_along(offset, index.as_var()->id);
      if (stride > 0 && (result == 0 || stride < result)) result = stride;
    }
    return result;
  };
  const std::vector<Expr>& offsets = trial.emitter.load_offsets();
  return std::any_of(offsets.begin(), offsets.end(), [&](const Expr& offset) {
    const int64_t apart = least(offset, trial.batch);
    return apart != 0 && apart < least(offset, rows);
  });
}

bool output_divides_columns(const Contraction& product) {
  const TileProblem& problem = product.problem();
  if (problem.n.size() < 2) return false;
  CodeWriter trial(product.body().symbols);
  Expr flat = Expr::index(trial.bind_index("n", problem.n_size, 0));
  Expr position = 0;
  Indices columns = unfold(product.sizes_of(problem.n), flat);
  Expr below = 1;
  const std::vector<int>& out = attr<ContractAttr>(product.node()).out;
  for (size_t k = out.size(); k-- > 0;) {
    auto it = std::find(problem.n.begin(), problem.n.end(), out[k]);
    if (it != problem.n.end()) {
      position += columns[static_cast<size_t>(it - problem.n.begin())] * below;
    }
    below *= problem.label_size[static_cast<size_t>(out[k])];
  }
  trial.text(trial.simplify(position));
  return !trial.divided().empty();
}

}  // namespace common
