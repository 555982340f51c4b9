#include "worker/codegen/cuda/loops.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "common/base/cat.h"
#include "common/ir/hlir/sizes.h"
#include "worker/codegen/body/nest_plan.h"
#include "worker/codegen/body/reduction_fusion.h"
#include "worker/codegen/cuda/text/split.h"
#include "worker/codegen/text/c_text.h"
#include "worker/codegen/text/output_groups.h"

namespace worker {

using common::cat;
using common::Expr;
using common::Graph;
using common::NodeId;
using common::Result;
using common::Schedule;
using common::Template;
using common::Var;

namespace {

// Threads that a large GPU runs at once.
constexpr double kThreadsAtOnce = kCudaProcessors * 1024.0;
// What it takes a block to learn that it is the last of several, and to read what they left: two or
// three microseconds, of which each is some five operations of a block that waits for memory, as
// the writer counts them. And the fewest elements that make it worth while.
constexpr double kJoinTime = 15;
constexpr int64_t kSplitElements = 8192;
// Of a block whose threads are units, and of one that several teams of a warp at most share.
constexpr int64_t kUnitThreads = 256;
constexpr int64_t kTeamThreads = 128;
constexpr int64_t kSide = 32;
constexpr int64_t kWarp = 32;
constexpr double kTeamMax = 1024;
constexpr double kShareLoads = 8;  // at most, what a load costs a thread alone, of one in a warp
constexpr double kNever = std::numeric_limits<double>::infinity();

size_t at(int index) { return static_cast<size_t>(index); }

// Everything that decides the text.
struct CudaLoopsPlan {
  NestPlan shared;        // of the axes that all outputs share
  size_t unit_loops = 0;  // how many of its loops are units; the others the team shares
  Team team;
  EmitterChoices choices;
};

struct Trial {
  CudaFunction function;
  double time = 0;  // an estimate, in simple operations one after the other
  std::vector<EmittedReduction> reductions;
  std::map<NodeId, int> row_uses;
};

// One emission.
class CudaLoopsEmitter {
 public:
  CudaLoopsEmitter(const Graph& body, const std::vector<OutputGroup>& groups, size_t shared_axes,
                   const CudaLoopsPlan& plan)
      : body_(body),
        groups_(groups),
        shared_axes_(shared_axes),
        plan_(plan),
        writer_(body.symbols),
        emitter_(body, writer_) {
    emitter_.set_choices(plan.choices);
  }

  Result<Trial> run() {
    Expr units = open_unit();
    for (const OutputGroup& group : groups_) emit_group(group);
    writer_.close("");
    LFARM_RETURN_IF_ERROR(emitter_.status());
    Trial trial;
    int64_t blocks = plan_.team.blocks;
    trial.function.is_split = blocks > 1;
    if (trial.function.is_split && !emitter_.team().is_split()) {
      return common::unsupported("no reduction for several blocks to share");
    }
    units *= Expr(blocks);
    trial.function.body = finish_body(writer_, units, emitter_.scratch());
    trial.function.block = block();
    std::vector<int64_t> sizes = common::representative_sizes(body_.symbols);
    double threads = std::max(1.0, common::count_elements({units}, sizes)) *
                     static_cast<double>(plan_.team.size);
    trial.time = writer_.work() * std::max(1.0, threads / kThreadsAtOnce);
    if (trial.function.is_split) trial.time += kJoinTime;
    trial.reductions = emitter_.reductions();
    trial.row_uses = emitter_.row_uses();
    return trial;
  }

 private:
  common::BlockShape block() const {
    const Team& team = plan_.team;
    int64_t threads = kUnitThreads;
    if (team.size > 1) threads = team.size > kWarp ? team.size : kTeamThreads;
    if (team.side > 1) threads = team.size * team.side;
    return {static_cast<int>(threads), threads / team.size, 0};
  }

  bool takes_blocks() const { return plan_.team.size == 1 && plan_.team.vector > 1; }

  // Who this thread is, and its unit's indices, in a scope of their own.
  Expr open_unit() {
    Team team = plan_.team;
    auto threads = block().threads;
    if (team.size == 1) {
      writer_.line(cat("const int64_t u = (int64_t)blockIdx.x * ", threads, " + threadIdx.x;"));
      writer_.line("if (u >= units) return;");
    } else {
      // Threads without a unit of their own compute the last one again, so that all meet.
      bool aside = team.side > 1;
      writer_.line(cat("const int64_t member = threadIdx.x ", aside ? "/ " : "% ",
                       aside ? team.side : team.size, ";"));
      std::string index = team.blocks == 1 ? "blockIdx.x" : cat("(blockIdx.x / ", team.blocks, ")");
      writer_.line(cat("const int64_t u = lf_min_i64((int64_t)", index, " * ", block().units,
                       " + threadIdx.x ", aside ? "% " : "/ ", aside ? team.side : team.size,
                       ", units - 1);"));
    }
    std::vector<Expr> extents(
        plan_.shared.extents.begin(),
        plan_.shared.extents.begin() + static_cast<std::ptrdiff_t>(plan_.unit_loops));
    if (takes_blocks()) extents.back() = *common::exact_div(extents.back(), team.vector);
    Expr units = 1;
    for (const Expr& e : extents) units *= e;
    writer_.open(false);
    team.level = writer_.depth();
    Expr u = Expr::index(writer_.bind_index("u", units, team.level));
    indices_ = declare_positions(writer_, "i", extents, u, true);
    bool differ = team.size == 1 || team.side > 1;
    if (differ && !indices_.empty()) team.lane = indices_.back().as_var()->id;
    emitter_.set_team(team);
    return units;
  }

  void emit_group(const OutputGroup& group) {
    std::vector<Expr> inner(
        plan_.shared.extents.begin() + static_cast<std::ptrdiff_t>(plan_.unit_loops),
        plan_.shared.extents.end());
    size_t own = group.shape.size() - shared_axes_;
    inner.insert(inner.end(), group.shape.end() - static_cast<std::ptrdiff_t>(own),
                 group.shape.end());
    Expr steps = 1;
    for (const Expr& e : inner) steps *= e;
    std::vector<Expr> loops = indices_;
    bool is_open = true;
    if (takes_blocks()) {
      loops.back() = emitter_.team().open_block(loops.back());
    } else if (inner.empty()) {
      is_open = false;
    } else {
      for (const Expr& e : unfold(inner, emitter_.team().open(steps))) loops.push_back(e);
    }
    emit_stores(group, loops, !is_open && plan_.team.size > 1);
    if (is_open) emitter_.team().close();
  }

  // `once`: all of a team's threads are here; one of them stores.
  void emit_stores(const OutputGroup& group, const std::vector<Expr>& loops, bool once) {
    Indices position;
    for (const Expr& e : plan_.shared.position) {
      position.push_back(e.substitute([&](Var v) -> Expr {
        return v.kind == Var::Kind::kIndex ? loops[at(v.id)] : Expr::var(v);
      }));
    }
    position.insert(position.end(),
                    loops.end() - static_cast<std::ptrdiff_t>(group.shape.size() - shared_axes_),
                    loops.end());
    for (size_t output : group.outputs) {
      const common::Node& node = body_.node(body_.outputs[output].node);
      CodeValue x = emitter_.value(body_.outputs[output].node, position);
      Expr offset = writer_.simplify(linear_position(position, group.shape));
      std::string name = cat("out", output);
      std::string place = once ? "" : emitter_.team().store(name, node.dtype, offset);
      if (place.empty()) place = cat(name, "[", writer_.text(offset), "]");
      writer_.line(cat(once ? "if (member == 0) " : "", place, " = ", x.text, ";"));
    }
  }

  const Graph& body_;
  const std::vector<OutputGroup>& groups_;
  size_t shared_axes_;
  const CudaLoopsPlan& plan_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  std::vector<Expr> indices_;  // of the unit's loops
};

// Finds the plan whose code is expected to take least.
class CudaLoopsSearch {
 public:
  CudaLoopsSearch(const Graph& body, const Schedule& schedule)
      : body_(body),
        schedule_(schedule),
        groups_(group_outputs(body)),
        shared_axes_(worker::shared_axes(groups_)) {}

  Result<CudaFunction> run() {
    const common::Shape& first = groups_[0].shape;
    CudaLoopsPlan plan;
    plan.shared =
        plain_nest({first.begin(), first.begin() + static_cast<std::ptrdiff_t>(shared_axes_)});
    plan.unit_loops = plan.shared.extents.size();
    plan.team.vector = vector_width();
    if (groups_.size() > 1) plan.team.size = kTeamThreads;
    LFARM_RETURN_IF_ERROR(accept(scalar(plan)));
    bool reduces = !best_->reductions.empty();
    if (reduces || groups_.size() > 1) try_teams(plan);
    if (reduces && groups_.size() == 1) try_splits();
    if (!best_->reductions.empty()) {
      CudaLoopsPlan fused = plan_;
      fused.choices.fused = independent_reductions(body_, best_->reductions);
      if (!fused.choices.fused.empty()) try_plan(fused);
    }
    keep_rows();
    merge_units();
    return std::move(best_->function);
  }

 private:
  // As many neighbours as 16 bytes of the widest buffer hold.
  int64_t vector_width() const {
    int64_t widest = 1;
    for (const auto& input : body_.inputs) {
      widest = std::max<int64_t>(widest, common::dtype_size(input.dtype));
    }
    for (const auto& output : body_.outputs) {
      widest = std::max<int64_t>(widest, common::dtype_size(body_.node(output.node).dtype));
    }
    int64_t wanted = schedule_value(schedule_, Template::kLoops, "access");
    int64_t fits = 16 / widest;
    return wanted == 0 ? fits : std::min(fits, wanted);
  }

  // A thread takes a block of neighbours where its innermost loop has whole ones.
  CudaLoopsPlan scalar(CudaLoopsPlan plan) const {
    if (plan.team.size > 1) return plan;
    bool fits = groups_.size() == 1 && plan.unit_loops == plan.shared.extents.size() &&
                plan.unit_loops > 0 &&
                common::exact_div(plan.shared.extents.back(), plan.team.vector);
    if (!fits) plan.team.vector = 1;
    return plan;
  }

  common::Status accept(const CudaLoopsPlan& plan) {
    LFARM_ASSIGN_OR_RETURN(Trial trial, CudaLoopsEmitter(body_, groups_, shared_axes_, plan).run());
    plan_ = plan;
    best_ = std::move(trial);
    return {};
  }

  // Returns what the plan is expected to take, infinity where it cannot be.
  double try_plan(const CudaLoopsPlan& plan, double wanted = 0.999) {
    auto trial = CudaLoopsEmitter(body_, groups_, shared_axes_, plan).run();
    if (!trial.ok()) return kNever;
    double time = trial->time;
    if (time < best_->time * wanted) {
      plan_ = plan;
      best_ = std::move(*trial);
    }
    return time;
  }

  // Plans that differ in the size of their teams alone, smaller ones first. Larger teams have less
  // to do each, until what they must exchange, or the rounds that the device needs, outweighs it:
  // where that has happened twice in a row, no larger one is tried. Nor where the largest, even if
  // its threads shared the work without loss, took longer than the best so far.
  struct Sizes {
    double least = kNever, promise = 0;
    int worse = 0;
    bool goes_on(double best) const { return worse < 2 && promise < best; }
    void add(double time, int64_t size) {
      worse = time > least ? worse + 1 : 0;
      least = std::min(least, time);
      // A warp's neighbours share what they load.
      double shares = kTeamMax / static_cast<double>(size) * (size < kWarp ? kShareLoads : 1);
      promise = time == kNever ? 0 : time / shares;
    }
  };

  void try_teams(const CudaLoopsPlan& start) {
    int64_t wanted = schedule_value(schedule_, Template::kLoops, "team");
    if (wanted != 0) best_->time = kNever;
    for (size_t units = start.unit_loops + 1; units-- > 0;) {
      Sizes sizes[2][2];  // aside or not, one element at a time or several
      for (int64_t size : {1, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
        if (wanted != 0 && size != wanted) continue;
        for (int64_t side : {int64_t{1}, kSide}) {
          if (side > 1 && (size == 1 || size * side > 1024 || units == 0)) continue;
          CudaLoopsPlan plan = start;
          plan.unit_loops = units;
          plan.team.size = size;
          plan.team.side = side;
          if (size == 1 && (groups_.size() > 1 || units < start.unit_loops)) continue;
          plan = scalar(plan);
          for (bool several : {true, false}) {
            if (several && plan.team.vector == 1) continue;
            if (!several) plan.team.vector = 1;
            Sizes& series = sizes[side > 1][several];
            if (series.goes_on(best_->time)) series.add(try_plan(plan), size);
          }
        }
      }
    }
  }

  // Few long reductions keep a large GPU busy only when blocks share each.
  void try_splits() {
    if (schedule_value(schedule_, Template::kLoops, "team") != 0) return;
    if (best_->time <= kJoinTime || best_->reductions.empty()) return;
    const common::Node& node = body_.node(best_->reductions.front().id);
    const auto& axes = common::attr<common::ReduceAttr>(node).axes;
    Expr length = 1, units = 1;
    for (int axis : axes) length *= body_.node(node.operands[0]).shape[at(axis)];
    for (size_t k = 0; k < plan_.unit_loops; ++k) units *= plan_.shared.extents[k];
    int64_t blocks = cuda_splits(units, length, kSplitElements, 0, body_.symbols);
    if (blocks == 1) return;
    for (int64_t size : {256, 1024}) {
      CudaLoopsPlan plan = plan_;
      plan.team.size = size;
      plan.team.side = 1;
      plan.team.blocks = blocks;
      plan.team.vector = vector_width();
      try_plan(plan);
    }
  }

  // What several loops over a row ask for stays in registers, the outermost operations first: then
  // nobody asks for their operands again. What is read from memory is read once.
  void keep_rows() {
    auto uses = best_->row_uses;
    for (auto it = uses.rbegin(); it != uses.rend(); ++it) {
      if (it->second < 2) continue;
      CudaLoopsPlan kept = plan_;
      kept.choices.staged.insert(it->first);
      try_plan(kept, body_.node(it->first).op == common::Op::kInput ? 1.001 : 0.99);
    }
  }

  // Loops that lie one inside of the other in memory are one.
  void merge_units() {
    for (size_t k = plan_.unit_loops; k-- > 1;) {
      CudaLoopsPlan merged = plan_;
      merged.shared = merge_loops(plan_.shared, k - 1);
      --merged.unit_loops;
      if (merged.team.size == 1) merged.team.vector = vector_width();
      try_plan(scalar(merged), 1.001);
    }
  }

  const Graph& body_;
  const Schedule& schedule_;
  std::vector<OutputGroup> groups_;
  size_t shared_axes_;
  CudaLoopsPlan plan_;
  std::optional<Trial> best_;
};

}  // namespace

Result<CudaFunction> emit_cuda_loops(const Graph& body, const Schedule& schedule) {
  return CudaLoopsSearch(body, schedule).run();
}

}  // namespace worker
