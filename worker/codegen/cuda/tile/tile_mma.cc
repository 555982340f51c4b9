#include "worker/codegen/cuda/tile/tile_mma.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/schedule/tile_blocks.h"
#include "worker/codegen/cuda/tile/tile_block.h"
#include "worker/codegen/cuda/tile/tile_stages.h"

namespace worker {

using common::cat;
using common::CodeWriter;
using common::Contraction;
using common::DType;
using common::Expr;
using common::GpuFunction;
using common::MmaTiling;
using common::Result;
using common::Side;
using common::TileBlocks;

namespace {

// Steps of k are loaded `stages` - 1 ahead of the one that is multiplied.
class MmaEmitter {
 public:
  MmaEmitter(const Contraction& contraction, const MmaTiling& tiling)
      : block_(contraction, {tiling.rows, tiling.columns,
                             static_cast<int>(tiling.blocks().threads()), tiling.stores}),
        w_(block_.writer()),
        c_(contraction),
        s_(tiling.blocks()),
        splits_(tiling.splits),
        stages_(block_, {tiling.depth, tiling.stages}) {}

  Result<GpuFunction> run() {
    block_.begin(common::tile_shared_bytes(s_), splits_, s_.rows * s_.columns);
    declare();
    steps();
    block_.share_sums(s_.sums(), [this](const std::string& i) {
      return cat("sum[", i, " / ", s_.wide / 2, "][", i, " / 4 % ", s_.wide / 8, "][", i, " % 4]");
    });
    store();
    return block_.finish();
  }

 private:
  void declare() {
    block_.lines(cat("const int lane = tid % 32;\nconst int wm = tid / 32 / ", s_.columns / s_.wide,
                     " * ", s_.tall, ", wn = tid / 32 % ", s_.columns / s_.wide, " * ", s_.wide,
                     ";\n", "float sum[", s_.tall / 16, "][", s_.wide / 8, "][4] = {};"));
    block_.declare_steps(s_.depth);
    stages_.declare();
  }

  // The first steps only load. A block is loaded where the one before last was read, which the
  // barrier says all threads have done.
  void steps() {
    w_.open(true);
    block_.lines(cat("if (step >= 0) {\n  lf_cp_async_wait<", s_.stages - 2,
                     ">();\n  __syncthreads();\n}\nconst int ahead = step + ", s_.stages - 1,
                     ";\nunsigned char* const to = memory + ahead % ", s_.stages, " * ",
                     stages_.stage_bytes(), ";\nconst int64_t k0 = ", block_.step_begin("ahead"),
                     ";"));
    w_.open(true);
    stages_.load();
    w_.close("if (ahead < steps)");
    w_.line("lf_cp_async_commit();");
    w_.open(true);
    multiply();
    w_.close(cat("if (", has_rows(), "step >= 0)"));
    if (stages_.keeps()) {
      w_.open(true);
      stages_.keep();
      w_.close("if (ahead < steps)");
    }
    w_.close(cat("for (int step = ", 1 - s_.stages, "; step < steps; ++step)"));
    block_.lines("lf_cp_async_wait<0>();\n__syncthreads();");
  }

  // Of a run of rows some warps may have none.
  std::string has_rows() const {
    return c_.group() == nullptr ? "" : cat("wm < last && wm + ", s_.tall, " > first && ");
  }

  // ldmatrix gives each of four 8 x 8 matrices' elements to the lanes as mma wants them; where
  // chunks run along the operand's own axis they are transposed on the way.
  void multiply() {
    bool half = c_.operand_dtype(Side::kLeft) == DType::kFloat16;
    const auto& a = stages_.left();
    const auto& b = stages_.right();
    std::string left = a.along_k
                           ? stages_.place(a, "(wm + i * 16 + lane % 16)", "k / 8 + lane / 16")
                           : stages_.place(a, "(k + lane % 8 + lane / 16 * 8)",
                                           "(wm + i * 16) / 8 + lane / 8 % 2");
    std::string right =
        b.along_k
            ? stages_.place(b, "(wn + j * 8 + lane % 8 + lane / 16 * 8)", "k / 8 + lane / 8 % 2")
            : stages_.place(b, "(k + lane % 8 + lane / 8 % 2 * 8)", "(wn + j * 8) / 8 + lane / 16");
    block_.lines(
        cat("const unsigned char* const from = memory + step % ", s_.stages, " * ",
            stages_.stage_bytes(), ";\n#pragma unroll\nfor (int k = 0; k < ", s_.depth,
            "; k += 16) {\n", "  uint32_t a[", s_.tall / 16, "][4], b[", s_.wide / 8, "][2];\n",
            "  #pragma unroll\n  for (int i = 0; i < ", s_.tall / 16, "; ++i) lf_ldmatrix_x4",
            a.along_k ? "" : "_trans", "(a[i], from + ", left, ");\n",
            "  #pragma unroll\n  for (int j = 0; j < ", s_.wide / 8, "; j += 2) {\n",
            "    uint32_t q[4];\n    lf_ldmatrix_x4", b.along_k ? "" : "_trans", "(q, from + ",
            stages_.bytes(a), " + ", right, ");\n",
            "    b[j][0] = q[0], b[j][1] = q[1], b[j + 1][0] = q[2], b[j + 1][1] = q[3];\n  }\n",
            "  #pragma unroll\n  for (int i = 0; i < ", s_.tall / 16,
            "; ++i) {\n    #pragma unroll\n    for (int j = 0; j < ", s_.wide / 8, "; ++j) ",
            half ? "lf_mma_f16" : "lf_mma_bf16", "(sum[i][j], a[i], b[j]);\n  }\n}"));
  }

  void store() {
    block_.lines(
        cat("float (* const stage)[", s_.columns + common::kTilePad, "] = (float (*)[",
            s_.columns + common::kTilePad, "])memory;\n#pragma unroll\nfor (int i = 0; i < ",
            s_.tall / 16, "; ++i) {\n  #pragma unroll\n  for (int j = 0; j < ", s_.wide / 8,
            "; ++j) {\n    #pragma unroll\n    for (int e = 0; e < 4; ++e) {\n",
            "      stage[wm + i * 16 + lane / 4 + e / 2 * 8][wn + j * 8 + lane % 4 * 2 + e % 2] = ",
            "sum[i][j][e];\n    }\n  }\n}\n__syncthreads();"));
    block_.store("0", s_.rows);
  }

  CudaTileBlock block_;
  CodeWriter& w_;
  const Contraction& c_;
  TileBlocks s_;
  Expr splits_;
  CudaTileStages stages_;
};

}  // namespace

Result<GpuFunction> emit_cuda_tile_mma(const Contraction& contraction,
                                       const common::MmaTiling& tiling) {
  return MmaEmitter(contraction, tiling).run();
}

}  // namespace worker
