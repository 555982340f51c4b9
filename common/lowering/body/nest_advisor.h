// What a nest of loops would gain by: noted while its body is emitted once, for choosing how to
// walk it when it is emitted again.
#pragma once

#include <set>
#include <vector>

#include "common/lowering/text/code_writer.h"

namespace common {

// What the reductions and loads in a nest depend on.
struct NestAdvice {
  // Some reduction depends on the innermost loop and could run for a block of its steps, given
  // that the block's loop stands before loop `position`.
  bool lanes = false;
  size_t position = 0;
  // For each reduction, which of the nest's loops its indices depend on.
  std::vector<std::vector<bool>> dependencies;
  // Loops other than the innermost that loads run along while the innermost jumps.
  std::set<size_t> across;
};

class NestAdvisor {
 public:
  // Borrows the writer.
  explicit NestAdvisor(const CodeWriter& writer) : w_(writer) {}

  // The loops around what follows, outermost first; advice starts afresh.
  void set_loops(std::vector<int> indices) {
    loops_ = std::move(indices);
    advice_ = {};
  }
  // The innermost loop goes on as another, whose advice is added.
  void set_innermost(int index) { loops_.back() = index; }
  const NestAdvice& advice() const { return advice_; }

  // A load at `offset`, in elements.
  void note_load(const Expr& offset);
  // A reduction whose value is asked for at `indices`.
  void note_reduction(const Indices& indices);

 private:
  const CodeWriter& w_;
  std::vector<int> loops_;
  NestAdvice advice_;
};

}  // namespace common
