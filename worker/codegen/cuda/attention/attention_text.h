// What emitters of attention kernels for GPUs have in common: their body's parts, and indices of
// its rows and keys as text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/ir/hlir/attention_form.h"
#include "worker/codegen/body/attention_operands.h"
#include "worker/codegen/cuda/text/text.h"

namespace worker {

class CudaAttentionText {
 public:
  virtual ~CudaAttentionText() = default;
  CudaAttentionText(const CudaAttentionText&) = delete;
  CudaAttentionText& operator=(const CudaAttentionText&) = delete;

 protected:
  CudaAttentionText(const common::Graph& body, common::AttentionForm form);

  void lines(const std::string& text) { write_lines(writer_, text); }
  // How many elements the batch labels have; and names their indices of C expression `element`.
  common::Expr batch_size() const;
  void bind_batch(const std::string& element);
  // The indices of each row label for row C expression `row` counted from m0, clamped to the last.
  std::vector<common::Expr> row_labels(const std::string& row);
  // The index of a key, clamped to the last.
  common::Expr key_index(const std::string& key);
  // An index of that extent, clamped.
  common::Expr inner_index(const std::string& value, int64_t extent);
  // Declares the `first` and `last` key that a row sees.
  void row_range(const std::vector<common::Expr>& rows);
  std::string exp_of(const std::string& x) const;
  // Of a row's scores, for what is made of its probabilities.
  void remember_greatest(const std::vector<common::Expr>& rows, const common::CodeValue& greatest);

  // Where an operand is read: at a row's labels or a key, and a position along its length.
  using OperandAt = std::function<common::Indices(
      const AttentionOperands&, const std::vector<common::Expr>& at, const common::Expr& position)>;
  // Whether runs of so many of an operand's `length` elements lie side by side in an input,
  // whatever its labels are.
  bool lies_in_runs(common::NodeId node, int64_t length, const OperandAt& at,
                    const std::vector<int>& labels, int64_t run) const;

  const common::Graph& body_;
  common::AttentionForm form_;
  const common::Node& product_;
  common::CodeWriter writer_;
  common::BodyEmitter emitter_;
  AttentionOperands operands_;
  std::string type_;
  std::string suffix_;
  std::string lowest_;  // the literal of minus infinity
  common::Expr key_size_;
  common::Expr row_count_;
};

}  // namespace worker
