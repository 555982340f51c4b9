// The loops of a nest as CUDA C++: the grid's steps are shared by groups of threads, each of which
// shares the loops within.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/nest/loop_nest.h"
#include "common/ir/nest/output_groups.h"
#include "common/lowering/body/body_emitter.h"
#include "common/lowering/body/scatter_place.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/lowering/loops/late_reads.h"

namespace common {

// See lower_cpu_loops. kInvalidInput also where threads would take more neighbours at once than the
// innermost loop has, or share the steps of loops that are not whole axes; kUnsupported where the
// nest shares a reduction among blocks and the body has none that they can share.
Result<GpuFunction> lower_gpu_loops(const Graph& body, const LoopNest& nest,
                                    const std::string& block = "blockIdx.x");

// A single lowering of a nest, with the counts that nests are chosen by. Refers to its arguments.
class GpuLoops {
 public:
  // `block`: how the text spells the number of its block.
  GpuLoops(const Graph& body, const LoopNest& nest, std::string block = "blockIdx.x");
  Result<GpuFunction> run();
  // The nest without what made no difference in run().
  LoopNest used() const;
  // After run(): of one thread.
  const ThreadWork& work() const { return writer_.thread_work(); }
  const BodyEmitter& emitter() const { return emitter_; }
  // After run(): elements between the places that some load reads for one step of the grid's
  // innermost loop and for the next.
  std::set<int64_t> row_strides() const;
  // The grid's loops along which some load runs that jumps along the last one; of threads that
  // compute a step of the grid each.
  const std::vector<size_t>& rows_of_loads() const { return rows_of_loads_; }

 private:
  static Status verify_walk(const LoopBand& band, size_t first);
  Status verify_threads() const;
  Status verify_squares() const;
  BlockShape block() const;
  Result<std::string> early_text() const;
  // Each thread computes neighbouring units by itself.
  bool takes_blocks() const { return nest_.threads.threads == 1 && nest_.threads.access > 1; }
  Expr open_unit();
  std::vector<int> declare_rows(const Expr& extent);
  void emit_group(size_t group);
  // Late reads of inputs that the nest stages begin before anything is reduced, in loops of their
  // own (late_reads.h): of the group's outputs, whose own loops are `inner`, and of reductions.
  void load_early(size_t group, const std::vector<Expr>& inner);
  std::vector<DirectUse> staged_reads(NodeId node) const;
  void load_reduced(size_t group, const DirectUse& reduction);
  void load_all(const std::vector<DirectUse>& reads, const Indices& position);
  // Of an output's element, in the group's loops at these indices.
  Indices position_at(size_t group, const std::vector<Expr>& loops) const;
  void emit_squares();
  void note_loads();
  void emit_stores(size_t group, const std::vector<Expr>& loops, bool once);
  void emit_store(const std::string& name, const Node& node, const ScatterPlace& to,
                  const std::string& value, bool once);

  const Graph& body_;
  const LoopNest& nest_;
  const std::string block_;
  const std::vector<OutputGroup> groups_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  std::vector<Expr> indices_;  // of the grid's loops
  bool used_squares_ = false;
  std::vector<size_t> rows_of_loads_;
};

}  // namespace common
