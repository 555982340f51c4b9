#include "worker/codegen/c/tile/register_tile.h"

#include <functional>

#include "common/base/cat.h"
#include "common/base/check.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/kernels/tile_reads.h"
#include "worker/codegen/c/tile/matrix_tile.h"

namespace worker {

using common::BodyEmitter;
using common::cat;
using common::CodeWriter;
using common::DType;
using common::Expr;
using common::Side;
using common::tile_read;

namespace {

class RegisterTile {
 public:
  explicit RegisterTile(const TileCode& code)
      : code_(code),
        layout_(code.layout),
        steps_(code.layout.steps),
        t_(code.layout.tiling),
        writer_(code.writer),
        emitter_(code.emitter) {}

  void emit() {
    int64_t vectors = t_.nr / layout_.lanes;
    column_pointers();
    if (!layout_.single_block) {
      writer_.line(cat(layout_.type, "* restrict const sum = sums + (j - n0) * ", t_.group,
                       " + (i - m0) * ", t_.nr, ";"));
    }
    if (layout_.ends_in_half) {
      std::string whole = writer_.rare_text(common::floor_div(steps_.depth, Expr(2)));
      writer_.line(cat("const int64_t whole = lf_min_i64(k1, ", whole, ") - k0;"));
    }
    std::string to = layout_.single_block
                         ? "tile"
                         : "(k1 == " + writer_.rare_text(steps_.count) + " ? tile : sum)";
    if (layout_.tiling.matrices) {
      matrix_tile(to);
      return;
    }
    row_pointers();
    for (int64_t r = 0; r < t_.mr; ++r) {
      std::string line;
      for (int64_t v = 0; v < vectors; ++v) line += cat(v ? ", " : "", "c", r, "_", v, " = {0}");
      writer_.line(cat(layout_.vector, " ", line, ";"));
    }
    if (!layout_.single_block) {
      writer_.open(true);
      each_accumulator([&](const std::string& c, int64_t offset) {
        writer_.line(cat(c, " = *(const ", layout_.vector, "*)(sum + ", offset, ");"));
      });
      writer_.close("if (k0 != 0)");
    }
    if (holds_runs()) {
      multiply_runs();
    } else {
      writer_.open(true);
      multiply("k", "k", false);
      writer_.close(
          cat("for (int64_t k = 0; k < ", layout_.ends_in_half ? "whole" : "k1 - k0", "; ++k)"));
    }
    if (layout_.ends_in_half) {
      writer_.open(true);
      multiply("whole", "whole", true);
      writer_.close("if (whole < k1 - k0)");
    }
    writer_.line(cat(layout_.type, "* const to = ", to, ";"));
    each_accumulator([&](const std::string& c, int64_t offset) {
      writer_.line(cat("*(", layout_.vector, "*)(to + ", offset, ") = ", c, ";"));
    });
  }

 private:
  void matrix_tile(const std::string& to) {
    MatrixTile tile;
    tile.tiling = t_;
    tile.left = cat("(const lf_bf16_pair*)packed_a + (i - ib) * ", layout_.row_stride);
    tile.left_stride = layout_.row_stride;
    for (int64_t v = 0; v < t_.nr / layout_.lanes; ++v) {
      tile.right.push_back(layout_.column_step ? cat("column", v)
                                               : cat("panel + ", v * layout_.lanes));
    }
    tile.right_stride = layout_.column_step.value_or(t_.nr);
    if (!layout_.single_block) tile.earlier = "sum";
    tile.has_earlier = "k0 != 0";
    tile.steps = "k1 - k0";
    tile.whole = layout_.ends_in_half ? "whole" : tile.steps;
    tile.to = to;
    emit_matrix_tile(writer_, tile);
  }

  // Whether a block's steps are several runs of rows that lie in place.
  bool holds_runs() const {
    return t_.rows_in_place && layout_.row_run != common::kWholeRow && t_.kc > layout_.row_run;
  }

  // Adds the steps of a block run by run. Rows are as far from their first run as one row is.
  void multiply_runs() {
    const int64_t length = layout_.row_run;
    const Expr run =
        Expr::index(writer_.open_loop("run", common::floor_div(steps_.count, Expr(length))));
    const Expr row =
        Expr::index(writer_.bind_index("i", code_.product.own_size(Side::kLeft), writer_.depth()));
    const Expr from = row_offset(row, run * Expr(length * steps_.length)) - row_offset(row, 0);
    writer_.line(cat("const int64_t jump = ", writer_.text(writer_.simplify(from)),
                     steps_.has_pairs() ? " / 2;" : ";"));
    writer_.line(cat("const int64_t first = run * ", length, " - k0;"));
    writer_.open(true);
    multiply("(jump + k)", "(first + k)", false);
    writer_.close(cat("for (int64_t k = 0; k < ", length, "; ++k)"));
    writer_.close(cat("for (int64_t run = k0 / ", length, "; run < k1 / ", length, "; ++run)"));
  }

  Expr row_offset(const Expr& row, const Expr& k) {
    auto read = tile_read(code_.product, steps_, Side::kLeft,
                          code_.product.operand_at(Side::kLeft, code_.batch, row, k), emitter_);
    LFARM_CHECK(read.has_value(), "a row was found in place");
    return read->offset;
  }

  // Adds a step, of which `half` leaves only the first element. C: `k`, beyond the rows' pointers,
  // and `panel_k`, beyond the columns'.
  void multiply(std::string_view k, std::string_view panel_k, bool half) {
    int64_t vectors = t_.nr / layout_.lanes;
    const std::string load = widened_columns_ ? cat("lf_widen", layout_.lanes, "_",
                                                    common::dtype_name(*widened_columns_))
                                              : cat("*(const ", steps_.vector, "*)");
    for (int64_t v = 0; v < vectors; ++v) {
      std::string from = layout_.column_step
                             ? cat("column", v, " + ", panel_k, " * ", *layout_.column_step)
                             : cat("panel + ", panel_k, " * ", t_.nr, " + ", v * layout_.lanes);
      writer_.line(cat("const ", steps_.vector, " b", v, " = ", load, "(", from,
                       half ? ") & 0xffffu;" : ");"));
    }
    for (int64_t r = 0; r < t_.mr; ++r) {
      std::string line,
          a = half ? cat("*(const uint16_t*)(a", r, " + ", k, ")") : cat("a", r, "[", k, "]");
      for (int64_t v = 0; v < vectors; ++v) {
        std::string c = cat("c", r, "_", v);
        line += v != 0 ? " " : "";
        line += steps_.has_pairs() ? cat(c, " = lf_add_pairs(", c, ", ", a, ", b", v, ");")
                                   : cat(c, " += ", a, " * b", v, ";");
      }
      writer_.line(line);
    }
  }

  // Elements k0 and on of each vector of columns.
  void column_pointers() {
    if (!layout_.column_step) {
      writer_.line(cat("const ", steps_.type, "* restrict const panel = packed_b + (j - n0) * ",
                       t_.kc, ";"));
      return;
    }
    int64_t last = (code_.product.problem().n_size.constant() - 1) / layout_.lanes * layout_.lanes;
    for (int64_t v = 0; v < t_.nr / layout_.lanes; ++v) {
      std::string first = cat("first", v);
      std::string position =
          v == 0 ? "j" : cat("lf_min_i64(j + ", v * layout_.lanes, ", ", last, ")");
      pointer_to(Side::kRight, cat("column", v), first, position, 0,
                 cat("k0 * ", *layout_.column_step));
    }
  }

  // Elements k0 and on of each row.
  void row_pointers() {
    bool whole = layout_.row_run == common::kWholeRow;
    Expr k = 0;
    if (layout_.tiling.rows_in_place && !whole && !holds_runs()) {
      k = Expr::index(writer_.bind_index("k0", steps_.count, writer_.depth())) *
          Expr(steps_.length);
    }
    for (int64_t r = 0; r < t_.mr; ++r) {
      std::string row = r == 0 ? "i" : cat("lf_min_i64(i + ", r, ", ie - 1)");
      if (layout_.tiling.rows_in_place) {
        pointer_to(Side::kLeft, cat("a", r), cat("row", r), row, k, whole ? "k0" : "0");
      } else {
        std::string packed = steps_.has_pairs() ? "(const lf_bf16_pair*)packed_a" : "packed_a";
        writer_.line(cat("const ", layout_.step_type(), "* restrict const a", r, " = ", packed,
                         " + (", row, " - ib) * ", layout_.row_stride, ";"));
      }
    }
  }

  // Declares `name`, the address of the operand's element at k and its own index `position`, which
  // is called `index`, and so many steps further.
  void pointer_to(Side side, const std::string& name, const std::string& index,
                  const std::string& position, const Expr& k, const std::string& further) {
    writer_.line(cat("const int64_t ", index, " = ", position, ";"));
    Expr own =
        Expr::index(writer_.bind_index(index, code_.product.own_size(side), writer_.depth()));
    auto read = tile_read(code_.product, steps_, side,
                          code_.product.operand_at(side, code_.batch, own, k), emitter_);
    LFARM_CHECK(read.has_value(), "an operand was found in place");
    std::string element =
        cat("in", read->input, " + (", writer_.text(writer_.simplify(read->offset)), ")");
    if (steps_.has_pairs()) element = cat("(const lf_bf16_pair*)(", element, ")");
    const DType dtype = code_.product.body().inputs[static_cast<size_t>(read->input)].dtype;
    const bool is_wider = dtype != steps_.dtype;
    if (side == Side::kRight && is_wider) widened_columns_ = dtype;
    writer_.line(cat("const ", is_wider ? common::c_storage_type(dtype) : layout_.step_type(),
                     "* restrict const ", name, " = ", element, " + ", further, ";"));
  }

  void each_accumulator(const std::function<void(const std::string&, int64_t)>& visit) {
    for (int64_t r = 0; r < t_.mr; ++r) {
      for (int64_t v = 0; v < t_.nr / layout_.lanes; ++v) {
        visit(cat("c", r, "_", v), r * t_.nr + v * layout_.lanes);
      }
    }
  }

  const TileCode& code_;
  const TileLayout& layout_;
  const common::TileSteps& steps_;
  const common::RegisterTiling& t_;
  CodeWriter& writer_;
  BodyEmitter& emitter_;
  std::optional<common::DType> widened_columns_;  // the half type of columns in place
};

}  // namespace

void emit_register_tile(const TileCode& code) { RegisterTile(code).emit(); }

}  // namespace worker
