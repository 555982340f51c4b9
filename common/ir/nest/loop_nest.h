// How loops compute a kernel's outputs: which loops there are, in which order, what runs them, and
// where reductions and rows are computed. A body says what a kernel computes, a nest says how;
// equal bodies with different nests give equal values, but for the order of floating-point sums.
//
// A nest belongs to a body without structured operations (see nest_body), by whose nodes' numbers
// it names reductions and rows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/ir/nest/loop_band.h"

namespace common {

// The innermost loop runs in blocks of `width` steps, each with an array of accumulators: the loop
// over blocks stands before loop `before` of the band, and what lies between, reductions included,
// runs once a block.
struct AccumulatorBlock {
  size_t before = 0;
  int64_t width = 0;
  friend bool operator==(const AccumulatorBlock&, const AccumulatorBlock&) = default;
};

// Outputs of one shape, see output_groups.h.
struct GroupNest {
  LoopBand own;  // the axes that the groups do not share; without any where there is one group
  // Of the group's own loops, or of the shared ones where there is one group.
  std::optional<AccumulatorBlock> accumulators;
  friend bool operator==(const GroupNest&, const GroupNest&) = default;
};

// Where reductions and values along rows are computed.
struct ReductionChoices {
  // Reductions to compute in the loops of the first one (of equal axes and operand shapes, none
  // depending on another), for use at the same indices.
  std::map<NodeId, std::vector<NodeId>> fused;
  // Reductions whose adjacent axes are walked by one loop.
  std::set<NodeId> flat;
  // Nodes whose values along a row are kept by the first loop over the row: in memory on a CPU, in
  // registers on a GPU.
  std::set<NodeId> staged;
  // Reductions of few steps that a GPU's threads do not share: each thread takes all steps, written
  // out, and the group shares the reductions within, those of all steps in one loop.
  std::set<NodeId> walked;
  friend bool operator==(const ReductionChoices&, const ReductionChoices&) = default;
};

// Threads of a GPU that compute one step of the grid's loops together: they share the steps of the
// loops within, and combine what each of them summed.
struct ThreadGroup {
  int64_t threads = 1;  // a power of two, or whole warps; at most 1024
  int64_t side = 1;     // groups side by side: neighbouring threads belong to neighbouring groups
  // So many blocks take a part each of the first reduction that the group computes together; the
  // last to finish goes on with the result. More than 1 only for groups of a whole block.
  int64_t blocks = 1;
  int64_t access = 1;  // neighbours in memory that a thread takes at once, where memory allows
  // Steps of the grid's innermost loop that a group computes at once, each with sums of its own:
  // what they read alike is loaded once. More than 1 only where the grid is all loops.
  int64_t rows = 1;
  // The loads of a step's neighbours begin while the step before is computed: in loops that a group
  // shares and that are not unrolled.
  bool ahead = false;
  friend bool operator==(const ThreadGroup&, const ThreadGroup&) = default;
};

// What each block of a GPU's kernel asks the second cache for before it waits for earlier kernels:
// the first bytes of what the block reads of an input whose rows are the steps of the grid, such as
// the weights of a product with one vector. It keeps memory busy between two kernels and changes no
// value.
struct BlockPrefetch {
  int32_t input = 0;  // of constant size
  int64_t bytes = 0;  // of a block, a multiple of kCacheLine
  friend bool operator==(const BlockPrefetch&, const BlockPrefetch&) = default;
};
inline constexpr int64_t kCacheLine = 128;
// Steps that are written out of a reduction that is walked.
inline constexpr int64_t kWalkedMax = 16;

struct LoopNest {
  // Of a kTile kernel: the product is in memory, and the nest computes what follows from it.
  bool is_epilogue = false;
  LoopBand shared;  // the axes that all groups of outputs begin with
  // The outermost shared loops that are the grid: their steps are a kernel's units, which cores (or
  // thread groups) share. The loops within run one after the other on a CPU, and are shared by a
  // group's threads on a GPU.
  size_t grid = 0;
  bool blocks_in_grid = false;  // the loop over blocks of accumulators is the grid's innermost loop
  std::vector<GroupNest> groups;
  // The last two shared loops run in squares, so that loads along either are in order: for bodies
  // that read one input along each. On a CPU the loops are cut as they run, and squares are turned
  // in registers; of copies of pairs a CPU turns the two loops around the pair's (pair_squares.h in
  // common/lowering/loops). On a GPU the two loops are a square, of a block of threads, turned in
  // shared memory (see cut_squares).
  bool transposed = false;
  ReductionChoices reductions;
  // Of innermost loops on a CPU: elements that a vector holds (0: the compiler's choice), and
  // vectors a step.
  int64_t simd = 0, unroll = 1;
  // Sums of products of what lies side by side in inputs are calls of the preamble's functions.
  bool dot_products = false;
  ThreadGroup threads;
  std::optional<BlockPrefetch> prefetch;
  friend bool operator==(const LoopNest&, const LoopNest&) = default;
};

// How many elements one result of a reduction of the body is made of.
Expr reduced_elements(const Graph& body, NodeId reduction);
// The same as a number of steps, where it is known and the steps may be written out.
std::optional<int64_t> walked_steps(const Graph& body, NodeId reduction);

// The steps of the grid's loops together.
Expr grid_steps(const LoopNest& nest);

// The body that the loops of a kernel with this nest compute: without structured operations, but
// for the contraction of an epilogue.
Graph nest_body(const Graph& kernel_body, const LoopNest& nest);

// `body` is the nest_body. kInvalidInput says what does not fit it: a loop that leaves
// elements out, a reduction that cannot be fused, a node that is none.
Status verify(const LoopNest& nest, const Graph& body);

// One line a loop and a choice; parse_nest reads it back. Such as
//   grid i0 < 64
//   loop i1 < 4*s0
//   axes [i0, i1]
std::string print(const LoopNest& nest);
// kInvalidInput with the line's number. What it returns fits no body yet: see verify.
Result<LoopNest> parse_nest(std::string_view text);

}  // namespace common
