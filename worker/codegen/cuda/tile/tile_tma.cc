#include "worker/codegen/cuda/tile/tile_tma.h"

#include "common/base/cat.h"
#include "worker/codegen/cuda/tile/operand_map.h"
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
using common::Side;

namespace {

constexpr int64_t kDepth = WgmmaProducts::kDepth;
constexpr int64_t kWarp = 32;
constexpr int64_t kGroupBytes = 128;  // of a row that is permuted as one
constexpr int64_t kBarrierBytes = 8;

// A thread of a warp of its own asks for each step's boxes as soon as their stage is free, and
// warpgroups multiply a step as soon as it is there. Each stage has two barriers: `full` counts the
// bytes that come, `empty` the warps that have multiplied them. No thread waits for more than one
// other step, and no barrier is for all threads.
//
// In a cluster each block copies its own rows of the left operand, and a part of the right one to
// all blocks. So a stage is free when the warps of all blocks have multiplied it.
class TmaEmitter {
 public:
  TmaEmitter(const Graph& body, const Contraction& contraction, const WgmmaSize& size)
      : block_(body, contraction, size.block()),
        w_(block_.writer()),
        c_(contraction),
        s_(size),
        stages_(block_, {kDepth, size.stages, true}),
        products_(block_, stages_) {}

  Result<GpuFunction> run() {
    auto left = operand_map(c_, Side::kLeft, s_.rows, kDepth);
    auto right = operand_map(c_, Side::kRight, s_.columns, kDepth, s_.cluster);
    LFARM_CHECK(left && right, "operands have tensor maps");
    block_.begin(products_.shared_bytes() + WgmmaProducts::kPattern, s_.splits,
                 s_.rows * s_.columns, WgmmaProducts::kPattern);
    block_.declare_steps(kDepth);
    begin_barriers();
    produce(*left, *right);
    consume();
    products_.store();
    LFARM_ASSIGN_OR_RETURN(GpuFunction function, block_.finish());
    function.block.threads += kWarp;
    function.cluster = s_.cluster;
    function.maps = {std::move(left->map), std::move(right->map)};
    return function;
  }

 private:
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
    w_.close("for (int step = 0; step < steps; ++step)");
  }

  void produce(const OperandMap& left, const OperandMap& right) {
    w_.open(true);
    w_.open(true);
    if (s_.cluster > 1) w_.line(cat("const int rank = (int)blockIdx.x % ", s_.cluster, ";"));
    open_steps();
    block_.lines(cat("if (step >= ", s_.stages, ") lf_barrier_wait(empty + slot, parity ^ 1);\n",
                     "lf_barrier_expect(full + slot, ", stages_.stage_bytes(),
                     ");\nunsigned char* const to = memory + slot * ", stages_.stage_bytes(),
                     ";\nconst int k0 = (int)(", block_.step_begin("step"), ");"));
    copy(stages_.left(), left, 0);
    copy(stages_.right(), right, 1);
    close_steps();
    w_.close(cat("if (tid == ", block_.size().threads, ")"));
    w_.line("return;");
    w_.close(cat("if (tid >= ", block_.size().threads, ")"));
  }

  // The operand's boxes: one, or where its memory runs along its own axis one for each group of
  // chunks. The blocks of a cluster bring the right operand together, each a part of every box.
  void copy(const CudaTileStages::Operand& x, const OperandMap& map, int number) {
    bool is_shared = s_.cluster > 1 && x.side == Side::kRight;
    const int64_t box = map.along_k ? x.width : kGroupBytes / 2;
    const int64_t part = map.map.dimensions[1].box;
    const int64_t place = x.side == Side::kLeft ? 0 : stages_.bytes(stages_.left());
    std::string k = "k0", batch, blocks, rank, rank_bytes;
    if (map.k_run != 0) {
      k = cat("k0 % ", map.k_run);
      batch = cat(", k0 / ", map.k_run);
    }
    for (size_t label : map.labels) batch += cat(", (int)(", w_.text(block_.batch()[label]), ")");
    if (is_shared) {
      blocks = cat((1 << s_.cluster) - 1, ", ");
      rank = cat(" + rank * ", part);
      rank_bytes = cat(" + rank * ", part * kGroupBytes);
    }
    for (int64_t first = 0; first < x.width; first += box) {
      std::string own = cat("(int)(", x.side == Side::kLeft ? "m0" : "n0", " * ", x.width, ") + ",
                            first, map.along_k ? rank : "");
      std::string at = map.along_k ? cat(k, ", ", own) : cat(own, ", k0", rank);
      w_.line(cat(is_shared ? "lf_copy_box_to(" : "lf_copy_box(", blocks, "to + ",
                  place + first * kDepth * 2, rank_bytes, ", &map", number, ", full + slot, ", at,
                  batch, ");"));
    }
  }

  // Of each warp one lane says that the former step's products have read their stage.
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
    w_.line("int former = 0;");
    open_steps();
    w_.line("lf_barrier_wait(full + slot, parity);");
    products_.multiply("slot");
    w_.line("lf_wgmma_wait<1>();");
    w_.open(true);
    release("former");
    w_.close("if (lane == 0 & step > 0)");
    w_.line("former = slot;");
    close_steps();
    block_.lines(cat("lf_wgmma_wait<0>();\nlf_wgmma_done(sum);\n",
                     s_.cluster > 1 ? "lf_cluster_sync();" : "__syncthreads();"));
  }

  CudaTileBlock block_;
  CodeWriter& w_;
  const Contraction& c_;
  WgmmaSize s_;
  CudaTileStages stages_;
  WgmmaProducts products_;
};

}  // namespace

Result<GpuFunction> emit_cuda_tile_tma(const Graph& body, const Contraction& contraction,
                                       const WgmmaSize& size) {
  return TmaEmitter(body, contraction, size).run();
}

}  // namespace worker
