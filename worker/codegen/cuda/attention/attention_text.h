// What emitters of attention kernels for GPUs have in common: their body's parts, and indices of
// its rows and keys as text.
#pragma once

#include <string>
#include <vector>

#include "common/lowering/attention/attention_reads.h"
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

  // Whether runs of so many elements of an operand lie side by side in an input.
  bool lies_in_runs(const common::AttentionOperand& x, int64_t run) const {
    return common::lies_in_runs(body_, form_, x, run);
  }

  // The results of rows C expression `first` and on lie in shared memory:
  // stage[row * stride + column].
  struct Staged {
    std::string first;
    int64_t rows = 0, stride = 0;
    int64_t threads = 0;  // of the block
    // Where the element of C expression d + y is, if not there.
    std::string element = {};
  };
  // Stores what follows from the product, 16 bytes at a time where outputs lie so; false when an
  // output mixes its elements.
  bool store_staged(const Staged& staged);
  // How many elements of each output are 16 bytes that lie side by side; 1 where they do not.
  int64_t output_run() const;
  // Stores such a run, from column C expression d on, of the row.
  bool store_run(const Staged& staged, int64_t run, const std::vector<common::Expr>& rows);

  // The eight halves h[0] to h[7] as a chunk of 16 bytes.
  static constexpr const char* kPackedChunk =
      "make_uint4(h[0] | (uint32_t)h[1] << 16, h[2] | (uint32_t)h[3] << 16, "
      "h[4] | (uint32_t)h[5] << 16, h[6] | (uint32_t)h[7] << 16)";

  const common::Graph& body_;
  common::AttentionForm form_;
  const common::Node& product_;
  common::CodeWriter writer_;
  common::BodyEmitter emitter_;
  common::AttentionOperands operands_;
  std::string type_;
  std::string suffix_;
  std::string lowest_;     // the literal of minus infinity
  bool is_short_ = false;  // rows and keys, and expressions of them, are counted in 32 bits
  common::Expr key_size_;
  common::Expr row_count_;

 private:
  // Declares an index: C expression `value`, at most `last`.
  void declare_clamped(const std::string& name, const std::string& value, const std::string& last);
  bool is_stored_in_runs(common::NodeId output, int64_t run) const;
  // The product at a row and C expression `column` is what is staged there.
  common::Indices remember_staged(const Staged& staged, const char* column,
                                  const std::vector<common::Expr>& rows);
  bool store_one(const Staged& staged, const std::vector<common::Expr>& rows);
};

}  // namespace worker
