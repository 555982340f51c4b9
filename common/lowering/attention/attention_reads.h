// Whether and how the operands of an attention lie in a kernel's inputs as they are, so that they
// are read many elements at a time or brought by the copy engine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/lowering/attention/attention_operands.h"
#include "common/plan/tensor_map.h"

namespace common {

// Queries, keys or values as rows of elements.
struct AttentionOperand {
  NodeId node = 0;
  int64_t length = 0;       // elements of a row
  std::vector<int> labels;  // of a row
  // The node's indices at a row's labels and a position along its length.
  std::function<Indices(const AttentionOperands&, const std::vector<Expr>& place,
                        const Expr& position)>
      at;
};
AttentionOperand attention_queries(const AttentionForm& form, const AttentionOperands& operands);
AttentionOperand attention_keys(const AttentionForm& form, const AttentionOperands& operands);
AttentionOperand attention_values(const AttentionForm& form, const AttentionOperands& operands);

// Indices of the batch and of some labels, for asking where elements lie. Refers to `body` and
// `form`.
struct AttentionTrial {
  AttentionTrial(const Graph& body, const AttentionForm& form, const std::vector<int>& labels);
  CodeWriter writer;
  AttentionOperands operands;
  std::vector<Expr> batch, place;
};

// Elements of 16 bytes of a half type.
inline constexpr int64_t kHalfChunk = 8;
// Whether each run of `run` elements of an operand's rows, from every multiple of `run` on, is
// contiguous in an input.
bool lies_in_runs(const Graph& body, const AttentionForm& form, const AttentionOperand& x,
                  int64_t run);

// An operand as the copy engine reads it, boxes of `rows` rows and 64 elements of 16 bits at a
// time: dimensions are a row's elements, its label, and those of the batch's labels along which it
// changes.
struct AttentionMap {
  TensorMap map;
  std::vector<size_t> labels;  // of the form's batch
};
// Of keys or values; none where elements are computed or gathered, or do not lie in memory by one
// stride for each label.
std::optional<AttentionMap> attention_map(const Graph& body, const AttentionForm& form,
                                          const AttentionOperand& x, int64_t rows);

}  // namespace common
