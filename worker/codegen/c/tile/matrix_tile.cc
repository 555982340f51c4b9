#include "worker/codegen/c/tile/matrix_tile.h"

#include <algorithm>
#include <functional>

#include "common/base/cat.h"

namespace worker {

using common::kMatrixRegisters;
using common::kMatrixSide;

using common::cat;
using common::CodeWriter;

namespace {

int64_t rows_of(const MatrixTile& t) { return t.tiling.mr / kMatrixSide; }
int64_t columns_of(const MatrixTile& t) { return t.tiling.nr / kMatrixSide; }

// Calls with each sum: its register, its rows' and its columns' number.
void each_sum(const MatrixTile& t, const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  for (int64_t r = 0; r < rows_of(t); ++r) {
    for (int64_t v = 0; v < columns_of(t); ++v) visit(r * columns_of(t) + v, r, v);
  }
}

void multiply_registers(CodeWriter& writer, const MatrixTile& t) {
  int64_t rows = rows_of(t), columns = columns_of(t);
  int64_t first_row = rows * columns, first_column = first_row + rows;
  LFARM_CHECK(first_column < kMatrixRegisters, "a matrix tile takes too many registers");
  for (int64_t r = 0; r < rows; ++r) {
    writer.line(cat("LF_TILE_LOAD(", first_row + r, ", a + k + ", r * kMatrixSide * t.left_stride,
                    ", ", 4 * t.left_stride, ");"));
  }
  for (int64_t v = 0; v < columns; ++v) {
    int64_t column = first_column + v % (kMatrixRegisters - first_column);
    writer.line(cat("LF_TILE_LOAD(", column, ", ", t.right[static_cast<size_t>(v)], " + k * ",
                    t.right_stride, ", ", 4 * t.right_stride, ");"));
    for (int64_t r = 0; r < rows; ++r) {
      writer.line(cat("LF_TILE_PAIRS(", r * columns + v, ", ", first_row + r, ", ", column, ");"));
    }
  }
}

// One step for all rows, read from memory and written back: there are at most 16 of them.
void multiply_vectors(CodeWriter& writer, const MatrixTile& t) {
  bool has_half = t.whole != t.steps;
  if (has_half) writer.line(cat("const uint32_t mask = k < ", t.whole, " ? ~0u : 0xffffu;"));
  for (int64_t v = 0; v < columns_of(t); ++v) {
    writer.line(cat("const lf_uint32_t16 b", v, " = *(const lf_uint32_t16*)(",
                    t.right[static_cast<size_t>(v)], " + k * ", t.right_stride, ")",
                    has_half ? " & mask;" : ";"));
  }
  writer.open(true);
  writer.line(cat("lf_float16* const row = (lf_float16*)(to + r * ", t.tiling.nr, ");"));
  for (int64_t v = 0; v < columns_of(t); ++v) {
    writer.line(cat("row[", v, "] = lf_add_pairs(row[", v, "], a[r * ", t.left_stride, " + k], b",
                    v, ");"));
  }
  writer.close(cat("for (int64_t r = 0; r < ", t.tiling.mr, "; ++r)"));
}

}  // namespace

void emit_matrix_tile(CodeWriter& writer, const MatrixTile& t) {
  auto at_sum = [&](std::string_view base, int64_t r, int64_t v) {
    return cat(base, " + ", kMatrixSide * (r * t.tiling.nr + v), ", ", 4 * t.tiling.nr);
  };
  writer.line(cat("const lf_bf16_pair* restrict const a = ", t.left, ";"));
  writer.line(
      cat("const int64_t tiled = (", t.whole, ") / ", kMatrixSide, " * ", kMatrixSide, ";"));
  writer.line(cat("float* const to = ", t.to, ";"));
  each_sum(t, [&](int64_t sum, int64_t, int64_t) { writer.line(cat("LF_TILE_ZERO(", sum, ");")); });
  if (!t.earlier.empty()) {
    writer.open(true);
    each_sum(t, [&](int64_t sum, int64_t r, int64_t v) {
      writer.line(cat("LF_TILE_LOAD(", sum, ", ", at_sum(t.earlier, r, v), ");"));
    });
    writer.close(cat("if (", t.has_earlier, ")"));
  }
  writer.open(true);
  multiply_registers(writer, t);
  writer.close(cat("for (int64_t k = 0; k < tiled; k += ", kMatrixSide, ")"));
  each_sum(t, [&](int64_t sum, int64_t r, int64_t v) {
    writer.line(cat("LF_TILE_STORE(", sum, ", ", at_sum("to", r, v), ");"));
  });
  writer.open(true);
  multiply_vectors(writer, t);
  writer.close(cat("for (int64_t k = tiled; k < ", t.steps, "; ++k)"));
}

}  // namespace worker
