#include "common/lowering/attention/attention_reads.h"

#include "common/lowering/body/plain_read.h"
#include "common/lowering/text/affine.h"

namespace common {
namespace {

constexpr int64_t kBoxBytes = 128, kBoxElements = kBoxBytes / 2;

}  // namespace

AttentionOperand attention_queries(const AttentionForm& form, const AttentionOperands& operands) {
  return {operands.queries(), operands.depth(), form.rows,
          [](const AttentionOperands& o, const std::vector<Expr>& rows, const Expr& d) {
            return o.queries_at(rows, d);
          }};
}

AttentionOperand attention_keys(const AttentionForm& form, const AttentionOperands& operands) {
  return {operands.keys(),
          operands.depth(),
          {form.key},
          [](const AttentionOperands& o, const std::vector<Expr>& key, const Expr& d) {
            return o.keys_at(key[0], d);
          }};
}

AttentionOperand attention_values(const AttentionForm& form, const AttentionOperands& operands) {
  return {operands.values(),
          form.size(form.columns).constant(),
          {form.key},
          [](const AttentionOperands& o, const std::vector<Expr>& key, const Expr& d) {
            return o.values_at(key[0], d);
          }};
}

AttentionTrial::AttentionTrial(const Graph& body, const AttentionForm& form,
                               const std::vector<int>& labels)
    : writer(body.symbols), operands(body, form, writer) {
  auto bind = [&](const std::vector<int>& bound) {
    std::vector<Expr> indices;
    for (const Expr& size : operands.sizes_of(bound)) {
      indices.push_back(Expr::index(writer.bind_index("i", size, 0)));
    }
    return indices;
  };
  batch = bind(form.batch);
  operands.set_batch(batch);
  place = bind(labels);
}

bool lies_in_runs(const Graph& body, const AttentionForm& form, const AttentionOperand& x,
                  int64_t run) {
  AttentionTrial trial(body, form, x.labels);
  return runs_are_chunks(
      body, x.node,
      [&](const Expr& position) { return x.at(trial.operands, trial.place, position); },
      Expr(x.length), run, trial.writer);
}

std::optional<AttentionMap> attention_map(const Graph& body, const AttentionForm& form,
                                          const AttentionOperand& x, int64_t rows) {
  if (x.labels.size() != 1 || !lies_in_runs(body, form, x, kHalfChunk)) return std::nullopt;
  AttentionTrial trial(body, form, x.labels);
  BodyEmitter emitter(body, trial.writer);
  std::vector<Expr> indices = trial.batch;
  indices.push_back(trial.place[0]);
  indices.push_back(Expr::index(trial.writer.bind_index("d", x.length, 0)));
  auto read = plain_read(x.node, x.at(trial.operands, trial.place, indices.back()), emitter);
  if (!read) return std::nullopt;
  auto by_index = affine_offset(read->offset, indices);
  const size_t row = trial.batch.size(), element = row + 1;
  if (!by_index || !by_index->strides[element].is_constant(1)) return std::nullopt;
  AttentionMap result;
  TensorMap& map = result.map;
  map.input = read->input;
  map.dtype = body.inputs[static_cast<size_t>(read->input)].dtype;
  map.swizzle_bytes = static_cast<int>(kBoxBytes);
  map.offset = by_index->base;
  map.dimensions.push_back({Expr(x.length), 1, kBoxElements});
  map.dimensions.push_back(
      {form.label_size[static_cast<size_t>(x.labels[0])], by_index->strides[row], rows});
  for (size_t k = 0; k < trial.batch.size(); ++k) {
    if (by_index->strides[k].is_constant(0)) continue;
    Expr size = form.label_size[static_cast<size_t>(form.batch[k])];
    map.dimensions.push_back({size, by_index->strides[k], 1});
    result.labels.push_back(k);
  }
  if (map.dimensions.size() > kTensorMapDimensionsMax) return std::nullopt;
  return result;
}

}  // namespace common
