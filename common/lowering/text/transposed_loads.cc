#include "common/lowering/text/transposed_loads.h"

#include <cstdlib>

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace common {

void TransposedLoads::open(TurnBlock block) {
  for (TurnBlock::Axis* axis : {&block.w, &block.v}) {
    axis->canonical = w_.bind_index(w_.fresh("turn"), axis->extent, block.level);
  }
  block_ = std::move(block);
}

Expr TransposedLoads::placed(const Expr& offset, int w, int v) const {
  return offset.substitute([&](Var var) -> Expr {
    if (var.kind != Var::Kind::kIndex) return Expr::var(var);
    return var.id == block_->w.index   ? Expr::index(w)
           : var.id == block_->v.index ? Expr::index(v)
                                       : Expr::var(var);
  });
}

bool TransposedLoads::is_far(const Expr& offset) const {
  constexpr int64_t kFar = 16384;
  if (!block_) return false;
  const int64_t stride = std::abs(stride_along(offset, block_->w.index));
  return stride != INT32_MAX && stride > 0 && stride % kFar == 0;
}

std::optional<CodeValue> TransposedLoads::load(const std::string& pointer, DType dtype,
                                               const Expr& offset, int level) {
  if (!block_) return std::nullopt;
  const TurnBlock& t = *block_;
  if (level != w_.level_of_index(t.v.index) || stride_along(offset, t.w.index) != 1 ||
      stride_along(offset, t.v.index) <= 1) {
    return std::nullopt;
  }
  std::string transposed = square(pointer, dtype, offset);
  std::string element = cat(transposed, "[(", w_.index_name(t.w.index), " - ", t.w.begin,
                            ") * 16 + (", w_.index_name(t.v.index), " - ", t.v.begin, ")]");
  return w_.declare(level, c_value_type(dtype), "v", element);
}

std::string TransposedLoads::square(const std::string& pointer, DType dtype, const Expr& offset) {
  const TurnBlock& t = *block_;
  ValueKey key{0, kSquareTag, {placed(offset, t.w.canonical, t.v.canonical)}};
  for (char c : pointer) key.indices.push_back(Expr(c));
  if (const CodeValue* known = w_.find(key)) return known->text;

  CodeWriter::Outward outward(w_, t.level);
  std::string name = w_.fresh("square");
  // Registers turn words; what is shorter goes through them as the lower half of one.
  bool is_short = dtype_size(dtype) == 2;
  std::string_view type = is_short ? "uint32_t" : c_storage_type(dtype);
  bool in_registers = is_short || dtype_size(dtype) == 4;
  auto array = [&](const std::string& of) {
    w_.line(cat(type, " ", of, "[", kTurnSide * kTurnSide, "] __attribute__((aligned(64)));"));
  };
  array(name);
  std::string lines = in_registers ? w_.fresh("lines") : name;
  if (in_registers) array(lines);
  std::string v = w_.fresh("l");
  std::string w = w_.fresh("l");
  int v_id = w_.open_loop(v, t.v.extent, min(t.v.extent, kTurnSide));
  int w_id = w_.open_loop(w, t.w.extent, min(t.w.extent, kTurnSide));
  std::string row = in_registers
                        ? cat("(", v, " - ", t.v.begin, ") * 16 + (", w, " - ", t.w.begin, ")")
                        : cat("(", w, " - ", t.w.begin, ") * 16 + (", v, " - ", t.v.begin, ")");
  w_.line(cat(lines, "[", row, "] = ", pointer, "[", w_.text(placed(offset, w_id, v_id)), "];"));
  w_.close(cat("LF_VECTOR_LOOP(0, 1)\nfor (int64_t ", w, " = ", t.w.begin, "; ", w, " < ", t.w.end,
               "; ++", w, ")"));
  w_.close(counting_loop(v, t.v.begin, t.v.end));
  if (in_registers) {
    w_.line(cat("lf_turn_float16((const float*)", lines, ", 16, (float*)", name, ", 16, 16);"),
            {.simple = 4 * kTurnSide});  // four rounds of shuffles
  }
  w_.remember(key, {name, t.level, -1});
  return name;
}

}  // namespace common
