#include "worker/codegen/c/tile/tile_packing.h"

#include <numeric>

#include "common/base/cat.h"
#include "common/lowering/body/unit_loop.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/kernels/tile_reads.h"
#include "worker/codegen/c/tile/tile_columns.h"

namespace worker {

using common::BodyEmitter;
using common::c_cast;
using common::cat;
using common::CodeValue;
using common::CodeWriter;
using common::counting_loop;
using common::Expr;
using common::Indices;
using common::NodeId;
using common::OperandMemory;
using common::Side;
using common::TileSteps;
using common::unfold;

namespace {

class BlockPacker {
 public:
  explicit BlockPacker(const TileCode& code)
      : code_(code),
        layout_(code.layout),
        steps_(code.layout.steps),
        t_(code.layout.tiling),
        writer_(code.writer),
        emitter_(code.emitter) {}

  void fill_block(Side side) {
    bool left = side == Side::kLeft;
    std::string from = left ? "ib" : "jb";
    std::string end = left ? "ie" : "je";
    if (!left) {
      writer_.line(cat("const int64_t je = lf_min_i64(jb + ", t_.nr, ", n1);"));
      writer_.line(
          cat(steps_.type, "* restrict const panel = packed_b + (jb - n0) * ", t_.kc, ";"));
    }
    std::string target = left ? "packed_a" : "panel";
    int64_t stride = left ? layout_.row_stride : t_.nr;
    OperandMemory memory = operand_memory(code_.product, steps_, side);
    // Rows of the target run along k for A and along n for B; square blocks turn what does not fit.
    if (memory.along_k != left) {
      fill_transposed(side, memory, from, end, target, stride);
      return;
    }
    if (left && steps_.has_pairs()) {
      fill_rows_of_pairs(memory);
      return;
    }
    if (left && layout_.row_run > 1 && layout_.row_run != common::kWholeRow) {
      copy_rows();
      return;
    }
    const Expr& own_extent = code_.product.own_size(side);
    std::string row = left ? "m" : "k", row0 = left ? from : "k0";
    std::string column0 = left ? "k0" : from;
    Indices rows = unfold(left ? code_.own_sizes(side) : steps_.sizes,
                          Expr::index(writer_.open_loop(row, left ? own_extent : steps_.count)));
    TileColumns columns =
        left ? open_columns(writer_, steps_.sizes, {"k", column0, "k1", steps_.count, t_.kc},
                            memory.k_runs)
             : open_columns(writer_, code_.own_sizes(side), {"n", column0, end, own_extent, t_.nr},
                            memory.own_runs);
    std::string x = operand(side, left ? rows : columns.values, left ? columns.values : rows);
    writer_.line(cat(target, "[(", row, " - ", row0, ") * ", stride, " + (", columns.position,
                     " - ", column0, ")] = ", x, ";"));
    close_columns(writer_, columns);
    writer_.close(counting_loop(row, row0, left ? end : "k1"));
  }

 private:
  std::string element(Side side, const Indices& own, const Indices& step, int64_t half) {
    NodeId id = code_.product.operand(side);
    Indices k = steps_.elements(code_.product, step, half);
    CodeValue x = emitter_.value(id, code_.product.operand_at(side, code_.batch, own, k));
    return c_cast(code_.product.body().node(id).dtype, steps_.dtype, x.text);
  }
  // A step of the operand; half a pair has a zero.
  std::string operand(Side side, const Indices& own, const Indices& step) {
    std::string low = element(side, own, step, 0);
    if (!steps_.has_pairs()) return low;
    std::string high = cat("(uint32_t)", element(side, own, step, 1), " << 16");
    if (steps_.may_be_odd) {
      std::string position = writer_.text(writer_.simplify(step[0] * Expr(2) + Expr(1)));
      high = cat("(", position, " < ", writer_.rare_text(steps_.depth), " ? ", high, " : 0)");
    }
    return cat("(uint32_t)", low, " | ", high);
  }

  // Rows of runs that lie in memory as they lie in the block.
  void copy_rows() {
    const Expr run(layout_.row_run);
    Indices rows = unfold(code_.own_sizes(Side::kLeft),
                          Expr::index(writer_.open_loop("m", code_.product.own_size(Side::kLeft))));
    TileColumns columns = open_columns(writer_, {common::floor_div(steps_.count, run), run},
                                       {"k", "k0", "k1", steps_.count, t_.kc}, true);
    Expr k = columns.values[0] * run + columns.values[1];
    std::string x = operand(Side::kLeft, rows, unfold(steps_.sizes, k));
    writer_.line(cat("packed_a[(m - ib) * ", layout_.row_stride, " + (", columns.position,
                     " - k0)] = ", x, ";"));
    close_columns(writer_, columns);
    writer_.close(counting_loop("m", "ib", "ie"));
  }

  // Neighbours along k lie side by side in pairs, too: rows are copied element by element.
  void fill_rows_of_pairs(const OperandMemory& memory) {
    Indices rows = unfold(code_.own_sizes(Side::kLeft),
                          Expr::index(writer_.open_loop("m", code_.product.own_size(Side::kLeft))));
    std::string depth = writer_.rare_text(steps_.depth);
    writer_.line(cat("uint16_t* restrict const row = (uint16_t*)(packed_a + (m - ib) * ",
                     layout_.row_stride, ");"));
    writer_.line(cat("const int64_t ke = lf_min_i64(2 * k1, ", depth, ");"));
    TileColumns columns =
        open_columns(writer_, code_.product.sizes_of(code_.product.problem().k),
                     {"k", "2 * k0", "ke", steps_.depth, 2 * t_.kc}, memory.k_runs);
    CodeValue x =
        emitter_.value(code_.product.operand(Side::kLeft),
                       code_.product.operand_at(Side::kLeft, code_.batch, rows, columns.values));
    writer_.line(cat("row[", columns.position, " - 2 * k0] = ", x.text, ";"));
    close_columns(writer_, columns);
    if (steps_.may_be_odd) writer_.line("if (ke < 2 * k1) row[ke - 2 * k0] = 0;");
    writer_.close(counting_loop("m", "ib", "ie"));
  }

  // Reads squares along the operand's memory and turns them in registers.
  void fill_transposed(Side side, const OperandMemory& memory, const std::string& from,
                       const std::string& end, const std::string& target, int64_t stride) {
    bool left = side == Side::kLeft;
    const Expr& own_extent = code_.product.own_size(side);
    std::string outer = left ? "k" : "n";  // the square's rows as read
    std::string outer0 = left ? "k0" : from;
    std::string inner0 = left ? from : "k0";
    int64_t length = layout_.lanes;
    writer_.open(true);
    writer_.open(true);
    writer_.line(cat("const int64_t re = lf_min_i64(rb + ", length, ", ", left ? "k1" : end, ");"));
    writer_.line(cat("const int64_t ce = lf_min_i64(cb + ", length, ", ", left ? end : "k1", ");"));
    Indices rows = unfold(left ? steps_.sizes : code_.own_sizes(side),
                          Expr::index(writer_.open_loop(outer, left ? steps_.count : own_extent)));
    int64_t part = std::gcd(left ? t_.mc : t_.kc, length);
    TileColumns columns = left ? open_columns(writer_, code_.own_sizes(side),
                                              {"m", "cb", "ce", own_extent, part}, memory.own_runs)
                               : open_columns(writer_, steps_.sizes,
                                              {"k", "cb", "ce", steps_.count, part}, memory.k_runs);
    std::string x = operand(side, left ? columns.values : rows, left ? rows : columns.values);
    writer_.line(cat("square[(", outer, " - rb) * ", length, " + (", columns.position,
                     " - cb)] = ", x, ";"));
    close_columns(writer_, columns);
    writer_.close(counting_loop(outer, "rb", "re"));
    writer_.line(cat("lf_turn_", steps_.type, length, "(square, ", length, ", ", target,
                     " + (cb - ", inner0, ") * ", stride, " + (rb - ", outer0, "), ", stride,
                     ", ce - cb);"));
    writer_.close(counting_loop("rb", outer0, left ? "k1" : end, length));
    writer_.close(counting_loop("cb", inner0, left ? end : "k1", length));
  }

  const TileCode& code_;
  const TileLayout& layout_;
  const TileSteps& steps_;
  const common::RegisterTiling& t_;
  CodeWriter& writer_;
  BodyEmitter& emitter_;
};

}  // namespace

void pack_block(const TileCode& code, Side side) { BlockPacker(code).fill_block(side); }

}  // namespace worker
