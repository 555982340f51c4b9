#include "worker/codegen/cuda/attention/attention_rows.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/lowering/body/function_body.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/attention/skinny_attention.h"
#include "worker/codegen/cuda/text/split.h"

namespace worker {

using common::AttentionForm;
using common::cat;
using common::CodeValue;
using common::Expr;
using common::Graph;
using common::Indices;

CudaAttentionRows::CudaAttentionRows(const Graph& body, AttentionForm form, const Shares& shares)
    : CudaAttentionText(body, std::move(form)),
      rows_(row_count_.constant()),
      depth_(operands_.depth()),
      width_(form_.size(form_.columns).constant()),
      threads_(shares.threads),
      parts_(shares.parts),
      splits_(shares.splits),
      keeps_parts_(shares.keeps_parts) {}

int64_t CudaAttentionRows::declare_parts(int64_t more) {
  int64_t sums = parts_ * rows_ * width_;
  int64_t tops = std::max(parts_, splits_) * rows_;
  int64_t bytes =
      declare_shared(writer_, more + common::few_rows_shared_bytes(form_, parts_, splits_));
  // A shuffle tells the compiler that a warp's number is one for all of its lanes.
  lines(
      cat("const int warp = __shfl_sync(0xffffffffu, tid / 32, 0);\nfloat* const part = "
          "(float*)(memory + ",
          more, ");\nfloat* const tops = part + ", sums, ", *const totals = tops + ", tops,
          ", *const summit = totals + ", tops, ", *const whole = summit + ", rows_, ";"));
  return bytes;
}

void CudaAttentionRows::find_range(int64_t step, const std::string& block) {
  find_visible();
  if (splits_ == 1) return;
  lines(cuda_split_range(splits_, "lo", "hi", step, block));
  begin_ = "begin";
  end_ = "end";
}

void CudaAttentionRows::find_visible() {
  std::string keys = writer_.rare_text(key_size_);
  bool limited = !form_.hidden.first.empty() || !form_.hidden.last.empty();
  if (!limited && form_.weights.keeps_zero && reads_masks_) return find_in_masks();
  if (!limited || !form_.weights.keeps_zero) {
    lines(cat("const int64_t lo = 0, hi = ", keys, ";"));
    return;
  }
  lines(cat("int64_t lo = ", keys, ", hi = 0;"));
  writer_.open(false);
  row_range(row_labels("r"));
  lines("lo = lf_min_i64(lo, first);\nhi = lf_max_i64(hi, last + 1);");
  writer_.close(cat("for (int r = 0; r < ", rows_, "; ++r)"));
  if (needs_a_key_) lines(cat("if (hi <= lo) { lo = 0; hi = ", keys, "; }"));
}

// From the first key that some row sees to the last. A row that sees none may be spread over all
// keys, which then are all read.
void CudaAttentionRows::find_in_masks() {
  std::string keys = cat("(int)", writer_.rare_text(key_size_));
  lines(cat("int low = ", keys, ", high = 0;\nuint32_t seen = 0;"));
  writer_.open(true);
  lines("uint32_t here = 0;");
  Expr key = Expr::index(writer_.bind_index("k", key_size_, writer_.depth()));
  writer_.open(false);
  std::string visible = operands_.sees(emitter_, row_labels("r"), key);
  lines(cat("here |= (uint32_t)(", visible, ") << r;"));
  writer_.close(unrolled_loop("r", rows_));
  lines("if (here != 0) low = min(low, k), high = max(high, k + 1), seen |= here;");
  writer_.close(cat("#pragma unroll 4\nfor (int k = tid; k < ", keys, "; k += ", threads_, ")"));
  auto other = [](const char* x) { return cat("__shfl_xor_sync(0xffffffffu, ", x, ", d)"); };
  lines(cat("#pragma unroll\nfor (int d = 16; d > 0; d /= 2) {\nlow = min(low, ", other("low"),
            ");\nhigh = max(high, ", other("high"), ");\nseen |= ", other("seen"),
            ";\n}\nint* const ends = (int*)part;\nif (lane == 0) { ends[warp * 3] = low; "
            "ends[warp * 3 + 1] = high; ends[warp * 3 + 2] = seen; }\n__syncthreads();\n",
            unrolled_loop("w", threads_ / 32),
            " {\nlow = min(low, ends[w * 3]);\nhigh = max(high, ends[w * 3 + 1]);\nseen |= "
            "ends[w * 3 + 2];\n}\nconst bool all_see = seen == ",
            (1 << rows_) - 1,
            ";\nconst int64_t lo = __shfl_sync(0xffffffffu, all_see ? low : 0, 0), "
            "hi = __shfl_sync(0xffffffffu, all_see ? high : ",
            keys, ", 0);"));
}

// Of `count` parts, at most `most`: each one's weight in its row takes the place of its top, and
// the rows' greatest scores and sums lie in `summit` and `whole`. A warp takes a row, lanes parts;
// all of them take the same steps.
void CudaAttentionRows::weigh_parts(const std::string& count, int64_t most, bool last) {
  int64_t warps = threads_ / 32, steps = (rows_ + warps - 1) / warps;
  std::string each = unrolled_loop("k", (most + 31) / 32);
  std::string at = cat("[(k * 32 + lane) * ", rows_, " + r]");
  auto shared = [](const std::string& combine) {
    return cat("\n#pragma unroll\nfor (int d = 16; d > 0; d /= 2) ", combine, ";\n");
  };
  lines(cat(unrolled_loop("step", steps), " {\nconst int r = min(step * ", warps, " + warp, ",
            rows_ - 1, ");\nfloat greatest = ", lowest_, ", all = 0, w[", (most + 31) / 32, "];\n",
            each, " w[k] = k * 32 + lane < ", count, " ? tops", at, " : ", lowest_,
            ", greatest = lf_max_f32(greatest, w[k]);",
            shared("greatest = lf_max_f32(greatest, __shfl_xor_sync(0xffffffffu, greatest, d))"),
            "const float shift = greatest == ", lowest_, " ? 0 : greatest;\n", each, " {\nw[k] = ",
            weight("w[k]", "shift"), ";\nif (k * 32 + lane < ", count, ") all += totals", at,
            " * w[k];\n}", shared("all += __shfl_xor_sync(0xffffffffu, all, d)")));
  // Where warps are more than rows, the last row is everyone's; one of them writes.
  lines(cat("if (step * ", warps, " + warp == r) {\n", each, " if (k * 32 + lane < ", count,
            ") tops", at, " = w[k];\nif (lane == 0) summit[r] = greatest, whole[r] = ",
            last ? "1 / all" : "all", ";\n}\n}\n", "__syncthreads();"));
}

// A thread adds four neighbours' parts at a time, in their order, to s: part p is `part`, for p in
// the C loop `loop`.
void CudaAttentionRows::begin_sum(const std::string& loop, const std::string& part) {
  writer_.open(true);
  lines(cat("const int r = e / ", width_, ";\nfloat s[4] = {};\n", loop,
            " {\nconst float4 x = ", part, ";\nconst float w = tops[p * ", rows_,
            " + r];\ns[0] = fmaf(x.x, w, s[0]); "
            "s[1] = fmaf(x.y, w, s[1]); s[2] = fmaf(x.z, w, s[2]); s[3] = fmaf(x.w, w, s[3]);\n}"));
}
// The same of parts in memory from `sums` on, `stride` floats apart.
void CudaAttentionRows::begin_sum_of(const std::string& count, const std::string& sums,
                                     const std::string& stride) {
  begin_sum(cat("#pragma unroll 16\nfor (int p = 0; p < ", count, "; ++p)"),
            cat("*(const float4*)(", sums, " + p * ", stride, " + e)"));
}
void CudaAttentionRows::end_sum() { close_each(rows_ * width_, 4); }

void CudaAttentionRows::close_each(int64_t count, int64_t step) {
  std::string first = cat("int e = tid * ", step, "; e < ", count, "; ");
  // What takes one step is no loop.
  writer_.close(count <= threads_ * step ? cat("if (", first.substr(0, first.size() - 2), ")")
                                         : cat("for (", first, "e += ", threads_ * step, ")"));
}

// A block that shares its keys leaves one part; the last one of them goes on with all.
void CudaAttentionRows::join_blocks() {
  std::string tops = cat(rows_ * width_), totals = cat(rows_ * (width_ + 1));
  begin_sum_of(cat(parts_), "part", cat(rows_ * width_));
  lines("*(float4*)(kept + e) = make_float4(s[0], s[1], s[2], s[3]);");
  end_sum();
  lines(
      cat("if (tid < ", rows_, ") { kept[", tops, " + tid] = summit[tid]; kept[", totals,
          " + tid] = whole[tid]; }\n", cuda_split_join(splits_),
          "\nconst int64_t stride = scratch_stride / 4;\nconst float* const left = kept - split * "
          "stride;"));
  if (keeps_parts_) {
    lines(cat("float4 others[", splits_, "];"));
    writer_.open(true);
    lines(cat(unrolled_loop("p", splits_),
              "\nif (p < parts) others[p] = *(const float4*)(left + p * stride + e);"));
    end_sum();
  }
  writer_.open(true);
  lines(cat("const float* const from = left + e / ", rows_, " * stride + e % ", rows_,
            ";\nif (e < parts * ", rows_, ") { tops[e] = from[", tops, "]; totals[e] = from[",
            totals, "]; }"));
  close_each(splits_ * rows_, 1);
  lines("__syncthreads();");
  weigh_parts("parts", splits_, true);
}

void CudaAttentionRows::store_merged() {
  weigh_parts(cat(parts_), parts_, splits_ == 1);
  if (splits_ > 1) join_blocks();
  finish_rows();
}

void CudaAttentionRows::finish_rows() {
  if (splits_ == 1) {
    begin_sum_of(cat(parts_), "part", cat(rows_ * width_));
  } else if (keeps_parts_) {
    begin_sum(unrolled_loop("p", splits_) + " if (p < parts)", "others[p]");
  } else {
    begin_sum_of("parts", "left", "stride");
  }
  std::vector<Expr> rows = row_labels("r");
  lines("const float greatest = summit[r];");
  remember_greatest(rows, {"greatest", writer_.depth(), -1});
  // A sum over no keys is 0.
  std::string inverse = "whole[r]";
  if (writer_.bounds().lower(key_size_) < 1) {
    inverse = cat(writer_.rare_text(key_size_), " < 1 ? 0 : ", inverse);
  }
  CodeValue x = writer_.declare(writer_.depth(), type_, "inverse", inverse);
  writer_.remember({form_.softmax, 0, operands_.softmax_at(rows, Expr(0))}, x);
  std::string factor = operands_.probability(emitter_, rows, Expr(0));
  writer_.open(false);
  store_element(cat("e % ", width_, " + y"), cat("s[y] * ", factor), rows);
  writer_.close(unrolled_loop("y", 4));
  end_sum();
}

void CudaAttentionRows::store_element(const std::string& column, const std::string& value,
                                      const std::vector<Expr>& rows) {
  Indices out = operands_.product_at(rows, inner_index(column, width_));
  CodeValue c = writer_.declare(writer_.depth(), type_, "c", value);
  writer_.remember({form_.product, 0, out}, c);
  flows_ = common::store_flows(form_.product, out, body_, emitter_, writer_);
}

}  // namespace worker
