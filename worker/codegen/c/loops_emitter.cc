#include "worker/codegen/c/loops_emitter.h"

#include <algorithm>

#include "common/base/cat.h"
#include "worker/codegen/body/unit_loop.h"
#include "worker/codegen/text/c_text.h"

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

// Enough units for any number of threads to share evenly.
constexpr int64_t kEnoughUnits = 64;

size_t at(int index) { return static_cast<size_t>(index); }

}  // namespace

LoopsEmitter::LoopsEmitter(const Graph& body, const Schedule& schedule,
                           const std::vector<OutputGroup>& groups, const LoopsPlan& plan,
                           const LoopsOptions& options)
    : body_(body),
      schedule_(schedule),
      groups_(groups),
      plan_(plan),
      writer_(body.symbols),
      emitter_(body, writer_),
      whole_(options.whole) {
  for (const auto& [node, stored] : options.stored) emitter_.set_stored(node, stored);
  emitter_.set_choices(plan.choices);
  emitter_.set_pairs(options.has_pairs);
}

Result<FunctionBody> LoopsEmitter::run() {
  if (plan_.turn) return run_transposed();
  const std::vector<Expr>& extents = plan_.shared.extents;
  LaneChoice lanes = single() ? plan_.lanes[0] : LaneChoice{};
  // The innermost loop stays whole, so that it vectorises, unless it is the only one.
  size_t limit = single() && extents.size() > 1 ? extents.size() - 1 : extents.size();
  if (lanes.on) limit = lanes.position;
  limit = std::min(limit, plan_.unit_loops);
  size_t unit_loops = choose_unit_loops(limit);
  std::vector<Expr> unit_extents(extents.begin(),
                                 extents.begin() + static_cast<std::ptrdiff_t>(unit_loops));
  bool block_is_unit = lanes.on && unit_loops == lanes.position && unit_loops < plan_.unit_loops;
  if (block_is_unit) {
    unit_extents.push_back(
        common::floor_div(extents.back() + Expr(lanes.width - 1), Expr(lanes.width)));
  }
  UnitLoop units(writer_, unit_extents);
  std::vector<Expr> indices = units.indices();
  if (block_is_unit) {
    std::string begin = writer_.rare_text(indices.back() * Expr(lanes.width));
    indices.pop_back();
    open_block(extents.back(), lanes, begin);
  }
  open_nest(extents, unit_loops, lanes, block_is_unit, "", indices);
  if (single()) {
    std::vector<int> nest;
    for (const Expr& i : indices) nest.push_back(i.as_var()->id);
    emitter_.nest().set_loops(nest);
    emit_stores(groups_[0], plan_.own[0], indices, {});
    advice_.push_back(emitter_.nest().advice());
  } else {
    for (size_t g = 0; g < groups_.size(); ++g) emit_group(g, indices);
  }
  while (!open_.empty()) close_loop();
  if (lanes.on) emitter_.lanes().close();
  // Loops beside the units' loop would be repeated by every share.
  bool whole = whole_ || writer_.holds_loops(0);
  bool innermost = single() && extents.size() == 1 && !lanes.on;
  return finish(units.close(innermost ? pragma() : "", whole));
}

Result<FunctionBody> LoopsEmitter::finish(const Expr& units) {
  LFARM_RETURN_IF_ERROR(emitter_.status());
  return finish_body(writer_, units, emitter_.scratch());
}

// "[begin, end) of extent": one block of kTurnSide steps, numbered by `unit` or by a loop.
void LoopsEmitter::open_range(const std::string& begin, const std::string& end, const Expr& extent,
                              bool is_unit, const Expr& unit) {
  std::string n = writer_.text(extent);
  if (is_unit) {
    writer_.line(
        cat("const int64_t ", begin, " = ", writer_.rare_text(unit * Expr(kTurnSide)), ";"));
  } else {
    writer_.open_blocks(common::floor_div(extent + Expr(kTurnSide - 1), Expr(kTurnSide)));
    open_.push_back({counting_loop(begin, "0", n, kTurnSide)});
  }
  writer_.line(
      cat("const int64_t ", end, " = lf_min_i64(", begin, " + ", kTurnSide, ", ", n, ");"));
}

// Squares of the last two loops: blocks of v, then of w, so that what is read along w comes in
// order.
Result<FunctionBody> LoopsEmitter::run_transposed() {
  const std::vector<Expr>& extents = plan_.shared.extents;
  size_t outer = extents.size() - 2;
  size_t unit_loops = std::min(choose_unit_loops(outer), plan_.unit_loops);
  std::vector<Expr> unit_extents(extents.begin(),
                                 extents.begin() + static_cast<std::ptrdiff_t>(unit_loops));
  bool block_is_unit = unit_loops == outer;
  if (block_is_unit) {
    unit_extents.push_back(
        common::floor_div(extents.back() + Expr(kTurnSide - 1), Expr(kTurnSide)));
  }
  UnitLoop units(writer_, unit_extents);
  std::vector<Expr> indices = units.indices();
  Expr block = indices.empty() ? Expr(0) : indices.back();
  if (block_is_unit) indices.pop_back();
  for (size_t k = unit_loops; k < outer; ++k) indices.push_back(open_loop(extents[k], cat("j", k)));
  TurnBlock turn;
  turn.v = {-1, writer_.fresh("vb"), writer_.fresh("ve"), extents.back(), -1};
  turn.w = {-1, writer_.fresh("wb"), writer_.fresh("we"), extents[outer], -1};
  open_range(turn.v.begin, turn.v.end, turn.v.extent, block_is_unit, block);
  open_range(turn.w.begin, turn.w.end, turn.w.extent, false, 0);
  turn.level = writer_.depth();
  emitter_.turns().open(turn);
  TurnBlock& open = emitter_.turns().block();
  for (TurnBlock::Axis* axis : {&open.w, &open.v}) {
    std::string name = axis == &open.w ? "w" : "v";
    axis->index = writer_.open_loop(name, axis->extent, common::min(axis->extent, Expr(kTurnSide)));
    indices.push_back(Expr::index(axis->index));
    open_.push_back({counting_loop(name, axis->begin, axis->end)});
  }
  emit_stores(groups_[0], plan_.own[0], indices, {});
  advice_.emplace_back();
  while (!open_.empty()) close_loop();
  emitter_.turns().close();
  return finish(units.close("", whole_ || writer_.holds_loops(0)));
}

size_t LoopsEmitter::choose_unit_loops(size_t limit) const {
  int64_t units = 1;
  for (size_t k = 0; k < limit; ++k) {
    const Expr& extent = plan_.shared.extents[k];
    if (extent.is_constant()) units *= std::max<int64_t>(extent.constant(), 1);
    if (units >= kEnoughUnits) return k + 1;
  }
  return limit;
}

Expr LoopsEmitter::open_loop(const Expr& extent, const std::string& name) {
  std::string n = writer_.text(extent);
  int id = writer_.open_loop(name, extent);
  writer_.covers_extent(1);
  open_.push_back({counting_loop(name, "0", n), false});
  return Expr::index(id);
}

std::string LoopsEmitter::pragma() const {
  if (writer_.holds_loops()) return "";
  int64_t vector = schedule_value(schedule_, Template::kLoops, "vector");
  int64_t unroll = schedule_value(schedule_, Template::kLoops, "unroll");
  return cat("LF_VECTOR_LOOP(", vector, ", ", unroll, ")\n");
}

void LoopsEmitter::close_loop() {
  OpenLoop loop = std::move(open_.back());
  open_.pop_back();
  if (loop.lanes) {
    emitter_.lanes().close_loop(pragma());
  } else {
    writer_.close(loop.header.empty() ? "" : cat(pragma(), loop.header));
  }
}

// Declares the block that begins at `begin` in the innermost scope.
void LoopsEmitter::open_block(const Expr& extent, const LaneChoice& lanes,
                              const std::string& begin) {
  LaneBlock block;
  block.level = writer_.depth();
  block.begin = writer_.fresh("lb");
  block.end = writer_.fresh("le");
  block.extent = extent;
  block.width = lanes.width;
  writer_.line(cat("const int64_t ", block.begin, " = ", begin, ";"));
  writer_.line(cat("const int64_t ", block.end, " = lf_min_i64(", block.begin, " + ", lanes.width,
                   ", ", writer_.text(extent), ");"));
  emitter_.lanes().open(std::move(block));
}

// Opens the loops from `first` on; with lanes, the block's loop before loop `lanes.position` unless
// it is open already, and the innermost loop over the block.
void LoopsEmitter::open_nest(const std::vector<Expr>& extents, size_t first,
                             const LaneChoice& lanes, bool block_is_open, const std::string& prefix,
                             std::vector<Expr>& indices) {
  for (size_t k = first; k < extents.size(); ++k) {
    if (lanes.on && k == lanes.position && !block_is_open) {
      writer_.open_blocks(
          common::floor_div(extents.back() + Expr(lanes.width - 1), Expr(lanes.width)));
      std::string b = writer_.fresh("b");
      open_.push_back({counting_loop(b, "0", writer_.text(extents.back()), lanes.width), false});
      open_block(extents.back(), lanes, b);
    }
    std::string name = cat("i", prefix, k);
    if (lanes.on && k + 1 == extents.size()) {
      indices.push_back(emitter_.lanes().open_loop(name));
      open_.push_back({"", true});
    } else {
      indices.push_back(open_loop(extents[k], name));
    }
  }
}

void LoopsEmitter::emit_group(size_t g, const std::vector<Expr>& outer) {
  size_t around = open_.size();
  std::vector<Expr> inner;
  open_nest(plan_.own[g].extents, 0, plan_.lanes[g], false, cat("o", g, "_"), inner);
  std::vector<int> nest;
  for (const Expr& i : inner) nest.push_back(i.as_var()->id);
  emitter_.nest().set_loops(nest);
  emit_stores(groups_[g], plan_.own[g], outer, inner);
  advice_.push_back(emitter_.nest().advice());
  while (open_.size() > around) close_loop();
  if (plan_.lanes[g].on) emitter_.lanes().close();
}

void LoopsEmitter::emit_stores(const OutputGroup& group, const NestPlan& own,
                               const std::vector<Expr>& outer, const std::vector<Expr>& inner) {
  Indices position;
  auto place = [&](const NestPlan& plan, const std::vector<Expr>& loops) {
    for (const Expr& e : plan.position) {
      position.push_back(e.substitute([&](Var v) -> Expr {
        return v.kind == Var::Kind::kIndex ? loops[at(v.id)] : Expr::var(v);
      }));
    }
  };
  place(plan_.shared, outer);
  place(own, inner);
  for (size_t output : group.outputs) {
    NodeId node = body_.outputs[output].node;
    CodeValue x = emitter_.value(node, position);
    Expr offset = writer_.simplify(linear_position(position, group.shape));
    writer_.line(cat("out", output, "[", writer_.text(offset), "] = ", x.text, ";"));
  }
}

}  // namespace worker
