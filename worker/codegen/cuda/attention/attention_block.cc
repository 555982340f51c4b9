#include "worker/codegen/cuda/attention/attention_block.h"

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace worker {

using common::AttentionForm;
using common::cat;
using common::CodeValue;
using common::Expr;
using common::finish_body;
using common::GpuFunction;
using common::Graph;
using common::Result;
using common::ThreadsAttentionTiling;

CudaAttentionBlock::CudaAttentionBlock(const Graph& body, AttentionForm form,
                                       const ThreadsAttentionTiling& tiling)
    : CudaAttentionText(body, std::move(form)),
      tiling_(tiling),
      z_(common::threads_attention_sizes(tiling, body, form_)) {}

Result<GpuFunction> CudaAttentionBlock::run() {
  GpuFunction function;
  Expr units = begin(function);
  load_queries();
  lines(cat("if (tid < ", tiling_.rows, ") {\n  top[tid] = ", lowest_, ";\n  total[tid] = 0;\n}"));
  find_range();
  blocks();
  finish_rows();
  LFARM_RETURN_IF_ERROR(emitter_.status());
  if (!flows_) return common::unsupported("an output mixes elements of the attention");
  function.body = finish_body(writer_, units, emitter_.scratch());
  return function;
}

Expr CudaAttentionBlock::begin(GpuFunction& function) {
  // The last rows see the most keys where some are hidden: their blocks start first.
  Expr tiles = common::floor_div(row_count_ + Expr(tiling_.rows - 1), Expr(tiling_.rows));
  std::string count = writer_.rare_text(tiles);
  lines(cat("const int tid = threadIdx.x, lane = tid % 32;\nconst int64_t m0 = (", count,
            " - 1 - (int64_t)blockIdx.x % ", count, ") * ", tiling_.rows, ";"));
  bind_batch(cat("(int64_t)blockIdx.x / ", count));
  function.block.threads = static_cast<int>(kThreads);
  function.block.shared_bytes = declare_shared(writer_, z_.shared_bytes);
  int64_t offset = 0;
  auto piece = [&](std::string_view type, const char* name, int64_t bytes) {
    lines(cat(type, "* const ", name, " = (", type, "*)(memory + ", offset, ");"));
    offset += bytes;
  };
  int64_t element = common::dtype_size(product_.dtype);
  piece("unsigned char", "queries", z_.query_bytes);
  piece("unsigned char", "keys", z_.key_bytes);
  piece("unsigned char", "values", z_.value_bytes);
  piece(type_, "scores", z_.score_bytes);
  piece("double", "total", tiling_.rows * 8);
  piece(type_, "top", tiling_.rows * element);
  piece(type_, "scale", tiling_.rows * element);
  declare();
  return batch_size() * tiles;
}

std::string CudaAttentionBlock::shared_loop(int64_t count) {
  return cat("#pragma unroll 4\nfor (int e = tid; e < ", count, "; e += ", kThreads, ")");
}

void CudaAttentionBlock::find_range() {
  std::string keys = writer_.rare_text(key_size_);
  bool limited = !form_.hidden.first.empty() || !form_.hidden.last.empty();
  if (!limited || !form_.weights.keeps_zero) {
    lines(cat("const int64_t lo = 0, hi = ", keys, ";"));
    return;
  }
  // Only until the first scores are computed.
  lines("int64_t* const first_seen = (int64_t*)keys;");
  writer_.open(true);
  std::vector<Expr> rows = row_labels("tid");
  row_range(rows);
  lines(cat("first_seen[tid] = first;\nfirst_seen[", tiling_.rows, " + tid] = last;"));
  writer_.close(cat("if (tid < ", tiling_.rows, ")"));
  lines(cat("__syncthreads();\nint64_t lo = ", keys, ", hi = 0;\nfor (int r = 0; r < ",
            tiling_.rows,
            "; ++r) {\n  lo = lf_min_i64(lo, first_seen[r]);\n  hi = lf_max_i64(hi, first_seen[",
            tiling_.rows, " + r] + 1);\n}"));
  // Rows that see nothing are NaN all over, which only a key can tell them.
  if (!tiling_.online) lines(cat("if (hi <= lo) { lo = 0; hi = ", keys, "; }"));
}

void CudaAttentionBlock::blocks() {
  writer_.open(false);  // passes
  writer_.open(true);   // blocks
  lines("__syncthreads();");
  load_keys();
  writer_.open(!tiling_.online);
  load_values();
  writer_.close(tiling_.online ? "" : "if (pass == 1)");
  lines("__syncthreads();");
  multiply_keys();
  lines("__syncthreads();");
  weigh();
  lines("__syncthreads();");
  writer_.open(!tiling_.online);
  multiply_values(tiling_.online);
  writer_.close(tiling_.online ? "" : "if (pass == 1)");
  writer_.close(cat("for (int64_t n0 = lo; n0 < hi; n0 += ", tiling_.keys, ")"));
  writer_.close(cat("for (int pass = 0; pass < ", tiling_.online ? 1 : 2, "; ++pass)"));
}

// A warp takes a row: its scores become what the softmax takes, then exponentials or
// probabilities.
void CudaAttentionBlock::weigh() {
  int64_t count = tiling_.keys / 32;
  writer_.open(false);
  std::vector<Expr> rows = row_labels("row");
  lines(cat(type_, "* const line = scores + row * ", z_.score_stride, ";\n", type_, " x[", count,
            "];"));
  writer_.open(false);
  Expr key = key_index("n0 + lane + i * 32");
  CodeValue c = writer_.declare(writer_.depth(), type_, "c", "line[lane + i * 32]");
  writer_.remember({form_.scores, 0, operands_.scores_at(rows, key)}, c);
  CodeValue x = emitter_.value(operands_.exponents(), operands_.softmax_at(rows, key));
  lines(cat("x[i] = n0 + lane + i * 32 < hi ? ", x.text, " : ", lowest_, ";"));
  writer_.close(unrolled_loop("i", count));
  if (tiling_.online) {
    accumulate_row(count, true);
  } else {
    writer_.open(true);
    accumulate_row(count, false);
    writer_.close("if (pass == 0)");
    writer_.open(true);
    normalise_row(rows, count);
    writer_.close("else");
  }
  writer_.close(
      cat("for (int row = tid / 32; row < ", tiling_.rows, "; row += ", kThreads / 32, ")"));
}

void CudaAttentionBlock::accumulate_row(int64_t count, bool keeps) {
  // A row that has seen nothing yet must not turn into NaN.
  lines(cat(type_, " most = x[0];\n", unrolled_loop("i", count), " most = lf_max_", suffix_,
            "(most, x[i]);\n", "#pragma unroll\nfor (int d = 16; d > 0; d /= 2) most = lf_max_",
            suffix_, "(most, __shfl_xor_sync(0xffffffffu, most, d));\n", "const ", type_,
            " before = top[row];\nconst ", type_, " after = lf_max_", suffix_,
            "(before, most);\nconst ", type_, " shift = after == ", lowest_, " ? 0 : after;\n",
            "const ", type_, " turn = after == before ? 1 : ", exp_of("(before - shift)"), ";\n",
            type_, " part = 0;\n__syncwarp();\n", unrolled_loop("i", count), " {\n  const ", type_,
            " p = n0 + lane + i * 32 < hi ? ", exp_of("(x[i] - shift)"), " : 0;\n",
            keeps ? cat("  ", keep("p"), "\n") : "", "  part += p;\n}\n",
            "#pragma unroll\nfor (int d = 16; d > 0; d /= 2) part += "
            "__shfl_xor_sync(0xffffffffu, part, d);\n",
            "__syncwarp();\nif (lane == 0) {\n  total[row] = total[row] * turn + part;\n  "
            "top[row] = after;\n  scale[row] = turn;\n}"));
}

void CudaAttentionBlock::normalise_row(const std::vector<Expr>& rows, int64_t count) {
  lines(cat("const ", type_, " greatest = top[row], inverse = 1 / (", type_, ")total[row];"));
  remember_greatest(rows, {"greatest", writer_.depth(), -1});
  lines("__syncwarp();");
  writer_.open(false);
  Expr key = key_index("n0 + lane + i * 32");
  CodeValue p =
      writer_.declare(writer_.depth(), type_, "p", cat(exp_of("(x[i] - greatest)"), " * inverse"));
  writer_.remember({form_.softmax, 0, operands_.softmax_at(rows, key)}, p);
  std::string probability = operands_.probability(emitter_, rows, key);
  lines(cat("const ", type_, " kept = n0 + lane + i * 32 < hi ? ", probability, " : 0;\n",
            keep("kept")));
  writer_.close(unrolled_loop("i", count));
}

// Normalises the sums, if that is still to do, and stores what follows from them.
void CudaAttentionBlock::finish_rows() {
  lines("__syncthreads();");
  writer_.open(true);
  std::vector<Expr> rows = row_labels("tid");
  std::string factor = "1";
  if (tiling_.online) {
    remember_greatest(rows, writer_.declare(writer_.depth(), type_, "t", "top[tid]"));
    // A sum over no keys is 0.
    std::string inverse = cat("(", type_, ")(1 / total[tid])");
    if (writer_.bounds().lower(key_size_) < 1) {
      inverse = cat(writer_.rare_text(key_size_), " < 1 ? 0 : ", inverse);
    }
    CodeValue x = writer_.declare(writer_.depth(), type_, "inverse", inverse);
    writer_.remember({form_.softmax, 0, operands_.softmax_at(rows, Expr(0))}, x);
    factor = operands_.probability(emitter_, rows, Expr(0));
  }
  lines(cat("scale[tid] = ", factor, ";"));
  writer_.close(cat("if (tid < ", tiling_.rows, ")"));
  lines(cat("__syncthreads();"));
  store();
}

// The block's rows pass through the memory of queries and keys, as many at a time as fit.
void CudaAttentionBlock::store() {
  int64_t element = common::dtype_size(product_.dtype);
  int64_t room = (z_.query_bytes + z_.key_bytes) / (z_.width_padded * element);
  int64_t height = tiling_.rows;
  while (height > room) height /= 2;
  lines(cat(type_, "* const stage = (", type_, "*)queries;"));
  writer_.open(false);
  lines("if (first != 0) __syncthreads();");
  stage_sums(height);
  lines("__syncthreads();");
  flows_ = store_staged({"first", height, z_.width_padded, kThreads});
  writer_.close(cat("for (int first = 0; first < ", tiling_.rows, "; first += ", height, ")"));
}

}  // namespace worker
