// What all attention kernels on a GPU share: a block of rows against blocks of keys, softmax row by
// row in shared memory, and storing what follows. How operands are kept and multiplied is left to
// derived classes.
#pragma once

#include <string>
#include <vector>

#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/attention/threads_attention.h"
#include "worker/codegen/cuda/attention/attention_text.h"

namespace worker {

// Shared memory holds queries, keys, values, scores[row][key], then total[row] (double), top[row]
// and scale[row] in the product's type.
class CudaAttentionBlock : public CudaAttentionText {
 public:
  common::Result<common::GpuFunction> run();

 protected:
  static constexpr int64_t kThreads = common::kAttentionThreads;

  CudaAttentionBlock(const common::Graph& body, common::AttentionForm form,
                     const common::ThreadsAttentionTiling& tiling);

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

  common::ThreadsAttentionTiling tiling_;
  common::ThreadsAttentionSizes z_;

 private:
  common::Expr begin(common::GpuFunction& function);
  void find_range();
  void blocks();
  void weigh();
  void accumulate_row(int64_t count, bool keeps);
  void normalise_row(const std::vector<common::Expr>& rows, int64_t count);
  void finish_rows();
  void store();

  bool flows_ = true;
};

}  // namespace worker
