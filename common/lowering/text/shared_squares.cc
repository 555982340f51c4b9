#include "common/lowering/text/shared_squares.h"

#include <algorithm>
#include <numeric>

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace common {
namespace {

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kBankBytes = 4;
constexpr int64_t kSectorBytes = 32;
// What code may declare in shared memory.
constexpr int64_t kBytesMax = 48 * 1024;

}  // namespace

bool SharedSquares::close() {
  bool is_used = bytes_ > 0;
  if (is_used) {
    w_.line(steps_->base, "__syncthreads();");
    constexpr double kMeetClocks = 50;  // of a barrier and shared memory
    w_.end_round(steps_->base, kMeetClocks);
  }
  steps_.reset();
  return is_used;
}

// Rows begin in banks that are one apart, so that neither rows nor columns meet in one.
int64_t SharedSquares::pitch(DType dtype) const {
  return steps_->columns() + std::max<int64_t>(1, kBankBytes / dtype_size(dtype));
}

std::optional<SharedSquares::Run> SharedSquares::run_of(const Expr& offset) const {
  const SquareSteps& s = *steps_;
  if (stride_along(offset, s.row) != 1) return std::nullopt;
  int64_t chunk = stride_along(offset, s.chunk);
  if (chunk % s.access != 0 || chunk / s.access <= 1) return std::nullopt;
  Run run{offset, chunk / s.access};
  for (int index : {s.row, s.chunk, s.step}) {
    if (index >= 0) run.base = with_index({run.base}, index, 0)[0];
  }
  run.base = w_.simplify(run.base);
  Expr column = Expr::index(s.chunk) * Expr(s.access);
  if (s.step >= 0) column += Expr::index(s.step);
  Expr told = run.base + Expr::index(s.row) + column * Expr(run.stride);
  bool is_whole = w_.simplify(offset - told).is_constant(0) && w_.level_of(run.base) <= s.base;
  return is_whole ? std::optional(run) : std::nullopt;
}

std::optional<CodeValue> SharedSquares::load(const std::string& pointer, DType dtype,
                                             const Expr& offset) {
  if (!steps_) return std::nullopt;
  auto run = run_of(offset);
  if (!run) return std::nullopt;
  ValueKey key{0, kSquareTag, {run->base, Expr(run->stride)}};
  for (char c : pointer) key.indices.push_back(Expr(c));
  std::string name;
  if (const CodeValue* known = w_.find(key)) {
    name = known->text;
  } else {
    int64_t bytes = steps_->rows * pitch(dtype) * dtype_size(dtype);
    if (bytes_ + bytes > kBytesMax) return std::nullopt;
    bytes_ += bytes;
    name = square(pointer, dtype, *run);
    w_.remember(key, {name, steps_->base, -1});
  }
  std::string column = cat(w_.index_name(steps_->chunk), " * ", steps_->access);
  if (steps_->step >= 0) column += cat(" + ", w_.index_name(steps_->step));
  return w_.declare(
      w_.depth(), c_value_type(dtype), "v",
      cat(name, "[", w_.index_name(steps_->row), " * ", pitch(dtype), " + ", column, "]"));
}

std::string SharedSquares::square(const std::string& pointer, DType dtype, const Run& run) {
  const SquareSteps& s = *steps_;
  CodeWriter::Outward outward(w_, s.base);
  int64_t size = dtype_size(dtype);
  // As many neighbours as are aligned together wherever a row of memory begins.
  int64_t width = std::gcd(std::max<int64_t>(1, kVectorBytes / size), s.rows);
  while (width > 1 && (run.stride % width != 0 || !exact_div(run.base, width))) width /= 2;
  std::string name = w_.fresh("square"), type(c_storage_type(dtype));
  w_.line(cat("__shared__ ", type, " ", name, "[", s.rows * pitch(dtype), "];"));
  std::string j = w_.fresh("j"), row = w_.fresh("w"), column = w_.fresh("v");
  int64_t runs = s.rows / width, loads = runs * s.columns();
  w_.open_blocks((loads + s.threads - 1) / s.threads);
  w_.line(
      cat("const int64_t ", row, " = ", j, " % ", runs, ", ", column, " = ", j, " / ", runs, ";"));
  Expr first = run.base + Expr::index(w_.bind_index(row, runs, w_.depth())) * Expr(width) +
               Expr::index(w_.bind_index(column, s.columns(), w_.depth())) * Expr(run.stride);
  std::string vector = w_.fresh("x"), vector_type = cat("<", type, ", ", width, ">");
  w_.line(cat("const LfVec", vector_type, " ", vector, " = lf_load", vector_type, "(", pointer,
              " + ", w_.text(first), ");"));
  auto bytes = static_cast<double>(width * size);
  double whole =
      std::max(1.0, static_cast<double>(kSectorBytes) / static_cast<double>(s.rows * size));
  w_.add_access(w_.depth(), {bytes, bytes * whole, false, false, false});
  w_.add_instructions(w_.depth(), static_cast<double>(width));
  w_.line(cat("#pragma unroll\nfor (int e = 0; e < ", width, "; ++e) ", name, "[(", row, " * ",
              width, " + e) * ", pitch(dtype), " + ", column, "] = ", vector, "[e];"));
  w_.close(
      cat("for (int64_t ", j, " = member; ", j, " < ", loads, "; ", j, " += ", s.threads, ")"));
  return name;
}

}  // namespace common
