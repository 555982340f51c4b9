// Where an attention's kernel reads: the indices of every part of the form for a row, a key and a
// column, and the elements of queries, keys and values.
#pragma once

#include <string>
#include <vector>

#include "common/ir/hlir/attention_form.h"
#include "common/lowering/body/body_emitter.h"

namespace common {

// Elements of a query, which scores sum over. `form` is that of `body`.
int64_t attention_depth(const Graph& body, const AttentionForm& form);

// Rows are given by the indices of the form's row labels; keys, depths and columns are flat.
class AttentionOperands {
 public:
  AttentionOperands(const Graph& body, const AttentionForm& form, const CodeWriter& writer);

  // The indices of the batch labels; all 0 until this is called.
  void set_batch(std::vector<Expr> batch) { batch_ = std::move(batch); }
  const std::vector<Expr>& batch() const { return batch_; }
  // The constant number of elements that a score sums over.
  int64_t depth() const;
  std::vector<Expr> sizes_of(const std::vector<int>& labels) const;

  NodeId exponents() const { return body_.node(form_.softmax).operands[0]; }
  NodeId probabilities() const {
    return product_.operands[static_cast<size_t>(form_.probabilities)];
  }
  NodeId queries() const { return scores_.operands[static_cast<size_t>(form_.queries)]; }
  NodeId keys() const { return scores_.operands[static_cast<size_t>(1 - form_.queries)]; }
  NodeId values() const { return product_.operands[static_cast<size_t>(1 - form_.probabilities)]; }
  // Indices of: the product, the product's operands, what lies below the probabilities, and each
  // label in turn.
  Indices product_at(const std::vector<Expr>& rows, const Expr& column) const;
  Indices probabilities_at(const std::vector<Expr>& rows, const Expr& key) const;
  Indices values_at(const Expr& key, const Expr& column) const;
  Indices queries_at(const std::vector<Expr>& rows, const Expr& depth) const;
  Indices keys_at(const Expr& key, const Expr& depth) const;
  Indices softmax_at(const std::vector<Expr>& rows, const Expr& key) const;
  Indices scores_at(const std::vector<Expr>& rows, const Expr& key) const;
  Indices greatest_at(const std::vector<Expr>& rows) const;
  Indices labels_at(const std::vector<Expr>& rows) const;
  // The indices at which `from`, needed at `at`, needs `target`, which it holds.
  Indices demanded(NodeId from, const Indices& at, NodeId target) const;

  // Elements as values of the product's dtype, in C.
  std::string query(BodyEmitter& emitter, const std::vector<Expr>& rows, const Expr& depth) const;
  std::string key(BodyEmitter& emitter, const Expr& key, const Expr& depth) const;
  std::string value(BodyEmitter& emitter, const Expr& key, const Expr& column) const;
  std::string probability(BodyEmitter& emitter, const std::vector<Expr>& rows,
                          const Expr& key) const;
  // Whether no mask hides the key from the row, in C. There is a mask.
  std::string sees(BodyEmitter& emitter, const std::vector<Expr>& rows, const Expr& key) const;

 private:
  Indices by_label(const std::vector<int>& labels, const std::vector<Expr>& rows, const Expr& key,
                   const std::vector<Expr>& columns) const;
  const std::vector<int>& operand_labels(int operand) const;
  Indices score_operand_at(int operand, const std::vector<Expr>& rows, const Expr& key,
                           const Expr& depth) const;
  std::string element(BodyEmitter& emitter, NodeId id, const Indices& indices) const;
  std::vector<Expr> no_rows() const;
  std::vector<Expr> no_columns() const;

  const Graph& body_;
  const AttentionForm& form_;
  const Node& product_;
  const Node& scores_;
  const CodeWriter& writer_;
  std::vector<int> depth_labels_;  // of the scores
  std::vector<Expr> depth_sizes_;
  std::vector<Expr> batch_;
};

}  // namespace common
