#include "worker/codegen/cuda/tile/tile_skinny.h"

#include <algorithm>
#include <memory>

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/gpu_splits.h"
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

namespace {

constexpr int64_t kSkinny = 4;
constexpr int64_t kChunkBytes = 16;
constexpr int64_t kThreads = 256;  // where they share a k
// Blocks of threads that keep a large GPU's memory busy.
constexpr int64_t kBusyBlocks = 1024;

bool is_few(const Expr& size) {
  return size.is_constant() && size.constant() >= 1 && size.constant() <= kSkinny;
}
int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Threads of a block: `across` of them side by side along the matrix's memory, `down` along its
// other axis. Each reads `length` elements at a time, `ahead` times before it uses the first.
struct SkinnySize {
  int64_t across = 128, down = 1;
  int64_t length = 1;
  int64_t ahead = 4;
  int64_t rows = 1;  // of the matrix, that is elements of its own axis, of a block
  int threads() const { return static_cast<int>(across * down); }
};

// The matrix is the side with many rows. Its elements are read in order, 16 bytes at a time where
// that is possible, by all threads of a block, and each is used for all of the few rows at once.
// The sums of the threads are added in the end, and those of the blocks where several share a k.
class SkinnyEmitter {
 public:
  SkinnyEmitter(const Graph& body, const Contraction& contraction, const common::Schedule& schedule,
                const CudaMachine& machine)
      : c_(contraction),
        few_(is_few(contraction.own_size(Side::kLeft)) ? Side::kLeft : Side::kRight),
        many_(few_ == Side::kLeft ? Side::kRight : Side::kLeft),
        few_count_(contraction.own_size(few_).constant()),
        along_k_(contraction.runs_along_k(many_)) {
    choose();
    CudaBlockSize size;
    size.rows = few_ == Side::kLeft ? few_count_ : z_.rows;
    size.columns = few_ == Side::kLeft ? z_.rows : few_count_;
    size.threads = z_.threads();
    Expr blocks = common::floor_div(contraction.own_size(many_) + Expr(z_.rows - 1), Expr(z_.rows));
    splits_ =
        common::gpu_splits(contraction.batch_size() * blocks, contraction.problem().k_size, step(),
                           schedule_value(schedule, common::Template::kTile, "splits"),
                           body.symbols, machine.processors);
    block_ = std::make_unique<CudaTileBlock>(body, contraction, size);
  }

  Result<GpuFunction> run() {
    int64_t element = common::dtype_size(c_.node().dtype);
    int64_t parts = along_k_ ? z_.threads() / 32 : z_.down;
    int64_t sums = few_count_ * z_.rows;
    block_->begin((parts + 1) * sums * element, splits_, sums);
    if (splits_ > 1) {
      block_->lines(cuda_split_range(splits_, "0", block_->k_size(), step()));
      begin_ = "begin";
      end_ = "end";
    } else {
      end_ = block_->k_size();
    }
    along_k_ ? sum_along() : sum_across();
    collect(parts);
    return block_->finish();
  }

 private:
  // The constant size, or a typical one.
  static int64_t about(const Expr& size) { return size.is_constant() ? size.constant() : 4096; }

  // Of k, that all threads of a block take before they start again.
  int64_t step() const { return (along_k_ ? z_.across * z_.length : z_.down) * z_.ahead; }

  void choose() {
    int64_t element = common::dtype_size(c_.operand_dtype(many_));
    int64_t length = kChunkBytes / element;
    chunks_ = element <= 4 && c_.reads_chunks(many_, along_k_, length);
    few_chunks_ = chunks_ && along_k_ && c_.reads_chunks(few_, true, length) &&
                  common::dtype_size(c_.operand_dtype(few_)) == element;
    z_.length = chunks_ ? length : 1;
    int64_t depth = std::max<int64_t>(about(c_.problem().k_size), 1);
    int64_t many = about(c_.own_size(many_)) * about(c_.batch_size());
    if (along_k_) {
      int64_t steps = (depth + z_.length - 1) / z_.length;
      z_.across = std::clamp<int64_t>(round_up(steps, 32), 32, 128);
      z_.ahead = std::clamp<int64_t>((steps + z_.across - 1) / z_.across, 1, 4);
      for (int64_t rows : {2, 4}) {
        if (many / rows * z_.across >= kBusyBlocks * 128) z_.rows = rows;
      }
      return;
    }
    z_.across = kThreads;
    while (z_.across > 4 && many / (z_.across * z_.length) < kBusyBlocks / 4) z_.across /= 2;
    z_.down = kThreads / z_.across;
    while (z_.down > 1 && z_.down * z_.across > 32 && z_.down > depth) z_.down /= 2;
    z_.ahead = std::clamp<int64_t>(depth / z_.down, 1, 8);
    z_.rows = z_.across * z_.length;
  }

  const std::string& type() const { return block_->type(); }
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
    auto read = c_.read_at(side, block_->operand_at(side, own, k), block_->emitter());
    LFARM_CHECK(read.has_value(), "chunks are read from inputs");
    return cat("in", read->input, " + ", block_->writer().text(read->offset));
  }
  void read_chunk(const std::string& words, const std::string& place) {
    block_->lines(cat("const uint4 q = ", place, ";\n", words, "[0] = q.x, ", words, "[1] = q.y, ",
                      words, "[2] = q.z, ", words, "[3] = q.w;"));
  }

  // The matrix's memory runs along k: all threads share a row.
  void sum_along() {
    CodeWriter& w = block_->writer();
    bool whole = block_->covers_k(step());
    std::string position = cat("k0 + (u * ", z_.across, " + tid) * ", z_.length);
    w.line(cat(type(), " sum[", few_count_, "][", z_.rows, "] = {};"));
    w.open(true);
    std::string kept = chunks_ ? "[4]" : "";
    w.line(cat(chunks_ ? "uint32_t" : type(), " matrix[", z_.ahead, "][", z_.rows, "]", kept, ";"));
    w.open(false);
    Expr k = block_->k_index(
        whole ? position : cat("(", position, " < ", end_, " ? ", position, " : 0)"), false);
    w.open(false);
    Expr own = block_->own_index(many_, "r");
    if (chunks_) {
      read_chunk("matrix[u][r]", cat("lf_load_stream16(", place(many_, own, k), ")"));
    } else {
      w.line(cat("matrix[u][r] = ", block_->operand(many_, own, k), ";"));
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
    block_->writer().close(
        cat("for (int64_t k0 = ", begin_, "; k0 < ", end_, "; k0 += ", step(), ")"));
  }

  void multiply_along(const std::string& position) {
    CodeWriter& w = block_->writer();
    w.open(false);
    if (few_chunks_) {
      Expr k = block_->k_index(position, false);
      Expr own = block_->own_index(few_, "f");
      w.line("uint32_t words[4];");
      read_chunk("words", cat("*(const uint4*)(", place(few_, own, k), ")"));
    }
    w.open(false);
    std::string x;
    if (few_chunks_) {
      x = element(c_.operand_dtype(few_), "words", "y");
    } else {
      Expr k = block_->k_index(cat(position, " + y"), false);
      x = block_->operand(few_, block_->own_index(few_, "f"), k);
    }
    w.line(cat("const ", type(), " few = ", x, ";"));
    w.open(false);
    std::string m =
        chunks_ ? element(c_.operand_dtype(many_), "matrix[u][r]", "y") : "matrix[u][r]";
    w.line(fma("few", m, "sum[f][r]"));
    w.close(unrolled_loop("r", z_.rows));
    w.close(unrolled_loop("y", z_.length));
    w.close(unrolled_loop("f", few_count_));
  }

  // The matrix's memory runs along its own axis: threads share a k, and differ in it from group to
  // group.
  void sum_across() {
    CodeWriter& w = block_->writer();
    bool whole = block_->covers_k(step());
    std::string position = cat("k0 + u * ", z_.down, " + down");
    block_->lines(cat("const int across = tid % ", z_.across, " * ", z_.length, ", down = tid / ",
                      z_.across, ";\n", type(), " sum[", few_count_, "][", z_.length, "] = {};"));
    Expr own = chunks_ ? block_->own_chunk(many_, "across") : block_->own_index(many_, "across");
    w.open(true);
    std::string kept = chunks_ ? "[4]" : "";
    w.line(cat(chunks_ ? "uint32_t" : type(), " matrix[", z_.ahead, "]", kept, ";"));
    w.open(false);
    Expr k = block_->k_index(position, !whole);
    if (chunks_) {
      read_chunk("matrix[u]", cat("lf_load_stream16(", place(many_, own, k), ")"));
    } else {
      w.line(cat("matrix[u] = ", block_->operand(many_, own, k), ";"));
    }
    w.close(unrolled_loop("u", z_.ahead));
    w.open(false);
    w.open(!whole);
    w.open(false);
    Expr at = block_->k_index(position, false);
    std::string x = block_->operand(few_, block_->own_index(few_, "f"), at);
    w.line(cat("const ", type(), " few = ", x, ";"));
    w.open(false);
    std::string m = chunks_ ? element(c_.operand_dtype(many_), "matrix[u]", "y") : "matrix[u]";
    w.line(fma("few", m, "sum[f][y]"));
    w.close(unrolled_loop("y", z_.length));
    w.close(unrolled_loop("f", few_count_));
    w.close(whole ? "" : cat("if (", position, " < ", end_, ")"));
    w.close(unrolled_loop("u", z_.ahead));
    close_steps();
  }

  // Adds the threads' sums and stores what becomes of them.
  void collect(int64_t parts) {
    std::string sizes = cat("[", few_count_, "][", z_.rows, "]");
    block_->lines(cat(type(), " (* const part)", sizes, " = (", type(), " (*)", sizes, ")memory;"));
    if (along_k_) {
      block_->lines(
          cat(unrolled_loop("f", few_count_), " {\n  #pragma unroll\n  for (int r = 0; r < ",
              z_.rows, "; ++r) {\n", "    ", type(), " s = sum[f][r];\n    #pragma unroll\n",
              "    for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);\n",
              "    if (tid % 32 == 0) part[tid / 32][f][r] = s;\n  }\n}"));
    } else {
      block_->lines(cat(unrolled_loop("f", few_count_),
                        " {\n  #pragma unroll\n  for (int y = 0; y < ", z_.length,
                        "; ++y) part[down][f][across + y] = sum[f][y];\n}"));
    }
    bool few_rows = few_ == Side::kLeft;
    int64_t columns = few_rows ? z_.rows : few_count_;
    block_->lines(
        cat("__syncthreads();\n", type(), " (* const stage)[", columns, "] = (", type(), " (*)[",
            columns, "])part[", parts, "];\nfor (int e = tid; e < ", few_count_ * z_.rows,
            "; e += ", z_.threads(), ") {\n  const int f = e / ", z_.rows, ", r = e % ", z_.rows,
            ";\n  ", type(), " s = part[0][f][r];\n", "  for (int p = 1; p < ", parts,
            "; ++p) s += part[p][f][r];\n  ", splits_ > 1 ? "(parts > 1 ? kept[e] : " : "",
            few_rows ? "stage[f][r]" : "stage[r][f]", splits_ > 1 ? ")" : "", " = s;\n}"));
    if (splits_ > 1) join_blocks(few_rows);
    block_->lines("__syncthreads();");
    block_->store("0", few_rows ? few_count_ : z_.rows);
  }

  void join_blocks(bool few_rows) {
    block_->lines(cat("if (parts > 1) {\n", cuda_split_join(splits_),
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
  Side few_, many_;
  int64_t few_count_;
  bool along_k_;
  bool chunks_ = false;      // the matrix is read 16 bytes at a time
  bool few_chunks_ = false;  // so are the few rows
  SkinnySize z_;
  int64_t splits_ = 1;  // blocks that share a k
  std::string begin_ = "0", end_;
  std::unique_ptr<CudaTileBlock> block_;
};

}  // namespace

bool cuda_tile_is_skinny(const Contraction& contraction) {
  return is_few(contraction.own_size(Side::kLeft)) || is_few(contraction.own_size(Side::kRight));
}

Result<GpuFunction> emit_cuda_tile_skinny(const Graph& body, const Contraction& contraction,
                                          const common::Schedule& schedule,
                                          const CudaMachine& machine) {
  return SkinnyEmitter(body, contraction, schedule, machine).run();
}

}  // namespace worker
