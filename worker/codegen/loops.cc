#include "worker/codegen/loops.h"

#include <algorithm>

#include "common/base/cat.h"
#include "worker/codegen/loops_emitter.h"

namespace worker {

using common::cat;
using common::Expr;
using common::Graph;
using common::Result;
using common::Schedule;
using common::Shape;

namespace {

constexpr int kMaxPlanTrials = 24;

std::vector<OutputGroup> group_outputs(const Graph& body) {
  std::vector<OutputGroup> groups;
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const Shape& shape = body.node(body.outputs[k].node).shape;
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const OutputGroup& g) { return g.shape == shape; });
    if (it == groups.end()) it = groups.insert(groups.end(), {shape, {}});
    it->outputs.push_back(k);
  }
  return groups;
}

// One trial emission: its text and the measure that plans are compared by.
struct Trial {
  FunctionBody function;
  int64_t divisions = 0;
  std::vector<CodeWriter::Division> divided;
  std::vector<LaneAdvice> advice;
};

// Enough lanes for whole cache lines of every access, few enough for the accumulators to stay in
// the first-level cache and for threads to share the blocks.
int64_t lane_width(const Expr& extent) {
  if (!extent.is_constant()) return 256;
  int64_t n = std::max<int64_t>(extent.constant(), 1);
  if (n <= 128) return n;
  return std::clamp<int64_t>((n / 16 + 63) / 64 * 64, 64, 512);
}

class PlanSearch {
 public:
  PlanSearch(const Graph& body, const Schedule& schedule, const LoopsOptions& options)
      : body_(body), schedule_(schedule), options_(options), groups_(group_outputs(body)) {
    prefix_ = groups_[0].shape.size();
    for (const OutputGroup& g : groups_) {
      size_t same = 0;
      while (same < prefix_ && same < g.shape.size() && g.shape[same] == groups_[0].shape[same]) {
        ++same;
      }
      prefix_ = same;
    }
  }

  Result<FunctionBody> run() {
    auto cut = static_cast<std::ptrdiff_t>(prefix_);
    const Shape& first = groups_[0].shape;
    plan_.shared = plain_nest(Shape(first.begin(), first.begin() + cut));
    for (const OutputGroup& g : groups_) {
      plan_.own.push_back(plain_nest(Shape(g.shape.begin() + cut, g.shape.end())));
    }
    plan_.lanes.resize(groups_.size());
    LFARM_ASSIGN_OR_RETURN(best_, attempt(plan_));
    while (trials_ < kMaxPlanTrials && try_split()) {
    }
    for (size_t g = 0; g <= plan_.own.size(); ++g) {
      for (size_t k = nest(plan_, g).extents.size(); k-- > 1;) {
        LoopsPlan merged = plan_;
        nest(merged, g) = merge_loops(nest(plan_, g), k - 1);
        accept(merged, false);
      }
    }
    add_lanes();
    return std::move(best_.function);
  }

 private:
  // Nest 0 is the shared one, nest g + 1 the own one of group g.
  static NestPlan& nest(LoopsPlan& plan, size_t g) {
    return g == 0 ? plan.shared : plan.own[g - 1];
  }

  Result<Trial> attempt(const LoopsPlan& plan) {
    ++trials_;
    LoopsEmitter emitter(body_, schedule_, groups_, plan, options_);
    LFARM_ASSIGN_OR_RETURN(FunctionBody function, emitter.run());
    return Trial{std::move(function), emitter.writer().divisions(), emitter.writer().divided(),
                 emitter.advice()};
  }

  bool accept(const LoopsPlan& plan, bool must_improve) {
    if (trials_ >= kMaxPlanTrials) return false;
    auto trial = attempt(plan);
    if (!trial.ok()) return false;
    if (must_improve ? trial->divisions >= best_.divisions : trial->divisions > best_.divisions) {
      return false;
    }
    plan_ = plan;
    best_ = std::move(*trial);
    return true;
  }

  // Blocks of lanes where reductions would otherwise walk memory the wrong way.
  void add_lanes() {
    LoopsPlan with = plan_;
    bool any = false;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const NestPlan& nest = groups_.size() == 1 ? plan_.shared : plan_.own[g];
      if (best_.advice[g].gain <= 0 || nest.extents.empty()) continue;
      with.lanes[g] = {true, best_.advice[g].position, lane_width(nest.extents.back())};
      any = true;
    }
    if (!any) return;
    auto trial = attempt(with);
    if (!trial.ok()) return;
    plan_ = with;
    best_ = std::move(*trial);
  }

  // Splits one loop by a divisor that its index is divided by, if that removes divisions.
  bool try_split() {
    for (const CodeWriter::Division& d : best_.divided) {
      for (size_t g = 0; g <= plan_.own.size(); ++g) {
        std::string prefix = g == 0 || plan_.own.size() == 1 ? "i" : cat("io", g - 1, "_");
        const NestPlan& now = nest(plan_, g);
        for (size_t k = 0; k < now.extents.size(); ++k) {
          if (d.index != cat(prefix, k)) continue;
          auto quotient = common::exact_div(now.extents[k], d.divisor);
          if (!quotient || quotient->is_constant(1) || d.divisor.is_constant(1)) continue;
          LoopsPlan split = plan_;
          nest(split, g) = split_loop(now, k, d.divisor, *quotient);
          if (accept(split, true)) return true;
        }
      }
    }
    return false;
  }

  const Graph& body_;
  const Schedule& schedule_;
  const LoopsOptions& options_;
  std::vector<OutputGroup> groups_;
  size_t prefix_ = 0;
  LoopsPlan plan_;
  Trial best_;
  int trials_ = 0;
};

}  // namespace

Result<FunctionBody> emit_loops(const Graph& body, const Schedule& schedule,
                                const LoopsOptions& options) {
  return PlanSearch(body, schedule, options).run();
}

}  // namespace worker
