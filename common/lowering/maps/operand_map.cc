#include "common/lowering/maps/operand_map.h"

#include "common/lowering/text/affine.h"

namespace common {

namespace {

constexpr int64_t kChunk = 8;      // elements of 16 bytes
constexpr int64_t kRowChunks = 8;  // that are permuted as one

// The constant by which the expression divides the variable itself; 0: by none or several.
int64_t cut_of(const Expr& e, Var index) {
  int64_t cut = 0;
  for (const Expr::Term& term : e.terms()) {
    for (const Expr& factor : term.factors) {
      if (factor.kind() != ExprKind::kFloorDiv && factor.kind() != ExprKind::kMod) {
        continue;
      }
      if (factor.left().as_var() != index || !factor.right().is_constant()) continue;
      int64_t found = factor.right().constant();
      if (cut != 0 && cut != found) return 0;
      cut = found;
    }
  }
  return cut;
}

}  // namespace

std::optional<OperandMap> operand_map(const Contraction& c, Side side, int64_t own, int64_t depth,
                                      int64_t parts) {
  OperandMap result;
  result.along_k = c.runs_along_k(side);
  if (!c.reads_chunks(side, result.along_k, kChunk)) return std::nullopt;
  CodeWriter trial(c.body().symbols);
  BodyEmitter emitter(c.body(), trial);
  const std::vector<Expr> sizes = c.sizes_of(c.problem().batch);
  auto bind = [&](const Expr& extent) { return Expr::index(trial.bind_index("i", extent, 0)); };
  std::vector<Expr> indices;
  for (const Expr& size : sizes) indices.push_back(bind(size));
  const std::vector<Expr> batch = indices;
  const Expr &own_size = c.own_size(side), &k_size = c.problem().k_size;
  indices.push_back(bind(own_size));
  indices.push_back(bind(k_size));
  const size_t own_at = batch.size(), k_at = own_at + 1;
  auto read = c.read_at(side, c.operand_at(side, batch, indices[own_at], indices[k_at]), emitter);
  if (!read) return std::nullopt;
  Expr offset = read->offset;
  const Var k = *indices[k_at].as_var();
  const int64_t cut = result.along_k && k_size.is_constant() ? cut_of(offset, k) : 0;
  if (cut != 0 && cut % depth == 0 && k_size.constant() % cut == 0) {
    // Runs of k follow from two indices.
    result.k_run = cut;
    const Expr run = bind(floor_div(k_size, cut)), inside = bind(cut);
    offset = trial.simplify(
        offset.substitute([&](Var v) { return v == k ? run * Expr(cut) + inside : Expr::var(v); }));
    indices[k_at] = inside;
    indices.push_back(run);
  }
  auto by_index = affine_offset(offset, indices);
  const size_t fast = result.along_k ? k_at : own_at, slow = result.along_k ? own_at : k_at;
  if (!by_index || !by_index->strides[fast].is_constant(1)) return std::nullopt;
  TensorMap& map = result.map;
  map.input = read->input;
  map.dtype = c.operand_dtype(side);
  map.swizzle_bytes = static_cast<int>(kRowChunks * 16);
  map.offset = by_index->base;
  auto size_of = [&](size_t index) {
    return index == own_at ? own_size : result.k_run == 0 ? k_size : Expr(result.k_run);
  };
  map.dimensions.push_back({size_of(fast), 1, kRowChunks * kChunk});
  map.dimensions.push_back(
      {size_of(slow), by_index->strides[slow], (slow == own_at ? own : depth) / parts});
  if (result.k_run != 0) {
    map.dimensions.push_back({floor_div(k_size, cut), by_index->strides[k_at + 1], 1});
  }
  for (size_t k = 0; k < batch.size(); ++k) {
    if (by_index->strides[k].is_constant(0)) continue;
    map.dimensions.push_back({sizes[k], by_index->strides[k], 1});
    result.labels.push_back(k);
  }
  if (map.dimensions.size() > kTensorMapDimensionsMax) return std::nullopt;
  return result;
}

std::optional<OperandMap> weight_map(const Contraction& c, int channel, int64_t own, int64_t depth,
                                     int64_t parts) {
  if (!c.problem().batch.empty()) return std::nullopt;
  CodeWriter trial(c.body().symbols);
  BodyEmitter emitter(c.body(), trial);
  const std::vector<Expr> sizes = c.sizes_of(c.problem().k);
  auto bind = [&](const Expr& extent) { return Expr::index(trial.bind_index("i", extent, 0)); };
  const Expr& own_size = c.own_size(Side::kRight);
  std::vector<Expr> indices{bind(own_size)}, k;
  for (const Expr& size : sizes) k.push_back(bind(size));
  indices.insert(indices.end(), k.begin(), k.end());
  auto own_at = unfold(c.sizes_of(c.own_labels(Side::kRight)), indices[0]);
  auto read = c.read_at(Side::kRight, c.operand_at(Side::kRight, {}, own_at, k), emitter);
  if (!read) return std::nullopt;
  auto by_index = affine_offset(trial.simplify(read->offset), indices);
  if (!by_index) return std::nullopt;
  const auto channel_at = static_cast<size_t>(channel) + 1;
  OperandMap result;
  result.along_k = by_index->strides[channel_at].is_constant(1);
  const size_t fast = result.along_k ? channel_at : 0, slow = result.along_k ? 0 : channel_at;
  if (!by_index->strides[fast].is_constant(1)) return std::nullopt;
  auto is_chunk = [](const Expr& e) { return exact_div(e, Expr(kChunk)).has_value(); };
  if (!is_chunk(by_index->base)) return std::nullopt;
  TensorMap& map = result.map;
  map.input = read->input;
  map.dtype = c.operand_dtype(Side::kRight);
  map.swizzle_bytes = static_cast<int>(kRowChunks * 16);
  map.offset = by_index->base;
  auto size_of = [&](size_t index) { return index == 0 ? own_size : sizes[index - 1]; };
  map.dimensions.push_back({size_of(fast), 1, kRowChunks * kChunk});
  map.dimensions.push_back(
      {size_of(slow), by_index->strides[slow], (slow == 0 ? own : depth) / parts});
  for (size_t index = 1; index < indices.size(); ++index) {
    if (index == channel_at) continue;
    map.dimensions.push_back({size_of(index), by_index->strides[index], 1});
  }
  bool is_aligned = map.dimensions.size() <= kTensorMapDimensionsMax;
  for (size_t d = 1; d < map.dimensions.size(); ++d) {
    is_aligned = is_aligned && is_chunk(map.dimensions[d].stride);
  }
  if (!is_aligned) return std::nullopt;
  return result;
}

}  // namespace common
