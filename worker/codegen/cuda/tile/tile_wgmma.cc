#include "worker/codegen/cuda/tile/tile_wgmma.h"

#include "common/base/cat.h"
#include "worker/codegen/cuda/tile/tile_block.h"
#include "worker/codegen/cuda/tile/tile_stages.h"
#include "worker/codegen/cuda/tile/wgmma_products.h"

namespace worker {

using common::cat;
using common::CodeWriter;
using common::Contraction;
using common::GpuFunction;
using common::Graph;
using common::Result;
using common::WarpgroupTiling;

namespace {

// A warpgroup takes 64 rows and all columns, and its products run while threads copy later steps of
// k: each waits for the products of the step before, and the barrier says that all of them did, so
// that a stage is loaded anew two steps after it was multiplied.
class WgmmaEmitter {
 public:
  WgmmaEmitter(const Contraction& contraction, const WarpgroupTiling& tiling)
      : block_(contraction, block_size(tiling)),
        w_(block_.writer()),
        s_(tiling),
        stages_(block_, {WgmmaProducts::kDepth, tiling.stages, true}),
        products_(block_, stages_) {}

  Result<GpuFunction> run() {
    block_.begin(products_.shared_bytes(), s_.splits, s_.rows * s_.columns,
                 WgmmaProducts::kPattern);
    products_.declare_sums();
    block_.declare_steps(WgmmaProducts::kDepth);
    stages_.declare();
    products_.declare_matrices();
    // A run of rows may leave warpgroups without any. The shuffle tells the compiler that warps
    // agree.
    if (is_grouped()) {
      w_.line(cat("const bool has_rows = __shfl_sync(0xffffffffu, (int)(group * ",
                  WgmmaProducts::kRows, " < last), 0) != 0;"));
    }
    steps();
    products_.store();
    return block_.finish();
  }

 private:
  bool is_grouped() const { return block_.contraction().group() != nullptr; }

  void steps() {
    w_.open(true);
    w_.open(true);
    block_.lines(
        cat("lf_cp_async_wait<", s_.stages - 3, ">();\nlf_fence_async();\n__syncthreads();"));
    if (is_grouped()) w_.open(true);
    products_.multiply(cat("step % ", s_.stages));
    if (is_grouped()) w_.close("if (has_rows)");
    w_.close("if (step >= 0)");
    block_.lines(cat("const int ahead = step + ", s_.stages - 2,
                     ";\nunsigned char* const to = memory + ahead % ", s_.stages, " * ",
                     stages_.stage_bytes(), ";\nconst int64_t k0 = ", block_.step_begin("ahead"),
                     ";"));
    w_.open(true);
    stages_.load();
    if (stages_.keeps()) stages_.keep();
    w_.close("if (ahead < steps)");
    block_.lines("lf_cp_async_commit();\nif (step >= 0) lf_wgmma_wait<1>();");
    w_.close(cat("for (int step = ", 2 - s_.stages, "; step < steps; ++step)"));
    block_.lines(
        "lf_wgmma_wait<0>();\nlf_wgmma_done(sum);\nlf_cp_async_wait<0>();\n__syncthreads();");
  }

  CudaTileBlock block_;
  CodeWriter& w_;
  WarpgroupTiling s_;
  CudaTileStages stages_;
  WgmmaProducts products_;
};

}  // namespace

Result<GpuFunction> emit_cuda_tile_wgmma(const Contraction& contraction,
                                         const WarpgroupTiling& tiling) {
  return WgmmaEmitter(contraction, tiling).run();
}

}  // namespace worker
