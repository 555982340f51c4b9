#include "worker/codegen/cuda/tile_mma.h"

#include <algorithm>

#include "common/base/cat.h"
#include "worker/codegen/cuda/tile_block.h"

namespace worker {

using common::cat;
using common::DType;
using common::Expr;
using common::Graph;
using common::Result;
using common::Schedule;

namespace {

struct MmaSize {
  int64_t rows, columns, depth;  // of a block
  int64_t tall, wide;            // of a warp's tile: multiples of 16
  int64_t stages;                // blocks of operands in shared memory
  int threads() const { return static_cast<int>(rows / tall * (columns / wide) * 32); }
  int64_t stage_bytes() const { return (rows + columns) * depth * 2; }
};
// None takes more shared memory than 99 KiB, which every GPU with such tensor cores has.
constexpr MmaSize kSizes[] = {
    {128, 128, 64, 64, 64, 3}, {128, 64, 64, 64, 32, 3}, {64, 128, 64, 32, 64, 3},
    {64, 64, 64, 32, 32, 4},   {32, 128, 64, 32, 32, 4}, {128, 32, 64, 32, 32, 4},
    {32, 64, 64, 16, 32, 4},   {64, 32, 64, 32, 16, 4},  {32, 32, 64, 16, 16, 6},
    {16, 64, 64, 16, 16, 6},   {64, 16, 64, 16, 16, 6},  {16, 32, 64, 16, 16, 6},
    {32, 16, 64, 16, 16, 6}};
constexpr int64_t kChunk = 8;  // elements of 16 bytes
constexpr int64_t kPad = 4;    // of the product's rows in shared memory

MmaSize choose_size(const Contraction& contraction, const Schedule& schedule,
                    const std::vector<common::SymbolRange>& symbols) {
  return cheapest_size(kSizes, [&](const MmaSize& s) {
    // A warp tile of 64 x 64 takes shared memory as long as it takes the tensor cores.
    double overhead = 1 + 32 * (1 / static_cast<double>(s.tall) + 1 / static_cast<double>(s.wide));
    return cuda_block_cost(contraction, {s.rows, s.columns, s.threads()}, overhead, schedule,
                           symbols);
  });
}

// Shared memory holds `stages` blocks of both operands. A block is rows of 16-byte chunks that run
// as the operand's memory does: along k (a row for each row or column of the product) or along its
// own axis (a row for each k). Chunks are permuted within their row so that ldmatrix, which reads
// one chunk of eight rows, meets every bank once.
class MmaEmitter {
 public:
  MmaEmitter(const Graph& body, const Contraction& contraction, MmaSize size)
      : block_(body, contraction, {size.rows, size.columns, size.threads()}),
        w_(block_.writer()),
        c_(contraction),
        s_(size) {
    left_ = side(Side::kLeft, "left", size.rows);
    right_ = side(Side::kRight, "right", size.columns);
  }

  Result<CudaFunction> run() {
    block_.begin(
        std::max(s_.stages * s_.stage_bytes(), s_.rows * (s_.columns + kPad) * int64_t{4}));
    declare();
    steps();
    store();
    return block_.finish();
  }

 private:
  struct Loaded {
    Side side{};
    std::string name;
    int64_t width = 0;     // rows or columns of the block
    bool along_k = false;  // chunks run along k
    bool copied = false;   // chunks are copied as they are
  };

  Loaded side(Side which, const char* name, int64_t width) const {
    Loaded x{which, name, width, c_.runs_along_k(which), false};
    x.copied = c_.reads_chunks(which, x.along_k, kChunk);
    return x;
  }

  int64_t row_chunks(const Loaded& x) const { return (x.along_k ? s_.depth : x.width) / kChunk; }
  int64_t per_thread(const Loaded& x) const { return x.width * s_.depth / kChunk / s_.threads(); }
  int64_t bytes(const Loaded& x) const { return x.width * s_.depth * 2; }

  // The byte of a block at which a chunk lies.
  std::string place(const Loaded& x, const std::string& row, const std::string& chunk) const {
    int64_t chunks = row_chunks(x);
    std::string turn = chunks >= 8   ? cat(row, " % 8")
                       : chunks == 4 ? cat(row, " / 2 % 4")
                                     : cat(row, " / 4 % 2");
    return cat("(", row, ") * ", chunks * 16, " + (((", chunk, ") ^ ((", turn, "))) * 16)");
  }

  void declare() {
    block_.lines(cat("const int lane = tid % 32;\nconst int wm = tid / 32 / ", s_.columns / s_.wide,
                     " * ", s_.tall, ", wn = tid / 32 % ", s_.columns / s_.wide, " * ", s_.wide,
                     ";\n", "float sum[", s_.tall / 16, "][", s_.wide / 8, "][4] = {};\n",
                     "const int steps = (int)((", block_.k_size(), " + ", s_.depth - 1, ") / ",
                     s_.depth, ");"));
    for (const Loaded* x : {&left_, &right_}) {
      if (!x->copied) w_.line(cat("uint4 next_", x->name, "[", per_thread(*x), "];"));
    }
  }

  // The first steps only load. A block is loaded where the one before last was read, which the
  // barrier says all threads have done.
  void steps() {
    w_.open(true);
    block_.lines(cat("if (step >= 0) {\n  lf_cp_async_wait<", s_.stages - 2,
                     ">();\n  __syncthreads();\n}\nconst int ahead = step + ", s_.stages - 1,
                     ";\nunsigned char* const to = memory + ahead % ", s_.stages, " * ",
                     s_.stage_bytes(), ";\nconst int64_t k0 = (int64_t)ahead * ", s_.depth, ";"));
    w_.open(true);
    for (const Loaded* x : {&left_, &right_}) x->copied ? copy(*x) : load(*x);
    w_.close("if (ahead < steps)");
    w_.line("lf_cp_async_commit();");
    w_.open(true);
    multiply();
    w_.close("if (step >= 0)");
    if (!left_.copied || !right_.copied) {
      w_.open(true);
      for (const Loaded* x : {&left_, &right_}) {
        if (!x->copied) keep(*x);
      }
      w_.close("if (ahead < steps)");
    }
    w_.close(cat("for (int step = ", 1 - s_.stages, "; step < steps; ++step)"));
    block_.lines("lf_cp_async_wait<0>();\n__syncthreads();");
  }

  void open_slots(const Loaded& x) {
    w_.open(false);
    w_.line(cat("const int row = tid / ", row_chunks(x), " + x * ", s_.threads() / row_chunks(x),
                ", chunk = tid % ", row_chunks(x), ";"));
  }
  void close_slots(const Loaded& x) {
    w_.close(cat("#pragma unroll\nfor (int x = 0; x < ", per_thread(x), "; ++x)"));
  }
  std::string target(const Loaded& x) const {
    return cat("to + ", x.side == Side::kLeft ? 0 : bytes(left_), " + ", place(x, "row", "chunk"));
  }

  void copy(const Loaded& x) {
    open_slots(x);
    std::string step = x.along_k ? "k0 + chunk * 8" : "k0 + row";
    bool whole = block_.covers_k(s_.depth);
    Expr k = block_.k_index(
        whole ? step : cat("(", step, " < ", block_.k_size(), " ? ", step, " : 0)"), false);
    Expr own = x.along_k ? block_.own_index(x.side, "row") : block_.own_chunk(x.side, "chunk * 8");
    auto read = c_.read_at(x.side, block_.operand_at(x.side, own, k), block_.emitter());
    LFARM_CHECK(read.has_value(), "chunks are copied from inputs");
    std::string from = cat("in", read->input, " + ", w_.text(read->offset));
    if (whole) {
      w_.line(cat("lf_cp_async16(", target(x), ", ", from, ");"));
    } else {
      w_.line(cat("lf_cp_async16_zfill(", target(x), ", ", from, ", ", step, " < ", block_.k_size(),
                  " ? 16 : 0);"));
    }
    close_slots(x);
  }

  void load(const Loaded& x) {
    open_slots(x);
    w_.line("uint16_t h[8];");
    std::string step = x.along_k ? "k0 + chunk * 8 + y" : "k0 + row";
    bool whole = block_.covers_k(s_.depth);
    Expr own, k;
    if (x.along_k) {
      own = block_.own_index(x.side, "row");
    } else {
      k = block_.k_index(step, !whole);
    }
    w_.open(false);
    if (x.along_k) {
      k = block_.k_index(step, !whole);
    } else {
      own = block_.own_index(x.side, "chunk * 8 + y");
    }
    std::string value = block_.operand(x.side, own, k, false);
    w_.line(cat("h[y] = ", whole ? value : cat(step, " < ", block_.k_size(), " ? ", value, " : 0"),
                ";"));
    w_.close("#pragma unroll\nfor (int y = 0; y < 8; ++y)");
    auto pair = [](int y) { return cat("h[", y, "] | (uint32_t)h[", y + 1, "] << 16"); };
    w_.line(cat("next_", x.name, "[x] = make_uint4(", pair(0), ", ", pair(2), ", ", pair(4), ", ",
                pair(6), ");"));
    close_slots(x);
  }

  void keep(const Loaded& x) {
    open_slots(x);
    w_.line(cat("*(uint4*)(", target(x), ") = next_", x.name, "[x];"));
    close_slots(x);
  }

  // ldmatrix gives each of four 8 x 8 matrices' elements to the lanes as mma wants them; where
  // chunks run along the operand's own axis they are transposed on the way.
  void multiply() {
    bool half = c_.operand_dtype(Side::kLeft) == DType::kFloat16;
    std::string left =
        left_.along_k
            ? place(left_, "(wm + i * 16 + lane % 16)", "k / 8 + lane / 16")
            : place(left_, "(k + lane % 8 + lane / 16 * 8)", "(wm + i * 16) / 8 + lane / 8 % 2");
    std::string right =
        right_.along_k
            ? place(right_, "(wn + j * 8 + lane % 8 + lane / 16 * 8)", "k / 8 + lane / 8 % 2")
            : place(right_, "(k + lane % 8 + lane / 8 % 2 * 8)", "(wn + j * 8) / 8 + lane / 16");
    block_.lines(
        cat("const unsigned char* const from = memory + step % ", s_.stages, " * ",
            s_.stage_bytes(), ";\n#pragma unroll\nfor (int k = 0; k < ", s_.depth, "; k += 16) {\n",
            "  uint32_t a[", s_.tall / 16, "][4], b[", s_.wide / 8, "][2];\n",
            "  #pragma unroll\n  for (int i = 0; i < ", s_.tall / 16, "; ++i) lf_ldmatrix_x4",
            left_.along_k ? "" : "_trans", "(a[i], from + ", left, ");\n",
            "  #pragma unroll\n  for (int j = 0; j < ", s_.wide / 8, "; j += 2) {\n",
            "    uint32_t q[4];\n    lf_ldmatrix_x4", right_.along_k ? "" : "_trans", "(q, from + ",
            bytes(left_), " + ", right, ");\n",
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
  Loaded left_, right_;
};

}  // namespace

Result<CudaFunction> emit_cuda_tile_mma(const Graph& body, const Contraction& contraction,
                                        const Schedule& schedule) {
  MmaSize size = choose_size(contraction, schedule, body.symbols);
  return MmaEmitter(body, contraction, size).run();
}

}  // namespace worker
