#include "worker/codegen/cuda/tile/tile_grouped.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/hlir/sizes.h"
#include "common/schedule/grouped_blocks.h"
#include "worker/codegen/cuda/text/text.h"
#include "worker/codegen/cuda/tile/tile_mma.h"
#include "worker/codegen/cuda/tile/tile_simt.h"
#include "worker/codegen/cuda/tile/tile_wgmma.h"
#include "worker/codegen/cuda/tile/wgmma_size.h"

namespace worker {

using common::BodyEmitter;
using common::cat;
using common::CodeWriter;
using common::Contraction;
using common::DType;
using common::Expr;
using common::GpuFunction;
using common::Graph;
using common::Result;
using common::Schedule;
using common::Side;

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

namespace {

// Of the schedule's parameter `warpgroups`: rows stand before three digits of columns.
constexpr int64_t kRowsDigits = 1000;

// The blocks that suit the sizes.
common::GroupedBlocks quickest_blocks(const Contraction& contraction,
                                      const std::vector<common::SymbolRange>& symbols,
                                      const CudaMachine& machine, bool may_group) {
  const common::TileProblem& p = contraction.problem();
  std::vector<common::WeightedGroups> shapes;
  for (const common::WeightedSizes& each : common::priced_sizes(symbols)) {
    auto value = [&](const Expr& e) { return std::max<int64_t>(1, e.evaluate(each.sizes)); };
    shapes.push_back(
        {{value(p.m_size), value(contraction.group()->groups), value(p.n_size), value(p.k_size)},
         each.weight});
  }
  return common::grouped_blocks(shapes, machine.processors, may_group);
}

// Whether operands lie in memory in chunks of 16 bytes.
bool are_copied(const Contraction& contraction) {
  constexpr int64_t kChunk = 8;
  const bool runs_along_k = contraction.runs_along_k(Side::kRight);
  return contraction.reads_chunks(Side::kLeft, true, kChunk) &&
         contraction.reads_chunks(Side::kRight, runs_along_k, kChunk);
}

Schedule with(Schedule schedule, std::string_view name, int64_t value) {
  std::erase_if(schedule, [&](const auto& p) { return p.name == name; });
  schedule.push_back({std::string(name), value});
  std::sort(schedule.begin(), schedule.end());
  return schedule;
}

// The schedule with these blocks of single warps where it asks for none.
Schedule with_blocks(Schedule schedule, const common::GroupedBlocks& blocks) {
  auto give = [&](std::string_view name, int64_t value) {
    if (schedule_value(schedule, common::Template::kTile, name) != 0) return;
    schedule = with(std::move(schedule), name, value);
  };
  give("block_columns", blocks.columns);
  give("block_rows", blocks.rows);
  return with(std::move(schedule), "splits", 1);
}

}  // namespace

Result<GpuFunction> emit_cuda_tile_grouped(const Graph& body, const Schedule& schedule,
                                           const CudaMachine& machine) {
  auto form = grouped_form(body, common::only_contraction(body));
  if (!form) return common::unsupported("rows have an order but no groups");
  const common::GroupProduct product = group_product(body, *form);
  Contraction contraction(product);
  DType left = contraction.operand_dtype(Side::kLeft);
  bool is_half = common::is_half(left) && left == contraction.operand_dtype(Side::kRight);
  if (!is_half) return emit_cuda_tile_simt(product.body, contraction, schedule, machine);
  auto asked = [&](std::string_view name) {
    return schedule_value(schedule, common::Template::kTile, name);
  };
  const common::TileUnits units =
      common::tile_units(asked("warpgroups"), asked("block_rows"), asked("block_columns"));
  if (machine.warpgroups && units == common::TileUnits::kWarpgroups) {
    return emit_cuda_tile_wgmma(product.body, contraction, *given_wgmma_size(schedule));
  }
  // Elements that threads compute reach warpgroups' products late.
  const bool may_group =
      machine.warpgroups && units == common::TileUnits::kQuicker && are_copied(contraction);
  const common::GroupedBlocks blocks =
      quickest_blocks(contraction, body.symbols, machine, may_group);
  if (blocks.has_warpgroups) {
    const Schedule grouped =
        with(schedule, "warpgroups", blocks.rows * kRowsDigits + blocks.columns);
    return emit_cuda_tile_wgmma(product.body, contraction, *given_wgmma_size(grouped));
  }
  return emit_cuda_tile_mma(product.body, contraction, with_blocks(schedule, blocks), machine);
}

}  // namespace worker
