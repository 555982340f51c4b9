#include "worker/codegen/cuda/tile/tile_mma.h"

#include <algorithm>

#include "common/base/cat.h"
#include "worker/codegen/cuda/tile/tile_block.h"
#include "worker/codegen/cuda/tile/tile_stages.h"

namespace worker {

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

namespace {

struct MmaSize {
  int64_t rows, columns, depth;  // of a block
  int64_t tall, wide;            // of a warp's tile: multiples of 16
  int64_t stages;                // blocks of operands in shared memory
  int threads() const { return static_cast<int>(rows / tall * (columns / wide) * 32); }
};
// None takes more shared memory than 99 KiB, which every GPU with such tensor cores has.
constexpr MmaSize kSizes[] = {
    {128, 128, 64, 64, 64, 3}, {128, 64, 64, 64, 32, 3}, {64, 128, 64, 32, 64, 3},
    {64, 64, 64, 32, 32, 4},   {32, 128, 64, 32, 32, 4}, {128, 32, 64, 32, 32, 4},
    {32, 64, 64, 16, 32, 4},   {64, 32, 64, 32, 16, 4},  {32, 32, 64, 16, 16, 6},
    {16, 64, 64, 16, 16, 6},   {64, 16, 64, 16, 16, 6},  {16, 32, 64, 16, 16, 6},
    {32, 16, 64, 16, 16, 6}};
constexpr int64_t kPad = 4;  // of the product's rows in shared memory

double cost_of(const MmaSize& s, const Contraction& contraction, const Schedule& schedule,
               const std::vector<common::SymbolRange>& symbols, const CudaMachine& machine) {
  // A warp tile of 64 x 64 takes shared memory as long as it takes the tensor cores.
  double overhead = 1 + 32 * (1 / static_cast<double>(s.tall) + 1 / static_cast<double>(s.wide));
  CudaBlockSize block{s.rows, s.columns, s.threads()};
  int64_t splits = cuda_tile_splits(contraction, block, s.depth, schedule, symbols, machine);
  return cuda_block_cost(contraction, block, overhead, schedule, symbols, machine, splits);
}

MmaSize choose_size(const Contraction& contraction, const Schedule& schedule,
                    const std::vector<common::SymbolRange>& symbols, const CudaMachine& machine) {
  return cheapest_size(kSizes, [&](const MmaSize& s) {
    return cost_of(s, contraction, schedule, symbols, machine);
  });
}

// Steps of k are loaded `stages` - 1 ahead of the one that is multiplied.
class MmaEmitter {
 public:
  MmaEmitter(const Graph& body, const Contraction& contraction, MmaSize size, int64_t splits)
      : block_(body, contraction, {size.rows, size.columns, size.threads()}),
        w_(block_.writer()),
        c_(contraction),
        s_(size),
        splits_(splits),
        stages_(block_, {size.depth, size.stages}) {}

  Result<GpuFunction> run() {
    block_.begin(
        std::max(s_.stages * stages_.stage_bytes(), s_.rows * (s_.columns + kPad) * int64_t{4}),
        splits_, s_.rows * s_.columns);
    declare();
    steps();
    block_.share_sums(sums(), [this](const std::string& i) {
      return cat("sum[", i, " / ", s_.wide / 2, "][", i, " / 4 % ", s_.wide / 8, "][", i, " % 4]");
    });
    store();
    return block_.finish();
  }

 private:
  // Of a thread.
  int64_t sums() const { return s_.tall * s_.wide / 32; }

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
    w_.close("if (step >= 0)");
    if (stages_.keeps()) {
      w_.open(true);
      stages_.keep();
      w_.close("if (ahead < steps)");
    }
    w_.close(cat("for (int step = ", 1 - s_.stages, "; step < steps; ++step)"));
    block_.lines("lf_cp_async_wait<0>();\n__syncthreads();");
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
        cat("float (* const stage)[", s_.columns + kPad, "] = (float (*)[", s_.columns + kPad,
            "])memory;\n#pragma unroll\nfor (int i = 0; i < ", s_.tall / 16,
            "; ++i) {\n  #pragma unroll\n  for (int j = 0; j < ", s_.wide / 8,
            "; ++j) {\n    #pragma unroll\n    for (int e = 0; e < 4; ++e) {\n",
            "      stage[wm + i * 16 + lane / 4 + e / 2 * 8][wn + j * 8 + lane % 4 * 2 + e % 2] = ",
            "sum[i][j][e];\n    }\n  }\n}\n__syncthreads();"));
    block_.store("0", s_.rows);
  }

  CudaTileBlock block_;
  CodeWriter& w_;
  const Contraction& c_;
  MmaSize s_;
  int64_t splits_;
  CudaTileStages stages_;
};

}  // namespace

double cuda_tile_mma_cost(const Contraction& contraction, const Schedule& schedule,
                          const std::vector<common::SymbolRange>& symbols,
                          const CudaMachine& machine) {
  return cost_of(choose_size(contraction, schedule, symbols, machine), contraction, schedule,
                 symbols, machine);
}

Result<GpuFunction> emit_cuda_tile_mma(const Graph& body, const Contraction& contraction,
                                       const Schedule& schedule, const CudaMachine& machine) {
  MmaSize size = choose_size(contraction, schedule, body.symbols, machine);
  int64_t splits = cuda_tile_splits(contraction, {size.rows, size.columns, size.threads()},
                                    size.depth, schedule, body.symbols, machine);
  return MmaEmitter(body, contraction, size, splits).run();
}

}  // namespace worker
