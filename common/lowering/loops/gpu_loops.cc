#include "common/lowering/loops/gpu_loops.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"
#include "common/lowering/loops/late_reads.h"
#include "common/lowering/text/c_text.h"

namespace common {
namespace {

// Of a block whose threads are units, and of one that several groups of a warp at most share.
constexpr int64_t kUnitThreads = 128;
constexpr int64_t kGroupThreads = 128;
constexpr int64_t kWarp = 32;

}  // namespace

Result<GpuFunction> lower_gpu_loops(const Graph& body, const LoopNest& nest,
                                    const std::string& block) {
  GpuLoops loops(body, nest, block);
  LFARM_ASSIGN_OR_RETURN(GpuFunction function, loops.run());
  if (loops.used() == nest) return function;
  return invalid_input(
      cat("a nest says what makes no difference on a GPU; what does is\n", print(loops.used())));
}

LoopNest GpuLoops::used() const {
  LoopNest used = nest_;
  used.reductions = emitter_.used_choices();
  used.blocks_in_grid = used.dot_products = false;
  used.transposed = used_squares_;
  for (GroupNest& group : used.groups) group.accumulators.reset();
  used.simd = 0;
  used.unroll = 1;
  used.threads.ahead = nest_.threads.ahead && emitter_.team().went_ahead();
  return used;
}

GpuLoops::GpuLoops(const Graph& body, const LoopNest& nest, std::string block)
    : body_(body),
      nest_(nest),
      block_(std::move(block)),
      groups_(group_outputs(body)),
      writer_(body.symbols),
      emitter_(body, writer_) {
  emitter_.set_choices(nest.reductions);
}

// The loops from `first` on are walked as one: another split of them would give the same code.
Status GpuLoops::verify_walk(const LoopBand& band, size_t first) {
  for (const Expr& e : band.position) {
    bool is_inner = false;
    e.visit_vars(
        [&](Var v) { is_inner = is_inner || (v.kind == Var::Kind::kIndex && at(v.id) >= first); });
    if (is_inner && !e.as_var()) {
      return invalid_input(cat("threads share the steps of whole axes, not of ", e.text()));
    }
  }
  return {};
}

Status GpuLoops::verify_threads() const {
  const ThreadGroup& group = nest_.threads;
  if (nest_.transposed) return verify_squares();
  LFARM_RETURN_IF_ERROR(verify_walk(nest_.shared, nest_.grid));
  for (const GroupNest& g : nest_.groups) LFARM_RETURN_IF_ERROR(verify_walk(g.own, 0));
  if (group.threads > 1) return {};
  if (groups_.size() > 1 || nest_.grid != nest_.shared.extents.size()) {
    return invalid_input("a thread alone computes one element of the grid");
  }
  if (group.access > 1 &&
      (nest_.grid == 0 || !exact_div(nest_.shared.extents.back(), group.access))) {
    return invalid_input(cat("threads cannot take ", group.access, " neighbours at once"));
  }
  return {};
}

Status GpuLoops::verify_squares() const {
  const ThreadGroup& group = nest_.threads;
  const std::vector<Expr>& loops = nest_.shared.extents;
  bool reduces = std::any_of(body_.nodes.begin(), body_.nodes.end(),
                             [](const Node& node) { return node.op == Op::kReduce; });
  bool is_block = group.threads > kWarp && group.side == 1 && group.blocks == 1 && group.rows == 1;
  if (groups_.size() > 1 || nest_.grid + 2 != loops.size() || reduces || !is_block) {
    return invalid_input("only a block of threads transposes, the two loops of what it computes");
  }
  const Expr &rows = loops[nest_.grid], &columns = loops.back();
  if (!rows.is_constant() || !columns.is_constant() || !exact_div(columns, group.access)) {
    return invalid_input("a square has no constant size, or no whole number of neighbours");
  }
  return {};
}

Result<GpuFunction> GpuLoops::run() {
  LFARM_RETURN_IF_ERROR(verify_threads());
  Expr units = open_unit();
  if (nest_.transposed) {
    emit_squares();
  } else {
    for (size_t g = 0; g < groups_.size(); ++g) emit_group(g);
  }
  note_loads();
  LFARM_RETURN_IF_ERROR(emitter_.status());
  GpuFunction function;
  int64_t blocks = nest_.threads.blocks;
  function.is_split = blocks > 1;
  if (function.is_split && !emitter_.team().is_split()) {
    return unsupported("no reduction for several blocks to share");
  }
  function.body = finish_body(writer_, units * Expr(blocks), emitter_.scratch());
  function.block = block();
  LFARM_ASSIGN_OR_RETURN(function.early, early_text());
  if (nest_.prefetch) function.early_bytes = nest_.prefetch->bytes;
  return function;
}

// A block's part of the input are the rows of its units, one after the other in memory.
Result<std::string> GpuLoops::early_text() const {
  if (!nest_.prefetch) return std::string();
  const ThreadGroup& group = nest_.threads;
  auto [input, bytes] = *nest_.prefetch;
  if (group.threads == 1 || group.blocks > 1 || nest_.transposed || groups_.size() > 1 ||
      at(input) >= body_.inputs.size()) {
    return invalid_input("only blocks with rows of an input to themselves ask for them early");
  }
  Expr rows = grid_steps(nest_), elements = element_count(body_.inputs[at(input)].shape);
  if (!rows.is_constant() || !elements.is_constant() || rows.constant() < 1 ||
      elements.constant() % rows.constant() != 0) {
    return invalid_input(cat("input ", input, " has no whole number of elements a row"));
  }
  int64_t all = elements.constant() * dtype_size(body_.inputs[at(input)].dtype);
  int64_t part = all / rows.constant() * group.rows * block().units;
  if (bytes <= 0 || bytes % kCacheLine != 0 || bytes > part + kCacheLine) {
    return invalid_input(
        cat("a block asks early for lines of its ", part, " bytes, not for ", bytes, " bytes"));
  }
  return cat("  lf_prefetch<", bytes, ", ", block().threads, ">(in", input, ", (int64_t)", block_,
             " * ", part, ", ", all, ");\n");
}

BlockShape GpuLoops::block() const {
  const ThreadGroup& group = nest_.threads;
  int64_t threads = kUnitThreads;
  if (group.threads > 1) threads = group.threads > kWarp ? group.threads : kGroupThreads;
  if (group.side > 1) threads = group.threads * group.side;
  return {static_cast<int>(threads), threads / group.threads, 0};
}

// Who this thread is, and its unit's indices. A thread has one unit, so that nothing is gained by a
// scope around it: what all units compute alike stands where it is asked for first.
Expr GpuLoops::open_unit() {
  const ThreadGroup& group = nest_.threads;
  Team team;
  team.size = group.threads;
  team.side = group.side;
  team.blocks = group.blocks;
  team.vector = group.access;
  team.ahead = group.ahead;
  auto threads = block().threads;
  if (team.size == 1) {
    writer_.line(cat("const int64_t u = (int64_t)", block_, " * ", threads, " + threadIdx.x;"));
    writer_.line("if (u >= units) return;");
  } else {
    // Threads without a unit of their own compute the last one again, so that all meet.
    bool aside = team.side > 1;
    writer_.line(cat("const int64_t member = threadIdx.x ", aside ? "/ " : "% ",
                     aside ? team.side : team.size, ";"));
    std::string index = team.blocks == 1 ? block_ : cat("(blockIdx.x / ", team.blocks, ")");
    writer_.line(cat("const int64_t u = lf_min_i64((int64_t)", index, " * ", block().units,
                     " + threadIdx.x ", aside ? "% " : "/ ", aside ? team.side : team.size,
                     ", units - 1);"));
  }
  std::vector<Expr> extents(nest_.shared.extents.begin(),
                            nest_.shared.extents.begin() + static_cast<std::ptrdiff_t>(nest_.grid));
  Expr rows = extents.empty() ? Expr(1) : extents.back();
  if (takes_blocks()) extents.back() = *exact_div(extents.back(), team.vector);
  if (group.rows > 1) extents.back() = floor_div(rows + Expr(group.rows - 1), group.rows);
  Expr units = 1;
  for (const Expr& e : extents) units *= e;
  team.level = writer_.depth();
  Expr u = Expr::index(writer_.bind_index("u", units, team.level));
  indices_ = declare_positions(writer_, "i", extents, u, true);
  bool differ = team.size == 1 || team.side > 1;
  if (differ && !indices_.empty()) team.lane = indices_.back().as_var()->id;
  if (group.rows > 1) team.rows = declare_rows(rows);
  emitter_.set_team(team);
  return units;
}

// The places of the rows that a group computes at once. Beyond the end stands the last row, which
// is then computed, and stored, more than once.
std::vector<int> GpuLoops::declare_rows(const Expr& extent) {
  std::vector<int> rows;
  bool is_whole = exact_div(extent, nest_.threads.rows).has_value();
  for (int64_t k = 0; k < nest_.threads.rows; ++k) {
    std::string name = writer_.fresh("r");
    std::string place = cat(writer_.text(indices_.back()), " * ", nest_.threads.rows, " + ", k);
    if (!is_whole) place = cat("lf_min_i64(", place, ", ", writer_.rare_text(extent), " - 1)");
    writer_.line(cat("const int64_t ", name, " = ", place, ";"));
    rows.push_back(writer_.bind_index(name, extent, writer_.depth()));
  }
  return rows;
}

void GpuLoops::emit_group(size_t group) {
  std::vector<Expr> inner(nest_.shared.extents.begin() + static_cast<std::ptrdiff_t>(nest_.grid),
                          nest_.shared.extents.end());
  const LoopBand& own = nest_.groups[group].own;
  inner.insert(inner.end(), own.extents.begin(), own.extents.end());
  Expr steps = 1;
  for (const Expr& e : inner) steps *= e;
  if (nest_.threads.threads > 1 && nest_.threads.blocks == 1) load_early(group, inner);
  std::vector<Expr> loops = indices_;
  for (int row : emitter_.team().team().rows) {
    loops.back() = Expr::index(row);
    emit_stores(group, loops, true);
  }
  if (nest_.threads.rows > 1) return;
  bool is_open = true;
  if (takes_blocks()) {
    loops.back() = emitter_.team().open_block(loops.back());
  } else if (inner.empty()) {
    is_open = false;
  } else {
    for (const Expr& e : unfold(inner, emitter_.team().open(steps))) loops.push_back(e);
  }
  emit_stores(group, loops, !is_open && nest_.threads.threads > 1);
  if (is_open) emitter_.team().close();
}

void GpuLoops::load_early(size_t group, const std::vector<Expr>& inner) {
  if (nest_.reductions.staged.empty()) return;
  for (size_t output : groups_[group].outputs) {
    NodeId node = computed_node(body_, body_.outputs[output].node);
    std::vector<DirectUse> reads = staged_reads(node);
    if (!reads.empty() && !inner.empty()) {
      std::vector<Expr> loops = indices_;
      for (const Expr& e : unfold(inner, emitter_.team().open(element_count(inner)))) {
        loops.push_back(e);
      }
      load_all(reads, position_at(group, loops));
      emitter_.team().close();
    }
    // Where elements have no loops of their own, reductions do.
    if (!inner.empty()) continue;
    for (const DirectUse& reduction : direct_reductions(body_, node)) {
      load_reduced(group, reduction);
    }
  }
}

std::vector<DirectUse> GpuLoops::staged_reads(NodeId node) const {
  std::vector<DirectUse> reads = late_reads(body_, node);
  reads.erase(
      std::remove_if(reads.begin(), reads.end(),
                     [&](const auto& r) { return nest_.reductions.staged.count(r.node) == 0; }),
      reads.end());
  return reads;
}

// The operand's late reads, along its only reduced axis, for each row that the group computes.
void GpuLoops::load_reduced(size_t group, const DirectUse& reduction) {
  const Node& node = body_.node(reduction.node);
  const std::vector<int>& axes = attr<ReduceAttr>(node).axes;
  std::vector<DirectUse> reads = staged_reads(node.operands[0]);
  if (reads.empty() || axes.size() != 1) return;
  const Shape& shape = body_.node(node.operands[0]).shape;
  Expr step = emitter_.team().open(shape[at(axes[0])]);
  std::vector<int> rows = emitter_.team().team().rows;
  for (size_t k = 0; k < std::max<size_t>(1, rows.size()); ++k) {
    std::vector<Expr> loops = indices_;
    if (!rows.empty()) loops.back() = Expr::index(rows[k]);
    Indices position = operand_indices(axes, shape.size(),
                                       with_indices(reduction.position, position_at(group, loops)));
    position[at(axes[0])] = step;
    load_all(reads, position);
  }
  emitter_.team().close();
}

// `position`: of the node that reads.
void GpuLoops::load_all(const std::vector<DirectUse>& reads, const Indices& position) {
  for (const DirectUse& read : reads) {
    emitter_.value(read.node, with_indices(read.position, position));
  }
}

std::set<int64_t> GpuLoops::row_strides() const {
  std::vector<int> rows = emitter_.team().team().rows;
  if (rows.empty() && !indices_.empty()) rows.push_back(indices_.back().as_var()->id);
  std::set<int64_t> strides;
  for (const Expr& offset : emitter_.load_offsets()) {
    for (int row : rows) strides.insert(stride_along(offset, row));
  }
  return strides;
}

void GpuLoops::note_loads() {
  if (nest_.threads.threads > 1 || takes_blocks() || indices_.empty()) return;
  for (size_t k = 0; k + 1 < indices_.size(); ++k) {
    int row = indices_[k].as_var()->id, last = indices_.back().as_var()->id;
    const std::vector<Expr>& offsets = emitter_.load_offsets();
    bool is_row = std::any_of(offsets.begin(), offsets.end(), [&](const Expr& offset) {
      return stride_along(offset, row) == 1 && std::abs(stride_along(offset, last)) > 1;
    });
    if (is_row) rows_of_loads_.push_back(k);
  }
}

void GpuLoops::emit_squares() {
  SharedLoops& team = emitter_.team();
  SquareSteps steps = team.open_square(nest_.shared.extents[nest_.grid].constant(),
                                       nest_.shared.extents.back().constant());
  std::vector<Expr> loops = indices_;
  loops.push_back(Expr::index(steps.row));
  Expr column = Expr::index(steps.chunk) * Expr(steps.access);
  if (steps.step >= 0) column += Expr::index(steps.step);
  loops.push_back(column);
  emitter_.squares().open(steps);
  emit_stores(0, loops, false);
  used_squares_ = emitter_.squares().close();
  team.close();
}

Indices GpuLoops::position_at(size_t group, const std::vector<Expr>& loops) const {
  const auto own = loops.begin() + static_cast<std::ptrdiff_t>(nest_.shared.extents.size());
  Indices position = with_indices(nest_.shared.position, {loops.begin(), own});
  Indices inner = with_indices(nest_.groups[group].own.position, {own, loops.end()});
  position.insert(position.end(), inner.begin(), inner.end());
  return position;
}

// `once`: all of a group's threads are here; one of them stores.
void GpuLoops::emit_stores(size_t group, const std::vector<Expr>& loops, bool once) {
  Indices position = position_at(group, loops);
  for (size_t output : groups_[group].outputs) {
    const Node& node = body_.node(body_.outputs[output].node);
    bool scatters = node.op == Op::kScatter;
    ScatterPlace to{position, {}};
    if (scatters) to = scatter_place(emitter_, node, position);
    CodeValue x =
        emitter_.value(scatters ? node.operands[1] : body_.outputs[output].node, position);
    emit_store(cat("out", output), node, to, x.text, once);
  }
}

void GpuLoops::emit_store(const std::string& name, const Node& node, const ScatterPlace& to,
                          const std::string& value, bool once) {
  Expr offset = writer_.simplify(linear_position(to.position, node.shape));
  std::string condition = to.guard.condition;
  std::string place = once ? "" : emitter_.team().store(name, node.dtype, offset, to.guard);
  if (place.empty()) {
    place = cat(name, "[", writer_.text(offset), "]");
    int64_t size = dtype_size(node.dtype);
    emitter_.team().note_access(offset, size, size, true, writer_.depth());
  } else {
    condition.clear();  // it guards the store of the whole vector
  }
  if (once) condition = cat("member == 0", condition.empty() ? "" : " & ", condition);
  writer_.line(
      cat(condition.empty() ? "" : cat("if (", condition, ") "), place, " = ", value, ";"));
}

}  // namespace common
