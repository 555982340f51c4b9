// Finds attention whose operands are in half precision, as tensor cores multiply them.
#pragma once

#include <optional>

#include "common/ir/hlir/attention_form.h"

namespace common {

// A body whose attention has half-precision operands, where they were cast before it.
struct HalfAttention {
  Graph body;
  AttentionForm form;
  // Probabilities are multiplied as the values' type. `body` has them as they were before they were
  // rounded to it, so that a row may be normalised after the product.
  bool rounds = false;
};

// Empty where queries, keys or values are not.
std::optional<HalfAttention> half_attention(const Graph& body, const AttentionForm& form);

// The same attention with probabilities that are rounded before they are normalised; empty unless
// they are rounded to the values' type.
std::optional<HalfAttention> rounded_before(const HalfAttention& attention);

}  // namespace common
