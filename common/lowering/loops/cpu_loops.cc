#include "common/lowering/loops/cpu_loops.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/check.h"
#include "common/ir/expr/with_indices.h"
#include "common/lowering/body/contraction.h"
#include "common/lowering/body/plain_read.h"
#include "common/lowering/body/unit_loop.h"
#include "common/lowering/loops/loop_cuts.h"
#include "common/lowering/text/c_text.h"

namespace common {

namespace {

// The number of blocks of `width` steps.
Expr block_count(const Expr& extent, int64_t width) {
  return floor_div(extent + Expr(width - 1), Expr(width));
}

}  // namespace

LoopsContext epilogue_context(const Graph& body) {
  LoopsContext context;
  context.whole = true;
  NodeId product = only_contraction(body);
  if (product >= 0) context.stored[product] = {"product", body.node(product).shape};
  return context;
}

Result<FunctionBody> lower_cpu_loops(const Graph& body, const LoopNest& nest,
                                     const LoopsContext& context) {
  CpuLoops loops(body, nest, context);
  LFARM_ASSIGN_OR_RETURN(FunctionBody function, loops.run());
  if (loops.used() == nest) return function;
  return invalid_input(
      cat("a nest says what makes no difference on a CPU; what does is\n", print(loops.used())));
}

LoopNest CpuLoops::used() const {
  LoopNest used = nest_;
  used.reductions = emitter_.used_choices();
  used.dot_products = emitter_.used_dot_products();
  used.threads = {};
  used.prefetch.reset();
  if (!has_simd_) {
    used.simd = 0;
    used.unroll = 1;
  }
  return used;
}

CpuLoops::CpuLoops(const Graph& body, const LoopNest& nest, const LoopsContext& context)
    : body_(body),
      nest_(nest),
      groups_(group_outputs(body)),
      writer_(body.symbols),
      emitter_(body, writer_),
      whole_(context.whole) {
  for (const auto& [node, stored] : context.stored) emitter_.set_stored(node, stored);
  emitter_.set_choices(nest.reductions);
  emitter_.set_dot_products(nest.dot_products);
}

Result<FunctionBody> CpuLoops::run() {
  if (nest_.transposed) return run_transposed();
  const std::vector<Expr>& extents = nest_.shared.extents;
  Block block = single() ? nest_.groups[0].accumulators : Block();
  std::vector<Expr> unit_extents(extents.begin(),
                                 extents.begin() + static_cast<std::ptrdiff_t>(nest_.grid));
  if (nest_.blocks_in_grid) unit_extents.push_back(block_count(extents.back(), block->width));
  UnitLoop units(writer_, unit_extents);
  std::vector<Expr> indices = units.indices();
  if (nest_.blocks_in_grid) {
    std::string begin = writer_.rare_text(indices.back() * Expr(block->width));
    indices.pop_back();
    open_block(extents.back(), block->width, begin);
  }
  std::vector<Part> parts;
  if (!block && nest_.grid < extents.size()) parts = loop_parts();
  const auto inner = extents.end() - (parts.empty() ? 0 : 1);
  open_nest({extents.begin(), inner}, nest_.grid, block, nest_.blocks_in_grid, "", indices);
  if (!parts.empty()) {
    emit_parts(parts, indices);
  } else if (single()) {
    std::vector<int> nest;
    for (const Expr& i : indices) nest.push_back(i.as_var()->id);
    emitter_.nest().set_loops(nest);
    emit_stores(groups_[0], nest_.groups[0].own, indices, {});
    advice_.push_back(emitter_.nest().advice());
  } else {
    for (size_t g = 0; g < groups_.size(); ++g) emit_group(g, indices);
  }
  while (!open_.empty()) close_loop();
  if (block) emitter_.lanes().close();
  // Loops beside the units' loop would be repeated by every share.
  bool whole = whole_ || writer_.holds_loops(0);
  bool innermost = single() && extents.size() == 1 && !block;
  return finish(units.close(innermost ? pragma() : "", whole));
}

Result<FunctionBody> CpuLoops::finish(const Expr& units) {
  LFARM_RETURN_IF_ERROR(emitter_.status());
  return finish_body(writer_, units, emitter_.scratch());
}

// "[begin, end) of extent": one block of kTurnSide steps, numbered by `unit` or by a loop.
void CpuLoops::open_range(const std::string& begin, const std::string& end, const Expr& extent,
                          bool is_unit, const Expr& unit) {
  std::string n = writer_.text(extent);
  if (is_unit) {
    writer_.line(
        cat("const int64_t ", begin, " = ", writer_.rare_text(unit * Expr(kTurnSide)), ";"));
  } else {
    writer_.open_blocks(block_count(extent, kTurnSide));
    open_.push_back({counting_loop(begin, "0", n, kTurnSide)});
  }
  writer_.line(
      cat("const int64_t ", end, " = lf_min_i64(", begin, " + ", kTurnSide, ", ", n, ");"));
}

// Squares of the last two loops: blocks of v, then of w, so that what is read along w comes in
// order. Where the grid ends at these loops, v's blocks belong to it.
Result<FunctionBody> CpuLoops::run_transposed() {
  const std::vector<Expr>& extents = nest_.shared.extents;
  const std::optional<PairSquares> pairs = pair_squares(body_, nest_);
  size_t outer = extents.size() - (pairs ? 3 : 2);
  std::vector<Expr> unit_extents(extents.begin(),
                                 extents.begin() + static_cast<std::ptrdiff_t>(nest_.grid));
  bool block_is_unit = nest_.grid == outer;
  if (block_is_unit) unit_extents.push_back(block_count(extents[outer + 1], kTurnSide));
  UnitLoop units(writer_, unit_extents);
  std::vector<Expr> indices = units.indices();
  Expr block = indices.empty() ? Expr(0) : indices.back();
  if (block_is_unit) indices.pop_back();
  for (size_t k = nest_.grid; k < outer; ++k) {
    indices.push_back(open_loop(extents[k], cat("j", k)));
  }
  TurnBlock turn;
  turn.v = {-1, writer_.fresh("vb"), writer_.fresh("ve"), extents[outer + 1], -1};
  turn.w = {-1, writer_.fresh("wb"), writer_.fresh("we"), extents[outer], -1};
  open_range(turn.v.begin, turn.v.end, turn.v.extent, block_is_unit, block);
  std::vector<Part> parts;
  if (!pairs) parts = square_parts();
  if (pairs) {
    open_range(turn.w.begin, turn.w.end, turn.w.extent, false, 0);
    turn_pairs(*pairs, turn, indices);
  } else if (parts.empty()) {
    emit_square(turn, indices, 0);
  }
  for (const Part& part : parts) {
    writer_.open(true);
    TurnBlock one = turn;
    one.v.extent = Expr(part.end - part.first);
    for (std::string* end : {&one.v.begin, &one.v.end}) {
      const std::string beyond = writer_.fresh("past");
      writer_.line(cat("const int64_t ", beyond, " = ", *end, " - ", part.first, ";"));
      *end = beyond;
    }
    emit_square(one, indices, part.first);
    writer_.set_trips(static_cast<double>(part.end - part.first) /
                      static_cast<double>(parts.back().end));
    writer_.close(
        cat("if (", turn.v.begin, " >= ", part.first, " && ", turn.v.begin, " < ", part.end, ")"));
  }
  advice_.emplace_back();
  while (!open_.empty()) close_loop();
  return finish(units.close("", whole_ || writer_.holds_loops(0)));
}

// The squares of a block of v, whose steps are counted from `first` on: blocks of w, and the
// square's two loops, whose indices go behind those of the others.
void CpuLoops::emit_square(const TurnBlock& turn, const std::vector<Expr>& outer, int64_t first) {
  const size_t around = open_.size();
  open_range(turn.w.begin, turn.w.end, turn.w.extent, false, 0);
  TurnBlock block = turn;
  block.level = writer_.depth();
  emitter_.turns().open(std::move(block));
  TurnBlock& open = emitter_.turns().block();
  std::vector<Expr> indices = outer;
  for (TurnBlock::Axis* axis : {&open.w, &open.v}) {
    std::string name = axis == &open.w ? "w" : "v";
    axis->index = writer_.open_loop(name, axis->extent, min(axis->extent, Expr(kTurnSide)));
    indices.push_back(Expr(axis == &open.v ? first : 0) + Expr::index(axis->index));
    open_.push_back({counting_loop(name, axis->begin, axis->end)});
  }
  emit_stores(groups_[0], nest_.groups[0].own, indices, {});
  while (open_.size() > around) close_loop();
  emitter_.turns().close();
}

std::vector<CpuLoops::Part> CpuLoops::loop_parts() const {
  const std::vector<Expr>& extents = nest_.shared.extents;
  if (!single() || extents.empty() || !extents.back().is_constant()) return {};
  if (!nest_.groups[0].own.position.empty()) return {};
  std::vector<NodeId> outputs;
  for (size_t output : groups_[0].outputs) outputs.push_back(body_.outputs[output].node);
  const int64_t extent = extents.back().constant();
  const std::vector<int64_t> cuts = loop_cuts(body_, outputs, nest_.shared.position,
                                              static_cast<int>(extents.size()) - 1, extent);
  std::vector<Part> parts;
  for (int64_t cut : cuts) parts.push_back({parts.empty() ? 0 : parts.back().end, cut});
  if (!parts.empty()) parts.push_back({parts.back().end, extent});
  return parts;
}

std::vector<CpuLoops::Part> CpuLoops::square_parts() const {
  std::vector<Part> parts = loop_parts();
  auto begins_block = [](const Part& part) { return part.first % kTurnSide == 0; };
  return std::ranges::all_of(parts, begins_block) ? parts : std::vector<Part>();
}

// The innermost loop, part by part.
void CpuLoops::emit_parts(const std::vector<Part>& parts, std::vector<Expr> indices) {
  const std::string name = cat("i", indices.size());
  std::vector<int> nest;
  for (const Expr& i : indices) nest.push_back(i.as_var()->id);
  nest.push_back(-1);
  emitter_.nest().set_loops(std::move(nest));
  for (const Part& part : parts) {
    const int64_t steps = part.end - part.first;
    const int index = writer_.open_loop(name, Expr(steps));
    open_.push_back({counting_loop(name, "0", cat(steps)), false});
    emitter_.nest().set_innermost(index);
    indices.push_back(Expr(part.first) + Expr::index(index));
    emit_stores(groups_[0], nest_.groups[0].own, indices, {});
    indices.pop_back();
    close_loop();
  }
  advice_.push_back(emitter_.nest().advice());
}

// One square, of the steps from the block's begin on.
void CpuLoops::turn_pairs(const PairSquares& squares, const TurnBlock& block,
                          const std::vector<Expr>& outer) {
  std::vector<Expr> indices = outer;
  for (const TurnBlock::Axis* axis : {&block.w, &block.v}) {
    indices.push_back(Expr::index(writer_.bind_index(axis->begin, axis->extent, writer_.depth())));
  }
  indices.emplace_back(0);
  Indices position;
  for (const Expr& e : nest_.shared.position) position.push_back(with_indices(e, indices));
  const NodeId output = body_.outputs[0].node;
  auto read = plain_read(output, position, emitter_);
  LFARM_CHECK(read.has_value(), "pairs were found in an input");
  Expr from = writer_.simplify(read->offset);
  Expr to = writer_.simplify(linear_position(position, body_.node(output).shape));
  // Loads, four rounds of shuffles, stores.
  writer_.line(cat("lf_turn_float16((const float*)(in", read->input, " + ", writer_.text(from),
                   "), ", squares.from_stride / 2, ", (float*)(out0 + ", writer_.text(to), "), ",
                   squares.to_stride / 2, ", ", kTurnSide, ");"),
               {.simple = 6 * kTurnSide});
}

Expr CpuLoops::open_loop(const Expr& extent, const std::string& name) {
  std::string n = writer_.text(extent);
  int id = writer_.open_loop(name, extent);
  writer_.covers_extent(1);
  open_.push_back({counting_loop(name, "0", n), false});
  return Expr::index(id);
}

std::string CpuLoops::pragma() {
  if (writer_.holds_loops()) return "";
  has_simd_ = true;
  writer_.set_vectors({true, nest_.simd, nest_.unroll});
  return cat("LF_VECTOR_LOOP(", nest_.simd, ", ", nest_.unroll, ")\n");
}

void CpuLoops::close_loop() {
  OpenLoop loop = std::move(open_.back());
  open_.pop_back();
  if (loop.lanes) {
    emitter_.lanes().close_loop(pragma());
  } else {
    writer_.close(loop.header.empty() ? "" : cat(pragma(), loop.header));
  }
}

// Declares the block that begins at `begin` in the innermost scope.
void CpuLoops::open_block(const Expr& extent, int64_t width, const std::string& begin) {
  LaneBlock block;
  block.level = writer_.depth();
  block.begin = writer_.fresh("lb");
  block.end = writer_.fresh("le");
  block.extent = extent;
  block.width = width;
  writer_.line(cat("const int64_t ", block.begin, " = ", begin, ";"));
  writer_.line(cat("const int64_t ", block.end, " = lf_min_i64(", block.begin, " + ", width, ", ",
                   writer_.text(extent), ");"));
  emitter_.lanes().open(std::move(block));
}

// Opens the loops from `first` on; with blocks of accumulators, their loop unless it is open
// already, and the innermost loop over the block.
void CpuLoops::open_nest(const std::vector<Expr>& extents, size_t first, const Block& block,
                         bool block_is_open, const std::string& prefix,
                         std::vector<Expr>& indices) {
  for (size_t k = first; k < extents.size(); ++k) {
    if (block && k == block->before && !block_is_open) {
      writer_.open_blocks(block_count(extents.back(), block->width));
      std::string b = writer_.fresh("b");
      open_.push_back({counting_loop(b, "0", writer_.text(extents.back()), block->width), false});
      open_block(extents.back(), block->width, b);
    }
    std::string name = cat("i", prefix, k);
    if (block && k + 1 == extents.size()) {
      indices.push_back(emitter_.lanes().open_loop(name));
      open_.push_back({"", true});
    } else {
      indices.push_back(open_loop(extents[k], name));
    }
  }
}

void CpuLoops::emit_group(size_t g, const std::vector<Expr>& outer) {
  size_t around = open_.size();
  std::vector<Expr> inner;
  const GroupNest& group = nest_.groups[g];
  open_nest(group.own.extents, 0, group.accumulators, false, cat("o", g, "_"), inner);
  std::vector<int> nest;
  for (const Expr& i : inner) nest.push_back(i.as_var()->id);
  emitter_.nest().set_loops(nest);
  emit_stores(groups_[g], group.own, outer, inner);
  advice_.push_back(emitter_.nest().advice());
  while (open_.size() > around) close_loop();
  if (group.accumulators) emitter_.lanes().close();
}

void CpuLoops::emit_stores(const OutputGroup& group, const LoopBand& own,
                           const std::vector<Expr>& outer, const std::vector<Expr>& inner) {
  Indices position;
  auto place = [&](const LoopBand& plan, const std::vector<Expr>& loops) {
    for (const Expr& e : plan.position) position.push_back(with_indices(e, loops));
  };
  place(nest_.shared, outer);
  place(own, inner);
  for (size_t output : group.outputs) {
    NodeId node = body_.outputs[output].node;
    CodeValue x = emitter_.value(node, position);
    Expr offset = writer_.simplify(linear_position(position, group.shape));
    writer_.line(cat("out", output, "[", writer_.text(offset), "] = ", x.text, ";"),
                 emitter_.access_work(offset, writer_.depth()));
  }
}

}  // namespace common
