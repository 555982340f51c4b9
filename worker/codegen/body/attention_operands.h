// Where an attention's kernel reads: the indices of every part of the form for a row, a key and a
// column, and the elements of queries, keys and values.
#pragma once

#include <string>
#include <vector>

#include "common/ir/hlir/attention_form.h"
#include "common/lowering/body/body_emitter.h"

namespace worker {

// Rows are given by the indices of the form's row labels; keys, depths and columns are flat.
class AttentionOperands {
 public:
  AttentionOperands(const common::Graph& body, const common::AttentionForm& form,
                    const common::CodeWriter& writer);

  // The indices of the batch labels; all 0 until this is called.
  void set_batch(std::vector<common::Expr> batch) { batch_ = std::move(batch); }
  const std::vector<common::Expr>& batch() const { return batch_; }
  // The constant number of elements that a score sums over.
  int64_t depth() const;
  std::vector<common::Expr> sizes_of(const std::vector<int>& labels) const;

  common::NodeId exponents() const { return body_.node(form_.softmax).operands[0]; }
  common::NodeId probabilities() const {
    return product_.operands[static_cast<size_t>(form_.probabilities)];
  }
  common::NodeId queries() const { return scores_.operands[static_cast<size_t>(form_.queries)]; }
  common::NodeId keys() const { return scores_.operands[static_cast<size_t>(1 - form_.queries)]; }
  common::NodeId values() const {
    return product_.operands[static_cast<size_t>(1 - form_.probabilities)];
  }
  // Indices of: the product, the product's operands, what lies below the probabilities, and each
  // label in turn.
  common::Indices product_at(const std::vector<common::Expr>& rows,
                             const common::Expr& column) const;
  common::Indices probabilities_at(const std::vector<common::Expr>& rows,
                                   const common::Expr& key) const;
  common::Indices values_at(const common::Expr& key, const common::Expr& column) const;
  common::Indices queries_at(const std::vector<common::Expr>& rows,
                             const common::Expr& depth) const;
  common::Indices keys_at(const common::Expr& key, const common::Expr& depth) const;
  common::Indices softmax_at(const std::vector<common::Expr>& rows, const common::Expr& key) const;
  common::Indices scores_at(const std::vector<common::Expr>& rows, const common::Expr& key) const;
  common::Indices greatest_at(const std::vector<common::Expr>& rows) const;
  common::Indices labels_at(const std::vector<common::Expr>& rows) const;
  // The indices at which `from`, needed at `at`, needs `target`, which it holds.
  common::Indices demanded(common::NodeId from, const common::Indices& at,
                           common::NodeId target) const;

  // Elements as values of the product's dtype, in C.
  std::string query(common::BodyEmitter& emitter, const std::vector<common::Expr>& rows,
                    const common::Expr& depth) const;
  std::string key(common::BodyEmitter& emitter, const common::Expr& key,
                  const common::Expr& depth) const;
  std::string value(common::BodyEmitter& emitter, const common::Expr& key,
                    const common::Expr& column) const;
  std::string probability(common::BodyEmitter& emitter, const std::vector<common::Expr>& rows,
                          const common::Expr& key) const;

 private:
  common::Indices by_label(const std::vector<int>& labels, const std::vector<common::Expr>& rows,
                           const common::Expr& key, const std::vector<common::Expr>& columns) const;
  const std::vector<int>& operand_labels(int operand) const;
  common::Indices score_operand_at(int operand, const std::vector<common::Expr>& rows,
                                   const common::Expr& key, const common::Expr& depth) const;
  std::string element(common::BodyEmitter& emitter, common::NodeId id,
                      const common::Indices& indices) const;
  std::vector<common::Expr> no_rows() const;
  std::vector<common::Expr> no_columns() const;

  const common::Graph& body_;
  const common::AttentionForm& form_;
  const common::Node& product_;
  const common::Node& scores_;
  const common::CodeWriter& writer_;
  std::vector<int> depth_labels_;  // of the scores
  std::vector<common::Expr> depth_sizes_;
  std::vector<common::Expr> batch_;
};

}  // namespace worker
