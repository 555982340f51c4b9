// Loads that jump where neighbouring threads of a GPU are neighbours in the output: made along
// memory, for a square of two loops at once, and transposed in shared memory.
#pragma once

#include <optional>
#include <string>

#include "common/lowering/text/code_writer.h"
#include "common/lowering/text/shared_loops.h"

namespace common {

class SharedSquares {
 public:
  // Borrows the writer.
  explicit SharedSquares(CodeWriter& writer) : w_(writer) {}

  // Between open and close, `steps` are the innermost ones, of all of a block's threads.
  void open(const SquareSteps& steps) { steps_ = steps; }
  // Before the steps' loop is closed. Returns whether anything was loaded through a square.
  bool close();

  // The element at `offset` of `pointer` that a step reads; empty when it does not run along the
  // square's rows, from one to the next.
  std::optional<CodeValue> load(const std::string& pointer, DType dtype, const Expr& offset);

 private:
  // The offset without what the steps add, and how far it moves from column to column.
  struct Run {
    Expr base;
    int64_t stride = 0;
  };
  std::optional<Run> run_of(const Expr& offset) const;
  // Declares the square in shared memory, rows first, and fills it; returns its name.
  std::string square(const std::string& pointer, DType dtype, const Run& run);
  // Elements between a square's rows.
  int64_t pitch(DType dtype) const;

  CodeWriter& w_;
  std::optional<SquareSteps> steps_;
  int64_t bytes_ = 0;  // of squares so far
};

}  // namespace common
