#include "worker/codegen/c/attention_tiles.h"

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace worker {

using common::BodyEmitter;
using common::cat;
using common::CodeWriter;
using common::counting_loop;
using common::Expr;
using common::stride_along;

void AttentionTiles::close_vector_loop(const std::string& i, const std::string& from,
                                       const std::string& to, std::string_view pragma) {
  std::string before = writer_.holds_loops() ? "" : cat(pragma, "\n");
  writer_.close(cat(before, counting_loop(i, from, to)));
}

bool AttentionTiles::runs_along_steps(const Panel& p) const {
  CodeWriter trial(body_.symbols);
  BodyEmitter emitter(body_, trial);
  int column = trial.bind_index("c", p.column_extent, 0);
  int step = trial.bind_index("s", p.step_extent, 0);
  p.element(emitter, Expr::index(column), Expr::index(step));
  int votes = 0;
  for (const Expr& offset : emitter.load_offsets()) {
    votes +=
        (stride_along(offset, step) == 1 ? 1 : 0) - (stride_along(offset, column) == 1 ? 1 : 0);
  }
  return votes > 0;
}

void AttentionTiles::pack(const Panel& p, bool transposed) {
  writer_.open(true);
  writer_.line(cat("const int64_t ce = lf_min_i64(cb + ", p.width, ", ", p.c1, ");"));
  writer_.line(cat(type_, "* restrict const panel = ", p.panels, " + (cb - ", p.c0, ") * ",
                   p.panel_steps, ";"));
  if (transposed) {
    pack_transposed(p);
  } else {
    Expr step = Expr::index(writer_.open_loop(p.step, p.step_extent));
    Expr column = Expr::index(writer_.open_loop(p.column, p.column_extent));
    std::string x = p.element(emitter_, column, step);
    writer_.line(cat("panel[(", p.step, " - ", p.s0, ") * ", p.width, " + (", p.column,
                     " - cb)] = ", x, ";"));
    close_vector_loop(p.column, "cb", "ce");
    writer_.close(counting_loop(p.step, p.s0, p.s1));
  }
  writer_.close(counting_loop("cb", p.c0, p.c1, p.width));
}

// Reads squares along the steps and turns them in registers.
void AttentionTiles::pack_transposed(const Panel& p) {
  writer_.open(true);
  writer_.line(cat("const int64_t se = lf_min_i64(sb + ", lanes_, ", ", p.s1, ");"));
  writer_.open(true);
  writer_.line(cat("const int64_t re = lf_min_i64(rb + ", lanes_, ", ce);"));
  Expr column = Expr::index(writer_.open_loop(p.column, p.column_extent));
  Expr step = Expr::index(writer_.open_loop(p.step, p.step_extent));
  std::string x = p.element(emitter_, column, step);
  writer_.line(
      cat("square[(", p.column, " - rb) * ", lanes_, " + (", p.step, " - sb)] = ", x, ";"));
  close_vector_loop(p.step, "sb", "se");
  writer_.close(counting_loop(p.column, "rb", "re"));
  writer_.line(cat("lf_turn_", type_, lanes_, "(square, ", lanes_, ", panel + (sb - ", p.s0, ") * ",
                   p.width, " + (rb - cb), ", p.width, ", se - sb);"));
  writer_.close(counting_loop("rb", "cb", "ce", lanes_));
  writer_.close(counting_loop("sb", p.s0, p.s1, lanes_));
}

void AttentionTiles::accumulate(const ProductTile& t, common::DType stored) {
  int64_t vectors = t.nr / lanes_;
  std::string vector = cat("lf_", type_, lanes_);
  for (int64_t v = 0; v < vectors; ++v) {
    std::string from = cat("(b + ", v * lanes_, ");");
    std::string load = common::is_half(stored)
                           ? cat("lf_widen", lanes_, "_", common::dtype_name(stored))
                           : cat("*(const ", vector, "*)");
    writer_.line(cat("const ", vector, " b", v, " = ", load, from));
  }
  for (int64_t r = 0; r < t.mr; ++r) {
    std::string line;
    for (int64_t v = 0; v < vectors; ++v) {
      line += cat(v ? " " : "", "c", r, "_", v, " += a", r, "[n] * b", v, ";");
    }
    writer_.line(line);
  }
}

void AttentionTiles::multiply(const Product& p, const ProductTile& t) {
  int64_t vectors = t.nr / lanes_;
  std::string vector = cat("lf_", type_, lanes_);
  writer_.open(true);
  writer_.open(true);
  for (int64_t r = 0; r < t.mr; ++r) {
    std::string row = r == 0 ? "(i - m0)" : cat("(lf_min_i64(i + ", r, ", m1 - 1) - m0)");
    writer_.line(cat("const ", type_, "* restrict const a", r, " = ", p.left(row), ";"));
  }
  writer_.line(cat(type_, "* restrict const to = ", p.to, ";"));
  auto each = [&](const std::function<std::string(const std::string&, const std::string&)>& text) {
    for (int64_t r = 0; r < t.mr; ++r) {
      for (int64_t v = 0; v < vectors; ++v) {
        std::string place =
            cat("*(", vector, "*)(to + ", r, " * ", p.to_stride, " + ", v * lanes_, ")");
        writer_.line(text(cat("c", r, "_", v), place));
      }
    }
  };
  each([&](const std::string& c, const std::string& place) {
    return cat(vector, " ", c, " = ", p.adds ? place : "{0}", ";");
  });
  if (p.in_place) {
    Expr step = Expr::index(writer_.open_loop("n", p.step_extent));
    const std::string type = common::is_half(p.stored) ? "uint16_t" : type_;
    writer_.line(cat("const ", type, "* restrict const b = ", p.in_place(step), " + j;"));
    writer_.line("lf_fetch_ahead(b);");
    accumulate(t, p.stored);
    writer_.close(counting_loop("n", p.s0, p.s1));
  } else {
    writer_.line(cat("const ", type_, "* restrict b = ", p.right, ";"));
    writer_.open(true);
    accumulate(t, p.stored);
    writer_.close(cat("for (int64_t n = ", p.s0, "; n < ", p.s1, "; ++n, b += ", t.nr, ")"));
  }
  each([&](const std::string& c, const std::string& place) { return cat(place, " = ", c, ";"); });
  writer_.close(counting_loop("i", "m0", "m1", t.mr));
  writer_.close(counting_loop("j", p.c0, p.c1, t.nr));
}

}  // namespace worker
