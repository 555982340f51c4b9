#include "common/base/cat.h"
#include "worker/codegen/cuda/tile/tile_block.h"
#include "worker/codegen/cuda/tile/tile_stages.h"
#include "worker/codegen/cuda/tile/tile_wgmma.h"
#include "worker/codegen/cuda/tile/tma_copies.h"
#include "worker/codegen/cuda/tile/wgmma_products.h"

namespace worker {

using common::cat;
using common::CodeWriter;
using common::Contraction;
using common::GpuFunction;
using common::Graph;
using common::Result;
using common::Side;

namespace {

constexpr int64_t kDepth = WgmmaProducts::kDepth;
constexpr int64_t kWarp = 32;
constexpr int64_t kBarrierBytes = 8;

// A thread of a warp of its own asks for each step's boxes as soon as their stage is free, and
// warpgroups multiply a step as soon as it is there. Each stage has two barriers: `full` counts the
// bytes that come, `empty` the warps that have multiplied them. No thread waits for more than one
// other step, and no barrier is for all threads. A stage is free one step after its products began,
// or, where it is the only one, as soon as they have ended.
//
// In a cluster of blocks below each other each copies its own rows of the left operand, and a part
// of the right one to all blocks; beside each other, its own columns and a part of the left one. So
// a stage is free when the warps of all blocks have multiplied it.
class TmaEmitter {
 public:
  TmaEmitter(const Graph& body, const Contraction& contraction, const WgmmaSize& size)
      : block_(body, contraction, size.block()),
        w_(block_.writer()),
        s_(size),
        copies_(copies_of(block_)),
        stages_(block_, {kDepth, size.stages, true}),
        products_(block_, stages_) {}

  Result<GpuFunction> run() {
    for (Side side : {Side::kLeft, Side::kRight}) stages_.set_along_k(side, copies_->along_k(side));
    block_.begin(products_.shared_bytes() + WgmmaProducts::kPattern, s_.splits,
                 s_.rows * s_.columns, WgmmaProducts::kPattern);
    block_.declare_steps(kDepth, copies_->depth());
    begin_barriers();
    produce();
    consume();
    products_.store();
    LFARM_ASSIGN_OR_RETURN(GpuFunction function, block_.finish());
    function.block.threads += kWarp;
    function.cluster = s_.cluster;
    function.resident = s_.resident;
    function.waits = true;
    function.maps = copies_->maps();
    return function;
  }

 private:
  static std::unique_ptr<TmaCopies> copies_of(CudaTileBlock& block) {
    auto copies = box_copies(block, kDepth);
    if (!copies) copies = window_copies(block, kDepth);
    LFARM_CHECK(copies, "operands have tensor maps");
    return copies;
  }
  int64_t warps() const { return block_.size().threads / kWarp; }  // that multiply

  void begin_barriers() {
    block_.lines(cat("uint64_t* const full = (uint64_t*)(memory + ", products_.shared_bytes(),
                     "), * const empty = full + ", s_.stages, ";\nif (tid == 0) {\n",
                     unrolled_loop("i", s_.stages), " {\n    lf_barrier_init(full + i, 1);\n",
                     "    lf_barrier_init(empty + i, ", warps() * s_.cluster,
                     ");\n  }\n  lf_barrier_fence();\n}\n",
                     s_.cluster > 1 ? "lf_cluster_sync();" : "__syncthreads();"));
  }

  // The stage of a step and the parity of its phase.
  void open_steps() {
    block_.lines("int slot = 0, parity = 0;");
    w_.open(true);
  }
  void close_steps() {
    w_.open(true);
    block_.lines("slot = 0;\nparity ^= 1;");
    w_.close(cat("if (++slot == ", s_.stages, ")"));
    w_.close("#pragma unroll 1\nfor (int step = 0; step < steps; ++step)");
  }

  void produce() {
    w_.open(true);
    w_.open(true);
    if (s_.cluster > 1) w_.line(cat("const int rank = (int)blockIdx.x % ", s_.cluster, ";"));
    copies_->begin();
    w_.line("lf_wait_for_earlier();");
    open_steps();
    block_.lines(cat("if (step >= ", s_.stages, ") lf_barrier_wait(empty + slot, parity ^ 1);\n",
                     "lf_barrier_expect(full + slot, ", stages_.stage_bytes(),
                     ");\nunsigned char* const to = memory + slot * ", stages_.stage_bytes(), ";"));
    copies_->copy(stages_);
    copies_->advance();
    close_steps();
    w_.close(cat("if (tid == ", block_.size().threads, ")"));
    block_.lines("lf_wait_for_earlier();\nreturn;");
    w_.close(cat("if (tid >= ", block_.size().threads, ")"));
  }

  // Of each warp one lane says that a step's products have read their stage.
  void release(const std::string& slot) {
    if (s_.cluster == 1) {
      w_.line(cat("lf_barrier_arrive(empty + ", slot, ");"));
      return;
    }
    for (int block = 0; block < s_.cluster; ++block) {
      w_.line(cat("lf_barrier_arrive_in(empty + ", slot, ", ", block, ");"));
    }
  }

  void consume() {
    products_.declare_sums();
    products_.declare_matrices();
    w_.line("lf_wait_for_earlier();");
    if (s_.stages > 1) w_.line("int former = 0;");
    open_steps();
    w_.line("lf_barrier_wait(full + slot, parity);");
    products_.multiply("slot", copies_->used_depth(kDepth));
    if (s_.stages > 1) {
      // The next products begin before those of the former step have ended.
      w_.line("lf_wgmma_wait<1>();");
      w_.open(true);
      release("former");
      w_.close("if (lane == 0 & step > 0)");
      w_.line("former = slot;");
    } else {
      w_.line("lf_wgmma_wait<0>();");
      w_.open(true);
      release("slot");
      w_.close("if (lane == 0 & step + 1 < steps)");
    }
    close_steps();
    block_.lines(cat("lf_wgmma_wait<0>();\nlf_wgmma_done(sum);\n",
                     s_.cluster > 1 ? "lf_cluster_sync();" : "__syncthreads();"));
  }

  CudaTileBlock block_;
  CodeWriter& w_;
  WgmmaSize s_;
  std::unique_ptr<TmaCopies> copies_;
  CudaTileStages stages_;
  WgmmaProducts products_;
};

}  // namespace

Result<GpuFunction> emit_cuda_tile_tma(const Graph& body, const Contraction& contraction,
                                       const WgmmaSize& size) {
  return TmaEmitter(body, contraction, size).run();
}

}  // namespace worker
