// Emits the value of any node of a kernel's body at given indices, on demand.
//
// Nothing is emitted that is not asked for: views become index arithmetic, elementwise nodes become
// local values placed in the outermost scope that knows their operands, and reductions become loops
// where their indices are known. So every acyclic body gives correct code, whatever was fused.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/graph.h"
#include "worker/codegen/code_writer.h"
#include "worker/codegen/team.h"

namespace worker {

struct Accumulation;
struct ReducedLoops;

using Indices = std::vector<common::Expr>;

// A node's elements in memory, row-major.
struct StoredNode {
  std::string pointer;  // of the dtype's storage type
  common::Shape shape;
};

// Private memory of one call: named pieces at aligned offsets.
class Scratch {
 public:
  // A pointer variable `name` to `count` elements, declared in the function's first lines.
  void add(const std::string& name, std::string_view type, int64_t element_bytes,
           const common::Expr& count);
  const common::Expr& bytes() const { return bytes_; }
  struct Piece {
    std::string name;
    std::string type;
    common::Expr offset;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  common::Expr bytes_ = 0;
  std::vector<Piece> pieces_;
};

// A run of steps [begin, end) of a nest's innermost loop. Reductions that depend on that loop's
// index are computed for the whole run before it: arrays of accumulators, with the run as their
// innermost loop, which then vectorises and reads memory in order.
struct LaneBlock {
  int level = 0;           // the scope that the block's arrays live in
  std::string begin, end;  // C names
  common::Expr extent;     // of the whole loop
  int64_t width = 0;       // end - begin at most
};

// A square block of a nest's last two loops: the innermost, v, and the one around it, w. Loads that
// run along w are made for the whole square first, along w, and turned in registers.
struct TurnBlock {
  int level = 0;  // the scope that the squares live in
  struct Axis {
    int index = -1;          // of the nest's loop
    std::string begin, end;  // C names
    common::Expr extent;     // of the whole loop
    int canonical = -1;      // stands for the loop's index in keys; set by open_turn
  };
  Axis w, v;
};
inline constexpr int64_t kTurnSide = 16;

// What the reductions in the nest set by set_nest depend on.
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

// Choices that change what code costs but not what it means.
struct EmitterChoices {
  // Reductions to compute in the loops of the first one (of equal axes and operand shapes, none
  // depending on another), for use at the same indices.
  std::map<common::NodeId, std::vector<common::NodeId>> fused;
  // Reductions whose adjacent axes are walked as one.
  std::set<common::NodeId> flat;
  // Nodes whose values along a row are kept in memory by the first loop over it.
  std::set<common::NodeId> staged;
};

// A reduction that was emitted, for choosing what to fuse.
struct EmittedReduction {
  common::NodeId id = 0;
  int level = 0;
  Indices indices;
};

// Tags of ValueKey (the value itself is 0): values along a row; the symbols that stand for the
// row's loop indices in keys, which no kernel has as many of.
inline constexpr int kRowTag = 3;
inline constexpr int kRowSymbol = 1 << 20;

class BodyEmitter {
 public:
  // `graph` holds only primitives (see lowering.h) and outlives the emitter. Its inputs are read
  // through pointers in0, in1, ...
  BodyEmitter(const common::Graph& graph, CodeWriter& writer);

  // The value of `node` at `indices`, one expression per axis.
  CodeValue value(common::NodeId node, const Indices& indices);
  // Where in its data a gather reads the element at `indices`.
  Indices gathered_position(const common::Node& gather, const Indices& indices);
  // The node's elements are in memory from now on.
  void set_stored(common::NodeId node, StoredNode stored) { stored_[node] = std::move(stored); }
  // Code whose indices are not provably inside of `shape` must stay in the innermost conditional
  // scope; this is that scope, or the scope where the indices are known.
  int safe_level(const Indices& indices, const common::Shape& shape);

  // Before any value is asked for.
  void set_choices(EmitterChoices choices);
  const std::vector<EmittedReduction>& reductions() const { return reductions_; }
  // How many loops over a whole row asked for each node's values along it.
  const std::map<common::NodeId, int>& row_uses() const { return row_uses_; }
  const Scratch& scratch() const { return scratch_; }

  // ---- lanes
  // The loops around what follows, outermost first; advice starts afresh.
  void set_nest(std::vector<int> indices) {
    nest_ = std::move(indices);
    advice_ = {};
  }
  const NestAdvice& advice() const { return advice_; }
  void open_lanes(LaneBlock block);
  void close_lanes() { lanes_.reset(); }
  // Opens a loop over the block and returns its index.
  common::Expr open_lane_loop(const std::string& name);
  void close_lane_loop(const std::string& pragma);

  // ---- teams (team_emitter.cc)
  // The code is for a GPU: what all of the team's threads reach together they compute together.
  void set_team(const Team& team) { team_ = team; }
  // Whether blocks shared a reduction.
  bool is_split() const { return is_split_; }
  // Opens a loop whose steps [0, extent) the team's threads share; returns the step.
  common::Expr open_shared_loop(const common::Expr& extent);
  // Opens the steps of one block of neighbours, number `block`, which this thread takes alone.
  common::Expr open_block(const common::Expr& block);
  // Closes what open_shared_loop or open_block opened.
  void close_shared_loop();
  // In a shared loop that takes neighbouring steps at once: the name of the array through which
  // output `name`'s element `offset` is stored after the steps; empty when there is none.
  std::string vector_store(const std::string& name, common::DType dtype,
                           const common::Expr& offset);

  // Between open_turn and close_turn the block's loops are open, or will be.
  void open_turn(TurnBlock block);
  TurnBlock& turn() { return *turn_; }
  void close_turn() { turn_.reset(); }

  // kUnsupported once an operation was met that has no expression form, or the code grew too long.
  const common::Status& status() const { return status_; }

  // The positions that inputs and stored nodes were read at so far.
  const std::vector<common::Expr>& load_offsets() const { return load_offsets_; }

  const common::Graph& graph() const { return graph_; }
  CodeWriter& writer() { return w_; }

 private:
  CodeValue compute(common::NodeId id, const Indices& indices);
  // The key of the node's row that `indices` run along in the innermost loop, when that loop covers
  // the row and nothing in it is conditional.
  std::optional<ValueKey> row_key(common::NodeId id, const Indices& indices);
  CodeValue staged_value(common::NodeId id, const Indices& indices, const ValueKey& row);
  CodeValue load(const StoredNode& stored, common::DType dtype, const Indices& indices);
  CodeValue turned_load(const StoredNode& stored, common::DType dtype, const common::Expr& offset);
  void note_across(const common::Expr& offset);
  CodeValue constant(const common::Node& node, const Indices& indices);
  CodeValue view(const common::Node& node, const Indices& indices);
  CodeValue elementwise(const common::Node& node, const Indices& indices);
  CodeValue power(const common::Node& node, const std::vector<CodeValue>& x, bool* done);
  CodeValue declare(int level, common::DType dtype, std::string_view expression);

  // ---- reductions (reduction_emitter.cc)
  CodeValue reduction(common::NodeId id, const Indices& indices);
  CodeValue arg_reduction(const common::Node& node, const Indices& indices, int level);
  struct Folding;
  void fold_loops(Folding& folding, size_t loop);
  void fold_innermost(Folding& folding);
  void accumulate(Folding& folding);

  // ---- teams
  // The index by which neighbouring threads differ; -1 where they do not.
  int lane_index() const;
  struct SharedLoop;
  // How many threads share a loop's steps.
  int64_t sharing() const { return team_->size * (in_split_ ? team_->blocks : 1); }
  void open_unrolled(SharedLoop& loop, const common::Expr& blocks, int64_t trips);
  common::Expr open_steps(const common::Expr& block);
  bool is_together() const { return team_ && team_->size > 1 && w_.depth() <= team_->level; }
  void fold_together(Folding& folding);
  void join_blocks(const Folding& folding);
  Accumulation team_accumulation(Accumulation acc, const ReducedLoops& loops, bool together) const;
  CodeValue arg_together(const common::Node& node, const Indices& indices, int level);
  // As row_key and staged_value, for a shared loop whose steps are unrolled: each thread keeps the
  // values of its own steps in registers.
  std::optional<ValueKey> shared_row_key(common::NodeId id, const Indices& indices);
  CodeValue staged_in_registers(common::NodeId id, const Indices& indices, const ValueKey& row);
  std::string team_call(std::string_view function, common::ReduceOp op) const;
  // The value out of a vector that is loaded before the innermost shared loop's steps.
  std::optional<CodeValue> vector_load(const StoredNode& stored, common::DType dtype,
                                       const common::Expr& offset);
  struct SharedLoop {
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
    common::Expr blocks = 0;  // of an unrolled loop, over all threads
  };
  // The open loop by whose steps `offset` moves one by one from a multiple of their number; null.
  SharedLoop* vector_loop(const common::Expr& offset, common::DType dtype);

  // ---- reductions over lanes (lane_emitter.cc)
  // The index of the lane loop that the reduction's indices depend on, when all else in them is
  // known outside of the block; -1 otherwise.
  int lane_of(const common::Node& node, const Indices& indices);
  // The lane whose loop `indices` depend on alone, for values made of reductions that inner loops
  // would otherwise compute again in every step; -1 otherwise.
  int array_lane(common::NodeId id, const Indices& indices);
  // The name of the array that holds the value for every lane; `emit` fills it when it is new.
  template <class Emit>
  std::string lane_array(common::NodeId id, const Indices& indices, int lane, const char* prefix,
                         Emit emit);
  std::string lane_place(int lane) const;
  CodeValue lane_value(common::NodeId id, const Indices& indices, int lane);
  Indices with_lane(const Indices& indices, int lane, const common::Expr& replacement) const;
  CodeValue lane_reduction(common::NodeId id, const Indices& indices, int lane);
  void emit_lane_arrays(const common::Node& node, const Indices& indices, int lane,
                        const std::string& name);
  void lane_step(const common::Node& node, const Indices& inner, int lane, const std::string& name,
                 const std::string& position);
  void lane_statements(const common::Node& node, const Indices& inner, const std::string& l,
                       const std::string& name, const std::string& position);
  void advise(const Indices& indices);
  // A loop whose steps are split by the views' validities: where all of them hold nothing is
  // checked.
  struct Split {
    int index = -1;       // of the loop
    bool assume = false;  // all of `checks` hold
    struct Check {
      common::Expr position;  // 0 <= position < bound
      common::Expr bound;
      friend bool operator==(const Check&, const Check&) = default;
    };
    std::vector<Check> checks;  // with kSplitSymbol for the index
  };
  // Whether the split loop's range can decide the check; if so it is noted, or known to hold.
  bool split_decides(const common::Expr& position, const common::Expr& bound, bool* holds);
  // The steps [lo, hi) of the lanes' block where all checks hold, as two C names.
  std::pair<std::string, std::string> split_range();
  struct Lanes {
    LaneBlock block;
    int canonical = -1;      // an index that stands for any lane loop's in keys
    std::vector<int> loops;  // the indices of open lane loops
  };

  const common::Graph& graph_;
  CodeWriter& w_;
  std::map<common::NodeId, StoredNode> stored_;
  std::vector<int> reduction_depth_;  // reductions on the longest path below each node
  std::vector<common::Expr> load_offsets_;
  std::vector<int> nest_;
  NestAdvice advice_;
  std::optional<Lanes> lanes_;
  std::optional<TurnBlock> turn_;
  std::optional<Split> split_;
  std::optional<Team> team_;
  bool in_split_ = false;  // in the loop of the reduction that blocks share
  bool is_split_ = false;
  std::vector<SharedLoop> shared_loops_;
  EmitterChoices choices_;
  std::vector<EmittedReduction> reductions_;
  std::map<common::NodeId, int> row_uses_;
  Scratch scratch_;
  common::Status status_;
  int depth_ = 0;
};

// An index for each label of a contraction; 0 until it is given.
class LabelIndices {
 public:
  explicit LabelIndices(size_t labels) : values_(labels, common::Expr(0)) {}
  void give(const std::vector<int>& labels, const Indices& values);
  Indices of(const std::vector<int>& labels) const;

 private:
  Indices values_;
};

// The row-major position of `indices` in `shape`.
common::Expr linear_position(const Indices& indices, const common::Shape& shape);
// The indices of the element of `shape` at row-major position `flat`; the first is not reduced.
Indices unfold(const common::Shape& shape, const common::Expr& flat);
// Declares, in the innermost scope, an index for each axis of `shape` at row-major position `flat`;
// they are named `name`0, `name`1, ... A single axis' index is `flat` itself. `often`: the code
// runs so often that what it costs counts.
Indices declare_positions(CodeWriter& writer, const std::string& name, const common::Shape& shape,
                          const common::Expr& flat, bool often = false);
// How far `offset` moves when index `id` moves by one; a large number when that is not a constant.
int64_t stride_along(const common::Expr& offset, int id);

}  // namespace worker
