// Tiles whose rows multiply matrices of their own (common/ir/llir/grouped_form.h): a block takes
// rows in the given order and, for each run of rows of one group, computes the product with that
// group's matrix and stores these rows.
#pragma once

#include <string>

#include "common/lowering/body/contraction.h"

namespace worker {

// The rows of a block, at most `rows`, by two arrays of shared memory: their numbers in the
// product, and their groups.
class CudaRowRuns {
 public:
  CudaRowRuns(const common::GroupProduct& product, int64_t rows, int threads)
      : product_(product), rows_(rows), threads_(threads) {}

  // Of rows, see grouped_span().
  common::Expr blocks() const;
  // Fills the arrays and opens a loop over runs [first, last) of rows of one group; `m0` is the
  // block's number. Returns the group's number.
  common::Expr open(common::CodeWriter& writer, common::BodyEmitter& emitter) const;
  void close(common::CodeWriter& writer) const;
  // The product's row at `row` of the block, and whether it is of the run.
  static std::string row(const std::string& row) { return "rows[" + row + "]"; }
  static std::string is_of_run(const std::string& row) {
    return "(" + row + ") >= first && (" + row + ") < last";
  }

 private:
  const common::GroupProduct& product_;
  int64_t rows_;
  int threads_;
};

}  // namespace worker
