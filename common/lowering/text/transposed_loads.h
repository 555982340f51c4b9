// Loads that run along a nest's second last loop while the last one jumps: made for whole squares
// in memory's order, and transposed in registers.
#pragma once

#include <optional>
#include <string>

#include "common/lowering/text/code_writer.h"

namespace common {

// A square block of a nest's last two loops: the innermost, v, and the one around it, w. Loads that
// run along w are made for the whole square first, along w, and transposed in registers.
struct TurnBlock {
  int level = 0;  // the scope that the squares live in
  struct Axis {
    int index = -1;          // of the nest's loop
    std::string begin, end;  // C names
    Expr extent;             // of the whole loop
    int canonical = -1;      // stands for the loop's index in keys; set by TransposedLoads::open
  };
  Axis w, v;
};
inline constexpr int64_t kTurnSide = 16;

class TransposedLoads {
 public:
  // Borrows the writer.
  explicit TransposedLoads(CodeWriter& writer) : w_(writer) {}

  // Between open and close the block's loops are open, or will be; they are told to block().
  void open(TurnBlock block);
  TurnBlock& block() { return *block_; }
  void close() { block_.reset(); }

  // Whether the square's rows at `offset` lie a multiple of 64 KiB apart, so that all belong to one
  // set of each cache, and in as many pages: where they are read row by row nothing comes in time.
  bool is_far(const Expr& offset) const;
  // The element at `offset` of `pointer`, which may be read in any step of the scope `level`; empty
  // when it does not run along w alone.
  std::optional<CodeValue> load(const std::string& pointer, DType dtype, const Expr& offset,
                                int level);

 private:
  // The name of the array that holds the square's elements, v's rows first.
  std::string square(const std::string& pointer, DType dtype, const Expr& offset);
  // The offset at other indices of the two loops.
  Expr placed(const Expr& offset, int w, int v) const;

  CodeWriter& w_;
  std::optional<TurnBlock> block_;
};

}  // namespace common
