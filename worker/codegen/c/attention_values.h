// Values of an attention of few rows that are read where they lie: packing them would cost more
// than it saves.
#pragma once

#include <optional>
#include <string>

#include "common/lowering/attention/attention_operands.h"
#include "worker/codegen/c/attention_sizes.h"

namespace worker {

// The values as an input whose columns are contiguous.
struct ValuesInPlace {
  common::NodeId input = 0;
  std::string pointer;                             // C
  common::DType stored = common::DType::kFloat32;  // the product's, or a half type
};

// Empty where they must be packed. The batch of `operands` is not set yet.
std::optional<ValuesInPlace> values_in_place(const common::Graph& body,
                                             const common::AttentionForm& form,
                                             const common::AttentionOperands& operands,
                                             const AttentionSizes& sizes);

// Where the value of key `key` begins in the input, in elements.
common::Expr value_offset(const ValuesInPlace& values, const common::Graph& body,
                          const common::AttentionOperands& operands, const common::Expr& key);

}  // namespace worker
