#include "worker/codegen/cuda/tile/wgmma_products.h"

#include <algorithm>

#include "common/base/cat.h"

namespace worker {

using common::cat;
using common::DType;
using common::Side;

int64_t WgmmaProducts::shared_bytes() const { return shared_bytes(0); }

int64_t WgmmaProducts::shared_bytes(int64_t behind) const {
  int64_t bytes = std::max(stages_.options().stages * stages_.stage_bytes() + behind, sums_bytes());
  return (bytes + kPattern - 1) / kPattern * kPattern;
}

int64_t WgmmaProducts::shared_bytes_of_pair() const {
  return (kept_at() + sums_bytes() + kPattern - 1) / kPattern * kPattern;
}

int64_t WgmmaProducts::sums_bytes() const {
  return block_.size().rows * (block_.size().columns + kPad) * block_.sum_bytes();
}

int64_t WgmmaProducts::kept_at() const {
  return std::max(stages_.options().stages * stages_.stage_bytes(), sums_bytes());
}

int64_t WgmmaProducts::swizzle(const CudaTileStages::Operand& x) const {
  return std::min<int64_t>(stages_.row_chunks(x), CudaTileStages::kGroupChunks) * 16;
}

int64_t WgmmaProducts::step_units(const CudaTileStages::Operand& x) const {
  return x.along_k ? kStep * 2 / 16 : kStep * swizzle(x) / 16;
}

void WgmmaProducts::declare_sums() {
  block_.lines(cat("const int lane = tid % 32, group = __shfl_sync(0xffffffffu, tid / ", kThreads,
                   ", 0);\nfloat sum[", sums(), "] = {};"));
}

void WgmmaProducts::declare_matrices() {
  for (const auto* x : {&stages_.left(), &stages_.right()}) {
    bool is_left = x->side == Side::kLeft;
    if (is_left && stages_.options().only_right) continue;
    // A warpgroup's rows: eights of them, or a group of chunks for each k.
    std::string from = is_left ? cat("memory + group * ", kRows * kDepth * 2)
                               : cat("memory + ", stages_.right_at());
    w_.line(cat("const uint64_t ", x->name, " = lf_matrix(", from, ", ",
                x->along_k ? 16 : kDepth * swizzle(*x), ", ", 8 * swizzle(*x), ", ", swizzle(*x),
                ");"));
  }
}

std::string_view WgmmaProducts::product() const {
  bool is_f16 = block_.contraction().operand_dtype(Side::kLeft) == DType::kFloat16;
  return is_f16 ? "lf_wgmma_f16" : "lf_wgmma_bf16";
}

void WgmmaProducts::begin_products(const std::string& stage) {
  block_.lines(cat("const uint64_t at = (uint64_t)(", stage, " * ", stages_.stage_bytes() / 16,
                   ");\nlf_wgmma_fence();"));
}

void WgmmaProducts::multiply(const std::string& stage, int64_t depth) {
  const auto& a = stages_.left();
  const auto& b = stages_.right();
  begin_products(stage);
  for (int64_t k = 0; k * kStep < depth; ++k) {
    w_.line(cat(product(), "<", a.along_k ? 0 : 1, ", ", b.along_k ? 0 : 1, ">(sum, left + at + ",
                k * step_units(a), ", right + at + ", k * step_units(b), ");"));
  }
  w_.line("lf_wgmma_commit();");
}

void WgmmaProducts::multiply_registers(const std::string& left, const std::string& stage,
                                       int64_t first, int64_t depth) {
  const auto& b = stages_.right();
  begin_products(stage);
  for (int64_t k = 0; k * kStep < depth; ++k) {
    w_.line(cat(product(), "_registers<", b.along_k ? 0 : 1, ">(sum, ", left, "[", k,
                "], right + at + ", (first / kStep + k) * step_units(b), ");"));
  }
  w_.line("lf_wgmma_commit();");
}

std::string WgmmaProducts::held_threads() const {
  const CudaBlockSize& size = block_.size();
  const common::Expr& rows = block_.contraction().problem().m_size;
  if (common::exact_div(rows, common::Expr(size.rows_together()))) return cat(size.threads);
  return cat("(int)(lf_max_i64(lf_min_i64(", w_.rare_text(rows), " - m0 * ", size.rows, ", ",
             size.rows, "), 0) + 15) / 16 * 32");
}

std::string WgmmaProducts::leave(const std::string& place, const std::string& first,
                                 const std::string& second) const {
  if (!block_.rounded()) {
    return cat("*(float2*)&", place, " = make_float2(", first, ", ", second, ");");
  }
  return cat("*(uint32_t*)&", place, " = lf_pair_",
             *block_.rounded() == DType::kFloat16 ? "f16" : "bf16", "(", first, ", ", second, ");");
}

std::string WgmmaProducts::leave_all(const std::string& rows) const {
  // Eights of columns: a permutation is one of the thread's own place in them.
  const std::string own = block_.is_permuted() ? "(lane % 4 * 2 ^ i / 8 % 2 * 4)" : "lane % 4 * 2";
  return cat(unrolled_loop("i", sums() / 2), " ",
             leave(cat(rows, "[tid / 32 * 16 + lane / 4 + i % 2 * 8][i / 2 * 8 + ", own, "]"),
                   "sum[i * 2]", "sum[i * 2 + 1]"));
}

void WgmmaProducts::declare_kept() {
  const int64_t columns = block_.size().columns + kPad;
  block_.lines(cat("uint16_t (* const kept)[", columns, "] = (uint16_t (*)[", columns,
                   "])(memory + ", kept_at(), ");"));
}

void WgmmaProducts::keep() {
  block_.lines(cat(leave_all("kept"), "\n", unrolled_loop("i", sums()), " sum[i] = 0;"));
}

void WgmmaProducts::store() {
  const CudaBlockSize& size = block_.size();
  const std::string type = block_.rounded() ? "uint16_t" : "float";
  block_.lines(cat(type, " (* const stage)[", size.columns + kPad, "] = (", type, " (*)[",
                   size.columns + kPad, "])memory;"));
  if (block_.is_split()) {
    w_.open(true);
    block_.spread_sums(
        sums(), held_threads(), [](const std::string& i) { return cat("sum[", i, "]"); },
        [this](const std::string& t, const std::string& four) {
          const std::string row = cat(t, " / 32 * 16 + ", t, " % 32 / 4");
          const std::string column = cat(four, " * 8 + ", t, " % 4 * 2");
          const std::string at =
              block_.is_permuted() ? cat("(", column, ") ^ (", four, " / 4 % 2 * 4)") : column;
          return cat(leave(cat("stage[", row, "][", at, "]"), "q.x", "q.y"), "\n",
                     leave(cat("stage[", row, " + 8][", at, "]"), "q.z", "q.w"));
        });
    w_.close("if (parts > 1)");
    w_.open(true);
  }
  block_.lines(leave_all("stage"));
  if (block_.is_split()) w_.close("else");
  block_.lines("__syncthreads();");
  block_.store("0", size.rows);
}

}  // namespace worker
