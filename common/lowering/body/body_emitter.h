// Emits the value of any node of a kernel's body at given indices, on demand.
//
// Nothing is emitted that is not asked for: views become index arithmetic, elementwise nodes become
// local values placed in the outermost scope that knows their operands, and reductions become loops
// where their indices are known. So every acyclic body gives correct code, whatever was fused.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/ir/nest/loop_nest.h"
#include "common/lowering/body/nest_advisor.h"
#include "common/lowering/text/code_writer.h"
#include "common/lowering/text/indices.h"
#include "common/lowering/text/lane_loops.h"
#include "common/lowering/text/shared_loops.h"
#include "common/lowering/text/shared_squares.h"
#include "common/lowering/text/transposed_loads.h"

namespace common {

struct Accumulation;
struct ReducedLoops;

// A node's elements in memory, row-major.
struct StoredNode {
  std::string pointer;  // of the dtype's storage type
  Shape shape;
};

// Private memory of one call: named pieces at aligned offsets.
class Scratch {
 public:
  // A pointer variable `name` to `count` elements, declared in the function's first lines.
  void add(const std::string& name, std::string_view type, int64_t element_bytes,
           const Expr& count);
  const Expr& bytes() const { return bytes_; }
  struct Piece {
    std::string name;
    std::string type;
    Expr offset;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  Expr bytes_ = 0;
  std::vector<Piece> pieces_;
};

// A reduction that was emitted, for choosing what to fuse.
struct EmittedReduction {
  NodeId id = 0;
  int level = 0;
  Indices indices;
};

class BodyEmitter {
 public:
  // `graph` holds only primitives (see lowering.h) and outlives the emitter. Its inputs are read
  // through pointers in0, in1, ...
  BodyEmitter(const Graph& graph, CodeWriter& writer);
  BodyEmitter(const BodyEmitter&) = delete;
  BodyEmitter& operator=(const BodyEmitter&) = delete;
  ~BodyEmitter();

  // The value of `node` at `indices`, one expression per axis.
  CodeValue value(NodeId node, const Indices& indices);
  // Where in its data a gather reads the element at `indices`.
  Indices gathered_position(const Node& gather, const Indices& indices);
  // The node's elements are in memory from now on.
  void set_stored(NodeId node, StoredNode stored) { stored_[node] = std::move(stored); }
  // Code whose indices are not provably inside of `shape` must stay in the innermost conditional
  // scope; this is that scope, or the scope where the indices are known.
  int safe_level(const Indices& indices, const Shape& shape);

  // What a load or store at `offset` in scope `level` does.
  StepWork access_work(const Expr& offset, int level) const;

  // Before any value is asked for.
  void set_choices(ReductionChoices choices);
  // Sums of products may call the preamble's dot products.
  void set_dot_products(bool has_dot_products) { choices_.has_dot_products = has_dot_products; }
  // Those of the choices that made a difference so far.
  ReductionChoices used_choices() const;
  bool used_dot_products() const { return choices_.used_dot_products; }
  const std::vector<EmittedReduction>& reductions() const { return seen_.reductions; }
  // How many loops over a whole row asked for each node's values along it.
  const std::map<NodeId, int>& row_uses() const { return seen_.row_uses; }
  // Of all rows that a thread keeps in registers.
  double row_bytes() const { return team_ ? team_->row_bytes() : 0; }
  const Scratch& scratch() const { return scratch_; }

  // ---- how the loops around are walked
  NestAdvisor& nest() { return nest_; }
  LaneLoops& lanes() { return lanes_; }
  TransposedLoads& turns() { return turns_; }
  SharedSquares& squares() { return squares_; }
  // The code is for a GPU: what all of the team's threads reach together they compute together.
  void set_team(const Team& team) { team_.emplace(w_, team); }
  bool has_team() const { return team_.has_value(); }
  // After set_team.
  SharedLoops& team() { return *team_; }
  const SharedLoops& team() const { return *team_; }

  // kUnsupported once an operation was met that has no expression form, or the code grew too long.
  const Status& status() const { return status_; }

  // The positions that inputs and stored nodes were read at so far.
  const std::vector<Expr>& load_offsets() const { return seen_.load_offsets; }

  const Graph& graph() const { return graph_; }
  CodeWriter& writer() { return w_; }

 private:
  CodeValue compute(NodeId id, const Indices& indices);
  CodeValue load(const StoredNode& stored, DType dtype, const Indices& indices);
  std::string pointer_of_input(int position) const;
  CodeValue constant(const Node& node, const Indices& indices);
  CodeValue view(const Node& node, const Indices& indices);
  // A validity that is not known to hold: 0 <= position < bound; the flags say which half is not.
  struct Check;
  std::string condition(const std::vector<Check>& checks);
  std::optional<CodeValue> load_or_fill(const Node& view, const Indices& indices,
                                        const Indices& inner, const std::vector<Check>& checks);
  // Inside of a loop over lanes, whether the view's elements lie along the lanes in memory.
  bool lies_along_lanes(const Node& view, const Indices& indices, const Indices& inner);
  // That row if the checks hold, on which lanes have no influence, else a row of the view's fill.
  CodeValue row_or_fill(const Node& view, const Indices& inner, const std::vector<Check>& checks);
  CodeValue elementwise(const Node& node, const Indices& indices);
  // A kSelect's value where its condition is about one loop's index (choice_emitter.cc); none where
  // both sides are computed for it.
  std::optional<CodeValue> choice_by_position(const Node& node, const Indices& indices);
  std::set<int> indices_at(const Indices& indices, int level) const;
  CodeValue power(const Node& node, const std::vector<CodeValue>& x, bool* done);
  CodeValue declare(int level, DType dtype, std::string_view expression,
                    const StepWork& work = kSimpleStep);

  // ---- rows: values kept by the first walk over a loop for the others
  struct Row {
    ValueKey key;
    int base = 0;  // the scope around the loop
  };
  // The loop whose walk keeps values, at this place; empty when its steps are not walked in order.
  std::optional<RowLoop> row_loop() const;
  // The node's row that `indices` run along in that loop, when nothing in it is conditional.
  std::optional<Row> row_of(NodeId id, const Indices& indices);
  CodeValue staged_value(NodeId id, const Indices& indices, const Row& row);
  // Scratch memory for the node's values along the row, by name.
  std::string scratch_row(const Node& node, const Row& row);

  // ---- reductions (reduction_emitter.cc)
  CodeValue reduction(NodeId id, const Indices& indices);
  CodeValue arg_reduction(const Node& node, const Indices& indices, int level);
  struct Folding;
  void fold_loops(Folding& folding, size_t loop);
  void fold_innermost(Folding& folding);
  void place(Folding& folding);
  void accumulate(Folding& folding);
  void add_alternatives(Folding& folding, const Indices& indices);
  // The reduction over steps that every thread takes, see ReductionChoices::walked.
  CodeValue walked_reduction(NodeId id, const Indices& indices, int level);
  bool add_dot_product(Folding& folding, const std::string& from, const std::string& to);
  void advise(const Indices& indices) {
    if (!lanes_.is_open()) nest_.note_reduction(indices);
  }

  // ---- reductions of teams (team_emitter.cc)
  void fold_together(Folding& folding);
  void combine_all(const Folding& folding);
  void note_combination(double sums);
  void combine_members(const std::string& total, ReduceOp op);
  // What member 0 of each of a result's blocks leaves goes to the last of them: declares the
  // memory, and ends the other blocks.
  std::string leave_part(std::string_view type, int64_t bytes, const std::string& value);
  void await_parts();
  // Walks all blocks' parts; `each` gives the statement that takes one.
  void walk_parts(std::string_view type, const std::string& kept,
                  const std::function<std::string(const std::string&)>& each);
  void join_blocks(const Folding& folding);
  void join_places(std::string_view type, ReduceOp op, const std::string& place,
                   const std::string& start);
  Accumulation team_accumulation(Accumulation acc, const ReducedLoops& loops, bool together) const;
  CodeValue arg_together(const Node& node, const Indices& indices, int level);

  // ---- reductions over lanes (lane_emitter.cc)
  // The lane whose loop `indices` depend on alone, for values made of reductions that inner loops
  // would otherwise compute again in every step; -1 otherwise.
  int array_lane(NodeId id, const Indices& indices);
  // The name of the array that holds the value for every lane; `emit` fills it when it is new.
  template <class Emit>
  std::string lane_array(NodeId id, const Indices& indices, int lane, const char* prefix,
                         Emit emit);
  CodeValue lane_value(NodeId id, const Indices& indices, int lane);
  CodeValue lane_reduction(NodeId id, const Indices& indices, int lane);
  void emit_lane_arrays(const Node& node, const Indices& indices, int lane,
                        const std::string& name);
  // The same where a reduction has a small window at `indices`: all its steps in one loop.
  void emit_lane_windows(const Node& node, const Indices& indices, int lane,
                         const std::vector<int64_t>& window, const std::string& name);
  // A loop over all lanes: emit(index, place) writes its body. Where views' validities depend on
  // the lane, the middle of the loop, where all of them hold, runs without checks.
  template <class Emit>
  void lane_loop(Emit emit);
  // One step of all lanes; `position` is what an arg reduction records, else empty.
  void lane_step(const Node& node, const Indices& inner, int lane, const std::string& name,
                 const std::string& position);
  void lane_statements(const Node& node, const Indices& inner, const std::string& name,
                       const std::string& place, const std::string& position);

  // What may be done, and what of it made a difference so far.
  struct Choices {
    ReductionChoices given, used;
    bool has_dot_products = false, used_dot_products = false;
  };
  // What was met so far, for callers that decide about the body by trial emissions.
  struct Seen {
    std::vector<Expr> load_offsets;
    std::vector<EmittedReduction> reductions;
    std::map<NodeId, int> row_uses;
  };

  const Graph& graph_;
  CodeWriter& w_;
  std::map<NodeId, StoredNode> stored_;
  std::vector<int> reduction_depth_;  // reductions on the longest path below each node
  NestAdvisor nest_;
  LaneLoops lanes_;
  TransposedLoads turns_;
  SharedSquares squares_;
  std::optional<SharedLoops> team_;
  Choices choices_;
  Seen seen_;
  std::vector<std::vector<int>> walks_;  // the steps' indices of reductions that are being walked
  Scratch scratch_;
  Status status_;
  int depth_ = 0;
};

}  // namespace common
