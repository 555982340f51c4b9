#include "worker/codegen/cuda/attention/attention_flash.h"

#include "common/base/cat.h"
#include "common/lowering/body/function_body.h"
#include "common/schedule/attention/flash_blocks.h"
#include "worker/codegen/cuda/attention/attention_scores.h"

namespace worker {

using common::cat;
using common::DType;
using common::Expr;
using common::finish_body;
using common::FlashAttentionTiling;
using common::GpuFunction;
using common::HalfAttention;
using common::Result;

namespace {

// While a block of keys is multiplied the next one is copied, so that threads meet once a block.
class FlashAttention final : public CudaAttentionScores {
 public:
  FlashAttention(const HalfAttention& attention, const FlashAttentionTiling& tiling)
      : CudaAttentionScores(attention, {tiling.rows, tiling.keys, tiling.tiles}),
        online_(tiling.online) {}

  Result<GpuFunction> run() {
    GpuFunction function;
    function.block.threads = static_cast<int>(threads());
    int64_t bytes = common::flash_shared_bytes({.depth = queries_.length, .width = values_.length},
                                               {block_.rows, block_.keys});
    function.block.shared_bytes = declare_shared(writer_, bytes);
    Expr units = begin();
    open_pipeline();
    find_range(bytes - common::kFlashLimitBytes);
    // Rows that see nothing are NaN all over, which only a key can tell them.
    if (is_limited_ && !online_) lines(cat("if (hi <= lo) lo = 0, hi = ", key_count(), ";"));
    find_inner_blocks(1);
    declare_sums();
    if (online_) {
      walk_keys(Pass::kOnline);
    } else {
      walk_keys(Pass::kTotals);
      lines(cat(unrolled_loop("s", slots()),
                " total[s] = lf_inverse(lf_quad_sum(total[s]));\n__syncthreads();"));
      walk_keys(Pass::kProducts);
    }
    store(online_);
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!flows_) return common::unsupported("an output mixes elements of the attention");
    function.body = finish_body(writer_, units, emitter_.scratch());
    return function;
  }

 private:
  int64_t buffer_bytes() const { return keys_.bytes() + values_.bytes(); }

  // Where a lane's rows of panels begin, of which ldmatrix takes 16 at a time; the chunks of two
  // neighbouring products of 16 are apart by a bit of their place.
  void open_pipeline() {
    lines(cat("unsigned char* const queries = memory;\nunsigned char* const buffers = memory + ",
              queries_.bytes(), ";"));
    Source source{[this](const std::string& row) { return row_labels(row); }, ""};
    load(queries_, "queries", threads(), source);
    auto place = [this](const char* name, const Panel& panel, const std::string& row,
                        const char* chunk) {
      lines(cat("int row_", name, " = (", row, ") * ", panel.row_bytes(), ", chunk_", name, " = (",
                chunk, " ^ ", panel.turn("lane"), ") * 16;"));
    };
    place("q", queries_, cat("warp * ", 16 * tiles(), " + lane % 16"), "lane / 16");
    place("k", keys_, "lane % 8 + lane / 16 * 8", "lane / 8 % 2");
    place("v", values_, "lane % 16", "lane / 16");
  }

  // Keys and values of the block from C expression `first` on, into buffer C expression `buffer`.
  void load_block(const std::string& first, const std::string& buffer, bool has_values,
                  bool inside) {
    Source source;
    source.at = [this, first, inside](const std::string& row) {
      std::string key = cat(first, " + ", row);
      return std::vector<Expr>{inside ? whole_key(key) : key_index(key)};
    };
    std::string to = cat("buffers + ", buffer, " * ", buffer_bytes());
    load(keys_, to, threads(), source);
    if (!inside) source.valid = cat("(", first, " + row < hi)");
    if (has_values) load(values_, cat(to, " + ", keys_.bytes()), threads(), source);
  }
  void walk_keys(Pass pass) {
    bool has_values = pass != Pass::kTotals;
    writer_.open(false);
    lines("int buffer = 0;");
    writer_.open(true);
    load_block("begin", "0", has_values, is_whole_);
    writer_.close("if (lo < hi)");
    lines("lf_cp_async_commit();");
    // What positions hide first makes a border before the inner blocks, to which these lead.
    std::string step = cat(block_.keys), after = cat("n0 + ", step);
    bool has_first = is_limited_ && !form_.hidden.first.empty();
    walk_blocks(pass, true,
                has_first ? cat("begin == lo | ", after, " < end ? ", after, " : lo") : after);
    writer_.close(cat("for (int n0 = begin, next; n0 < end; n0 += ", step, ")"));
    if (!is_whole_) {
      walk_blocks(pass, false, has_first ? cat(after, " == begin ? end : ", after) : after);
      writer_.close(cat("for (int n0 = ", has_first ? "begin > lo ? lo : " : "",
                        "end, next; n0 < hi; n0 = next)"));
    }
    writer_.close("");
  }

  // Opens the scope of a loop over blocks of keys.
  void walk_blocks(Pass pass, bool inside, const std::string& next) {
    bool has_values = pass != Pass::kTotals;
    writer_.open(true);
    lines(cat("lf_cp_async_wait<0>();\n__syncthreads();\nnext = ", next, ";"));
    writer_.open(true);
    load_block("next", "(buffer ^ 1)", has_values, inside);
    writer_.close("if (next < hi)");
    lines("lf_cp_async_commit();");
    multiply_keys();
    weigh(pass, inside);
    if (pass == Pass::kOnline) turn_sums();
    if (has_values) multiply_values();
    lines("buffer ^= 1;");
  }

  static std::string mma(DType dtype) {
    return dtype == DType::kFloat16 ? "lf_mma_f16" : "lf_mma_bf16";
  }
  // Two products of each tile's `left` with the halves of `right`, into matrices j * 2 and j * 2 +
  // 1 of `to`.
  std::string multiply_pair(DType dtype, const char* to, const char* left,
                            const char* right) const {
    return cat("{\nconst uint32_t b[2] = {", right, "[0], ", right, "[1]}, c[2] = {", right,
               "[2], ", right, "[3]};\n", unrolled_loop("i", tiles()), " {\n", mma(dtype), "(", to,
               "[i][j * 2], ", left, "[i], b);\n", mma(dtype), "(", to, "[i][j * 2 + 1], ", left,
               "[i], c);\n}\n}");
  }

  void multiply_keys() {
    lines(cat(
        "float dot[", tiles(), "][", key_tiles(), "][4] = {};\n",
        "lf_compute_again(chunk_q);\nlf_compute_again(chunk_k);\nconst lf_shared_place query_rows "
        "= lf_shared_at(queries) + row_q, key_rows = lf_shared_at(buffers) + buffer * ",
        buffer_bytes(), " + row_k;\n", unrolled_loop("k", queries_.padded() / 16),
        " {\nuint32_t a[", tiles(), "][4];\n", unrolled_loop("i", tiles()),
        " lf_ldmatrix_x4(a[i], query_rows + i * ", 16 * queries_.row_bytes(),
        " + (chunk_q ^ k * 32));\n", unrolled_loop("j", key_tiles() / 2),
        " {\nuint32_t q[4];\nlf_ldmatrix_x4(q, key_rows "
        "+ j * ",
        16 * keys_.row_bytes(), " + (chunk_k ^ k * 32));\n",
        multiply_pair(body_.node(operands_.queries()).dtype, "dot", "a", "q"), "\n}\n}"));
  }

  void multiply_values() {
    lines(cat(
        "lf_compute_again(chunk_v);\nconst lf_shared_place value_rows = lf_shared_at(buffers) + "
        "buffer * ",
        buffer_bytes(), " + ", keys_.bytes(), " + row_v;\n", unrolled_loop("k", block_.keys / 16),
        " {\n", packed(), "\n", unrolled_loop("j", width_tiles() / 2),
        " {\nuint32_t q[4];\nlf_ldmatrix_x4_trans(q, value_rows + k * ", 16 * values_.row_bytes(),
        " + (chunk_v ^ j * 32));\n", multiply_pair(dtype_, "sum", "a", "q")));
    if (splits_) {
      // Of float16 the rest may be 0 or of the other sign, where infinity would become NaN.
      if (dtype_ == DType::kFloat16) {
        lines(cat(unrolled_loop("x", 4), " q[x] = lf_finite_or_zero<0x7c007c00u>(q[x]);"));
      }
      lines(multiply_pair(dtype_, "sum", "rest", "q"));
    }
    lines("}\n}");
  }

  bool online_;
};

}  // namespace

Result<GpuFunction> emit_cuda_attention_flash(const HalfAttention& attention,
                                              const FlashAttentionTiling& tiling) {
  LFARM_RETURN_IF_ERROR(common::verify(tiling, attention));
  return FlashAttention(attention, tiling).run();
}

}  // namespace worker
