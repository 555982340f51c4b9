#include "common/schedule/cpu_nest.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/cost/loop_time.h"
#include "common/ir/nest/reduction_fusion.h"
#include "common/ir/nest/transformations.h"
#include "common/schedule/reductions/independent_reductions.h"

namespace common {
namespace {

constexpr int kMaxTrials = 40;
// Enough units for any number of threads to share evenly.
constexpr int64_t kEnoughUnits = 64;

// The result of lowering a nest once: what it is expected to take, and the facts from which better
// nests are derived.
struct Trial {
  LoopNest used;  // without what made no difference
  double ns = 0;
  std::vector<CodeWriter::Division> divided;
  std::vector<NestAdvice> advice;
  std::vector<EmittedReduction> reductions;
  std::map<NodeId, int> row_uses;
};

// Enough steps for whole cache lines of every access, few enough for the accumulators to stay in
// the first-level cache and for threads to share the blocks.
int64_t block_width(const Expr& extent) {
  if (!extent.is_constant()) return 256;
  int64_t n = std::max<int64_t>(extent.constant(), 1);
  if (n <= 128) return n;
  return std::clamp<int64_t>((n / 8 + 63) / 64 * 64, 64, 1024);
}

// A nest before its grid is known.
struct Draft {
  LoopNest nest;
  size_t grid_max = SIZE_MAX;  // how many outer loops the grid may take
};

class CpuNestSearch {
 public:
  CpuNestSearch(const Graph& body, const Schedule& schedule, const VectorTerms& terms,
                const CpuNestOptions& options)
      : body_(body),
        schedule_(schedule),
        terms_(terms),
        options_(options),
        groups_(group_outputs(body)) {}

  Result<LoopNest> run() {
    draft_.nest = plain_loops(body_);
    draft_.nest.simd = schedule_value(schedule_, Template::kLoops, "vector");
    draft_.nest.unroll = schedule_value(schedule_, Template::kLoops, "unroll");
    draft_.nest.dot_products = true;
    if (is_single()) move_inside(options_.inner_axis);
    LFARM_ASSIGN_OR_RETURN(best_, attempt(draft_));
    while (try_split()) {
    }
    for (size_t g = 0; g <= groups_.size(); ++g) {
      for (size_t k = band(draft_, g).extents.size(); k-- > 1;) {
        auto one = fuse_loops(band(draft_, g), k - 1);
        if (!one) continue;
        Draft fused = draft_;
        band(fused, g) = std::move(*one);
        accept(fused);
      }
    }
    try_flat_reductions();
    try_orders();
    try_transposed();
    if (!draft_.nest.transposed) try_pair_squares();
    if (!draft_.nest.transposed) try_accumulators();
    try_fused_reductions();
    if (schedule_value(schedule_, Template::kLoops, "stage") != 0) try_staging();
    try_smaller_grids();
    return best_.used;
  }

 private:
  bool is_single() const { return groups_.size() == 1; }
  // Band 0 is the shared one, band g + 1 the own one of group g.
  static LoopBand& band(Draft& draft, size_t g) {
    return g == 0 ? draft.nest.shared : draft.nest.groups[g - 1].own;
  }

  // As many outer loops as make enough units. The innermost loop stays whole, so that it
  // vectorises, unless it is the only one.
  LoopNest with_grid(const Draft& draft) const {
    LoopNest nest = draft.nest;
    const std::vector<Expr>& extents = nest.shared.extents;
    const auto& block = nest.groups[0].accumulators;
    size_t limit = is_single() && extents.size() > 1 ? extents.size() - 1 : extents.size();
    if (nest.transposed) limit = extents.size() - 2;
    if (is_single() && block) limit = block->before;
    limit = std::min(limit, draft.grid_max);
    int64_t units = 1;
    for (nest.grid = 0; nest.grid < limit && units < kEnoughUnits; ++nest.grid) {
      const Expr& extent = extents[nest.grid];
      if (extent.is_constant()) units *= std::max<int64_t>(extent.constant(), 1);
    }
    nest.blocks_in_grid =
        is_single() && block && nest.grid == block->before && nest.grid < draft.grid_max;
    return nest;
  }

  Result<Trial> attempt(const Draft& draft) {
    ++trials_;
    LoopNest nest = with_grid(draft);
    CpuLoops loops(body_, nest, options_.context);
    LFARM_RETURN_IF_ERROR(loops.run());
    return Trial{loops.used(),
                 loops_ns(loops.writer().loop_work(), terms_),
                 loops.writer().divided(),
                 loops.advice(),
                 loops.emitter().reductions(),
                 loops.emitter().row_uses()};
  }

  void move_inside(int axis) {
    const std::vector<Expr>& position = draft_.nest.shared.position;
    if (axis < 0 || static_cast<size_t>(axis) >= position.size()) return;
    auto loop = position[static_cast<size_t>(axis)].as_var();
    if (!loop) return;
    std::vector<size_t> order;
    for (size_t k = 0; k < draft_.nest.shared.extents.size(); ++k) {
      if (k != static_cast<size_t>(loop->id)) order.push_back(k);
    }
    order.push_back(static_cast<size_t>(loop->id));
    draft_.nest.shared = *reorder_loops(draft_.nest.shared, order);
  }

  // Adopts the nest when its code is expected to take less.
  bool accept(const Draft& draft, double wanted = 0.999) {
    if (trials_ >= kMaxTrials) return false;
    auto trial = attempt(draft);
    if (!trial.ok() || trial->ns >= best_.ns * wanted) return false;
    draft_ = draft;
    best_ = std::move(*trial);
    return true;
  }

  // The band whose innermost loop writes group g.
  LoopBand& written(Draft& draft, size_t g) const { return band(draft, is_single() ? 0 : g + 1); }

  // Loops that a reduction depends on come first, so that it runs once for all the others.
  void try_orders() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      auto dependencies = best_.advice[g].dependencies;
      for (const std::vector<bool>& uses : dependencies) {
        if (uses.size() != written(draft_, g).extents.size()) continue;
        std::vector<size_t> order;
        for (bool first : {true, false}) {
          for (size_t k = 0; k < uses.size(); ++k) {
            if (uses[k] == first) order.push_back(k);
          }
        }
        if (std::is_sorted(order.begin(), order.end()) || order.back() + 1 != order.size()) {
          continue;
        }
        Draft reordered = draft_;
        written(reordered, g) = *reorder_loops(written(draft_, g), order);
        // A grid of more loops would repeat the reduction after all.
        if (is_single()) {
          reordered.grid_max = static_cast<size_t>(std::count(uses.begin(), uses.end(), true));
        }
        if (accept(reordered, 0.8)) break;
      }
    }
  }

  // Squares where loads run along another loop than the innermost.
  void try_transposed() {
    if (!is_single()) return;
    auto across = best_.advice[0].across;
    for (size_t w : across) {
      std::vector<size_t> order;
      for (size_t k = 0; k < draft_.nest.shared.extents.size(); ++k) {
        if (k != w) order.push_back(k);
      }
      order.insert(order.end() - 1, w);
      Draft transposed = draft_;
      transposed.nest.shared = *reorder_loops(draft_.nest.shared, order);
      transposed.nest.transposed = true;
      if (accept(transposed, 0.8)) return;
    }
  }

  // Squares of words where pairs are copied from rows to columns.
  void try_pair_squares() {
    const size_t loops = draft_.nest.shared.extents.size();
    if (!is_single() || loops < 3) return;
    Draft squares = draft_;
    squares.nest.transposed = true;
    squares.grid_max = loops - 3;
    if (pair_squares(body_, with_grid(squares))) accept(squares, 0.8);
  }

  // Blocks of accumulators where reductions would otherwise walk memory the wrong way.
  void try_accumulators() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const LoopBand& loops = written(draft_, g);
      const NestAdvice advice = best_.advice[g];
      if (!advice.lanes || loops.extents.empty()) continue;
      Draft blocked = draft_;
      blocked.nest.groups[g].accumulators =
          AccumulatorBlock{advice.position, block_width(loops.extents.back())};
      if (accept(blocked)) best_.advice[g] = advice;
    }
  }

  // Reductions between the grid's loops and the others run once per unit: with fewer loops in the
  // grid they may run less often. A few units must remain.
  void try_smaller_grids() {
    const std::vector<Expr>& extents = draft_.nest.shared.extents;
    double units = 1;
    for (size_t k = 1; k < extents.size(); ++k) {
      if (extents[k - 1].is_constant()) units *= static_cast<double>(extents[k - 1].constant());
      if (units < 4) continue;
      Draft fewer = draft_;
      fewer.grid_max = k;
      if (accept(fewer, 0.8)) return;
    }
  }

  // Reductions over adjacent axes whose loops may be one.
  void try_flat_reductions() {
    auto reductions = best_.reductions;
    for (const EmittedReduction& r : reductions) {
      if (!has_adjacent_axes(attr<ReduceAttr>(body_.node(r.id)))) continue;
      Draft flat = draft_;
      if (flat.nest.reductions.flat.insert(r.id).second) accept(flat);
    }
  }

  // Independent reductions at the same place over the same axes share one pass.
  void try_fused_reductions() {
    Draft fused = draft_;
    fused.nest.reductions.fused = independent_reductions(body_, best_.reductions);
    if (!fused.nest.reductions.fused.empty()) accept(fused);
  }

  // Values that several loops over a row ask for, kept by the first: the outermost operations
  // first, for then nobody asks for their operands again.
  void try_staging() {
    auto uses = best_.row_uses;
    for (auto it = uses.rbegin(); it != uses.rend(); ++it) {
      if (it->second < 2) continue;
      Draft staged = draft_;
      staged.nest.reductions.staged.insert(it->first);
      accept(staged, 0.98);
    }
  }

  // Splits one loop by a divisor that its index is divided by, if that removes divisions.
  bool try_split() {
    for (const CodeWriter::Division& d : best_.divided) {
      for (size_t g = 0; g <= groups_.size(); ++g) {
        std::string prefix = g == 0 || is_single() ? "i" : cat("io", g - 1, "_");
        const LoopBand& now = band(draft_, g);
        for (size_t k = 0; k < now.extents.size(); ++k) {
          if (d.index != cat(prefix, k) || d.divisor.is_constant(1)) continue;
          auto split = split_loop(now, k, d.divisor);
          if (!split || split->extents[k].is_constant(1)) continue;
          Draft with = draft_;
          band(with, g) = std::move(*split);
          if (accept(with)) return true;
        }
      }
    }
    return false;
  }

  const Graph& body_;
  const Schedule& schedule_;
  const VectorTerms& terms_;
  const CpuNestOptions& options_;
  const std::vector<OutputGroup> groups_;
  Draft draft_;
  Trial best_;
  int trials_ = 0;
};

}  // namespace

Result<LoopNest> choose_cpu_nest(const Graph& body, const Schedule& schedule,
                                 const VectorTerms& terms, const CpuNestOptions& options) {
  return CpuNestSearch(body, schedule, terms, options).run();
}

}  // namespace common
