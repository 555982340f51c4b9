// The loops of a nest as C: one function that computes a share of the grid's steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/nest/loop_nest.h"
#include "common/ir/nest/output_groups.h"
#include "common/lowering/body/body_emitter.h"
#include "common/lowering/body/function_body.h"
#include "common/lowering/loops/pair_squares.h"

namespace common {

// What is there before a nest's loops run.
struct LoopsContext {
  std::map<NodeId, StoredNode> stored;  // nodes that are in memory already
  bool whole = false;                   // one unit, which does everything
};

// Of an epilogue: the product is in memory called `product`.
LoopsContext epilogue_context(const Graph& body);

// The same nest gives the same text. `body` has no structured operations, and the nest fits it
// (verify). kInvalidInput when something that the nest says makes no difference to the code, as
// loops that only GPUs have; kUnsupported when the code grows out of bounds.
Result<FunctionBody> lower_cpu_loops(const Graph& body, const LoopNest& nest,
                                     const LoopsContext& context = {});

// A single lowering of a nest, with the counts that nests are chosen by. Refers to its arguments.
class CpuLoops {
 public:
  CpuLoops(const Graph& body, const LoopNest& nest, const LoopsContext& context);
  Result<FunctionBody> run();
  const CodeWriter& writer() const { return writer_; }
  const BodyEmitter& emitter() const { return emitter_; }
  // The nest without what made no difference in run().
  LoopNest used() const;
  // Of each group's loops, after a run without accumulators.
  const std::vector<NestAdvice>& advice() const { return advice_; }

 private:
  struct OpenLoop {
    std::string header;
    bool lanes = false;
  };
  using Block = std::optional<AccumulatorBlock>;
  bool single() const { return groups_.size() == 1; }
  // A part of the innermost loop: steps [first, end).
  struct Part {
    int64_t first = 0, end = 0;
  };
  // Of the only group's innermost loop; empty where it is not cut.
  std::vector<Part> loop_parts() const;
  // The same of transposed loops, whose blocks are of one part each.
  std::vector<Part> square_parts() const;
  void emit_parts(const std::vector<Part>& parts, std::vector<Expr> indices);
  void emit_square(const TurnBlock& turn, const std::vector<Expr>& outer, int64_t first);
  Expr open_loop(const Expr& extent, const std::string& name);
  void close_loop();
  std::string pragma();
  void open_nest(const std::vector<Expr>& extents, size_t first, const Block& block,
                 bool block_is_open, const std::string& prefix, std::vector<Expr>& indices);
  void open_block(const Expr& extent, int64_t width, const std::string& begin);
  Result<FunctionBody> run_transposed();
  void turn_pairs(const PairSquares& squares, const TurnBlock& block,
                  const std::vector<Expr>& outer);
  void open_range(const std::string& begin, const std::string& end, const Expr& extent,
                  bool is_unit, const Expr& unit);
  Result<FunctionBody> finish(const Expr& units);
  void emit_group(size_t group, const std::vector<Expr>& outer);
  void emit_stores(const OutputGroup& group, const LoopBand& own, const std::vector<Expr>& outer,
                   const std::vector<Expr>& inner);

  const Graph& body_;
  const LoopNest& nest_;
  const std::vector<OutputGroup> groups_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  std::vector<OpenLoop> open_;
  std::vector<NestAdvice> advice_;
  bool whole_;
  bool has_simd_ = false;  // some loop runs in vectors
};

}  // namespace common
