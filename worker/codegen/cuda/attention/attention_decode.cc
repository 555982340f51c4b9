#include "worker/codegen/cuda/attention/attention_decode.h"

#include <algorithm>
#include <functional>

#include "common/base/cat.h"
#include "common/lowering/body/plain_read.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/gpu_splits.h"
#include "worker/codegen/cuda/attention/attention_rows.h"
#include "worker/codegen/cuda/text/split.h"

namespace worker {

using common::AttentionForm;
using common::cat;
using common::CodeValue;
using common::CodeWriter;
using common::DType;
using common::Expr;
using common::finish_body;
using common::GpuFunction;
using common::Graph;
using common::Indices;
using common::NodeId;
using common::plain_read;
using common::Result;
using common::Schedule;
using common::Scratch;
using common::Template;

namespace {

constexpr int64_t kChunk = 8;      // elements of 16 bytes
constexpr int64_t kWarpsMax = 4;   // of a block, each with keys of its own
constexpr int64_t kWarpKeys = 16;  // that a warp takes in a step: the depth of a product
constexpr int64_t kWidthMax = 256;
constexpr int64_t kKeysMax = 1 << 30;  // counted in 32 bits
constexpr int64_t kKeysToFind = 1024;  // of which masks are asked which ones are visible
// A processor runs several blocks while each has so many steps left: the loads of one are under way
// while another multiplies.
constexpr int64_t kStepsToShare = 4;
// Chunks of a lane beyond which keys and values take turns in its registers.
constexpr int64_t kChunksMax = 24;
constexpr int64_t kBlocksMax = 2;  // of a processor, by their registers

int64_t chunks_of(int64_t length, int64_t lanes) {
  return (length + lanes * kChunk - 1) / (lanes * kChunk);
}

// Blocks of fewer warps where those of four would leave half of a GPU's processors without keys.
int64_t warps_of(const Graph& body, const AttentionForm& form, const CudaMachine& machine) {
  const Expr& keys = form.label_size[static_cast<size_t>(form.key)];
  if (!keys.is_constant()) return kWarpsMax;
  int64_t wanted =
      common::gpu_splits(form.size(form.batch), keys, 1, 0, body.symbols, machine.processors);
  int64_t warps = kWarpsMax;
  auto blocks = [&] { return (keys.constant() + warps * kWarpKeys - 1) / (warps * kWarpKeys); };
  while (warps > 1 && 2 * blocks() <= wanted) warps /= 2;
  return warps;
}

// Scores are products of the queries, padded to 16 rows, and 8 keys; lane 4 g + t has the depths of
// row g and of key g in chunks t, t + 4, ... of 16 bytes. A product does not mind in which order
// both sides name the depths, so chunks serve as they lie in memory. Its result, the scores of row
// g for keys 2 t and 2 t + 1, is where the second product, of values by probabilities, wants them:
// there the lane has columns 8 g to 8 g + 7 of four keys, and pairs of keys are put together by one
// permutation of bytes a word.
class DecodeAttention final : public CudaAttentionRows {
 public:
  DecodeAttention(const Graph& body, AttentionForm form, int64_t warps)
      : CudaAttentionRows(body, std::move(form), warps * 32, warps),
        step_(warps * kWarpKeys),
        depth_chunks_(chunks_of(depth_, 4)),
        width_chunks_(chunks_of(width_, 8)),
        takes_turns_(2 * depth_chunks_ + 4 * width_chunks_ > kChunksMax) {
    keys_ = {operands_.keys(), depth_,
             [](const AttentionOperands& o, const std::vector<Expr>& at, const Expr& d) {
               return o.keys_at(at[0], d);
             }};
    values_ = {operands_.values(), width_,
               [](const AttentionOperands& o, const std::vector<Expr>& at, const Expr& d) {
                 return o.values_at(at[0], d);
               }};
    queries_ = {operands_.queries(), depth_,
                [](const AttentionOperands& o, const std::vector<Expr>& at, const Expr& d) {
                  return o.queries_at(at, d);
                }};
  }

  Result<GpuFunction> run(const Schedule& schedule, const CudaMachine& machine) {
    choose_splits(wanted_splits(schedule, machine), step_, machine);
    GpuFunction function;
    lines(
        "const int tid = threadIdx.x, lane = tid % 32, g = lane / 4, t = lane % 4;\n"
        "const int64_t m0 = 0;");
    bind_batch(cat("(int64_t)blockIdx.x / ", splits_));
    function.block.threads = static_cast<int>(threads_);
    function.block.shared_bytes = declare_parts(rows_ * depth_ * 2);
    bool is_long = !key_size_.is_constant() || key_size_.constant() >= kKeysToFind;
    reads_masks_ = is_long && !form_.masks.empty();
    find_range(step_, "blockIdx.x");
    // The first keys and values are under way while the queries are computed.
    lines(cat("const int from = ", begin_, " + warp * ", kWarpKeys, ", to = ", end_,
              ";\nuint4 key[2][", depth_chunks_, "], value[4][", width_chunks_, "];"));
    if (!takes_turns_) {
      writer_.open(true);
      load_keys("from");
      load_values("from");
      writer_.close("if (from < to)");
    }
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
  // What is read in chunks: at a row's labels or a key, and a position along its `length`.
  struct Operand {
    NodeId node = 0;
    int64_t length = 0;
    std::function<Indices(const AttentionOperands&, const std::vector<Expr>& at, const Expr&)> at;
  };

  std::string weight(const std::string& top, const std::string& greatest) const override {
    return cat("lf_exp_less(", top, ", ", greatest, ")");
  }

  int64_t wanted_splits(const Schedule& schedule, const CudaMachine& machine) const {
    int64_t given = schedule_value(schedule, Template::kAttention, "splits");
    if (given != 0) return given;
    int64_t once =
        common::gpu_splits(batch_size(), key_size_, step_, 0, body_.symbols, machine.processors);
    int64_t blocks = 2;
    if (key_size_.is_constant()) {
      int64_t steps = key_size_.constant() / (once * step_);
      blocks = std::clamp<int64_t>(steps / kStepsToShare, 1, kBlocksMax);
    }
    return once * blocks;
  }

  // Whether the rows' runs of so many elements lie side by side in an input.
  bool is_plain(const Operand& x, const std::vector<int>& labels, int64_t run) const {
    return lies_in_runs(x.node, x.length, x.at, labels, run);
  }

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

  // The block computes queries once, which may take more than to read them, with all its threads.
  void load_queries() {
    bool plain = is_plain(queries_, form_.rows, kChunk);
    int64_t count = plain ? kChunk : 2;
    while (count < kChunk && rows_ * depth_ > count * threads_) count *= 2;
    writer_.open(true);
    lines(cat("uint16_t h[", count, "];"));
    std::vector<Expr> rows = row_labels(cat("e / ", depth_));
    std::string from = cat("e % ", depth_);
    if (plain) {
      Expr position = index(from, Expr(depth_));
      auto read = plain_read(queries_.node, queries_.at(operands_, rows, position), emitter_);
      lines(cat("*(uint4*)h = lf_load_once16(in", read->input, " + ", writer_.text(read->offset),
                ");"));
    } else {
      writer_.open(false);
      compute(queries_, rows, from);
      writer_.close(unrolled_loop("y", count));
    }
    lines(cat(unrolled_loop("y", count), " ((uint16_t*)memory)[e + y] = h[y];"));
    close_each(rows_ * depth_, count);
    lines("__syncthreads();");
    lines(cat("uint4 query[", depth_chunks_, "];"));
    std::string valid = inside("(c * 4 + t) * 8", depth_, depth_chunks_ * 32);
    lines(cat(unrolled_loop("c", depth_chunks_),
              " query[c] = ", valid.empty() ? "" : cat(valid, " ? "),
              "((const uint4*)memory)[min(g, ", rows_ - 1, ") * ", depth_ / kChunk, " + c * 4 + t]",
              valid.empty() ? "" : " : make_uint4(0, 0, 0, 0)", ";"));
  }

  void walk_keys() {
    writer_.open(true);
    if (takes_turns_) load_keys("n0");
    multiply_keys();
    std::string next = cat("n0 + ", step_);
    auto load_next = [&](auto load) {
      writer_.open(true);
      load();
      writer_.close(cat("if (", next, " < to)"));
    };
    if (takes_turns_) {
      load_values("n0");
    } else {
      load_next([&] { load_keys(next); });
    }
    std::vector<Expr> rows = row_labels("g");
    lines("float x[4];");
    writer_.open(false);
    std::string position = "n0 + e / 2 * 8 + t * 2 + e % 2";
    Expr key = key_index(position);
    CodeValue dot = writer_.declare(writer_.depth(), "float", "s", "dot[e / 2][e % 2]");
    writer_.remember({form_.scores, 0, operands_.scores_at(rows, key)}, dot);
    CodeValue x = emitter_.value(operands_.exponents(), operands_.softmax_at(rows, key));
    lines(cat("x[e] = ", position, " < to ? ", x.text, " : ", lowest_, ";"));
    writer_.close(unrolled_loop("e", 4));
    weigh();
    multiply_values();
    if (!takes_turns_) load_next([&] { load_values(next); });
    writer_.close(cat("for (int n0 = from; n0 < to; n0 += ", step_, ")"));
  }

  void multiply_keys() {
    std::string multiply =
        body_.node(operands_.keys()).dtype == DType::kFloat16 ? "lf_mma_f16" : "lf_mma_bf16";
    lines(cat("float dot[2][4] = {};\n", unrolled_loop("u", 2), " {\n",
              unrolled_loop("c", depth_chunks_),
              " {\nconst uint32_t a[4] = {query[c].x, 0, query[c].y, 0}, b[2] = {key[u][c].x, "
              "key[u][c].y};\n",
              multiply,
              "(dot[u], a, b);\nconst uint32_t a2[4] = {query[c].z, 0, query[c].w, 0}, b2[2] = "
              "{key[u][c].z, key[u][c].w};\n",
              multiply, "(dot[u], a2, b2);\n}\n}"));
  }

  // Of the keys from C expression `from` on, which is less than `to`. For a key beyond the last the
  // last one is read; its value is 0: what lies there, times 0, might be NaN.
  void load_keys(const std::string& from) {
    load(keys_, cat("min(", from, " + u * 8 + g, to - 1)"), "key", 2, "t", 4, depth_chunks_, "");
  }
  void load_values(const std::string& from) {
    load(values_, cat(from, " + u / 2 * 8 + t * 2 + u % 2"), "value", 4, "g", 8, width_chunks_,
         "n < to");
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
    bool in_one = is_plain(x, {form_.key}, x.length), plain = is_plain(x, {form_.key}, kChunk);
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
      lines(cat(to, " = make_uint4(h[0] | (uint32_t)h[1] << 16, h[2] | (uint32_t)h[3] << 16, ",
                "h[4] | (uint32_t)h[5] << 16, h[6] | (uint32_t)h[7] << 16);"));
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
    lines(cat("float most = lf_greater(lf_greater(x[0], x[1]), lf_greater(x[2], x[3]));\n",
              "most = lf_greater(most, __shfl_xor_sync(0xffffffffu, most, 1));\n",
              "most = lf_greater(most, __shfl_xor_sync(0xffffffffu, most, 2));\n",
              "const float after = lf_greater(top, most);\nconst float shift = after == ", lowest_,
              " ? 0 : after;\nconst float turn = after == top ? 1 : lf_exp_less(top, shift);\ntop "
              "= after;\ntotal *= turn;\n"
              "uint32_t high[2], low[2];\n",
              unrolled_loop("u", 2),
              " {\nconst float p = lf_exp_less(x[u * 2], shift), q = lf_exp_less(x[u * 2 + 1], "
              "shift);\ntotal += p + q;\nlf_two_bf16(p, q, high[u], low[u]);\n}"));
  }

  // Rows of sums are the probabilities' columns: their turns are other lanes'.
  void multiply_values() {
    lines(
        cat("if (__any_sync(0xffffffffu, turn != 1)) {\nconst float even = "
            "__shfl_sync(0xffffffffu, turn, t * 8), odd = __shfl_sync(0xffffffffu, turn, t * 8 + "
            "4);\n",
            unrolled_loop("i", width_chunks_), "\n", unrolled_loop("j", 4),
            " {\nsum[i][j][0] *= even; sum[i][j][1] *= odd; sum[i][j][2] *= even; "
            "sum[i][j][3] *= odd;\n}\n}"));
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
  int64_t step_;                         // keys of a block in a step
  int64_t depth_chunks_, width_chunks_;  // of a lane
  bool takes_turns_;
};

}  // namespace

bool cuda_attention_is_decode(const Graph& body, const AttentionForm& form,
                              const Schedule& schedule) {
  Expr rows = form.size(form.rows);
  int64_t width = form.size(form.columns).constant();
  CodeWriter writer(body.symbols);
  AttentionOperands operands(body, form, writer);
  bool is_online =
      form.scales_rows && schedule_value(schedule, Template::kAttention, "online") != 0;
  bool counts =
      common::Bounds(body.symbols, {}).upper(form.label_size[static_cast<size_t>(form.key)]) <=
      kKeysMax;
  return is_online && counts && body.node(form.product).dtype == DType::kFloat32 &&
         body.node(operands.values()).dtype == DType::kBfloat16 && rows.is_constant() &&
         rows.constant() >= 1 && rows.constant() <= kFewRows && operands.depth() % kChunk == 0 &&
         width % kChunk == 0 && std::max(operands.depth(), width) <= kWidthMax;
}

Result<GpuFunction> emit_cuda_attention_decode(const Graph& body, AttentionForm form,
                                               const Schedule& schedule,
                                               const CudaMachine& machine) {
  int64_t warps = warps_of(body, form, machine);
  return DecodeAttention(body, std::move(form), warps).run(schedule, machine);
}

}  // namespace worker
