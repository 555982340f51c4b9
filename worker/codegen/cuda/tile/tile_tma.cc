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
using common::PairedProducts;
using common::Result;
using common::Side;
using common::WarpgroupTiling;

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
//
// Paired products go through the same stages one after the other. The first one's sums are rounded
// into shared memory of their own, while the second one's operands come.
class TmaEmitter {
 public:
  // `before`: the first of paired products.
  TmaEmitter(const Contraction& contraction, const WarpgroupTiling& tiling,
             const Contraction* before = nullptr)
      : block_(contraction, block_size(tiling), before),
        w_(block_.writer()),
        s_(tiling),
        copies_(copies_of(block_, contraction, before)),
        stages_(block_, {kDepth, tiling.stages, true}),
        products_(block_, stages_) {}

  Result<GpuFunction> run() {
    for (Side side : {Side::kLeft, Side::kRight}) {
      stages_.set_along_k(side, copies_.back()->along_k(side));
      if (copies_.front()->along_k(side) != copies_.back()->along_k(side)) {
        return common::unsupported("paired products lie in memory by different axes");
      }
    }
    block_.begin(shared_bytes() + WgmmaProducts::kPattern, s_.splits, s_.rows * s_.columns,
                 WgmmaProducts::kPattern);
    if (!is_pair()) block_.declare_steps(kDepth, copies_.back()->depth());
    begin_barriers();
    produce();
    consume();
    products_.store();
    LFARM_ASSIGN_OR_RETURN(GpuFunction function, block_.finish());
    function.block.threads += kWarp;
    function.cluster = s_.cluster;
    function.resident = s_.resident;
    function.waits = true;
    for (const auto& copies : copies_) {
      for (const common::TensorMap& map : copies->maps()) function.maps.push_back(map);
    }
    return function;
  }

 private:
  using Copies = std::vector<std::unique_ptr<TmaCopies>>;

  // Of each product.
  static Copies copies_of(CudaTileBlock& block, const Contraction& contraction,
                          const Contraction* before) {
    Copies copies;
    for (const Contraction* each : {before, &contraction}) {
      if (each == nullptr) continue;
      const int number = 2 * static_cast<int>(copies.size());
      auto found = box_copies(block, *each, kDepth, number);
      if (!found) found = window_copies(block, *each, kDepth, number);
      LFARM_CHECK(found, "operands have tensor maps");
      copies.push_back(std::move(found));
    }
    return copies;
  }
  bool is_pair() const { return copies_.size() > 1; }
  int64_t warps() const { return block_.size().threads / kWarp; }  // that multiply
  int64_t shared_bytes() const {
    return is_pair() ? products_.shared_bytes_of_pair() : products_.shared_bytes();
  }

  void begin_barriers() {
    block_.lines(cat("uint64_t* const full = (uint64_t*)(memory + ", shared_bytes(),
                     "), * const empty = full + ", s_.stages, ";\nif (tid == 0) {\n",
                     unrolled_loop("i", s_.stages), " {\n    lf_barrier_init(full + i, 1);\n",
                     "    lf_barrier_init(empty + i, ", warps() * s_.cluster,
                     ");\n  }\n  lf_barrier_fence();\n}\n",
                     s_.cluster > 1 ? "lf_cluster_sync();" : "__syncthreads();"));
  }

  // The steps of one product; of a pair in a scope of their own.
  void open_product(TmaCopies& copies) {
    if (!is_pair()) return;
    w_.open(true);
    block_.declare_steps(kDepth, copies.depth());
  }
  void close_product() {
    if (is_pair()) w_.close("");
  }
  // The stage of a step and the parity of its phase.
  void open_steps() { w_.open(true); }
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
    if (!is_pair()) copies_.back()->begin();
    block_.lines("lf_wait_for_earlier();\nint slot = 0, parity = 0;");
    int64_t before = 0;  // steps of the product before
    for (const auto& copies : copies_) {
      open_product(*copies);
      if (is_pair()) copies->begin();
      open_steps();
      // Of a pair's second product no stage is untouched where the first one's steps fill them.
      const std::string is_used =
          before >= s_.stages ? std::string() : cat("if (step >= ", s_.stages - before, ") ");
      block_.lines(cat(is_used, "lf_barrier_wait(empty + slot, parity ^ 1);\n",
                       "lf_barrier_expect(full + slot, ", stages_.stage_bytes(),
                       ");\nunsigned char* const to = memory + slot * ", stages_.stage_bytes(),
                       ";"));
      copies->copy(stages_);
      copies->advance();
      close_steps();
      close_product();
      if (is_pair()) before += copies->depth().constant() / kDepth;
    }
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

  // `is_last`: no product comes behind it.
  void multiply(const TmaCopies& copies, bool is_last) {
    open_steps();
    w_.line("lf_barrier_wait(full + slot, parity);");
    products_.multiply("slot", copies.used_depth(kDepth));
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
      w_.close(is_last ? "if (lane == 0 & step + 1 < steps)" : "if (lane == 0)");
    }
    close_steps();
    block_.lines("lf_wgmma_wait<0>();\nlf_wgmma_done(sum);");
  }

  void consume() {
    products_.declare_sums();
    products_.declare_matrices();
    if (is_pair()) products_.declare_kept();
    w_.line("lf_wait_for_earlier();");
    if (s_.stages > 1) w_.line("int former = 0;");
    w_.line("int slot = 0, parity = 0;");
    for (const auto& copies : copies_) {
      const bool is_last = copies == copies_.back();
      open_product(*copies);
      multiply(*copies, is_last);
      if (!is_last) {
        if (s_.stages > 1) {
          w_.open(true);
          release("former");
          w_.close("if (lane == 0)");
        }
        products_.keep();
      }
      close_product();
    }
    block_.lines(s_.cluster > 1 ? "lf_cluster_sync();" : "__syncthreads();");
  }

  CudaTileBlock block_;
  CodeWriter& w_;
  WarpgroupTiling s_;
  Copies copies_;
  CudaTileStages stages_;
  WgmmaProducts products_;
};

}  // namespace

Result<GpuFunction> emit_cuda_tile_tma(const Contraction& contraction,
                                       const WarpgroupTiling& tiling) {
  return TmaEmitter(contraction, tiling).run();
}

Result<GpuFunction> emit_cuda_tile_pair(const PairedProducts& pair, const WarpgroupTiling& tiling) {
  const Contraction first(pair.body, pair.first), second(pair.body, pair.second);
  return TmaEmitter(second, tiling, &first).run();
}

}  // namespace worker
