#include "worker/codegen/cuda/attention/attention_decode.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/divide_up.h"
#include "common/lowering/body/plain_read.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/attention/decode_blocks.h"
#include "worker/codegen/cuda/attention/attention_rows.h"

namespace worker {

using common::AttentionForm;
using common::cat;
using common::CodeValue;
using common::DecodeAttentionTiling;
using common::DType;
using common::Expr;
using common::finish_body;
using common::GpuFunction;
using common::HalfAttention;
using common::Indices;
using common::NodeId;
using common::plain_read;
using common::Result;
using common::Scratch;

namespace {

constexpr int64_t kHalfBytes = 2;
constexpr int64_t kChunk = common::kHalfChunk;
constexpr int64_t kWarpKeys = common::kDecodeWarpKeys;
constexpr int64_t kQueriesUnrolled = 8;  // elements that a thread computes

int64_t chunks_of(int64_t length, int64_t lanes) {
  return common::divide_up(length, lanes * kChunk);
}

// Scores are products of the queries, as 16 rows, and 8 keys; lane 4 g + t has the depths of row g
// and of key g in chunks t, t + 4, ... of 16 bytes. A product does not mind in which order both
// sides name the depths, so chunks serve as they lie in memory. Rows 0 to 7 are the first halves of
// the queries' chunks, rows 8 to 15 the second halves: the former meet the first halves of the
// keys' chunks, the latter the second, and the sum of both is the score. So no register is moved or
// zeroed. The scores of row g for keys 2 t and 2 t + 1 come out where the second product, of values
// by probabilities, wants them: there the lane has columns 8 g to 8 g + 7 of four keys, and pairs
// of keys are put together by one permutation of bytes a word.
class DecodeAttention final : public CudaAttentionRows {
 public:
  DecodeAttention(const HalfAttention& attention, const DecodeAttentionTiling& tiling)
      : CudaAttentionRows(attention.body, attention.form,
                          {tiling.threads(), tiling.warps, tiling.splits, tiling.keeps_parts}),
        keys_(common::attention_keys(form_, operands_)),
        values_(common::attention_values(form_, operands_)),
        queries_(common::attention_queries(form_, operands_)),
        step_(tiling.warps * kWarpKeys),
        depth_chunks_(chunks_of(depth_, 4)),
        width_chunks_(chunks_of(width_, 8)) {
    reads_masks_ = tiling.reads_masks;
    bool is_known = key_size_.is_constant();
    bool finds = reads_masks_ || !form_.hidden.first.empty() || !form_.hidden.last.empty();
    is_whole_ = is_known && !finds && key_size_.constant() > 0 && key_size_.constant() % step_ == 0;
    is_one_step_ = is_whole_ && key_size_.constant() <= splits_ * step_;
  }

  // Asks for the keys and values of the block's first step, most of which earlier runs have
  // written; empty where their places are not known without a look at memory.
  std::string early_text() {
    bool is_known = !reads_masks_ && form_.hidden.first.empty() && form_.hidden.last.empty();
    if (!is_known || !lies_in_one(keys_) || !lies_in_one(values_)) return "";
    lines("const int tid = threadIdx.x;\nconst int64_t m0 = 0;");
    bind_batch(cat("(int64_t)blockIdx.x / ", splits_));
    find_range(step_, "blockIdx.x");
    lines(cat("const int64_t early = lf_min_i64(", begin_, " + ", step_, ", ", end_, ") - ", begin_,
              ";"));
    for (const Operand* x : {&keys_, &values_}) ask_for(*x);
    if (!emitter_.status().ok()) return "";
    Scratch scratch = emitter_.scratch();
    return cat("  [&] {\n", finish_body(writer_, Expr(1), scratch).text, "  }();\n");
  }
  int64_t early_bytes() const { return step_ * (depth_ + width_) * kHalfBytes; }

  Result<GpuFunction> run() {
    GpuFunction function;
    lines(
        "const int tid = threadIdx.x, lane = tid % 32, g = lane / 4, t = lane % 4;\n"
        "const int64_t m0 = 0;");
    bind_batch(cat("(int64_t)blockIdx.x / ", splits_));
    function.block.threads = static_cast<int>(threads_);
    function.block.shared_bytes = declare_parts(rows_ * depth_ * 2);
    find_range(step_, "blockIdx.x");
    // The first keys and values are under way while the queries are computed.
    lines(cat("const int from = ", begin_, " + warp * ", kWarpKeys, ", to = ", end_,
              ";\nuint4 key[2][", depth_chunks_, "], value[4][", width_chunks_, "];"));
    declare_masks();
    writer_.open(true);
    load_keys("from");
    load_values("from");
    load_masks("from");
    writer_.close(is_whole_ ? "" : "if (from < to)");
    // The compiler moves loads to where they are used, and nearer to queries, but not past a
    // barrier.
    lines("__syncthreads();");
    load_queries();
    lines(cat("float sum[", width_chunks_, "][4][4] = {}, top = ", lowest_, ", total = 0;"));
    walk_keys();
    leave_part();
    store_merged();
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!flows_) return common::unsupported("an output mixes elements of the attention");
    Scratch scratch = emitter_.scratch();
    function.is_split = splits_ > 1;
    if (function.is_split) scratch.add("kept", "float", sizeof(float), Expr(left_size()));
    function.body = finish_body(writer_, batch_size() * Expr(splits_), scratch);
    return function;
  }

 private:
  using Operand = common::AttentionOperand;

  std::string weight(const std::string& top, const std::string& greatest) const override {
    return cat("lf_exp_less(", top, ", ", greatest, ")");
  }

  // Asks for the cache lines of the block's first `early` rows.
  void ask_for(const Operand& x) {
    int64_t row_lines = common::divide_up(x.length * kHalfBytes, common::kCacheLine);
    writer_.open(false);
    lines(cat("const int64_t n = ", begin_, " + l / ", row_lines, ";"));
    std::string row = address(x, {index("n", key_size_)}, "0");
    lines(cat("lf_prefetch_line(", row, " + l % ", row_lines, " * ",
              common::kCacheLine / kHalfBytes, ");"));
    writer_.close(cat("for (int l = tid; l < early * ", row_lines, "; l += ", threads_, ")"));
  }

  bool lies_in_one(const Operand& x) const { return lies_in_runs(x, x.length); }

  // An index of that extent, in which it is wherever it is used.
  Expr index(const std::string& value, const Expr& extent) {
    std::string name = writer_.fresh("x");
    lines(cat("const int64_t ", name, " = ", value, ";"));
    return Expr::index(writer_.bind_index(name, extent, writer_.depth()));
  }

  // C statement h[y] = element `from` + y, for the loop over y.
  void compute(const Operand& x, const std::vector<Expr>& at, const std::string& from) {
    Expr position = index(cat(from, " + y"), Expr(x.length));
    lines(cat("h[y] = ", emitter_.value(x.node, x.at(operands_, at, position)).text, ";"));
  }

  static std::string inside(const std::string& position, int64_t length, int64_t padded) {
    return length == padded ? "" : cat(position, " < ", length);
  }

  // The block computes queries once, which may take more than to read them, with all its threads:
  // neighbours take neighbouring elements. The second and the third word of a chunk change places,
  // as multiply_keys() wants them.
  void load_queries() {
    std::vector<Expr> rows;
    std::string from = cat("e % ", depth_);
    if (lies_in_runs(queries_, kChunk)) {
      writer_.open(true);
      rows = row_labels(cat("e / ", depth_));
      Expr position = index(from, Expr(depth_));
      auto read = plain_read(queries_.node, queries_.at(operands_, rows, position), emitter_);
      lines(cat("const uint4 q = lf_load_once16(in", read->input, " + ", writer_.text(read->offset),
                ");\n((uint4*)memory)[e / ", kChunk, "] = make_uint4(q.x, q.z, q.y, q.w);"));
      close_each(rows_ * depth_, kChunk);
    } else {
      compute_queries();
    }
    lines("__syncthreads();");
    lines(cat("const uint4* const query = (const uint4*)memory + min(g, ", rows_ - 1, ") * ",
              depth_ / kChunk, " + t;"));
  }

  // Elements are stored when all of a few are computed: a store would hold back the next one's
  // loads, which the compiler cannot tell from what is stored.
  void compute_queries() {
    const int64_t count = rows_ * depth_, steps = common::divide_up(count, threads_);
    const bool are_few = steps <= kQueriesUnrolled;
    const std::string loop =
        are_few ? unrolled_loop("y", steps) : cat("for (int y = 0; y < ", steps, "; ++y)");
    const std::string inside = count % threads_ == 0 ? "" : cat("if (e < ", count, ")");
    const std::string element = cat("const int e = y * ", threads_, " + tid;");
    const std::string place = "((uint16_t*)memory)[(e & ~6) | (e & 2) << 1 | (e & 4) >> 1]";
    if (are_few) lines(cat("uint16_t made[", steps, "];"));
    // What depends on the position alone is computed once where a thread has one position.
    const bool has_one = threads_ % depth_ == 0;
    writer_.open(true);
    Expr position = has_one ? index(cat("tid % ", depth_), Expr(depth_)) : Expr(0);
    writer_.open(false);
    lines(element);
    writer_.open(true);
    std::vector<Expr> rows = row_labels(cat("e / ", depth_));
    if (!has_one) position = index(cat("e % ", depth_), Expr(depth_));
    lines(cat(are_few ? "made[y]" : place, " = ",
              emitter_.value(queries_.node, queries_.at(operands_, rows, position)).text, ";"));
    writer_.close(inside);
    writer_.close(loop);
    writer_.close("");
    if (are_few) {
      lines(cat(loop, " {\n", element, "\n", inside, inside.empty() ? "" : " ", place,
                " = made[y];\n}"));
    }
  }

  void walk_keys() {
    writer_.open(true);
    if (is_one_step_) lines("const int n0 = from;");
    multiply_keys();
    std::string next = cat("n0 + ", step_);
    auto load_next = [&](auto load) {
      if (is_one_step_) return;
      writer_.open(true);
      load();
      writer_.close(cat("if (", next, " < to)"));
    };
    load_next([&] { load_keys(next); });
    std::vector<Expr> rows = row_labels("g");
    lines("float x[4];");
    writer_.open(false);
    std::string position = score_key("n0");
    Expr key = key_index(position);
    for (size_t k = 0; k < masks_.size(); ++k) {
      writer_.remember({masks_[k], 0, mask_at(masks_[k], rows, key)},
                       {cat("mask", k, "[e]"), writer_.depth(), -1});
    }
    CodeValue dot = writer_.declare(writer_.depth(), "float", "s",
                                    "dot[e / 2][0][e % 2] + dot[e / 2][1][2 + e % 2]");
    writer_.remember({form_.scores, 0, operands_.scores_at(rows, key)}, dot);
    CodeValue x = emitter_.value(operands_.exponents(), operands_.softmax_at(rows, key));
    lines(is_whole_ ? cat("x[e] = ", x.text, ";")
                    : cat("x[e] = ", position, " < to ? ", x.text, " : ", lowest_, ";"));
    writer_.close(unrolled_loop("e", 4));
    load_next([&] { load_masks(next); });
    weigh();
    multiply_values();
    load_next([&] { load_values(next); });
    writer_.close(is_one_step_ ? "" : cat("for (int n0 = from; n0 < to; n0 += ", step_, ")"));
  }

  // The key of a lane's score e.
  static std::string score_key(const std::string& from) {
    return cat(from, " + e / 2 * 8 + t * 2 + e % 2");
  }
  Indices mask_at(NodeId mask, const std::vector<Expr>& rows, const Expr& key) {
    return operands_.demanded(operands_.exponents(), operands_.softmax_at(rows, key), mask);
  }

  bool reads_memory(NodeId id) const {
    const common::Node& node = body_.node(id);
    return node.op == common::Op::kInput ||
           std::any_of(node.operands.begin(), node.operands.end(),
                       [&](NodeId operand) { return reads_memory(operand); });
  }

  // What masks add to a lane's scores, or whether they hide them, is loaded with the keys.
  void declare_masks() {
    for (const AttentionForm::Mask& mask : form_.hidden.masks) {
      const common::Node& node = body_.node(mask.node);
      if (!reads_memory(mask.node)) continue;
      lines(cat(common::c_value_type(node.dtype), " mask", masks_.size(), "[4];"));
      masks_.push_back(mask.node);
    }
  }
  void load_masks(const std::string& from) {
    if (masks_.empty()) return;
    writer_.open(true);
    std::vector<Expr> rows = row_labels("g");
    writer_.open(false);
    Expr key = key_index(score_key(from));
    for (size_t k = 0; k < masks_.size(); ++k) {
      CodeValue x = emitter_.value(masks_[k], mask_at(masks_[k], rows, key));
      lines(cat("mask", k, "[e] = ", x.text, ";"));
    }
    writer_.close(unrolled_loop("e", 4));
    writer_.close("");
  }

  void multiply_keys() {
    std::string multiply =
        body_.node(operands_.keys()).dtype == DType::kFloat16 ? "lf_mma_f16" : "lf_mma_bf16";
    lines(cat("float dot[2][2][4] = {};\n", unrolled_loop("c", depth_chunks_),
              " {\nuint4 q = make_uint4(0, 0, 0, 0);"));
    std::string valid = inside("(c * 4 + t) * 8", depth_, depth_chunks_ * 32);
    lines(cat(valid.empty() ? "" : cat("if (", valid, ") "), "q = query[c * 4];\n",
              "const uint32_t a[4] = {q.x, q.y, q.z, q.w};\n", unrolled_loop("u", 2),
              " {\nconst uint32_t b[2] = {key[u][c].x, key[u][c].y}, b2[2] = {key[u][c].z, "
              "key[u][c].w};\n",
              multiply, "(dot[u][0], a, b);\n", multiply, "(dot[u][1], a, b2);\n}\n}"));
  }

  // Of the keys from C expression `from` on, which is less than `to`. For a key beyond the last the
  // last one is read; its value is 0: what lies there, times 0, might be NaN.
  void load_keys(const std::string& from) {
    std::string position = cat(from, " + u * 8 + g");
    load(keys_, is_whole_ ? position : cat("min(", position, ", to - 1)"), "key", 2, "t", 4,
         depth_chunks_, "");
  }
  void load_values(const std::string& from) {
    load(values_, cat(from, " + u / 2 * 8 + t * 2 + u % 2"), "value", 4, "g", 8, width_chunks_,
         is_whole_ ? "" : "n < to");
  }
  // A lane's chunks are `first`, `first` + `step`, ...
  void load(const Operand& x, const std::string& position, const std::string& name, int64_t keys,
            const std::string& first, int64_t step, int64_t chunks, std::string valid) {
    writer_.open(false);
    lines(cat("const int n = ", position, ";"));
    std::vector<Expr> at{index(valid.empty() ? "n" : "min(n, to - 1)", key_size_)};
    std::string to = cat(name, "[u][k]"), chunk = cat("(k * ", step, " + ", first, ") * 8");
    std::string in_row = inside(chunk, x.length, chunks * step * kChunk);
    // Of rows that lie in one piece the address is computed once.
    bool in_one = lies_in_one(x), plain = lies_in_runs(x, kChunk);
    if (in_one) {
      lines(cat("const uint16_t* const row = ", address(x, at, "0"), " + ", first, " * 8;"));
    }
    writer_.open(false);
    if (!in_row.empty()) valid = valid.empty() ? in_row : cat(valid, " & ", in_row);
    if (!valid.empty()) lines(cat(to, " = make_uint4(0, 0, 0, 0);"));
    writer_.open(!valid.empty());
    if (plain) {
      lines(cat(to, " = lf_load_once16(",
                in_one ? cat("row + k * ", step * kChunk) : address(x, at, chunk), ");"));
    } else {
      lines("uint16_t h[8];");
      writer_.open(false);
      compute(x, at, chunk);
      writer_.close(unrolled_loop("y", kChunk));
      lines(cat(to, " = ", kPackedChunk, ";"));
    }
    writer_.close(valid.empty() ? "" : cat("if (", valid, ")"));
    writer_.close(unrolled_loop("k", chunks));
    writer_.close(unrolled_loop("u", keys));
  }
  std::string address(const Operand& x, const std::vector<Expr>& at, const std::string& position) {
    auto read = plain_read(x.node, x.at(operands_, at, index(position, Expr(x.length))), emitter_);
    return cat("in", read->input, " + ", writer_.text(read->offset));
  }

  // Four lanes have a row's scores. A row that has seen nothing yet must not turn into NaN.
  void weigh() {
    auto shift_of = [&](const char* top) {
      return cat("const float shift = ", top, " == ", lowest_, " ? 0 : ", top, ";\n");
    };
    std::string moved =
        is_one_step_ ? cat("top = most;\n", shift_of("most"))
                     : cat("const float after = lf_greater(top, most);\n", shift_of("after"),
                           "const float turn = after == top ? 1 : lf_exp_less(top, shift);\n",
                           "top = after;\ntotal *= turn;\n");
    lines(cat("float most = lf_greater(lf_greater(x[0], x[1]), lf_greater(x[2], x[3]));\n",
              "most = lf_greater(most, __shfl_xor_sync(0xffffffffu, most, 1));\n",
              "most = lf_greater(most, __shfl_xor_sync(0xffffffffu, most, 2));\n", moved,
              "uint32_t high[2], low[2];\n", unrolled_loop("u", 2),
              " {\nconst float p = lf_exp_less(x[u * 2], shift), q = lf_exp_less(x[u * 2 + 1], "
              "shift);\ntotal += p + q;\nlf_two_bf16(p, q, high[u], low[u]);\n}"));
  }

  void multiply_values() {
    if (!is_one_step_) turn_sums();
    lines(cat(unrolled_loop("i", width_chunks_), " {"));
    for (int j = 0; j < 4; ++j) {
      char word = "xyzw"[j];
      auto pair = [&](int u, const char* selector) {
        return cat("__byte_perm(value[", u, "][i].", word, ", value[", u + 1, "][i].", word, ", ",
                   selector, ")");
      };
      lines(cat("{\nconst uint32_t a[4] = {", pair(0, "0x5410"), ", ", pair(0, "0x7632"), ", ",
                pair(2, "0x5410"), ", ", pair(2, "0x7632"), "};\nlf_mma_bf16(sum[i][", j,
                "], a, high);\nlf_mma_bf16(sum[i][", j, "], a, low);\n}"));
    }
    lines("}");
  }

  // Rows of sums are the probabilities' columns: their turns are other lanes'.
  void turn_sums() {
    lines(
        cat("if (__any_sync(0xffffffffu, turn != 1)) {\nconst float even = "
            "__shfl_sync(0xffffffffu, turn, t * 8), odd = __shfl_sync(0xffffffffu, turn, t * 8 + "
            "4);\n",
            unrolled_loop("i", width_chunks_), "\n", unrolled_loop("j", 4),
            " {\nsum[i][j][0] *= even; sum[i][j][1] *= odd; sum[i][j][2] *= even; "
            "sum[i][j][3] *= odd;\n}\n}"));
  }

  // A warp's part: lane 4 g + t has columns 8 g to 8 g + 7 of rows 2 t and 2 t + 1.
  void leave_part() {
    lines(
        "total += __shfl_xor_sync(0xffffffffu, total, 1);\n"
        "total += __shfl_xor_sync(0xffffffffu, total, 2);");
    lines(cat("if (t == 0 & g < ", rows_, ") {\ntops[warp * ", rows_,
              " + g] = top;\ntotals[warp * ", rows_, " + g] = total;\n}"));
    std::string in_row = inside("(i * 8 + g) * 8", width_, width_chunks_ * 64);
    lines(cat(unrolled_loop("i", width_chunks_), "\n", unrolled_loop("k", 2),
              " {\nif (t * 2 + k < ", rows_, in_row.empty() ? "" : " & ", in_row,
              ") {\nfloat4* const to = (float4*)(part + (warp * ", rows_, " + t * 2 + k) * ",
              width_,
              " + (i * 8 + g) * 8);\nto[0] = make_float4(sum[i][0][k], sum[i][0][2 + k], "
              "sum[i][1][k], sum[i][1][2 + k]);\nto[1] = make_float4(sum[i][2][k], "
              "sum[i][2][2 + k], sum[i][3][k], sum[i][3][2 + k]);\n}\n}\n__syncthreads();"));
  }

  Operand keys_, values_, queries_;
  std::vector<NodeId> masks_;            // that are loaded with the keys
  int64_t step_;                         // keys of a block in a step
  int64_t depth_chunks_, width_chunks_;  // of a lane
  // A block's keys are known to fill whole steps, or one.
  bool is_whole_ = false, is_one_step_ = false;
};

}  // namespace

Result<GpuFunction> emit_cuda_attention_decode(const HalfAttention& attention,
                                               const DecodeAttentionTiling& tiling) {
  LFARM_RETURN_IF_ERROR(common::verify(tiling, attention));
  LFARM_ASSIGN_OR_RETURN(GpuFunction function, DecodeAttention(attention, tiling).run());
  DecodeAttention beginning(attention, tiling);
  function.early = beginning.early_text();
  if (!function.early.empty()) function.early_bytes = beginning.early_bytes();
  return function;
}

}  // namespace worker
