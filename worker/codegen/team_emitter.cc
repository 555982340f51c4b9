// What a team of threads computes together: loops whose steps it shares, reductions whose parts it
// combines, neighbours in memory that a thread loads and stores at once.
#include "common/base/cat.h"
#include "worker/codegen/c_text.h"
#include "worker/codegen/folding.h"

namespace worker {

using common::cat;
using common::DType;
using common::Expr;
using common::Node;
using common::NodeId;
using common::ReduceAttr;
using common::ReduceOp;
using common::Var;

namespace {

constexpr int kVectorTag = 5;  // of ValueKey: the vector at an offset
// Of one thread; more than 16 are taken in several accesses.
constexpr int64_t kMaxVectorBytes = 64;
// Of one thread's steps in a loop that is unrolled.
constexpr int64_t kRowRegisters = 32;
// A thread's float sums of more elements than this are carried in double.
constexpr int64_t kThreadSum = 2048;

const char* combination(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "LfSum";
    case ReduceOp::kProd:
      return "LfProd";
    case ReduceOp::kAny:
      return "LfOr";
    case ReduceOp::kAll:
      return "LfAnd";
    case ReduceOp::kMin:
      return "LfMin";
    default:
      return "LfMax";
  }
}

}  // namespace

Expr BodyEmitter::open_shared_loop(const Expr& extent) {
  SharedLoop loop;
  loop.base = w_.depth();
  Expr blocks = extent;
  auto vectors = common::exact_div(extent, team_->vector);
  if (vectors && team_->vector > 1) {
    loop.width = team_->vector;
    blocks = *vectors;
  }
  Expr trips = common::floor_div(blocks + Expr(sharing() - 1), Expr(sharing()));
  if (trips.is_constant() && trips.constant() * loop.width <= kRowRegisters) {
    open_unrolled(loop, blocks, trips.constant());
  } else {
    std::string b = w_.fresh("j");
    std::string n = w_.text(blocks);
    loop.lane = w_.open_loop(b, blocks, trips);
    loop.header = counting_loop(b, in_split_ ? "wide" : "member", n, sharing());
  }
  Expr block = Expr::index(loop.lane);
  shared_loops_.push_back(std::move(loop));
  Expr step = open_steps(block);
  shared_loops_.back().depth = w_.depth();
  return step;
}

void BodyEmitter::open_unrolled(SharedLoop& loop, const Expr& blocks, int64_t trips) {
  std::string k = w_.fresh("k");
  std::string j = w_.fresh("j");
  w_.open_blocks(trips);
  w_.line(cat("const int64_t ", j, " = ", in_split_ ? "wide" : "member", " + ", sharing(), " * ", k,
              ";"));
  loop.header = cat("#pragma unroll\n", counting_loop(k, "0", cat(trips)));
  if (!blocks.is_constant(trips * sharing())) {
    w_.open(true);
    loop.guard = cat("if (", j, " < ", w_.text(blocks), ")");
  }
  loop.lane = w_.bind_index(j, blocks, w_.depth());
  loop.blocks = blocks;
  loop.slots = trips * loop.width;
  loop.slot = loop.width == 1 ? k : cat(k, " * ", loop.width);
}

int BodyEmitter::lane_index() const {
  bool shares = team_->side == 1 && !shared_loops_.empty() && shared_loops_.back().lane >= 0;
  if (shares) return shared_loops_.back().lane;
  return team_->lane;
}

Expr BodyEmitter::open_steps(const Expr& block) {
  SharedLoop& loop = shared_loops_.back();
  loop.level = w_.depth();
  if (loop.width == 1) return block;
  std::string v = w_.fresh("l");
  loop.index = w_.open_loop(v, loop.width);
  loop.step_header = cat("#pragma unroll\n", counting_loop(v, "0", cat(loop.width)));
  if (loop.slots != 0) loop.slot += cat(" + ", v);
  return block * Expr(loop.width) + Expr::index(loop.index);
}

Expr BodyEmitter::open_block(const Expr& block) {
  shared_loops_.emplace_back();
  shared_loops_.back().width = team_->vector;
  return open_steps(block);
}

void BodyEmitter::close_shared_loop() {
  SharedLoop loop = std::move(shared_loops_.back());
  shared_loops_.pop_back();
  if (loop.slots != 0) {
    int scopes = 1 + (loop.guard.empty() ? 0 : 1) + (loop.step_header.empty() ? 0 : 1);
    w_.covers_extent(scopes);
  }
  if (!loop.step_header.empty()) w_.close(loop.step_header);
  for (const std::string& store : loop.stores) w_.line(store);
  if (!loop.guard.empty()) w_.close(loop.guard);
  if (!loop.header.empty()) w_.close(loop.header);
}

// The node's values at every step of the innermost shared loop, if it is unrolled, nothing in the
// step is conditional, and its indices depend on the step and on what the team agrees on.
std::optional<ValueKey> BodyEmitter::shared_row_key(NodeId id, const Indices& indices) {
  if (shared_loops_.empty() || graph_.node(id).op == common::Op::kView) return std::nullopt;
  // Of a loop that blocks share, no thread sees the same steps again.
  if (in_split_) return std::nullopt;
  const SharedLoop& loop = shared_loops_.back();
  if (loop.slots == 0 || w_.depth() != loop.depth) return std::nullopt;
  const common::Shape& shape = graph_.node(id).shape;
  ValueKey key{id, kRowTag, {}};
  bool along = false, fits = true;
  for (size_t k = 0; k < indices.size(); ++k) {
    fits = fits && w_.bounds().provably_non_negative(indices[k]) &&
           w_.bounds().provably_less(indices[k], shape[k]);
    key.indices.push_back(indices[k].substitute([&](Var v) -> Expr {
      if (v.kind != Var::Kind::kIndex) return Expr::var(v);
      if (v.id == loop.lane || v.id == loop.index) {
        along = true;
        return Expr::symbol(v.id == loop.lane ? kRowSymbol : kRowSymbol + 1);
      }
      fits = fits && w_.level_of_index(v.id) <= loop.base;
      return Expr::var(v);
    }));
  }
  if (!along || !fits) return std::nullopt;
  key.indices.push_back(loop.blocks);
  key.indices.push_back(loop.width);
  ++row_uses_[id];
  return key;
}

CodeValue BodyEmitter::staged_in_registers(NodeId id, const Indices& indices, const ValueKey& row) {
  DType dtype = graph_.node(id).dtype;
  const SharedLoop loop = shared_loops_.back();
  if (const CodeValue* known = w_.find(row)) {
    return declare(w_.depth(), dtype, cat(known->text, "[", loop.slot, "]"));
  }
  std::string name = w_.fresh("row");
  {
    CodeWriter::Outward outward(w_, loop.base);
    w_.line(cat(c_value_type(dtype), " ", name, "[", loop.slots, "];"));
  }
  CodeValue x = compute(id, indices);
  w_.line(cat(name, "[", loop.slot, "] = ", x.text, ";"));
  w_.remember_after(row, {name, loop.base, -1});
  return x;
}

BodyEmitter::SharedLoop* BodyEmitter::vector_loop(const Expr& offset, DType dtype) {
  for (SharedLoop& loop : shared_loops_) {
    if (loop.width == 1 || loop.width * common::dtype_size(dtype) > kMaxVectorBytes) continue;
    if (stride_along(offset, loop.index) != 1) continue;
    Expr first = offset.substitute([&](Var v) -> Expr {
      return v.kind == Var::Kind::kIndex && v.id == loop.index ? Expr(0) : Expr::var(v);
    });
    if (w_.level_of(first) <= loop.level && common::exact_div(first, loop.width)) return &loop;
  }
  return nullptr;
}

std::optional<CodeValue> BodyEmitter::vector_load(const StoredNode& stored, DType dtype,
                                                  const Expr& offset) {
  SharedLoop* loop = vector_loop(offset, dtype);
  if (loop == nullptr) return std::nullopt;
  Expr first = w_.simplify(offset - Expr::index(loop->index));
  ValueKey key{0, kVectorTag, {first}};
  for (char c : stored.pointer) key.indices.push_back(Expr(c));
  int level = w_.level_of_index(loop->index);
  std::string name;
  if (const CodeValue* known = w_.find(key)) {
    name = known->text;
  } else {
    CodeWriter::Outward outward(w_, loop->level);
    std::string type = cat("LfVec<", c_storage_type(dtype), ", ", loop->width, ">");
    CodeValue x = w_.declare(loop->level, type, "x",
                             cat("lf_load<", c_storage_type(dtype), ", ", loop->width, ">(",
                                 stored.pointer, " + ", w_.text(first), ")"));
    w_.remember(key, x);
    name = x.text;
  }
  return declare(level, dtype, cat(name, "[", w_.index_name(loop->index), "]"));
}

std::string BodyEmitter::vector_store(const std::string& name, DType dtype, const Expr& offset) {
  SharedLoop* loop = vector_loop(offset, dtype);
  if (loop == nullptr || w_.depth() != w_.level_of_index(loop->index)) return "";
  Expr first = w_.simplify(offset - Expr::index(loop->index));
  std::string vector = w_.fresh("y");
  std::string type = cat("LfVec<", c_storage_type(dtype), ", ", loop->width, ">");
  {
    CodeWriter::Outward outward(w_, loop->level);
    w_.line(cat(type, " ", vector, ";"));
  }
  loop->stores.push_back(cat("lf_store<", c_storage_type(dtype), ", ", loop->width, ">(", name,
                             " + ", w_.text(first), ", ", vector, ");"));
  return cat(vector, ".e[", w_.index_name(loop->index), "]");
}

std::string BodyEmitter::team_call(std::string_view function, ReduceOp op) const {
  return cat(function, "<", combination(op), ", ", team_->size, ", ", team_->side, ">");
}

// Sums of a few thousand elements need no second accumulator; a team's long ones are carried in
// double throughout.
Accumulation BodyEmitter::team_accumulation(Accumulation acc, const ReducedLoops& loops,
                                            bool together) const {
  Expr steps = 1;
  for (const Expr& e : loops.extents) steps *= e;
  bool is_long = w_.bounds().upper(steps) > kThreadSum * (together ? team_->size : 1);
  if (is_long && together && !acc.outer.empty()) acc.type = acc.outer;
  if (!is_long || together) acc.outer.clear();
  return acc;
}

void BodyEmitter::fold_together(Folding& f) {
  for (auto& fold : f.folds) fold.part = fold.total;
  in_split_ = team_->blocks > 1 && !is_split_;
  if (in_split_) {
    w_.line(cat("const int64_t wide = member + ", team_->size, " * (int64_t)(blockIdx.x % ",
                team_->blocks, ");"));
  }
  f.indices.push_back(open_shared_loop(f.loops.extents[0]));
  accumulate(f);
  close_shared_loop();
  for (const auto& fold : f.folds) {
    w_.line(cat(fold.total, " = ", team_call("lf_team", fold.acc.op), "(", fold.total, ");"));
  }
  if (!in_split_) return;
  in_split_ = false;
  is_split_ = true;
  join_blocks(f);
}

void BodyEmitter::join_blocks(const Folding& f) {
  std::vector<std::string> kept;
  for (const auto& fold : f.folds) {
    kept.push_back(w_.fresh("kept"));
    scratch_.add(kept.back(), fold.acc.type, 8, 1);
    w_.line(cat("if (member == 0) *", kept.back(), " = ", fold.total, ";"));
  }
  w_.line(cat("if (!lf_is_last(areas, blockIdx.x / ", team_->blocks, ", ", team_->blocks,
              ")) return;"));
  for (size_t k = 0; k < f.folds.size(); ++k) {
    const Folding::Fold& fold = f.folds[k];
    std::string part = w_.fresh("p");
    w_.line(cat(fold.total, " = ", fold.acc.start, ";"));
    w_.line(cat("for (int64_t b = member; b < ", team_->blocks, "; b += ", team_->size, ") {"));
    w_.line(cat("  const ", fold.acc.type, " ", part, " = *(const ", fold.acc.type,
                "*)((const char*)", kept[k], " + (b - (int64_t)(blockIdx.x % ", team_->blocks,
                ")) * scratch_stride);"));
    w_.line(cat("  ", fold.acc.step(fold.total, part)));
    w_.line("}");
    w_.line(cat(fold.total, " = ", team_call("lf_team", fold.acc.op), "(", fold.total, ");"));
  }
}

// As arg_reduction, each member among its own steps.
CodeValue BodyEmitter::arg_together(const Node& node, const Indices& indices, int level) {
  const auto& a = attr<ReduceAttr>(node);
  const Node& operand = graph_.node(node.operands[0]);
  Accumulation acc = accumulation_of(a.op, operand.dtype);
  const Expr& extent = operand.shape[static_cast<size_t>(a.axes[0])];
  std::string best = w_.fresh("a");
  std::string where = w_.fresh("w");
  w_.line(cat(acc.type, " ", best, " = ", acc.start, ";"));
  // Positions at the end lose against any that was looked at.
  w_.line(cat("int64_t ", where, " = ", w_.text(extent), ";"));
  Expr j = open_shared_loop(extent);
  Indices inner = indices;
  inner.insert(inner.begin() + a.axes[0], j);
  CodeValue x = value(node.operands[0], inner);
  std::string key = w_.declare(w_.depth(), acc.type, "k", acc.enter(x.text)).text;
  std::string n = w_.text(extent);
  w_.line(cat("if (", key, a.op == ReduceOp::kArgmax ? " > " : " < ", best, " || ", where,
              " == ", n, ") { ", best, " = ", key, "; ", where, " = ", w_.text(j), "; }"));
  close_shared_loop();
  advise(indices);
  return w_.declare(level, "int64_t", "v",
                    cat(team_call("lf_team_place", acc.op), "(", best, ", ", where, ")"));
}

}  // namespace worker
