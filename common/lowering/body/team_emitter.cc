// Reductions that a team of threads computes together, each thread a part.
#include <algorithm>
#include <cmath>

#include "common/base/cat.h"
#include "common/lowering/body/folding.h"
#include "common/lowering/text/c_text.h"

namespace common {

namespace {

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

std::string team_call(const Team& team, std::string_view function, ReduceOp op) {
  return cat(function, "<", combination(op), ", ", team.size, ", ", team.side, ">");
}

}  // namespace

// Sums of a few thousand elements need no second accumulator; a team's long ones are carried in
// double throughout.
Accumulation BodyEmitter::team_accumulation(Accumulation acc, const ReducedLoops& loops,
                                            bool together) const {
  Expr steps = 1;
  for (const Expr& e : loops.extents) steps *= e;
  bool is_long = w_.bounds().upper(steps) > kThreadSum * (together ? team_->team().size : 1);
  if (is_long && together && !acc.outer.empty()) acc.type = acc.outer;
  if (!is_long || together) acc.outer.clear();
  return acc;
}

void BodyEmitter::fold_together(Folding& f) {
  for (auto& fold : f.folds) fold.part = fold.total;
  bool split = team_->begin_split();
  f.indices.push_back(team_->open(f.loops.extents[0]));
  accumulate(f);
  team_->close();
  combine_all(f);
  if (!split) return;
  team_->end_split();
  join_blocks(f);
}

// Sums of one kind, such as those of several rows, meet at the same barriers.
void BodyEmitter::combine_all(const Folding& f) {
  const Team& team = team_->team();
  auto is_alike = [&](const Folding::Fold& fold) {
    return fold.acc.op == f.folds[0].acc.op && fold.acc.type == f.folds[0].acc.type;
  };
  bool together =
      f.folds.size() > 1 && team.side == 1 && std::all_of(f.folds.begin(), f.folds.end(), is_alike);
  if (!together) {
    for (const auto& fold : f.folds) combine_members(fold.total, fold.acc.op);
    return;
  }
  note_combination(static_cast<double>(f.folds.size()));
  std::string all = w_.fresh("all"), list;
  for (const auto& fold : f.folds) list += cat(list.empty() ? "" : ", ", fold.total);
  w_.line(cat(f.folds[0].acc.type, " ", all, "[", f.folds.size(), "] = {", list, "};"));
  w_.line(cat("lf_team_all<", combination(f.folds[0].acc.op), ", ", team.size, ">(", all, ");"));
  for (size_t k = 0; k < f.folds.size(); ++k) {
    w_.line(cat(f.folds[k].total, " = ", all, "[", k, "];"));
  }
}

// An exchange for each doubling and sum; beyond a warp also barriers, shared memory and its sums.
void BodyEmitter::note_combination(double sums) {
  constexpr double kExchanges = 10, kBarriers = 24, kWarp = 32;
  // Of a shuffle and a sum; of two barriers and shared memory; of the sum of another warp's part.
  constexpr double kExchangeClocks = 27, kMeetClocks = 100, kPartClocks = 4;
  auto size = static_cast<double>(team_->team().size);
  double clocks = kExchangeClocks * std::log2(std::min(size, kWarp));
  if (size > kWarp) clocks += kMeetClocks + kPartClocks * size / kWarp;
  w_.add_instructions(w_.depth(), kExchanges * sums + (size > kWarp ? kBarriers : 0));
  w_.end_round(w_.depth(), clocks);
}

void BodyEmitter::combine_members(const std::string& total, ReduceOp op) {
  note_combination(1);
  w_.line(cat(total, " = ", team_call(team_->team(), "lf_team", op), "(", total, ");"));
}

std::string BodyEmitter::leave_part(std::string_view type, int64_t bytes,
                                    const std::string& value) {
  std::string kept = w_.fresh("kept");
  scratch_.add(kept, std::string(type), bytes, 1);
  w_.line(cat("if (member == 0) *", kept, " = ", value, ";"));
  return kept;
}

void BodyEmitter::await_parts() {
  int64_t blocks = team_->team().blocks;
  w_.line(cat("if (!lf_is_last(areas, blockIdx.x / ", blocks, ", ", blocks, ")) return;"));
}

void BodyEmitter::walk_parts(std::string_view type, const std::string& kept,
                             const std::function<std::string(const std::string&)>& each) {
  const Team& team = team_->team();
  std::string part = w_.fresh("p");
  w_.line(cat("for (int64_t b = member; b < ", team.blocks, "; b += ", team.size, ") {"));
  w_.line(cat("  const ", type, " ", part, " = *(const ", type, "*)((const char*)", kept,
              " + (b - (int64_t)(blockIdx.x % ", team.blocks, ")) * scratch_stride);"));
  w_.line(cat("  ", each(part)));
  w_.line("}");
}

void BodyEmitter::join_blocks(const Folding& f) {
  std::vector<std::string> kept;
  for (const auto& fold : f.folds) kept.push_back(leave_part(fold.acc.type, 8, fold.total));
  await_parts();
  for (size_t k = 0; k < f.folds.size(); ++k) {
    const Folding::Fold& fold = f.folds[k];
    w_.line(cat(fold.total, " = ", fold.acc.start, ";"));
    walk_parts(fold.acc.type, kept[k],
               [&](const std::string& part) { return fold.acc.step(fold.total, part); });
    combine_members(fold.total, fold.acc.op);
  }
}

// `place` is of `type`, `start` loses against any other.
void BodyEmitter::join_places(std::string_view type, ReduceOp op, const std::string& place,
                              const std::string& start) {
  constexpr int64_t kPlaceBytes = 16;
  std::string kept = leave_part(type, kPlaceBytes, place);
  await_parts();
  w_.line(cat(place, " = ", start, ";"));
  walk_parts(type, kept, [&](const std::string& part) {
    return cat(place, " = lf_better<", combination(op), ">(", place, ", ", part, ");");
  });
  w_.line(cat(place, " = ", team_call(team_->team(), "lf_team_place", op), "(", place, ");"));
}

// As arg_reduction, each member among its own steps.
CodeValue BodyEmitter::arg_together(const Node& node, const Indices& indices, int level) {
  const auto& a = attr<ReduceAttr>(node);
  const Node& operand = graph_.node(node.operands[0]);
  Accumulation acc = accumulation_of(a.op, operand.dtype);
  const Expr& extent = operand.shape[static_cast<size_t>(a.axes[0])];
  std::string best = w_.fresh("a");
  std::string where = w_.fresh("w");
  std::string n = w_.text(extent);
  w_.line(cat(acc.type, " ", best, " = ", acc.start, ";"));
  // Positions at the end lose against any that was looked at.
  w_.line(cat("int64_t ", where, " = ", n, ";"));
  bool split = team_->begin_split();
  Expr j = team_->open(extent);
  Indices inner = indices;
  inner.insert(inner.begin() + a.axes[0], j);
  CodeValue x = value(node.operands[0], inner);
  std::string key = w_.declare(w_.depth(), acc.type, "k", acc.enter(x.text)).text;
  // Without a branch, so that the loads of several steps begin together.
  std::string better = w_.fresh("b");
  w_.line(cat("const bool ", better, " = (", key, a.op == ReduceOp::kArgmax ? " > " : " < ", best,
              ") | (", where, " == ", n, ");"));
  w_.line(cat(best, " = ", better, " ? ", key, " : ", best, ";"));
  w_.line(cat(where, " = ", better, " ? ", w_.text(j), " : ", where, ";"));
  team_->close();
  std::string type = cat("LfPlace<", acc.type, ">"), place = w_.fresh("x");
  w_.line(cat(type, " ", place, " = ", team_call(team_->team(), "lf_team_place", acc.op), "(", type,
              "{", best, ", ", where, "});"));
  if (split) {
    team_->end_split();
    join_places(type, acc.op, place, cat(type, "{", acc.start, ", ", n, "}"));
  }
  advise(indices);
  return w_.declare(level, "int64_t", "v", cat(place, ".position"));
}

}  // namespace common
