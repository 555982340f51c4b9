#include "worker/codegen/cuda/tile/tile_wgmma.h"

#include <algorithm>

#include "common/base/cat.h"
#include "worker/codegen/cuda/tile/tile_block.h"
#include "worker/codegen/cuda/tile/tile_stages.h"

namespace worker {

using common::cat;
using common::CodeWriter;
using common::Contraction;
using common::DType;
using common::GpuFunction;
using common::Graph;
using common::Result;
using common::Schedule;
using common::Side;
using common::Template;

namespace {

constexpr int64_t kGroupThreads = 128;
constexpr int64_t kGroupRows = 64;
constexpr int64_t kDepth = 64;      // 128 bytes of k, which are permuted as one
constexpr int64_t kStep = 16;       // of k, that one product takes
constexpr int64_t kPattern = 1024;  // eight rows of 128 bytes
constexpr int64_t kPad = 4;         // of the product's rows in shared memory
constexpr int64_t kStagesMin = 3, kStagesMax = 8;

struct WgmmaSize {
  int64_t rows = 128, columns = 128, stages = 4;
  int threads() const { return static_cast<int>(rows / kGroupRows * kGroupThreads); }
  int64_t stage_bytes() const { return (rows + columns) * kDepth * 2; }
};

int64_t given(const Schedule& schedule, std::string_view name) {
  return schedule_value(schedule, Template::kTile, name);
}

// As many stages as asked for, or as hide what memory takes, in what a block may have.
WgmmaSize choose_size(const Schedule& schedule) {
  WgmmaSize size;
  size.rows = given(schedule, "warpgroups") / 1000;
  size.columns = given(schedule, "warpgroups") % 1000;
  int64_t wanted = given(schedule, "stages") != 0 ? given(schedule, "stages") : 5;
  size.stages = std::clamp(std::min(wanted, kHopperSharedBytesMax / size.stage_bytes()), kStagesMin,
                           kStagesMax);
  return size;
}

// A warpgroup takes 64 rows and all columns, and its products run while threads copy later steps of
// k: each waits for the products of the step before, and the barrier says that all of them did, so
// that a stage is loaded anew two steps after it was multiplied.
class WgmmaEmitter {
 public:
  WgmmaEmitter(const Graph& body, const Contraction& contraction, WgmmaSize size, int64_t splits)
      : block_(body, contraction, {size.rows, size.columns, size.threads()}),
        w_(block_.writer()),
        c_(contraction),
        s_(size),
        splits_(splits),
        stages_(block_, {kDepth, size.stages, true}) {}

  Result<GpuFunction> run() {
    int64_t staged = s_.rows * (s_.columns + kPad) * int64_t{4};
    int64_t bytes = std::max(s_.stages * stages_.stage_bytes(), staged);
    bytes = (bytes + kPattern - 1) / kPattern * kPattern;
    block_.begin(bytes, splits_, s_.rows * s_.columns, kPattern);
    declare();
    steps();
    block_.share_sums(sums(), [](const std::string& i) { return cat("sum[", i, "]"); });
    store();
    return block_.finish();
  }

 private:
  // Of a thread.
  int64_t sums() const { return s_.columns / 2; }

  // A row of chunks, in bytes: what is permuted as one.
  int64_t swizzle(const CudaTileStages::Operand& x) const {
    return std::min<int64_t>(stages_.row_chunks(x), CudaTileStages::kGroupChunks) * 16;
  }
  // From a step of 16 k to the next, in 16 bytes.
  int64_t step_units(const CudaTileStages::Operand& x) const {
    return x.along_k ? kStep * 2 / 16 : kStep * swizzle(x) / 16;
  }

  void declare() {
    block_.lines(cat("const int lane = tid % 32, group = __shfl_sync(0xffffffffu, tid / ",
                     kGroupThreads, ", 0);\nfloat sum[", sums(), "] = {};"));
    block_.declare_steps(kDepth);
    stages_.declare();
    for (const auto* x : {&stages_.left(), &stages_.right()}) {
      bool is_left = x->side == Side::kLeft;
      // A warpgroup's rows: eights of them, or a group of chunks for each k.
      std::string from = is_left ? cat("memory + group * ", kGroupRows * kDepth * 2)
                                 : cat("memory + ", stages_.bytes(stages_.left()));
      w_.line(cat("const uint64_t ", x->name, " = lf_matrix(", from, ", ",
                  x->along_k ? 16 : kDepth * swizzle(*x), ", ", 8 * swizzle(*x), ", ", swizzle(*x),
                  ");"));
    }
  }

  void steps() {
    w_.open(true);
    w_.open(true);
    multiply();
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

  void multiply() {
    const auto& a = stages_.left();
    const auto& b = stages_.right();
    block_.lines(cat("lf_cp_async_wait<", s_.stages - 3,
                     ">();\nlf_fence_async();\n__syncthreads();\n",
                     "const uint64_t at = (uint64_t)(step % ", s_.stages, " * ",
                     stages_.stage_bytes() / 16, ");\nlf_wgmma_fence();"));
    std::string_view name =
        c_.operand_dtype(Side::kLeft) == DType::kFloat16 ? "lf_wgmma_f16" : "lf_wgmma_bf16";
    for (int64_t k = 0; k < kDepth / kStep; ++k) {
      w_.line(cat(name, "<", a.along_k ? 0 : 1, ", ", b.along_k ? 0 : 1, ">(sum, left + at + ",
                  k * step_units(a), ", right + at + ", k * step_units(b), ");"));
    }
    w_.line("lf_wgmma_commit();");
  }

  void store() {
    block_.lines(cat("float (* const stage)[", s_.columns + kPad, "] = (float (*)[",
                     s_.columns + kPad, "])memory;\n", unrolled_loop("i", sums()),
                     " stage[tid / 32 * 16 + lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + "
                     "i % 2] = sum[i];\n__syncthreads();"));
    block_.store("0", s_.rows);
  }

  CudaTileBlock block_;
  CodeWriter& w_;
  const Contraction& c_;
  WgmmaSize s_;
  int64_t splits_;
  CudaTileStages stages_;
};

}  // namespace

bool cuda_tile_is_wgmma(const Contraction& contraction, const Schedule& schedule) {
  DType left = contraction.operand_dtype(Side::kLeft);
  return given(schedule, "warpgroups") != 0 && common::is_half(left) &&
         left == contraction.operand_dtype(Side::kRight);
}

Result<GpuFunction> emit_cuda_tile_wgmma(const Graph& body, const Contraction& contraction,
                                         const Schedule& schedule, const CudaMachine& machine) {
  WgmmaSize size = choose_size(schedule);
  int64_t splits = cuda_tile_splits(contraction, {size.rows, size.columns, size.threads()}, kDepth,
                                    schedule, body.symbols, machine);
  return WgmmaEmitter(body, contraction, size, splits).run();
}

}  // namespace worker
