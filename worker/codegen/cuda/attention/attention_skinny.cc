#include "worker/codegen/cuda/attention/attention_skinny.h"

#include "common/base/cat.h"
#include "common/lowering/body/plain_read.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/cuda/attention/attention_rows.h"

namespace worker {

using common::AttentionForm;
using common::c_cast;
using common::cat;
using common::CodeValue;
using common::Expr;
using common::finish_body;
using common::GpuFunction;
using common::Graph;
using common::plain_read;
using common::Result;
using common::Scratch;
using common::SkinnyAttentionTiling;

namespace {

constexpr int64_t kChunk = common::kSkinnyAttentionChunk;

// A group of threads walks through keys of its own and holds a chunk of every row's query and sum.
// In the end the groups' sums are added as their greatest scores ask, and where blocks share the
// keys, so are the blocks'. Where probabilities are normalised before the product, a first pass
// finds each row's sum; of blocks that share keys, half make the first pass, and the others wait
// for those of their rows.
class SkinnyAttention final : public CudaAttentionRows {
 public:
  SkinnyAttention(const Graph& body, AttentionForm form, const SkinnyAttentionTiling& tiling)
      : CudaAttentionRows(
            body, std::move(form),
            {tiling.threads, tiling.threads / tiling.group, tiling.splits, tiling.keeps_parts}),
        group_(tiling.group),
        ahead_(tiling.ahead),
        online_(tiling.online) {}

  Result<GpuFunction> run() {
    // Rows that see nothing are NaN all over, which only a key can tell them.
    needs_a_key_ = !online_;
    waits_ = !online_ && splits_ > 1;
    GpuFunction function;
    lines("const int tid = threadIdx.x, lane = tid % 32;\nconst int64_t m0 = 0;");
    Expr units = batch_size() * Expr(splits_);
    if (waits_) {
      units = units * Expr(2);
      take_ticket();
    }
    bind_batch(waits_ ? cat("block / ", splits_, " % elements")
                      : cat("(int64_t)blockIdx.x / ", splits_));
    function.block.threads = static_cast<int>(threads_);
    function.block.shared_bytes = declare_parts(0);
    lines(cat("const int group = tid / ", group_, ", chunk = tid % ", group_, " * ", kChunk,
              ";\nfloat query[", rows_, "][", kChunk, "], sum[", rows_, "][", kChunk,
              "] = {}, top[", rows_, "], total[", rows_, "];"));
    load_queries();
    find_range(groups() * ahead_, waits_ ? "block" : "blockIdx.x");
    if (waits_) await_totals();
    walk_keys();
    if (waits_) leave_totals();
    store();
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!flows_) return common::unsupported("an output mixes elements of the attention");
    Scratch scratch = emitter_.scratch();
    function.is_split = splits_ > 1;
    if (function.is_split) scratch.add("kept", "float", sizeof(float), Expr(left_size()));
    function.body = finish_body(writer_, units, scratch);
    return function;
  }

 private:
  int64_t groups() const { return parts_; }
  std::string weight(const std::string& top, const std::string& greatest) const override {
    return exp_of(cat("(", top, " - ", greatest, ")"));
  }
  // Whether position chunk + y of so many elements is one of them.
  std::string inside(int64_t length) const {
    return length == group_ * kChunk ? "" : cat("chunk < ", length);
  }
  static std::string when(const std::string& condition, const std::string& x) {
    return condition.empty() ? x : cat(condition, " ? ", x, " : 0");
  }

  void load_queries() {
    writer_.open(false);
    std::vector<Expr> rows = row_labels("r");
    lines(cat("top[r] = ", lowest_, ", total[r] = 0;"));
    writer_.open(false);
    std::string x = operands_.query(emitter_, rows, inner_index("chunk + y", depth_));
    lines(cat("query[r][y] = ", when(inside(depth_), x), ";"));
    writer_.close(unrolled_loop("y", kChunk));
    writer_.close(unrolled_loop("r", rows_));
  }

  // Keys or values: how a group keeps a chunk of each of several.
  struct Operand : common::AttentionOperand {
    std::string name;
    bool packed = false;  // half-precision values are read and kept as they lie in memory
  };
  void choose_operands() {
    keys_ = {common::attention_keys(form_, operands_), "key"};
    values_ = {common::attention_values(form_, operands_), "value"};
    for (Operand* x : {&keys_, &values_}) {
      x->packed = common::is_half(body_.node(x->node).dtype) && lies_in_runs(*x, kChunk);
    }
  }

  // Element y of the group's u-th key.
  std::string element(const Operand& x) const {
    if (!x.packed) return cat(x.name, "[u][y]");
    return c_cast(body_.node(x.node).dtype, product_.dtype,
                  cat("(uint16_t)(", x.name, "[u][y / 2] >> y % 2 * 16)"));
  }

  // All threads of a warp take the same steps, for they exchange what they have.
  void walk_keys() {
    int64_t step = 32 / group_ * ahead_;  // keys of a warp
    choose_operands();
    writer_.open(false);
    writer_.open(true);
    for (const Operand* x : {&keys_, &values_}) {
      lines(x->packed ? cat("uint32_t ", x->name, "[", ahead_, "][4];")
                      : cat("float ", x->name, "[", ahead_, "][", kChunk, "];"));
    }
    std::string position = cat("n0 + u * ", 32 / group_, " + lane / ", group_);
    writer_.open(false);
    Expr key = key_index(position);
    load(keys_, key, cat(position, " < ", end_));
    writer_.open(!online_);
    load(values_, key, cat(position, " < ", end_));
    writer_.close(online_ ? "" : "if (pass == 1)");
    writer_.close(unrolled_loop("u", ahead_));
    writer_.open(false);
    weigh(position);
    writer_.close(unrolled_loop("r", rows_));
    writer_.close(cat("for (int64_t n0 = ", begin_, " + tid / 32 * ", step, "; n0 < ", end_,
                      "; n0 += ", threads_ / 32 * step, ")"));
    if (!online_ && !waits_) {
      writer_.open(true);
      share_totals();
      writer_.close("if (pass == 0)");
    }
    writer_.close(waits_ ? "for (int pass = phase; pass <= phase; ++pass)"
                         : cat("for (int pass = 0; pass < ", online_ ? 1 : 2, "; ++pass)"));
  }

  // ---- blocks that share keys and normalise first: of each batch element, `splits` of phase 0
  // find the greatest scores and sums, as many of phase 1 add the values. Counters, in this order:
  // blocks of each element that are done, those that have left totals, tickets.

  std::string batch_element() const { return form_.batch.empty() ? "0" : "batch"; }

  void take_ticket() {
    lines(cat("const int64_t elements = ", writer_.rare_text(batch_size()),
              ", stride = scratch_stride / 4;\n",
              "const int64_t block = lf_ticket(areas, 2 * elements, elements * ", 2 * splits_,
              ");\nconst int phase = block >= elements * ", splits_,
              ";\nfloat* const own = kept + (block - (int64_t)blockIdx.x) * stride;"));
  }

  // Phase 1 begins with every row's top, and its sum's inverse for a total.
  void await_totals() {
    lines(cat("if (phase == 1) {\nlf_await(areas, elements + ", batch_element(),
              ", parts);\nconst float* const left = own - (elements * ", splits_,
              " + split) * stride;\nfor (int e = tid; e < parts * ", rows_, "; e += ", threads_,
              ") {\ntops[e] = left[e / ", rows_, " * stride + e % ", rows_,
              "];\ntotals[e] = left[e / ", rows_, " * stride + ", rows_, " + e % ", rows_,
              "];\n}\n__syncthreads();\nif (tid < ", rows_, ") {\n", merged("tid", "parts"),
              "\npart[tid] = greatest;\npart[", rows_,
              " + tid] = 1 / (float)all;\n}\n__syncthreads();\n", unrolled_loop("r", rows_),
              " top[r] = part[r], total[r] = part[", rows_, " + r];\n__syncthreads();\n}"));
  }

  // Phase 0 ends with the block's.
  void leave_totals() {
    lines("if (phase == 0) {");
    publish();
    lines(cat("__syncthreads();\nif (tid < ", rows_, ") {\n", merged("tid", cat(groups())),
              "\nown[tid] = greatest;\nown[", rows_,
              " + tid] = (float)all;\n}\nlf_arrive(areas, elements + ", batch_element(),
              ");\nreturn;\n}"));
  }

  // The last of phase 1 adds the blocks' sums, in their order.
  void join_waiting_blocks() {
    std::string size = cat(rows_ * width_);
    lines(cat("for (int e = tid; e < ", size, "; e += ", threads_,
              ") {\nfloat s = 0;\nfor (int g = 0; g < ", groups(), "; ++g) s += part[g * ", size,
              " + e];\nown[e] = s;\n}\nif (!lf_is_last(areas, ", batch_element(),
              ", parts)) return;\nif (tid == 0) ((uint32_t*)areas)[-1 - elements - ",
              batch_element(), "] = 0;\nconst float* const sums = own - split * stride;\n",
              "const int count = (int)parts;"));
  }

  // A thread's chunk of key `n`, 0 where `valid` does not hold.
  void load(const Operand& x, const Expr& n, const std::string& valid) {
    std::string own = inside(x.length);
    std::string condition = own.empty() ? valid : cat(valid, " & ", own);
    writer_.open(false);
    if (x.packed) {
      Expr d = inner_index(own.empty() ? "chunk" : cat("(", own, " ? chunk : 0)"), x.length);
      auto read = plain_read(x.node, x.at(operands_, {n}, d), emitter_);
      lines(cat("const uint4 q = lf_load_stream16(in", read->input, " + ",
                writer_.text(read->offset), ");\nconst bool is_in = ", condition, ";\n"));
      for (int k = 0; k < 4; ++k) {
        lines(cat(x.name, "[u][", k, "] = is_in ? q.", "xyzw"[k], " : 0;"));
      }
      writer_.close("");
      return;
    }
    CodeValue v = emitter_.value(x.node, x.at(operands_, {n}, inner_index("chunk + y", x.length)));
    lines(cat(x.name, "[u][y] = (", condition, ") ? ",
              c_cast(body_.node(x.node).dtype, product_.dtype, v.text), " : 0;"));
    writer_.close(unrolled_loop("y", kChunk));
  }

  // The scores of row r for the group's keys, and what they add to its sums.
  void weigh(const std::string& position) {
    std::vector<Expr> rows = row_labels("r");
    lines(cat("float x[", ahead_, "];"));
    writer_.open(false);
    lines(cat("float dot = 0;\n", unrolled_loop("y", kChunk), " dot = fmaf(query[r][y], ",
              element(keys_), ", dot);\n#pragma unroll\nfor (int d = ", group_ / 2,
              "; d > 0; d /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, d);"));
    Expr key = key_index(position);
    writer_.remember({form_.scores, 0, operands_.scores_at(rows, key)},
                     {"dot", writer_.depth(), -1});
    CodeValue x = emitter_.value(operands_.exponents(), operands_.softmax_at(rows, key));
    lines(cat("x[u] = ", position, " < ", end_, " ? ", x.text, " : ", lowest_, ";"));
    writer_.close(unrolled_loop("u", ahead_));
    if (online_) {
      accumulate(position, true);
      return;
    }
    writer_.open(true);
    accumulate(position, false);
    writer_.close("if (pass == 0)");
    writer_.open(true);
    lines("const float greatest = top[r];");
    remember_greatest(rows, {"greatest", writer_.depth(), -1});
    writer_.open(false);
    Expr again = key_index(position);
    CodeValue p = writer_.declare(writer_.depth(), type_, "p",
                                  cat(exp_of("(x[u] - greatest)"), " * total[r]"));
    writer_.remember({form_.softmax, 0, operands_.softmax_at(rows, again)}, p);
    lines(cat("const float kept = ", position, " < ", end_, " ? ",
              operands_.probability(emitter_, rows, again), " : 0;\n", unrolled_loop("y", kChunk),
              " sum[r][y] = fmaf(kept, ", element(values_), ", sum[r][y]);"));
    writer_.close(unrolled_loop("u", ahead_));
    writer_.close("else");
  }

  void accumulate(const std::string& position, bool adds) {
    // A row that has seen nothing yet must not turn into NaN.
    lines(cat("float most = x[0];\n", unrolled_loop("u", ahead_),
              " most = lf_max_f32(most, x[u]);\nconst float after = lf_max_f32(top[r], most);\n",
              "const float shift = after == ", lowest_, " ? 0 : after;\n",
              "const float turn = after == top[r] ? 1 : ", exp_of("(top[r] - shift)"),
              ";\ntop[r] = after;\ntotal[r] *= turn;"));
    if (adds) lines(cat(unrolled_loop("y", kChunk), " sum[r][y] *= turn;"));
    lines(cat(unrolled_loop("u", ahead_), " {\nconst float p = ", position, " < ", end_, " ? ",
              exp_of("(x[u] - shift)"), " : 0;\ntotal[r] += p;"));
    if (adds) {
      lines(cat(unrolled_loop("y", kChunk), " sum[r][y] = fmaf(p, ", element(values_),
                ", sum[r][y]);"));
    }
    lines("}");
  }

  // The tops and totals of row C expression `row`, of each of `count` groups or blocks, become
  // `greatest` and `all`.
  std::string merged(const std::string& row, const std::string& count) const {
    std::string at = cat("[g * ", rows_, " + ", row, "]");
    std::string each = cat("for (int g = 0; g < ", count, "; ++g) ");
    return cat("float greatest = ", lowest_, ";\n", each, "greatest = lf_max_f32(greatest, tops",
               at, ");\nconst float shift = greatest == ", lowest_,
               " ? 0 : greatest;\ndouble all = 0;\n", each, "all += totals", at, " * ",
               exp_of(cat("(tops", at, " - shift)")), ";");
  }
  void publish() {
    lines(cat("if (chunk == 0) {\n", unrolled_loop("r", rows_), " {\ntops[group * ", rows_,
              " + r] = top[r];\ntotals[group * ", rows_, " + r] = total[r];\n}\n}"));
  }

  // After the first pass: every thread's top is the row's, and its total the sum's inverse.
  void share_totals() {
    publish();
    lines(cat("__syncthreads();\n", unrolled_loop("r", rows_), " {\n", merged("r", cat(groups())),
              "\ntop[r] = greatest;\ntotal[r] = 1 / (float)all;\n}"));
  }

  void store() {
    if (online_) publish();
    writer_.open(true);
    lines(cat(unrolled_loop("r", rows_), "\n", unrolled_loop("y", kChunk), " part[(group * ", rows_,
              " + r) * ", width_, " + chunk + y] = sum[r][y];"));
    writer_.close(inside(width_).empty() ? "" : cat("if (", inside(width_), ")"));
    lines("__syncthreads();");
    if (online_) return store_merged();
    std::string count = cat(groups());
    std::string sums = "part";
    std::string stride = cat(rows_ * width_);
    if (waits_) {
      join_waiting_blocks();
      count = "count";
      sums = "sums";
      stride = "stride";
    }
    writer_.open(false);
    lines(cat("const int r = e / ", width_, ";\nfloat s = 0;\nfor (int g = 0; g < ", count,
              "; ++g) s += ", sums, "[g * ", stride, " + e];"));
    store_element(cat("e % ", width_), "s", row_labels("r"));
    writer_.close(cat("for (int e = tid; e < ", rows_ * width_, "; e += ", threads_, ")"));
  }

  Operand keys_, values_;
  int64_t group_, ahead_;  // see SkinnyAttentionTiling
  bool online_;
  bool waits_ = false;  // some of the blocks that share keys, for others
};

}  // namespace

Result<GpuFunction> emit_cuda_attention_skinny(const Graph& body, AttentionForm form,
                                               const SkinnyAttentionTiling& tiling) {
  LFARM_RETURN_IF_ERROR(common::verify(tiling, body, form));
  return SkinnyAttention(body, std::move(form), tiling).run();
}

}  // namespace worker
