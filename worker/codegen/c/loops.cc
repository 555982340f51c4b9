#include "worker/codegen/c/loops.h"

#include <algorithm>

#include "common/base/cat.h"
#include "worker/codegen/body/reduction_fusion.h"
#include "worker/codegen/c/loops_emitter.h"

namespace worker {

using common::cat;
using common::Expr;
using common::Graph;
using common::Node;
using common::NodeId;
using common::ReduceAttr;
using common::Result;
using common::Schedule;
using common::Shape;
using common::Template;

namespace {

constexpr int kMaxPlanTrials = 40;

// One trial emission: its text and the measure that plans are compared by.
struct Trial {
  FunctionBody function;
  double work = 0;
  std::vector<CodeWriter::Division> divided;
  std::vector<NestAdvice> advice;
  std::vector<EmittedReduction> reductions;
  std::map<NodeId, int> row_uses;
};

// Enough lanes for whole cache lines of every access, few enough for the accumulators to stay in
// the first-level cache and for threads to share the blocks.
int64_t lane_width(const Expr& extent) {
  if (!extent.is_constant()) return 256;
  int64_t n = std::max<int64_t>(extent.constant(), 1);
  if (n <= 128) return n;
  return std::clamp<int64_t>((n / 8 + 63) / 64 * 64, 64, 1024);
}

class PlanSearch {
 public:
  PlanSearch(const Graph& body, const Schedule& schedule, const LoopsOptions& options)
      : body_(body),
        schedule_(schedule),
        options_(options),
        groups_(group_outputs(body)),
        prefix_(shared_axes(groups_)) {}

  Result<FunctionBody> run() {
    auto cut = static_cast<std::ptrdiff_t>(prefix_);
    const Shape& first = groups_[0].shape;
    plan_.shared = plain_nest(Shape(first.begin(), first.begin() + cut));
    for (const OutputGroup& g : groups_) {
      plan_.own.push_back(plain_nest(Shape(g.shape.begin() + cut, g.shape.end())));
    }
    plan_.lanes.resize(groups_.size());
    if (groups_.size() == 1) move_inside(options_.inner_axis);
    LFARM_ASSIGN_OR_RETURN(best_, attempt(plan_));
    while (try_split()) {
    }
    for (size_t g = 0; g <= plan_.own.size(); ++g) {
      for (size_t k = nest(plan_, g).extents.size(); k-- > 1;) {
        LoopsPlan merged = plan_;
        nest(merged, g) = merge_loops(nest(plan_, g), k - 1);
        accept(merged);
      }
    }
    try_flat_reductions();
    try_orders();
    try_turn();
    if (!plan_.turn) try_lanes();
    try_fused_reductions();
    if (schedule_value(schedule_, Template::kLoops, "stage") != 0) try_staging();
    try_fewer_unit_loops();
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
    return Trial{std::move(function), emitter.writer().work(),        emitter.writer().divided(),
                 emitter.advice(),    emitter.emitter().reductions(), emitter.emitter().row_uses()};
  }

  void move_inside(int axis) {
    const std::vector<Expr>& position = plan_.shared.position;
    if (axis < 0 || static_cast<size_t>(axis) >= position.size()) return;
    auto loop = position[static_cast<size_t>(axis)].as_var();
    if (!loop) return;
    std::vector<size_t> order;
    for (size_t k = 0; k < plan_.shared.extents.size(); ++k) {
      if (k != static_cast<size_t>(loop->id)) order.push_back(k);
    }
    order.push_back(static_cast<size_t>(loop->id));
    plan_.shared = permute_loops(plan_.shared, order);
  }

  // Adopts the plan when its code costs less.
  bool accept(const LoopsPlan& plan, double wanted = 0.999) {
    if (trials_ >= kMaxPlanTrials) return false;
    auto trial = attempt(plan);
    if (!trial.ok() || trial->work >= best_.work * wanted) return false;
    plan_ = plan;
    best_ = std::move(*trial);
    return true;
  }

  // The nest whose innermost loop writes group g.
  NestPlan& written(LoopsPlan& plan, size_t g) const {
    return groups_.size() == 1 ? plan.shared : plan.own[g];
  }

  // Loops that a reduction depends on come first, so that it runs once for all the others.
  void try_orders() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      auto dependencies = best_.advice[g].dependencies;
      for (const std::vector<bool>& uses : dependencies) {
        if (uses.size() != written(plan_, g).extents.size()) continue;
        std::vector<size_t> order;
        for (bool first : {true, false}) {
          for (size_t k = 0; k < uses.size(); ++k) {
            if (uses[k] == first) order.push_back(k);
          }
        }
        if (std::is_sorted(order.begin(), order.end()) || order.back() + 1 != order.size()) {
          continue;
        }
        LoopsPlan permuted = plan_;
        written(permuted, g) = permute_loops(written(plan_, g), order);
        // Units that took more loops would repeat the reduction after all.
        if (groups_.size() == 1) {
          permuted.unit_loops = static_cast<size_t>(std::count(uses.begin(), uses.end(), true));
        }
        if (accept(permuted, 0.8)) break;
      }
    }
  }

  // Squares where loads run along another loop than the innermost.
  void try_turn() {
    if (groups_.size() != 1) return;
    auto across = best_.advice[0].across;
    for (size_t w : across) {
      std::vector<size_t> order;
      for (size_t k = 0; k < plan_.shared.extents.size(); ++k) {
        if (k != w) order.push_back(k);
      }
      order.insert(order.end() - 1, w);
      LoopsPlan transposed = plan_;
      transposed.shared = permute_loops(plan_.shared, order);
      transposed.turn = true;
      if (accept(transposed, 0.8)) return;
    }
  }

  // Blocks of lanes where reductions would otherwise walk memory the wrong way.
  void try_lanes() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const NestPlan& nest = written(plan_, g);
      const NestAdvice& advice = best_.advice[g];
      if (!advice.lanes || nest.extents.empty()) continue;
      LoopsPlan with = plan_;
      with.lanes[g] = {true, advice.position, lane_width(nest.extents.back())};
      NestAdvice kept = advice;
      if (accept(with)) best_.advice[g] = kept;
    }
  }

  // Reductions between the units' loops and the others run once per unit: with fewer loops in the
  // units they may run less often. A few units must remain.
  void try_fewer_unit_loops() {
    const std::vector<Expr>& extents = plan_.shared.extents;
    double units = 1;
    for (size_t k = 1; k < extents.size(); ++k) {
      if (extents[k - 1].is_constant()) units *= static_cast<double>(extents[k - 1].constant());
      if (units < 4) continue;
      LoopsPlan fewer = plan_;
      fewer.unit_loops = k;
      if (accept(fewer, 0.8)) return;
    }
  }

  // Reductions over adjacent axes whose loops may be one.
  void try_flat_reductions() {
    auto reductions = best_.reductions;
    for (const EmittedReduction& r : reductions) {
      const auto& axes = attr<ReduceAttr>(body_.node(r.id)).axes;
      bool adjacent =
          axes.size() > 1 && axes.back() - axes.front() + 1 == static_cast<int>(axes.size());
      if (!adjacent || plan_.choices.flat.count(r.id) != 0) continue;
      LoopsPlan flat = plan_;
      flat.choices.flat.insert(r.id);
      accept(flat);
    }
  }

  // Independent reductions at the same place over the same axes share one pass.
  void try_fused_reductions() {
    LoopsPlan fused = plan_;
    fused.choices.fused = independent_reductions(body_, best_.reductions);
    if (!fused.choices.fused.empty()) accept(fused);
  }

  // Values that several loops over a row ask for, kept by the first: the outermost operations
  // first, for then nobody asks for their operands again.
  void try_staging() {
    auto uses = best_.row_uses;
    for (auto it = uses.rbegin(); it != uses.rend(); ++it) {
      if (it->second < 2) continue;
      LoopsPlan staged = plan_;
      staged.choices.staged.insert(it->first);
      accept(staged, 0.98);
    }
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
          if (accept(split)) return true;
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
