#include "common/schedule/gpu_nest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/cost/gpu_registers.h"
#include "common/cost/gpu_time.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/body_traffic.h"
#include "common/ir/nest/transformations.h"
#include "common/lowering/loops/gpu_loops.h"
#include "common/lowering/loops/late_reads.h"
#include "common/schedule/gpu_splits.h"
#include "common/schedule/reductions/independent_reductions.h"
#include "common/schedule/reductions/walked_reductions.h"

namespace common {
namespace {

// What it takes a block to learn that it is the last of several, and to read what they left. And
// the fewest elements that make it worth while.
constexpr double kJoinNs = 2000;
constexpr int64_t kSplitElements = 8192;
// Of several groups of outputs, to begin with.
constexpr int64_t kGroupThreads = 128;
constexpr int64_t kSide = 32;
// Of squares that are transposed: threads, and the shortest side that is worth while.
constexpr int64_t kSquareThreads = 256, kSideMin = 8;
constexpr int64_t kWarp = 32;
constexpr double kThreadsMax = 1024;
constexpr double kShareLoads = 8;  // at most, what a load costs a thread alone, of one in a warp
// Of what other units read too, the share that the first cache does not have.
constexpr double kNearShare = 0.25;
constexpr double kStallClocks = 2;  // of a warp alone, between two instructions
constexpr double kRegisters = 24;   // of a thread, beside the loads that are under way
// Of a thread: what it has, and beyond what a compiler begins loads later.
constexpr double kThreadRegisters = 255, kMostRegisters = 224;
constexpr double kRegisterBytes = 4;
constexpr int64_t kChunkBytes = 16;
constexpr double kWeightRatio = 8;
constexpr int64_t kStreamBytes = 1 << 20;  // the least input that is worth a prefetch
// Of the second cache, what the blocks that are there at first ask for together before they wait.
// Twice as much was up to 3 % slower on an H200.
constexpr double kEarlyCacheShare = 0.125;
constexpr double kTie = 0.02, kIssueTie = 0.1;
// Sectors that are asked for twice, or for half of what they hold, take more than their share.
constexpr double kSectorTie = 0.15;
constexpr double kNever = std::numeric_limits<double>::infinity();

struct Trial {
  LoopNest used;                      // without what made no difference
  double time = 0;                    // predicted, in nanoseconds, ties included
  std::vector<GpuKernelFacts> facts;  // at each of the priced sizes
  bool is_split = false;              // blocks share a reduction
  std::vector<EmittedReduction> reductions;
  std::map<NodeId, int> row_uses;
  std::vector<size_t> rows_of_loads;
};

}  // namespace

struct GpuNestTrials::Known {
  std::unordered_map<std::string, Result<Trial>> by_nest;  // by the nest's text
};

GpuNestTrials::GpuNestTrials() : known_(std::make_unique<Known>()) {}
GpuNestTrials::~GpuNestTrials() = default;

namespace {

// Finds the nest whose code is expected to take least.
class GpuNestSearch {
 public:
  // `walked`: reductions whose steps every thread takes.
  GpuNestSearch(const Graph& body, const Schedule& schedule, const GpuMachine& machine,
                bool may_split, std::set<NodeId> walked, GpuNestTrials::Known& known)
      : known_(known),
        body_(body),
        schedule_(schedule),
        machine_(machine),
        may_split_(may_split),
        walked_(std::move(walked)),
        late_(late_inputs(body)),
        groups_(group_outputs(body)),
        widths_(access_widths()),
        sizes_(priced_sizes(body.symbols)) {}

  Result<TimedNest> run() {
    LoopNest nest = plain_loops(body_);
    nest.grid = nest.shared.extents.size();
    nest.reductions.walked = walked_;
    nest.reductions.staged = late_;
    if (groups_.size() > 1) nest.threads.threads = kGroupThreads;
    LFARM_RETURN_IF_ERROR(accept(nest));
    std::vector<size_t> rows_of_loads = best_->rows_of_loads;
    for (int64_t width : widths_) try_nest(with_access(nest, width));
    bool reduces = !best_->reductions.empty();
    if (reduces || finds_positions() || groups_.size() > 1) {
      try_groups(nest);
    } else {
      try_squares(nest, rows_of_loads);
    }
    if (reduces && groups_.size() == 1 && nest.grid > 0) try_rows(nest);
    if (reduces || finds_positions()) try_ahead();
    if (may_split_ && groups_.size() == 1) try_splits();
    if (!best_->reductions.empty()) {
      LoopNest fused = nest_;
      fused.reductions.fused = independent_reductions(body_, best_->reductions);
      if (!fused.reductions.fused.empty()) try_nest(fused);
    }
    keep_rows();
    if (reduces && groups_.size() == 1 && nest.grid > 0) try_kept_rows();
    merge_units();
    prefetch();
    double ns = nest_ns(best_->facts, sizes_, machine_);
    if (best_->is_split) ns += kJoinNs;
    return TimedNest{best_->used, ns, best_->facts};
  }

 private:
  // Whether it looks for the position of an extremum, a reduction that nothing shares.
  bool finds_positions() const {
    return std::any_of(body_.nodes.begin(), body_.nodes.end(), is_position);
  }

  static bool is_position(const Node& node) {
    if (node.op != Op::kReduce) return false;
    ReduceOp op = attr<ReduceAttr>(node).op;
    return op == ReduceOp::kArgmax || op == ReduceOp::kArgmin;
  }

  // The reduction that blocks may share: the first that is computed, else one of a position.
  std::optional<NodeId> first_reduction() const {
    if (!best_->reductions.empty()) return best_->reductions.front().id;
    auto found = std::find_if(body_.nodes.begin(), body_.nodes.end(), is_position);
    if (found == body_.nodes.end()) return std::nullopt;
    return static_cast<NodeId>(found - body_.nodes.begin());
  }

  // As many neighbours as 16 bytes of a buffer hold, widest first and at last 1; or what the
  // schedule asks for.
  std::vector<int64_t> access_widths() const {
    std::set<int64_t, std::greater<>> widths;
    auto add = [&](DType dtype) { widths.insert(kChunkBytes / dtype_size(dtype)); };
    for (const auto& input : body_.inputs) add(input.dtype);
    for (const auto& output : body_.outputs) add(body_.node(output.node).dtype);
    int64_t wanted = schedule_value(schedule_, Template::kLoops, "access");
    if (wanted != 0) return {std::min(wanted, *widths.begin())};
    widths.insert(1);
    return {widths.begin(), widths.end()};
  }

  // Threads take so many neighbours at once; a thread that computes elements alone does where its
  // innermost loop has whole blocks of them.
  LoopNest with_access(LoopNest nest, int64_t width) const {
    nest.threads.access = width;
    if (nest.threads.threads > 1) return nest;
    bool fits = groups_.size() == 1 && nest.grid == nest.shared.extents.size() && nest.grid > 0 &&
                exact_div(nest.shared.extents.back(), width);
    if (!fits) nest.threads.access = 1;
    return nest;
  }

  Result<Trial> attempt(const LoopNest& nest) const {
    std::string text = print(nest);
    auto known = known_.by_nest.find(text);
    if (known == known_.by_nest.end()) {
      known = known_.by_nest.emplace(std::move(text), tried(nest)).first;
    }
    return known->second;
  }

  // Of the body and the machine alone, whatever the schedule.
  Result<Trial> tried(const LoopNest& nest) const {
    GpuLoops loops(body_, nest);
    LFARM_ASSIGN_OR_RETURN(GpuFunction function, loops.run());
    std::vector<GpuKernelFacts> facts;
    for (const WeightedSizes& each : sizes_) {
      facts.push_back(facts_of(function, nest, loops, each.sizes));
    }
    double kept = loops.emitter().row_bytes() / kRegisterBytes;
    if (facts.front().registers > kThreadRegisters || kRegisters + kept > kMostRegisters) {
      return unsupported("a thread has fewer registers than the rows that it keeps need");
    }
    LoopNest used = loops.used();
    if (used.reductions.staged != nest.reductions.staged) {
      // What was loaded early without being kept is loaded again. The code is that of `used`.
      LoopNest rest = nest;
      rest.reductions.staged = used.reductions.staged;
      return attempt(rest);
    }
    if (nest.transposed && !used.transposed) {
      return unsupported("no load runs along the rows of the squares");
    }
    Trial trial{std::move(used),
                nest_preference_ns(facts, sizes_, machine_),
                facts,
                function.is_split,
                loops.emitter().reductions(),
                loops.emitter().row_uses(),
                loops.rows_of_loads()};
    if (trial.is_split) trial.time += kJoinNs;
    return trial;
  }

  GpuKernelFacts facts_of(const GpuFunction& function, const LoopNest& nest, const GpuLoops& loops,
                          const std::vector<int64_t>& sizes) const {
    const ThreadWork& work = loops.work();
    GpuKernelFacts facts;
    facts.block_threads = function.block.threads;
    double units = std::max(1.0, count_elements({function.body.units}, sizes));
    facts.blocks = std::ceil(units / static_cast<double>(function.block.units));
    double threads = facts.blocks * facts.block_threads;
    facts.thread_instructions = work.instructions * threads;
    facts.sector_bytes = (work.sector_bytes + work.shared_sector_bytes * kNearShare) * threads;
    facts.dram_bytes =
        std::min(asked_bytes(sizes), (work.sector_bytes + work.shared_sector_bytes) * threads);
    for (double written : bytes_written(body_, sizes)) facts.written_bytes += written;
    facts.written_bytes = std::min(facts.written_bytes, facts.dram_bytes);
    facts.in_flight_bytes = std::max(1.0, work.in_flight_bytes);
    facts.wait_clocks = std::max(1.0, work.rounds) * kGpuMemoryClocks + work.exchange_clocks +
                        work.instructions * kStallClocks;
    if (nest.prefetch) facts.block_prefetch_bytes = static_cast<double>(nest.prefetch->bytes);
    const ThreadGroup used = loops.used().threads;
    const auto sums =
        static_cast<double>(used.rows) * static_cast<double>(loops.emitter().reductions().size());
    facts.registers =
        expected_registers({used.ahead, work.in_flight_bytes, loops.emitter().row_bytes(), sums});
    return facts;
  }

  // Each byte once: of what is gathered from, the rows that are chosen.
  double asked_bytes(const std::vector<int64_t>& sizes) const {
    double bytes = 0;
    for (double read : bytes_read(body_, sizes)) bytes += read;
    for (double written : bytes_written(body_, sizes)) bytes += written;
    return bytes;
  }

  Status accept(const LoopNest& nest) {
    LFARM_ASSIGN_OR_RETURN(Trial trial, attempt(nest));
    nest_ = nest;
    best_ = std::move(trial);
    return {};
  }

  // Returns what the nest is expected to take, infinity where it cannot be.
  double try_nest(const LoopNest& nest, double wanted = 0.999) {
    auto trial = attempt(nest);
    if (!trial.ok()) return kNever;
    double time = trial->time;
    if (time < best_->time * wanted) {
      nest_ = nest;
      best_ = std::move(*trial);
    }
    return time;
  }

  // Nests that differ in the size of their groups alone, smaller ones first. Larger groups have
  // less to do each, until what they must exchange, or the rounds that the device needs, outweighs
  // it: where that has happened twice in a row, no larger one is tried. Nor where the largest, even
  // if its threads shared the work without loss, took longer than the best so far.
  struct Sizes {
    double least = kNever, promise = 0;
    int worse = 0;
    bool goes_on(double best) const { return worse < 2 && promise < best; }
    void add(double time, int64_t size) {
      worse = time > least ? worse + 1 : 0;
      least = std::min(least, time);
      // A warp's neighbours share what they load.
      double shares = kThreadsMax / static_cast<double>(size) * (size < kWarp ? kShareLoads : 1);
      promise = time == kNever ? 0 : time / shares;
    }
  };

  // The sizes `usual`, and those whole warps of which each thread takes as many blocks of the
  // widest access, as 320 threads do with 2,560 elements in blocks of 8.
  std::set<int64_t> group_sizes(std::set<int64_t> usual) const {
    const int64_t least = *usual.begin(), most = *usual.rbegin();
    std::set<int64_t> sizes = std::move(usual);
    for (const EmittedReduction& reduction : best_->reductions) {
      Expr elements = reduced_elements(body_, reduction.id);
      if (!elements.is_constant()) continue;
      int64_t blocks = elements.constant() / widths_.front();
      if (elements.constant() % widths_.front() != 0) continue;
      for (int64_t size = kWarp; size <= most; size += kWarp) {
        if (size > least && blocks % size == 0) sizes.insert(size);
      }
    }
    return sizes;
  }

  void try_groups(const LoopNest& start) {
    int64_t wanted = schedule_value(schedule_, Template::kLoops, "team");
    if (wanted != 0) best_->time = kNever;
    for (size_t units = start.grid + 1; units-- > 0;) {
      std::map<std::pair<int64_t, int64_t>, Sizes> series;  // by side and width
      for (int64_t size : group_sizes({1, 4, 8, 16, 32, 64, 128, 256, 512, 1024})) {
        if (wanted != 0 && size != wanted) continue;
        for (int64_t side : {int64_t{1}, kSide}) {
          if (side > 1 && (size == 1 || size * side > 1024 || units == 0)) continue;
          LoopNest nest = start;
          nest.grid = units;
          nest.threads.threads = size;
          nest.threads.side = side;
          if (size == 1 && (groups_.size() > 1 || units < start.grid)) continue;
          for (int64_t width : widths_) {
            Sizes& sizes = series[{side, width}];
            if (sizes.goes_on(best_->time)) sizes.add(try_nest(with_access(nest, width)), size);
          }
        }
      }
    }
  }

  // Squares in shared memory for loads that run along one of the loops `rows` and jump along the
  // last one.
  void try_squares(const LoopNest& start, const std::vector<size_t>& rows) {
    for (size_t row : rows) {
      try_squares_of(start, start.shared, row);
      // Loops that lie one inside of the other in memory make longer rows.
      if (row == 0) continue;
      if (auto longer = fuse_loops(start.shared, row - 1)) {
        try_squares_of(start, *longer, row - 1);
      }
    }
  }

  void try_squares_of(const LoopNest& start, const LoopBand& band, size_t row) {
    for (int64_t most : {64, 32}) {
      for (int64_t width : widths_) {
        int64_t rows = side_of(band.extents[row], most, 1);
        int64_t columns = side_of(band.extents.back(), most, width);
        if (rows != 0 && columns != 0) try_square(start, band, row, rows, columns, width);
      }
    }
  }

  // Squares of `rows` steps of loop `row` and `columns` of the last one, with accesses of `width`
  // elements.
  void try_square(const LoopNest& start, const LoopBand& band, size_t row, int64_t rows,
                  int64_t columns, int64_t width) {
    LoopNest whole = start;
    whole.shared = band;
    whole.grid = band.extents.size();
    auto cut = cut_squares(whole, body_, row, rows, columns);
    if (!cut.ok()) return;
    LoopNest nest = std::move(*cut);
    nest.threads.threads = kSquareThreads;
    nest.threads.access = width;
    try_nest(nest);
  }

  // The largest divisor of a loop's steps that is a multiple of `unit` and at most `most`; 0 where
  // that is too small.
  static int64_t side_of(const Expr& extent, int64_t most, int64_t unit) {
    for (int64_t side = most / unit * unit; side >= kSideMin; side -= unit) {
      if (exact_div(extent, side)) return side;
    }
    return 0;
  }

  // Rows that read an operand alike, as products of one vector do, load it once.
  void try_rows(const LoopNest& start) {
    int64_t wanted = schedule_value(schedule_, Template::kLoops, "rows");
    int64_t team = schedule_value(schedule_, Template::kLoops, "team");
    if (wanted == 1) return;
    // What suits one row best, and as wide as it goes.
    std::set<int64_t> widths{nest_.threads.access, widths_.front()};
    if (wanted != 0) best_->time = kNever;
    for (int64_t rows : {2, 4, 8}) {
      if (wanted != 0 && rows != wanted) continue;
      for (int64_t size : group_sizes({32, 64, 128, 256, 512})) {
        if (team != 0 && size != team) continue;
        for (int64_t width : widths) {
          LoopNest nest = start;
          nest.threads.threads = size;
          nest.threads.rows = rows;
          nest.threads.ahead = width > 1;
          try_nest(with_access(nest, width));
        }
      }
    }
  }

  // Loops that a group shares, and that are not unrolled, may load a step ahead.
  void try_ahead() {
    LoopNest nest = nest_;
    if (nest.threads.threads == 1 || nest.threads.access == 1) return;
    nest.threads.ahead = true;
    try_nest(nest);
  }

  // Few long reductions keep a GPU busy only when blocks share each.
  void try_splits() {
    if (schedule_value(schedule_, Template::kLoops, "team") != 0) return;
    std::optional<NodeId> shared = first_reduction();
    if (best_->time <= kJoinNs || !shared) return;
    const LoopNest start = nest_;
    std::set<int64_t> counts;
    for (const WeightedSizes& each : sizes_) {
      counts.insert(gpu_splits(grid_steps(start).evaluate(each.sizes),
                               reduced_elements(body_, *shared), kSplitElements, 0,
                               static_cast<int64_t>(machine_.processors)));
    }
    counts.erase(1);
    for (int64_t blocks : counts) {
      for (int64_t size : {256, 1024}) {
        LoopNest nest = start;
        nest.threads.threads = size;
        nest.threads.side = nest.threads.rows = 1;
        nest.threads.blocks = blocks;
        for (int64_t width : widths_) try_nest(with_access(nest, width));
      }
    }
  }

  // What several loops over a row ask for stays in registers, the outermost operations first: then
  // nobody asks for their operands again. What is read from memory is read once.
  void keep_rows() {
    auto uses = best_->row_uses;
    for (auto it = uses.rbegin(); it != uses.rend(); ++it) {
      if (it->second < 2) continue;
      LoopNest kept = nest_;
      kept.reductions.staged.insert(it->first);
      try_nest(kept, body_.node(it->first).op == Op::kInput ? 1.001 : 0.99);
    }
  }

  // A thread keeps its part of a row only where the part is short: larger groups, which may be
  // worse before they keep anything, are tried with what they keep; and so are groups that compute
  // whole rows.
  void try_kept_rows() {
    for (const char* parameter : {"team", "rows"}) {
      if (schedule_value(schedule_, Template::kLoops, parameter) != 0) return;
    }
    LoopNest best_nest = nest_;
    Trial best = *best_;
    const LoopNest start = nest_;
    for (size_t grid : std::set<size_t>{start.grid, start.shared.extents.size() - 1}) {
      for (int64_t size : group_sizes({64, 128, 256, 512, 1024})) {
        LoopNest nest = start;
        nest.grid = grid;
        nest.reductions.staged = late_;
        nest.threads.threads = size;
        nest.threads.side = nest.threads.rows = nest.threads.blocks = 1;
        nest.threads.ahead = false;
        if (!accept(with_access(nest, widths_.front())).ok()) continue;
        keep_rows();
        if (nest_.reductions.staged == late_ || best_->time >= best.time) continue;
        best_nest = nest_;
        best = *best_;
      }
    }
    nest_ = std::move(best_nest);
    best_ = std::move(best);
  }

  // Loops that lie one inside of the other in memory are one.
  void merge_units() {
    for (size_t k = nest_.grid; k-- > 1;) {
      auto one = fuse_loops(nest_.shared, k - 1);
      if (!one) continue;
      LoopNest merged = nest_;
      merged.shared = std::move(*one);
      --merged.grid;
      LoopNest before = nest_;
      for (int64_t width : widths_) {
        if (merged.threads.threads > 1 && width != before.threads.access) continue;
        try_nest(with_access(merged, width), 1.001);
      }
    }
  }

  // Blocks that come before their turn ask for as much of their weights, the largest input that
  // they read row by row, as memory delivers until the kernel before has ended. Where blocks come
  // in several waves the later ones would only ask twice: up to 8 % slower on an H200.
  void prefetch() {
    Expr rows = grid_steps(nest_);
    if (!launches_overlap(machine_.target) || !rows.is_constant() || rows.constant() < 1) return;
    if (best_->facts.front().blocks > places_at_once(best_->facts.front())) return;
    GpuLoops loops(body_, nest_);
    auto function = loops.run();
    if (!function.ok()) return;
    std::set<int64_t> strides = loops.row_strides();
    int32_t input = 0;
    int64_t most = 0;
    for (size_t k = 0; k < body_.inputs.size(); ++k) {
      Expr elements = element_count(body_.inputs[k].shape);
      if (!elements.is_constant()) continue;
      int64_t bytes = elements.constant() * dtype_size(body_.inputs[k].dtype);
      if (bytes <= most || strides.count(elements.constant() / rows.constant()) == 0) continue;
      most = bytes;
      input = static_cast<int32_t>(k);
    }
    if (most < kStreamBytes || !is_weight_like(static_cast<double>(most))) return;
    int64_t part = most / rows.constant() * nest_.threads.rows * function->block.units;
    LoopNest nest = nest_;
    nest.prefetch = BlockPrefetch{input, early_bytes(part)};
    // A nest that cannot have it stays as it is.
    (void)accept(nest);
  }

  // Whether an input of `bytes` is far larger than another input and than all outputs, as the
  // matrix of a product with a vector is. What an earlier kernel is still writing rarely is: a
  // prefetch of it is wasted.
  bool is_weight_like(double bytes) const {
    std::vector<int64_t> sizes = representative_sizes(body_.symbols);
    double outputs = 0;
    for (const auto& output : body_.outputs) {
      const Node& node = body_.node(output.node);
      outputs += count_bytes(node.dtype, node.shape, sizes);
    }
    return outputs <= bytes / kWeightRatio &&
           std::any_of(body_.inputs.begin(), body_.inputs.end(), [&](const auto& input) {
             return count_bytes(input.dtype, input.shape, sizes) <= bytes / kWeightRatio;
           });
  }

  // Blocks that all processors hold together.
  double places_at_once(const GpuKernelFacts& facts) const {
    return machine_.processors * gpu_kernel_time(facts, machine_).resident_blocks;
  }

  // A resident block's share of what the second cache keeps for them while the kernel before runs:
  // whole cache lines of its `part` bytes at most.
  int64_t early_bytes(int64_t part) const {
    // The grid's steps are known, and so the same at all sizes.
    double share = kEarlyCacheShare * machine_.l2_bytes / best_->facts.front().blocks;
    return std::min(part, static_cast<int64_t>(share)) / kCacheLine * kCacheLine;
  }

  GpuNestTrials::Known& known_;
  const Graph& body_;
  const Schedule& schedule_;
  const GpuMachine& machine_;
  const bool may_split_;
  const std::set<NodeId> walked_;
  const std::set<NodeId> late_;  // what is read after reductions is loaded before, where it can be
  const std::vector<OutputGroup> groups_;
  const std::vector<int64_t> widths_;
  const std::vector<WeightedSizes> sizes_;
  LoopNest nest_;
  std::optional<Trial> best_;
};

}  // namespace

double nest_preference_ns(const std::vector<GpuKernelFacts>& facts,
                          const std::vector<WeightedSizes>& sizes, const GpuMachine& machine) {
  double sum = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    GpuKernelTime time = gpu_kernel_time(facts[k], machine);
    double idle = 1 - time.wave_efficiency;
    sum += sizes[k].weight * (time.total_ns * (1 + kTie * idle) + kIssueTie * time.issue_ns +
                              kTie * time.latency_ns + kSectorTie * time.l2_ns);
  }
  return sum;
}

double nest_ns(const std::vector<GpuKernelFacts>& facts, const std::vector<WeightedSizes>& sizes,
               const GpuMachine& machine) {
  double sum = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    sum += sizes[k].weight * gpu_kernel_time(facts[k], machine).total_ns;
  }
  return sum;
}

Result<TimedNest> choose_gpu_nest(const Graph& body, const Schedule& schedule,
                                  const GpuMachine& machine, GpuNestTrials& trials,
                                  bool may_split) {
  const auto search = [&](std::set<NodeId> walked) {
    return GpuNestSearch(body, schedule, machine, may_split, std::move(walked), trials.known())
        .run();
  };
  auto best = search({});
  for (std::set<NodeId> walked : {sums_of_reductions(body), window_reductions(body)}) {
    if (!best.ok() || walked.empty()) continue;
    auto other = search(std::move(walked));
    if (other.ok() && other->predicted_ns < best->predicted_ns) best = std::move(other);
  }
  return best;
}

Result<TimedNest> choose_gpu_nest(const Graph& body, const Schedule& schedule,
                                  const GpuMachine& machine, bool may_split) {
  GpuNestTrials trials;
  return choose_gpu_nest(body, schedule, machine, trials, may_split);
}

}  // namespace common
