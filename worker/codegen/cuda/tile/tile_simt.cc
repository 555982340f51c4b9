#include "worker/codegen/cuda/tile/tile_simt.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/hlir/dtype.h"
#include "worker/codegen/cuda/tile/tile_block.h"

namespace worker {

using common::cat;
using common::CodeWriter;
using common::Contraction;
using common::Expr;
using common::GpuFunction;
using common::Graph;
using common::Result;
using common::Side;
using common::ThreadTiling;

namespace {

// Each step loads the next block of both operands into registers, multiplies the one in shared
// memory, then stores what it loaded into the other half of shared memory.
class SimtEmitter {
 public:
  SimtEmitter(const Contraction& contraction, const ThreadTiling& tiling)
      : block_(contraction,
               {tiling.rows, tiling.columns, static_cast<int>(tiling.threads()), tiling.stores}),
        w_(block_.writer()),
        c_(contraction),
        s_(tiling),
        left_{Side::kLeft, "left", tiling.rows, contraction.runs_along_k(Side::kLeft), Expr(0)},
        right_{Side::kRight, "right", tiling.columns, contraction.runs_along_k(Side::kRight),
               Expr(0)} {}

  Result<GpuFunction> run() {
    int64_t element = common::dtype_size(c_.node().dtype);
    int64_t staged = stage_rows() * (s_.columns + common::kThreadTilePad) * element;
    block_.begin(std::max(common::thread_tile_bytes(s_, element), staged), s_.splits,
                 s_.rows * s_.columns);
    declare();
    steps();
    block_.share_sums(s_.tall * s_.wide, [this](const std::string& i) {
      return cat("sum[", i, " / ", s_.wide, "][", i, " % ", s_.wide, "]");
    });
    store();
    return block_.finish();
  }

 private:
  // An operand's part in loading.
  struct Loaded {
    Side side;
    std::string name;
    int64_t width;  // rows or columns of the block
    bool along_k;   // neighbouring threads read neighbours along k
    Expr own;       // where each thread reads one row or column only
  };
  int64_t per_thread(const Loaded& x) const { return x.width * s_.depth / s_.threads(); }
  int64_t stride(const Loaded& x) const { return x.width + common::kThreadTilePad; }
  // Rows of the product that are staged at a time.
  int64_t stage_rows() const { return s_.rows / s_.tall * std::min<int64_t>(s_.tall, 4); }

  void declare() {
    const std::string& type = block_.type();
    int64_t offset = 0;
    for (Loaded* x : {&left_, &right_}) {
      w_.line(cat(type, " (* const ", x->name, ")[", s_.depth, "][", stride(*x), "] = (", type,
                  " (*)[", s_.depth, "][", stride(*x), "])(memory + ", offset, ");"));
      offset += 2 * s_.depth * stride(*x) * common::dtype_size(c_.node().dtype);
      w_.line(cat(type, " next_", x->name, "[", per_thread(*x), "];"));
      if (!x->along_k) x->own = block_.own_index(x->side, cat("tid % ", x->width));
    }
    w_.line(cat("const int ty = tid / ", s_.columns / s_.wide, ", tx = tid % ",
                s_.columns / s_.wide, ";"));
    w_.line(cat(type, " sum[", s_.tall, "][", s_.wide, "] = {};"));
    w_.line("int half = 0;");
    block_.declare_part(s_.depth);
  }

  void steps() {
    std::string begin = block_.part_begin();
    std::string end = block_.part_end();
    w_.open(true);
    w_.open(true);
    load(left_);
    load(right_);
    w_.close(cat("if (k0 < ", end, ")"));
    w_.open(true);
    multiply();
    w_.close(cat("if (k0 > ", begin, ")"));
    w_.open(true);
    keep(left_);
    keep(right_);
    w_.close(cat("if (k0 < ", end, ")"));
    w_.line("__syncthreads();");
    w_.line("half ^= 1;");
    w_.close(cat("for (int64_t k0 = ", begin, "; k0 < ", end, " + ", s_.depth, "; k0 += ", s_.depth,
                 ")"));
  }

  // Row and column of shared memory for a thread's element x.
  std::string step_of(const Loaded& x) const {
    return x.along_k ? cat("tid % ", s_.depth)
                     : cat("tid / ", x.width, " + x * ", s_.threads() / x.width);
  }
  std::string own_of(const Loaded& x) const {
    return x.along_k ? cat("tid / ", s_.depth, " + x * ", s_.threads() / s_.depth)
                     : cat("tid % ", x.width);
  }
  std::string slots(const Loaded& x) const {
    return cat("#pragma unroll\nfor (int x = 0; x < ", per_thread(x), "; ++x)");
  }

  void load(const Loaded& x) {
    std::string step = cat("k0 + ", step_of(x));
    Expr k;
    if (x.along_k) k = block_.k_index(step);
    w_.open(false);
    if (!x.along_k) k = block_.k_index(step);
    Expr own = x.along_k ? block_.own_index(x.side, own_of(x)) : x.own;
    std::string value = block_.operand(x.side, own, k);
    std::string masked =
        block_.covers_k(s_.depth) ? value : cat(step, " < ", block_.k_size(), " ? ", value, " : 0");
    w_.line(cat("next_", x.name, "[x] = ", masked, ";"));
    w_.close(slots(x));
  }

  void keep(const Loaded& x) {
    w_.open(false);
    w_.line(cat(x.name, "[half][", step_of(x), "][", own_of(x), "] = next_", x.name, "[x];"));
    w_.close(slots(x));
  }

  // A thread's rows (columns) lie in groups of four, one group in each of tall / 4 parts of the
  // block, so that the threads of a warp read neighbouring groups.
  std::string place(int64_t count, int64_t width, const char* thread, const char* i) const {
    int64_t group = std::min<int64_t>(count, 4);
    if (count == group) return cat(thread, " * ", group, " + ", i);
    return cat(i, " / ", group, " * ", width / (count / group), " + ", thread, " * ", group, " + ",
               i, " % ", group);
  }

  void multiply() {
    const std::string& type = block_.type();
    std::string fma = type == "float" ? "fmaf" : "fma";
    block_.lines(cat(
        "#pragma unroll\nfor (int k = 0; k < ", s_.depth, "; ++k) {\n", "  ", type, " a[", s_.tall,
        "], b[", s_.wide, "];\n", "  #pragma unroll\n  for (int i = 0; i < ", s_.tall,
        "; ++i) a[i] = left[half ^ 1][k][", place(s_.tall, s_.rows, "ty", "i"), "];\n",
        "  #pragma unroll\n  for (int j = 0; j < ", s_.wide, "; ++j) b[j] = right[half ^ 1][k][",
        place(s_.wide, s_.columns, "tx", "j"), "];\n", "  #pragma unroll\n  for (int i = 0; i < ",
        s_.tall, "; ++i) {\n", "    #pragma unroll\n    for (int j = 0; j < ", s_.wide,
        "; ++j) sum[i][j] = ", fma, "(a[i], b[j], sum[i][j]);\n", "  }\n}"));
  }

  void store() {
    int64_t group = std::min<int64_t>(s_.tall, 4);
    const std::string& type = block_.type();
    w_.line(cat(type, " (* const stage)[", s_.columns + common::kThreadTilePad, "] = (", type,
                " (*)[", s_.columns + common::kThreadTilePad, "])memory;"));
    w_.open(false);
    // The steps, too, end with a barrier.
    block_.lines(cat("if (part != 0) __syncthreads();\n#pragma unroll\nfor (int i = 0; i < ", group,
                     "; ++i) {\n", "  #pragma unroll\n  for (int j = 0; j < ", s_.wide,
                     "; ++j) stage[ty * ", group, " + i][", place(s_.wide, s_.columns, "tx", "j"),
                     "] = sum[part * ", group, " + i][j];\n}\n__syncthreads();"));
    block_.store(cat("part * ", stage_rows()), stage_rows());
    w_.close(cat("#pragma unroll\nfor (int part = 0; part < ", s_.tall / group, "; ++part)"));
  }

  CudaTileBlock block_;
  CodeWriter& w_;
  const Contraction& c_;
  ThreadTiling s_;
  Loaded left_, right_;
};

}  // namespace

Result<GpuFunction> emit_cuda_tile_simt(const Contraction& contraction,
                                        const ThreadTiling& tiling) {
  return SimtEmitter(contraction, tiling).run();
}

}  // namespace worker
