// Named changes of a nest. Each gives a nest that fits the body again, or kInvalidInput with the
// reason why the change is not legal there. Bodies are those that nests belong to (loop_nest.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "common/ir/nest/loop_nest.h"

namespace common {

// One loop an axis, all of them serial: what every nest begins with.
LoopNest plain_loops(const Graph& body);

// Which loops of a nest: the shared ones, or the own ones of a group of outputs.
struct BandOf {
  int group = -1;  // -1: the shared ones
  LoopBand& in(LoopNest& nest) const;
  const LoopBand& in(const LoopNest& nest) const;
};

// Loop `loop` becomes two, of which the inner one has `by` steps.
Result<LoopNest> split(const LoopNest& nest, const Graph& body, BandOf band, size_t loop,
                       const Expr& by);
// Loops `loop` and `loop` + 1 become one.
Result<LoopNest> fuse(const LoopNest& nest, const Graph& body, BandOf band, size_t loop);
// Loop order[k] becomes loop k.
Result<LoopNest> reorder(const LoopNest& nest, const Graph& body, BandOf band,
                         const std::vector<size_t>& order);
// The outermost `loops` shared loops become the grid; with `blocks` so does the loop over blocks of
// accumulators.
Result<LoopNest> bind_grid(const LoopNest& nest, const Graph& body, size_t loops,
                           bool blocks = false);
// A group's innermost loop runs in blocks of `width` accumulators, whose loop stands before loop
// `before`.
Result<LoopNest> block(const LoopNest& nest, const Graph& body, int group, size_t before,
                       int64_t width);
// The last two shared loops run in squares.
Result<LoopNest> transpose(const LoopNest& nest, const Graph& body);
// For blocks of threads: the last shared loop and loop `row` are cut into squares of
// `rows` x `columns` steps, each a step of the grid, so that loads along either are in order.
// `rows` and `columns` must divide the loops' steps.
Result<LoopNest> cut_squares(const LoopNest& nest, const Graph& body, size_t row, int64_t rows,
                             int64_t columns);
// Innermost loops run in vectors of `width` elements (0: the compiler's choice), `unroll` at a
// time.
Result<LoopNest> vectorise(const LoopNest& nest, const Graph& body, int64_t width, int64_t unroll);
// Reduction `other` is computed in the loops of `first`.
Result<LoopNest> fuse_reductions(const LoopNest& nest, const Graph& body, NodeId first,
                                 NodeId other);
// One loop walks all the axes of a reduction.
Result<LoopNest> flatten(const LoopNest& nest, const Graph& body, NodeId reduction);
// The first loop over a row keeps the node's values for the others.
Result<LoopNest> stage(const LoopNest& nest, const Graph& body, NodeId node);
// Each thread takes all steps of the reduction, so that a group shares what is reduced within.
Result<LoopNest> walk(const LoopNest& nest, const Graph& body, NodeId reduction);
// Groups of threads compute the grid's steps; with several blocks a group they split its first
// reduction.
Result<LoopNest> bind_threads(const LoopNest& nest, const Graph& body, const ThreadGroup& threads);

}  // namespace common
