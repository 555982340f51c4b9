#include "worker/codegen/cuda/tile/tile_skinny.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/cuda/text/split.h"
#include "worker/codegen/cuda/tile/tile_block.h"

namespace worker {

using common::c_cast;
using common::cat;
using common::CodeWriter;
using common::Contraction;
using common::DType;
using common::Expr;
using common::GpuFunction;
using common::Graph;
using common::Result;
using common::Side;
using common::SkinnyReads;
using common::SkinnyTiling;

namespace {

constexpr int64_t kWarpRows = common::kSkinnyWarpRows;

// The matrix is the side with many rows. Its elements are read in order, 16 bytes at a time where
// that is possible, by all threads of a block, and each is used for all of the few rows at once.
// The sums of the threads are added in the end, and those of the blocks where several share a k.
// Two to sixteen rows that tensor cores can take are multiplied by them.
class SkinnyEmitter {
 public:
  SkinnyEmitter(const Contraction& contraction, const SkinnyTiling& tiling)
      : c_(contraction),
        reads_(skinny_reads(contraction)),
        z_(tiling),
        few_(reads_.few),
        many_(reads_.many),
        few_count_(reads_.few_count),
        block_(contraction, size_of(reads_, tiling)) {}

  Result<GpuFunction> run() {
    int64_t element = common::dtype_size(c_.node().dtype);
    int64_t parts = reads_.along_k ? z_.threads() / 32 : z_.down;
    int64_t sums = few_count_ * z_.rows;
    block_.begin((parts + 1) * sums * element, z_.splits, sums);
    if (z_.splits > 1) {
      block_.lines(cuda_split_range(z_.splits, "0", block_.k_size(), step()));
      begin_ = "begin";
      end_ = "end";
    } else {
      end_ = block_.k_size();
    }
    if (reads_.on_tensor_cores) {
      sum_on_tensor_cores();
    } else {
      reads_.along_k ? sum_along() : sum_across();
    }
    collect(parts);
    return block_.finish();
  }

 private:
  static CudaBlockSize size_of(const SkinnyReads& reads, const SkinnyTiling& t) {
    const bool few_rows = reads.few == Side::kLeft;
    return {few_rows ? reads.few_count : t.rows, few_rows ? t.rows : reads.few_count,
            static_cast<int>(t.threads())};
  }
  // Of k, that all threads of a block take before they start again.
  int64_t step() const { return z_.step(reads_); }

  // Products of 16 rows, 8 columns and 16 steps whose left operand are rows of the matrix. A
  // product does not mind in which order both sides name k: lane 4 g + t has the chunks t of rows
  // g, and their words are fragments as they lie in memory, two products for 16 bytes.
  void sum_on_tensor_cores() {
    CodeWriter& w = block_.writer();
    const bool whole = block_.covers_k(step());
    const int64_t panels = (few_count_ + 7) / 8, tall = z_.rows / kWarpRows;
    std::string position = cat("k0 + (u * ", z_.across, " + tid / 32 * 4 + t) * ", reads_.length);
    std::string at = position;
    if (!whole) at = cat("(", position, " < ", end_, " ? ", position, " : 0)");
    auto masked = [&](const std::string& words) {
      if (whole) return;
      w.line(cat("if (", position, " >= ", end_, ") ", words, "[0] = ", words, "[1] = ", words,
                 "[2] = ", words, "[3] = 0;"));
    };
    block_.lines(cat("const int g = tid % 32 / 4, t = tid % 4;\nfloat sum[", panels, "][", tall,
                     "][4] = {};"));
    w.open(true);
    w.line(cat("uint32_t matrix[", z_.ahead, "][", 2 * tall, "][4];"));
    w.open(false);
    Expr k = block_.k_index(at, false);
    w.open(false);
    Expr own = block_.own_index(many_, "r * 8 + g");
    read_chunk("matrix[u][r]", cat("lf_load_stream16(", place(many_, own, k), ")"));
    masked("matrix[u][r]");
    w.close(unrolled_loop("r", 2 * tall));
    w.close(unrolled_loop("u", z_.ahead));
    w.open(false);
    Expr again = block_.k_index(at, false);
    w.open(false);
    Expr few = block_.own_index(few_, cat("min(f * 8 + g, ", few_count_ - 1, ")"));
    w.line("uint32_t x[4];");
    read_chunk("x", cat("*(const uint4*)(", place(few_, few, again), ")"));
    masked("x");
    const char* multiply = c_.operand_dtype(few_) == DType::kFloat16 ? "lf_mma_f16" : "lf_mma_bf16";
    block_.lines(cat(unrolled_loop("m", tall), " {\n", unrolled_loop("h", 2),
                     " {\nconst uint32_t a[4] = {matrix[u][m * 2][h * 2], "
                     "matrix[u][m * 2 + 1][h * 2], matrix[u][m * 2][h * 2 + 1], "
                     "matrix[u][m * 2 + 1][h * 2 + 1]}, b[2] = {x[h * 2], x[h * 2 + 1]};\n",
                     multiply, "(sum[f][m], a, b);\n}\n}"));
    w.close(unrolled_loop("f", panels));
    w.close(unrolled_loop("u", z_.ahead));
    close_steps();
  }

  const std::string& type() const { return block_.type(); }
  std::string fma(const std::string& a, const std::string& b, const std::string& c) const {
    return cat(c, " = ", type() == "float" ? "fmaf(" : "fma(", a, ", ", b, ", ", c, ");");
  }
  // Element `y` of four words, of the product's dtype.
  std::string element(DType dtype, const std::string& words, const std::string& y) const {
    std::string bits = common::dtype_size(dtype) == 2
                           ? cat("(uint16_t)(", words, "[", y, " / 2] >> ", y, " % 2 * 16)")
                       : common::dtype_size(dtype) == 4
                           ? cat("__uint_as_float(", words, "[", y, "])")
                           : "";
    return c_cast(dtype, c_.node().dtype, bits);
  }
  std::string place(Side side, const Expr& own, const Expr& k) {
    auto read = c_.read_at(side, block_.operand_at(side, own, k), block_.emitter());
    LFARM_CHECK(read.has_value(), "chunks are read from inputs");
    return cat("in", read->input, " + ", block_.writer().text(read->offset));
  }
  void read_chunk(const std::string& words, const std::string& place) {
    block_.lines(cat("const uint4 q = ", place, ";\n", words, "[0] = q.x, ", words, "[1] = q.y, ",
                     words, "[2] = q.z, ", words, "[3] = q.w;"));
  }

  // The matrix's memory runs along k: all threads share a row.
  void sum_along() {
    CodeWriter& w = block_.writer();
    bool whole = block_.covers_k(step());
    std::string position = cat("k0 + (u * ", z_.across, " + tid) * ", reads_.length);
    w.line(cat(type(), " sum[", few_count_, "][", z_.rows, "] = {};"));
    w.open(true);
    std::string kept = reads_.in_chunks ? "[4]" : "";
    w.line(cat(reads_.in_chunks ? "uint32_t" : type(), " matrix[", z_.ahead, "][", z_.rows, "]",
               kept, ";"));
    w.open(false);
    Expr k = block_.k_index(
        whole ? position : cat("(", position, " < ", end_, " ? ", position, " : 0)"), false);
    w.open(false);
    Expr own = block_.own_index(many_, "r");
    if (reads_.in_chunks) {
      read_chunk("matrix[u][r]", cat("lf_load_stream16(", place(many_, own, k), ")"));
    } else {
      w.line(cat("matrix[u][r] = ", block_.operand(many_, own, k), ";"));
    }
    w.close(unrolled_loop("r", z_.rows));
    w.close(unrolled_loop("u", z_.ahead));
    w.open(false);
    w.open(!whole);
    multiply_along(position);
    w.close(whole ? "" : cat("if (", position, " < ", end_, ")"));
    w.close(unrolled_loop("u", z_.ahead));
    close_steps();
  }

  void close_steps() {
    block_.writer().close(
        cat("for (int64_t k0 = ", begin_, "; k0 < ", end_, "; k0 += ", step(), ")"));
  }

  void multiply_along(const std::string& position) {
    CodeWriter& w = block_.writer();
    w.open(false);
    if (reads_.few_in_chunks) {
      Expr k = block_.k_index(position, false);
      Expr own = block_.own_index(few_, "f");
      w.line("uint32_t words[4];");
      read_chunk("words", cat("*(const uint4*)(", place(few_, own, k), ")"));
    }
    w.open(false);
    std::string x;
    if (reads_.few_in_chunks) {
      x = element(c_.operand_dtype(few_), "words", "y");
    } else {
      Expr k = block_.k_index(cat(position, " + y"), false);
      x = block_.operand(few_, block_.own_index(few_, "f"), k);
    }
    w.line(cat("const ", type(), " few = ", x, ";"));
    w.open(false);
    std::string m =
        reads_.in_chunks ? element(c_.operand_dtype(many_), "matrix[u][r]", "y") : "matrix[u][r]";
    w.line(fma("few", m, "sum[f][r]"));
    w.close(unrolled_loop("r", z_.rows));
    w.close(unrolled_loop("y", reads_.length));
    w.close(unrolled_loop("f", few_count_));
  }

  // The matrix's memory runs along its own axis: threads share a k, and differ in it from group to
  // group.
  void sum_across() {
    CodeWriter& w = block_.writer();
    bool whole = block_.covers_k(step());
    std::string position = cat("k0 + u * ", z_.down, " + down");
    block_.lines(cat("const int across = tid % ", z_.across, " * ", reads_.length,
                     ", down = tid / ", z_.across, ";\n", type(), " sum[", few_count_, "][",
                     reads_.length, "] = {};"));
    Expr own =
        reads_.in_chunks ? block_.own_chunk(many_, "across") : block_.own_index(many_, "across");
    w.open(true);
    std::string kept = reads_.in_chunks ? "[4]" : "";
    w.line(cat(reads_.in_chunks ? "uint32_t" : type(), " matrix[", z_.ahead, "]", kept, ";"));
    w.open(false);
    Expr k = block_.k_index(position, !whole);
    if (reads_.in_chunks) {
      read_chunk("matrix[u]", cat("lf_load_stream16(", place(many_, own, k), ")"));
    } else {
      w.line(cat("matrix[u] = ", block_.operand(many_, own, k), ";"));
    }
    w.close(unrolled_loop("u", z_.ahead));
    w.open(false);
    w.open(!whole);
    w.open(false);
    Expr at = block_.k_index(position, false);
    std::string x = block_.operand(few_, block_.own_index(few_, "f"), at);
    w.line(cat("const ", type(), " few = ", x, ";"));
    w.open(false);
    std::string m =
        reads_.in_chunks ? element(c_.operand_dtype(many_), "matrix[u]", "y") : "matrix[u]";
    w.line(fma("few", m, "sum[f][y]"));
    w.close(unrolled_loop("y", reads_.length));
    w.close(unrolled_loop("f", few_count_));
    w.close(whole ? "" : cat("if (", position, " < ", end_, ")"));
    w.close(unrolled_loop("u", z_.ahead));
    close_steps();
  }

  // Adds the threads' sums and stores what becomes of them.
  void collect(int64_t parts) {
    std::string sizes = cat("[", few_count_, "][", z_.rows, "]");
    block_.lines(cat(type(), " (* const part)", sizes, " = (", type(), " (*)", sizes, ")memory;"));
    if (reads_.on_tensor_cores) {
      block_.lines(
          cat(unrolled_loop("f", (few_count_ + 7) / 8), " {\n",
              unrolled_loop("m", z_.rows / kWarpRows), " {\n", unrolled_loop("i", 4),
              " {\nconst int column = f * 8 + t * 2 + i % 2;\nif (column < ", few_count_,
              ") part[tid / 32][column][m * 16 + i / 2 * 8 + g] = sum[f][m][i];\n}\n}\n}"));
    } else if (reads_.along_k) {
      block_.lines(
          cat(unrolled_loop("f", few_count_), " {\n  #pragma unroll\n  for (int r = 0; r < ",
              z_.rows, "; ++r) {\n", "    ", type(), " s = sum[f][r];\n    #pragma unroll\n",
              "    for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);\n",
              "    if (tid % 32 == 0) part[tid / 32][f][r] = s;\n  }\n}"));
    } else {
      block_.lines(cat(unrolled_loop("f", few_count_),
                       " {\n  #pragma unroll\n  for (int y = 0; y < ", reads_.length,
                       "; ++y) part[down][f][across + y] = sum[f][y];\n}"));
    }
    bool few_rows = few_ == Side::kLeft;
    int64_t columns = few_rows ? z_.rows : few_count_;
    block_.lines(
        cat("__syncthreads();\n", type(), " (* const stage)[", columns, "] = (", type(), " (*)[",
            columns, "])part[", parts, "];\nfor (int e = tid; e < ", few_count_ * z_.rows,
            "; e += ", z_.threads(), ") {\n  const int f = e / ", z_.rows, ", r = e % ", z_.rows,
            ";\n  ", type(), " s = part[0][f][r];\n", "  for (int p = 1; p < ", parts,
            "; ++p) s += part[p][f][r];\n  ", z_.splits > 1 ? "(parts > 1 ? kept[e] : " : "",
            few_rows ? "stage[f][r]" : "stage[r][f]", z_.splits > 1 ? ")" : "", " = s;\n}"));
    if (z_.splits > 1) join_blocks(few_rows);
    block_.lines("__syncthreads();");
    block_.store("0", few_rows ? few_count_ : z_.rows);
  }

  void join_blocks(bool few_rows) {
    block_.lines(cat("if (parts > 1) {\n", cuda_split_join(z_.splits),
                     "\nconst int64_t stride = scratch_stride / (int64_t)sizeof(", type(),
                     ");\nconst ", type(), "* const first = kept - split * stride;\n",
                     "for (int e = tid; e < ", few_count_ * z_.rows, "; e += ", z_.threads(),
                     ") {\n", type(), " s = first[e];\n",
                     "for (int p = 1; p < parts; ++p) s += first[p * stride + e];\n",
                     few_rows ? cat("stage[e / ", z_.rows, "][e % ", z_.rows, "]")
                              : cat("stage[e % ", z_.rows, "][e / ", z_.rows, "]"),
                     " = s;\n}\n}"));
  }

  const Contraction& c_;
  SkinnyReads reads_;
  SkinnyTiling z_;
  Side few_, many_;
  int64_t few_count_;
  std::string begin_ = "0", end_;
  CudaTileBlock block_;
};

}  // namespace

Result<GpuFunction> emit_cuda_tile_skinny(const Contraction& contraction,
                                          const SkinnyTiling& tiling) {
  return SkinnyEmitter(contraction, tiling).run();
}

}  // namespace worker
