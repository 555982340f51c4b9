// Attention of few rows, whose keys are shared by the threads of a block and by several blocks:
// which keys there are to share, and how what each has found becomes the rows' results.
#pragma once

#include <string>
#include <vector>

#include "worker/codegen/cuda/attention/attention_text.h"

namespace worker {

// A part is what some of the keys give: each row's greatest score, the sum of the exponentials of
// its scores less that one, and their sum with the values. Parts of a block lie in shared memory:
// part[(p * rows + r) * width + column], tops[p * rows + r], totals[p * rows + r].
class CudaAttentionRows : public CudaAttentionText {
 protected:
  struct Shares {
    int64_t threads = 0;
    int64_t parts = 1;   // of one block
    int64_t splits = 1;  // blocks that share the keys
    // A thread holds its elements of all blocks' parts.
    bool keeps_parts = false;
  };
  // The product is float32, its width a multiple of 4.
  CudaAttentionRows(const common::Graph& body, common::AttentionForm form, const Shares& shares);

  // Declares the block's parts and returns the bytes of shared memory beyond those that a block
  // gets without asking; `more` bytes before them are at `memory`.
  int64_t declare_parts(int64_t more);
  // [begin_, end_): the keys that some row sees, of which a block may have its own; `block` is the
  // number by which the keys are shared.
  void find_range(int64_t step, const std::string& block);
  // After each part has been written and the block has met: stores the results. Rows are
  // normalised in the end, by their sums.
  void store_merged();
  // What the scores' exponentials are to each other: exp(`top` - `greatest`) as C.
  virtual std::string weight(const std::string& top, const std::string& greatest) const = 0;
  // Floats that a block leaves for the others: sums, then tops, then totals of all rows.
  int64_t left_size() const { return rows_ * (width_ + 2); }
  // The elements of the product that belong to row C expression r and column C expression.
  void store_element(const std::string& column, const std::string& value,
                     const std::vector<common::Expr>& rows);

  // Closes a scope over e: the block's threads take `step` neighbours of `count` elements each, a
  // multiple of it.
  void close_each(int64_t count, int64_t step);

  int64_t rows_, depth_, width_;
  int64_t threads_;
  int64_t parts_;
  int64_t splits_;
  bool keeps_parts_;
  std::string begin_ = "lo", end_ = "hi";
  bool needs_a_key_ = false;  // rows that see nothing must meet a key to become NaN
  bool reads_masks_ = false;  // keys that masks hide from all rows are left out, at the ends
  bool flows_ = true;

 private:
  void find_visible();
  void find_in_masks();
  void weigh_parts(const std::string& count, int64_t most, bool last);
  // `sums` is memory, or what threads hold where keeps_parts_.
  void begin_sum(const std::string& loop, const std::string& part);
  void begin_sum_of(const std::string& count, const std::string& sums, const std::string& stride);
  void end_sum();
  void join_blocks();
  void finish_rows();
};

}  // namespace worker
