#include "worker/codegen/cuda/tile/tile_grouped.h"

#include "common/base/cat.h"
#include "common/schedule/grouped_blocks.h"
#include "worker/codegen/cuda/text/text.h"

namespace worker {

using common::BodyEmitter;
using common::cat;
using common::CodeWriter;
using common::Expr;

Expr CudaRowRuns::blocks() const {
  const Expr span = common::grouped_span(product_.rows, rows_);
  return common::floor_div(product_.rows + span - Expr(1), span);
}

Expr CudaRowRuns::open(CodeWriter& writer, BodyEmitter& emitter) const {
  auto clamped = [&](const std::string& value, const Expr& size) {
    return cat("lf_clamp_index((int64_t)", value, ", ", writer.rare_text(size), ")");
  };
  const std::string span = writer.rare_text(common::grouped_span(product_.rows, rows_));
  writer.line(cat("__shared__ int all_rows[", 2 * rows_, "], groups[", rows_, "];"));
  writer.line(cat("const int64_t begin = m0 * ", span, ";"));
  writer.line(cat("const int count = (int)lf_min_i64(", span, ", ", writer.rare_text(product_.rows),
                  " - begin);"));
  writer.open(true);
  writer.line(cat("const int64_t p = lf_min_i64(begin + i, ",
                  writer.rare_text(product_.rows - Expr(1)), ");"));
  Expr place = Expr::index(writer.bind_index("p", product_.rows, writer.depth()));
  std::string order = emitter.value(product_.order, {place}).text;
  writer.line(cat("const int64_t r = ", clamped(order, product_.rows), ";"));
  Expr row = Expr::index(writer.bind_index("r", product_.rows, writer.depth()));
  std::string group = emitter.value(product_.group_of, {row}).text;
  // The last run may begin in the block's last row.
  writer.line(cat("all_rows[i] = all_rows[i + ", rows_, "] = (int)r;\ngroups[i] = (int)",
                  clamped(group, product_.groups), ";"));
  writer.close(cat("for (int i = threadIdx.x; i < ", rows_, "; i += ", threads_, ")"));
  writer.line("__syncthreads();");
  writer.open(true);
  // The run's rows become the block's first ones.
  write_lines(
      writer,
      cat("end = lf_run_end<", rows_, ">(groups, start);\n", "if (end > count) end = count;\n",
          "const int* const rows = all_rows + start;\n",
          "const int first = 0, last = end - start;\n", "const int64_t matrix = groups[start];"));
  return Expr::index(writer.bind_index("matrix", product_.groups, writer.depth()));
}

void CudaRowRuns::close(CodeWriter& writer) const {
  // The next run loads where this one was staged.
  writer.line("__syncthreads();");
  writer.close(cat("for (int start = 0, end; start < count; start = end)"));
}

}  // namespace worker
