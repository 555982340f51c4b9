// What all attention kernels on a GPU share: a block of rows against blocks of keys, softmax row by
// row in shared memory, and storing what follows. How operands are kept and multiplied is left to
// derived classes.
#pragma once

#include <string>
#include <vector>

#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/attention/attention_text.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

// Shared memory holds queries, keys, values, scores[row][key], then total[row] (double), top[row]
// and scale[row] in the product's type.
class CudaAttentionBlock : public CudaAttentionText {
 public:
  // kUnsupported when the rows do not fit into shared memory.
  common::Result<common::GpuFunction> run(const common::Schedule& schedule,
                                          const CudaMachine& machine);

 protected:
  static constexpr int kThreads = 128;
  // In elements.
  struct Sizes {
    int64_t depth = 1, width = 1;  // of a query, of a value
    int64_t rows = 64, keys = 32;  // of a block
    int64_t score_stride = 0;      // of a row
    int64_t width_padded = 1;      // of a row of results while they are stored
    // Bytes of shared memory; queries first, keys next to them.
    int64_t query_bytes = 0, key_bytes = 0, value_bytes = 0;
  };

  using CudaAttentionText::CudaAttentionText;

  // Fills in all sizes for a block of so many rows and keys; false where there is no such block.
  virtual bool size_for(int64_t rows, int64_t keys, Sizes& sizes) const = 0;
  // Declares what the threads keep, and their numbers.
  virtual void declare() = 0;
  virtual void load_queries() = 0;
  // Of keys [n0, n0 + keys), clamped to the last; values from `hi` on are 0.
  virtual void load_keys() = 0;
  virtual void load_values() = 0;
  // scores[row * stride + key].
  virtual void multiply_keys() = 0;
  // Statements that keep probability `p` of lane's i-th key in `line`, the row's scores.
  virtual std::string keep(const std::string& p) const = 0;
  // The threads' sums += probabilities * values; `rescaled`: after they were multiplied by scale.
  virtual void multiply_values(bool rescaled) = 0;
  // stage[(row - first) * width_padded + column] = sums * scale[row], for rows [first, first +
  // height).
  virtual void stage_sums(int64_t height) = 0;

  // The threads share a loop over e in [0, count).
  static std::string shared_loop(int64_t count);

  Sizes z_;

 private:
  static int64_t shared_bytes(const Sizes& sizes, common::DType dtype);
  bool choose_sizes(const common::Schedule& schedule, const CudaMachine& machine);
  common::Expr begin(common::GpuFunction& function);
  void find_range();
  void blocks();
  void weigh();
  void accumulate_row(int64_t count, bool keeps);
  void normalise_row(const std::vector<common::Expr>& rows, int64_t count);
  void finish_rows();
  void store();

  bool online_ = true;
  bool flows_ = true;
};

}  // namespace worker
