// A run of steps of a nest's innermost loop, for which reductions are computed at once, and the
// checks of views that the middle of such a run does not need.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/lowering/text/code_writer.h"

namespace common {

// A run of steps [begin, end) of a nest's innermost loop. Reductions that depend on that loop's
// index are computed for the whole run before it: arrays of accumulators, with the run as their
// innermost loop, which then vectorises and reads memory in order.
struct LaneBlock {
  int level = 0;           // the scope that the block's arrays live in
  std::string begin, end;  // C names
  Expr extent;             // of the whole loop
  int64_t width = 0;       // end - begin at most
};

// The validities of views that are asked for in one step of a lane loop: where all of them hold
// nothing is checked. A range of steps is where each of them does, as each is linear.
class StepChecks {
 public:
  // Borrows the writer. `index` is the loop's.
  StepChecks(CodeWriter& writer, int index) : w_(&writer), index_(index) {}

  // Whether the range of steps can decide 0 <= position < bound; if so it is noted, or, once all
  // are assumed, known to hold.
  bool decides(const Expr& position, const Expr& bound, bool* holds);
  bool empty() const { return checks_.empty(); }
  // From now on all that was noted holds, and the loop's index is another.
  void assume(int index) {
    index_ = index;
    assumed_ = true;
  }
  // The steps [lo, hi) of the block where all checks hold, as two C names, declared around the
  // innermost scope.
  std::pair<std::string, std::string> range(const LaneBlock& block);

 private:
  struct Check {
    Expr position;  // with kStepSymbol for the index
    Expr bound;
    friend bool operator==(const Check&, const Check&) = default;
  };

  CodeWriter* w_;
  int index_;
  bool assumed_ = false;
  std::vector<Check> checks_;
};

class LaneLoops {
 public:
  // Borrows the writer.
  explicit LaneLoops(CodeWriter& writer) : w_(writer) {}

  // Between open and close lane loops run over the block.
  void open(LaneBlock block);
  void close() { block_.reset(); }
  bool is_open() const { return block_.has_value(); }
  const LaneBlock& block() const { return *block_; }
  // Stands for any lane loop's index in keys.
  const Expr& canonical() const { return canonical_; }

  // Opens a loop over the block and returns its index.
  Expr open_loop(const std::string& name);
  void close_loop(const std::string& pragma) { close_loop(pragma, block_->begin, block_->end); }
  // The same over a part of the block, between two C names.
  void close_loop(const std::string& pragma, const std::string& from, const std::string& to);

  // The index of the innermost loop over lanes if nothing else is open inside of it, else -1.
  int innermost() const {
    return loops_.empty() || w_.loop_index(w_.depth()) != loops_.back() ? -1 : loops_.back();
  }
  // The index of the lane loop that `indices` depend on, when they are inside of `shape` and all
  // else in them is known outside of the block; -1 otherwise.
  int lane_of(const Indices& indices, const Shape& shape) const;
  // "[index - begin]": the place of a lane in the block's arrays.
  std::string place(const std::string& index) const;
  std::string place(int lane) const { return place(w_.index_name(lane)); }
  // "[width]"
  std::string size() const;

  // The checks of the innermost step that is being emitted, empty outside of one.
  std::optional<StepChecks>& checks() { return checks_; }

 private:
  CodeWriter& w_;
  std::optional<LaneBlock> block_;
  Expr canonical_ = 0;
  std::vector<int> loops_;  // the indices of open lane loops
  std::optional<StepChecks> checks_;
};

}  // namespace common
