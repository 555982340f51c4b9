#include "common/lowering/attention/half_attention.h"

#include "common/lowering/body/half_operands.h"

namespace common {

namespace {

DType operand_dtype(const Graph& body, NodeId product, int operand) {
  return body.node(body.node(product).operands[static_cast<size_t>(operand)]).dtype;
}

}  // namespace

std::optional<HalfAttention> half_attention(const Graph& body, const AttentionForm& form) {
  HalfAttention half;
  Graph scores = with_half_operands(body, form.scores);
  auto found = attention_form(scores);
  if (!found) return std::nullopt;
  half.body = with_half_operands(scores, found->product);
  found = attention_form(half.body);
  if (!found) return std::nullopt;
  half.form = *std::move(found);
  DType queries = operand_dtype(half.body, half.form.scores, half.form.queries);
  DType values = operand_dtype(half.body, half.form.product, 1 - half.form.probabilities);
  bool fits = is_half(queries) && is_half(values) &&
              operand_dtype(half.body, half.form.scores, 1 - half.form.queries) == queries;
  return fits ? std::optional<HalfAttention>(std::move(half)) : std::nullopt;
}

std::optional<HalfAttention> rounded_before(const HalfAttention& attention) {
  const AttentionForm& form = attention.form;
  DType values = operand_dtype(attention.body, form.product, 1 - form.probabilities);
  if (form.weights.rounds_to != values) return std::nullopt;
  HalfAttention wide;
  wide.body = with_unrounded_operand(attention.body, form.product, form.probabilities);
  auto found = attention_form(wide.body);
  if (!found || !found->weights.scales_rows) return std::nullopt;
  wide.form = *std::move(found);
  wide.rounds = true;
  return wide;
}

}  // namespace common
