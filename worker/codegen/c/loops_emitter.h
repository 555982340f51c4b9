// One emission of a kLoops body under a given plan of loops.
#pragma once

#include <string>
#include <vector>

#include "common/ir/llir/llir.h"
#include "worker/codegen/body/body_emitter.h"
#include "worker/codegen/body/nest_plan.h"
#include "worker/codegen/c/loops.h"
#include "worker/codegen/text/output_groups.h"

namespace worker {

// A nest's innermost loop cut into blocks of `width` steps, whose loop stands before loop
// `position`: reductions then run for a whole block of lanes at once, innermost, instead of once
// per step (see LaneBlock).
struct LaneChoice {
  bool on = false;
  size_t position = 0;
  int64_t width = 0;
};

// Everything that decides the text: the outer loops that all groups share, each group's own inner
// loops, and each group's lanes. With one group all its loops are shared.
struct LoopsPlan {
  NestPlan shared;
  std::vector<NestPlan> own;
  std::vector<LaneChoice> lanes;
  size_t unit_loops = SIZE_MAX;  // how many outer loops units may take at most
  bool turn = false;             // the last two shared loops run in squares (see TurnBlock)
  EmitterChoices choices;
};

class LoopsEmitter {
 public:
  LoopsEmitter(const common::Graph& body, const common::Schedule& schedule,
               const std::vector<OutputGroup>& groups, const LoopsPlan& plan,
               const LoopsOptions& options);
  common::Result<FunctionBody> run();
  const CodeWriter& writer() const { return writer_; }
  const BodyEmitter& emitter() const { return emitter_; }
  // Of each group's nest, after a run without lanes.
  const std::vector<NestAdvice>& advice() const { return advice_; }

 private:
  struct OpenLoop {
    std::string header;
    bool lanes = false;
  };
  bool single() const { return groups_.size() == 1; }
  size_t choose_unit_loops(size_t limit) const;
  common::Expr open_loop(const common::Expr& extent, const std::string& name);
  void close_loop();
  std::string pragma() const;
  void open_nest(const std::vector<common::Expr>& extents, size_t first, const LaneChoice& lanes,
                 bool block_is_open, const std::string& prefix, std::vector<common::Expr>& indices);
  void open_block(const common::Expr& extent, const LaneChoice& lanes, const std::string& begin);
  common::Result<FunctionBody> run_transposed();
  void open_range(const std::string& begin, const std::string& end, const common::Expr& extent,
                  bool is_unit, const common::Expr& unit);
  common::Result<FunctionBody> finish(const common::Expr& units);
  void emit_group(size_t group, const std::vector<common::Expr>& outer);
  void emit_stores(const OutputGroup& group, const NestPlan& own,
                   const std::vector<common::Expr>& outer, const std::vector<common::Expr>& inner);

  const common::Graph& body_;
  const common::Schedule& schedule_;
  const std::vector<OutputGroup>& groups_;
  const LoopsPlan& plan_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  std::vector<OpenLoop> open_;
  std::vector<NestAdvice> advice_;
  bool whole_;
};

}  // namespace worker
