// Loops whose steps the threads of a team share, and neighbours in memory that a thread loads and
// stores at once.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/lowering/text/code_writer.h"
#include "common/lowering/text/team.h"

namespace common {

// A loop all of whose steps a value can be kept for by the first walk over it, see
// BodyEmitter::row_of.
struct RowLoop {
  int base = 0;            // the scope around the loop
  std::vector<int> steps;  // the indices that tell its steps apart
  bool only = false;       // an axis runs along the loop by its index itself, or not at all
  Indices extent;          // what else tells walks apart
};

// A loop over the elements of a square that a block's threads share. A thread takes a chunk of
// `access` neighbours of a row at once: column = chunk * access + step.
struct SquareSteps {
  int64_t rows = 0, chunks = 0, access = 1, threads = 1;
  int row = -1, chunk = -1, step = -1;  // indices; step: -1 where chunks have one column
  int base = 0;                         // the scope around the loop
  int64_t columns() const { return chunks * access; }
};

// A C condition and the innermost scope that it needs; empty: it holds.
struct StoreGuard {
  std::string condition;
  int level = 0;
};

class SharedLoops {
 public:
  // Borrows the writer.
  SharedLoops(CodeWriter& writer, const Team& team) : w_(writer), team_(team) {}
  const Team& team() const { return team_; }

  // Opens a loop whose steps [0, extent) the team's threads share; returns the step.
  Expr open(const Expr& extent);
  // Opens a loop over a square's elements; `columns` is a multiple of Team::vector.
  SquareSteps open_square(int64_t rows, int64_t columns);
  // Opens the steps of one block of neighbours, number `block`, which this thread takes alone.
  Expr open_block(const Expr& block);
  // Closes what open or open_block opened.
  void close();

  // Whether what stands in the innermost scope all of the team's threads reach together.
  bool is_together() const;
  // The index by which neighbouring threads differ; -1 where they do not.
  int lane_index() const;

  // ---- blocks that share a reduction
  // The first reduction that the team computes together is its blocks' too; begins it if this is
  // the one. Shared loops' steps are all blocks' until end_split.
  bool begin_split();
  void end_split();
  // Whether blocks shared a reduction, which needed no other one that a group computes together.
  bool is_split() const { return is_split_ && !needs_another_; }
  // Whether some vector was loaded ahead.
  bool went_ahead() const { return went_ahead_; }

  // ---- memory
  // The value out of a vector that is loaded before the innermost steps; empty when no open loop's
  // steps are neighbours at `offset` of `pointer`.
  std::optional<CodeValue> load(const std::string& pointer, DType dtype, const Expr& offset);
  // The name of the place through which output `name`'s element `offset` is stored after the steps,
  // asked for where these are innermost; empty when there is none. Nothing is stored unless
  // `guard` holds.
  std::string store(const std::string& name, DType dtype, const Expr& offset,
                    const StoreGuard& guard = {});

  // After the loop of Team::batch: stores what its steps left.
  void store_batch();

  // Counts an access of `bytes` by one thread in scope `level`, at element `offset` of a tensor
  // whose elements have `element_bytes`.
  void note_access(const Expr& offset, int64_t element_bytes, int64_t bytes, bool is_store,
                   int level, bool is_ahead = false);

  // ---- rows
  // The innermost loop, if its steps are unrolled and nothing in the step is conditional: each
  // thread keeps the values of its own steps in registers.
  std::optional<RowLoop> row_loop() const;
  // Declares registers for a value at each of the thread's own steps.
  std::string declare_row(DType dtype);
  // Of all rows that a thread keeps.
  double row_bytes() const { return row_bytes_; }
  // Of this step in registers called `row`.
  std::string row_place(std::string_view row) const;

 private:
  struct Loop {
    std::string header;       // of the loop over blocks, or over single steps
    std::string step_header;  // of the loop over a block's steps; empty when there is none
    int index = -1;           // of a block's step
    int lane = -1;            // index of the blocks
    int level = 0;            // the scope around the block's steps
    int64_t width = 1;
    std::vector<std::string> stores;  // after a block's steps
    std::string guard;        // "if (...)" around an unrolled step; empty when all are there
    std::string slot;         // this step's number among the thread's own, where unrolled
    int64_t slots = 0;        // how many there are; 0: not unrolled
    int base = 0, depth = 0;  // the scope around the loop, and the innermost one
    Expr blocks = 0;          // over all threads
    int next = -1;            // index of the blocks one step later, where vectors are loaded ahead
  };
  // A vector of `type` from `pointer` + first, which belongs to the step of the innermost scope.
  std::string load_vector(Loop& loop, int level, const std::string& type,
                          const std::string& pointer, const Expr& first);
  // The same, begun one step before; empty where what `first` needs is not known before the loop.
  std::string load_ahead(Loop& loop, const std::string& type, const std::string& pointer,
                         const Expr& first);
  // How many threads share a loop's steps, and a thread's number among them.
  int64_t sharing() const { return team_.size * (in_split_ ? team_.blocks : 1); }
  const char* member() const { return in_split_ ? "wide" : "member"; }
  void open_unrolled(Loop& loop, const Expr& blocks, int64_t trips);
  Expr open_steps(const Expr& block);
  // The open loop by whose steps `offset` moves one by one from a multiple of their number; null.
  Loop* vector_loop(const Expr& offset, DType dtype);

  CodeWriter& w_;
  Team team_;
  bool in_split_ = false;  // in the loop of the reduction that blocks share
  bool is_split_ = false;
  bool needs_another_ = false;
  bool went_ahead_ = false;
  double row_bytes_ = 0;
  std::vector<std::string> batches_;  // names of what steps leave to be stored
  std::vector<Loop> loops_;
};

}  // namespace common
