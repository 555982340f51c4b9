#include "worker/codegen/cuda/attention/attention_flash.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/ir/hlir/builder.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/flash_blocks.h"
#include "worker/codegen/cuda/attention/attention_panels.h"

namespace worker {

using common::AttentionForm;
using common::cat;
using common::CodeValue;
using common::DType;
using common::Expr;
using common::finish_body;
using common::FlashBlocks;
using common::FlashShape;
using common::GpuFunction;
using common::Indices;
using common::Result;
using common::Schedule;
using common::Template;

namespace {

constexpr int64_t kCountMax = 1 << 30;  // of rows and of keys, which are counted in 32 bits
// Rows of one label that are as many make blocks of their own; blocks of fewer mix labels.
constexpr int64_t kLongRows = 64;
constexpr double kLog2E = 1.4426950408889634;
// What a symbol may be where blocks are chosen.
constexpr int64_t kTypicalSize = 2048;

AttentionForm with_long_rows(AttentionForm form) {
  const Expr& last = form.label_size[static_cast<size_t>(form.rows.back())];
  if (last.is_constant() && last.constant() < kLongRows) return form;
  form.batch.insert(form.batch.end(), form.rows.begin(), form.rows.end() - 1);
  form.rows = {form.rows.back()};
  return form;
}

// Thread t of four in group g of eight has, of each tile of 16 rows, the scores and sums of rows g
// and g + 8 in columns 2 t and 2 t + 1 of each eight: dot[tile][j][half * 2 + c]. Such a pair of
// rows' columns is a slot: tile * 2 + half. While a block of keys is multiplied the next one is
// copied, so that threads meet once a block.
class FlashAttention final : public CudaAttentionPanels {
 public:
  FlashAttention(const HalfAttention& attention, const FlashBlocks& blocks)
      : CudaAttentionPanels(attention.body, with_long_rows(attention.form)),
        blocks_(blocks),
        dtype_(body_.node(operands_.values()).dtype),
        splits_(!attention.rounds && body_.node(operands_.probabilities()).dtype != dtype_) {
    queries_ = {operands_.queries(), blocks.rows, operands_.depth(), form_.rows,
                [](const AttentionOperands& o, const std::vector<Expr>& row, const Expr& d) {
                  return o.queries_at(row, d);
                }};
    keys_ = {operands_.keys(),
             blocks.keys,
             operands_.depth(),
             {form_.key},
             [](const AttentionOperands& o, const std::vector<Expr>& key, const Expr& d) {
               return o.keys_at(key[0], d);
             }};
    values_ = {operands_.values(),
               blocks.keys,
               form_.size(form_.columns).constant(),
               {form_.key},
               [](const AttentionOperands& o, const std::vector<Expr>& key, const Expr& d) {
                 return o.values_at(key[0], d);
               }};
    is_short_ = true;
    is_limited_ = form_.keeps_zero && !(form_.first.empty() && form_.last.empty());
    is_whole_ = !is_limited_ && key_size_.is_constant() && key_size_.constant() > 0 &&
                key_size_.constant() % blocks.keys == 0;
    scale_ = find_scale(operands_.exponents());
  }

  Result<GpuFunction> run(bool online, const FlashShape& shape) {
    GpuFunction function;
    function.block.threads = static_cast<int>(threads());
    int64_t bytes = common::flash_shared_bytes(shape, blocks_);
    function.block.shared_bytes = declare_shared(writer_, bytes);
    Expr units = begin();
    open_pipeline();
    find_range(bytes - common::kFlashLimitBytes);
    // Rows that see nothing are NaN all over, which only a key can tell them.
    if (is_limited_ && !online) lines(cat("if (hi <= lo) lo = 0, hi = ", key_count(), ";"));
    find_inner_blocks();
    lines(cat("float sum[", tiles(), "][", width_tiles(), "][4] = {}, top[", slots(), "], total[",
              slots(), "];\n", unrolled_loop("s", slots()), " top[s] = ", lowest_,
              ", total[s] = 0;"));
    if (online) {
      walk_keys(Pass::kOnline);
    } else {
      walk_keys(Pass::kTotals);
      lines(cat(unrolled_loop("s", slots()),
                " total[s] = lf_inverse(lf_quad_sum(total[s]));\n__syncthreads();"));
      walk_keys(Pass::kProducts);
    }
    store(online);
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!flows_) return common::unsupported("an output mixes elements of the attention");
    function.body = finish_body(writer_, units, emitter_.scratch());
    return function;
  }

 private:
  enum class Pass { kOnline, kTotals, kProducts };

  int64_t tiles() const { return blocks_.tiles(); }
  int64_t slots() const { return 2 * tiles(); }
  int64_t threads() const { return 32 * blocks_.warps(); }
  int64_t key_tiles() const { return blocks_.keys / 8; }
  int64_t width_tiles() const { return values_.padded() / 8; }
  int64_t buffer_bytes() const { return keys_.bytes() + values_.bytes(); }

  // Names the block's rows and its elements of the batch.
  Expr begin() {
    Expr blocks = common::floor_div(row_count_ + Expr(blocks_.rows - 1), Expr(blocks_.rows));
    std::string count = writer_.rare_text(blocks);
    lines(
        "const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, g = lane / 4, t = lane % "
        "4;");
    // Where positions hide the last keys the last rows see most: their blocks start first.
    bool is_last_first = is_limited_ && !form_.last.empty();
    std::string divisor = is_last_first ? writer_.rare_text(batch_size()) : count;
    std::string quotient = cat("blockIdx.x / (uint32_t)(", divisor, ")");
    std::string rest = cat("blockIdx.x % (uint32_t)(", divisor, ")");
    lines(is_last_first ? cat("const int m0 = ((int)(", count, ") - 1 - (int)(", quotient, ")) * ",
                              blocks_.rows, ";")
                        : cat("const int m0 = (int)(", rest, ") * ", blocks_.rows, ";"));
    bind_batch(is_last_first ? rest : quotient);
    for (int64_t slot = 0; slot < slots(); ++slot) {
      rows_.push_back(row_labels(cat("warp * ", 16 * tiles(), " + g + ", slot * 8)));
    }
    return batch_size() * blocks;
  }

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

  std::string key_count() const { return cat("(int)(", writer_.rare_text(key_size_), ")"); }

  // The block's keys [lo, hi), of which every row sees [from, until).
  void find_range(int64_t limits) {
    std::string keys = key_count();
    if (!is_limited_) {
      lines(cat("const int lo = 0, hi = ", keys, ", from = 0, until = hi;"));
      return;
    }
    lines(cat("int lo = ", keys, ", hi = 0, from = 0, until = lo;"));
    writer_.open(true);
    row_range(row_labels("tid"));
    lines(cat("lo = from = (int)lf_min_i64(first, ", keys,
              ");\nhi = until = (int)lf_max_i64(last + 1, 0);"));
    writer_.close(cat("if (tid < ", blocks_.rows, ")"));
    lines(
        "lo = lf_warp_min(lo), hi = -lf_warp_min(-hi), from = -lf_warp_min(-from), "
        "until = lf_warp_min(until);");
    if (blocks_.warps() == 1) return;
    lines(cat("int* const limits = (int*)(memory + ", limits,
              ");\nif (lane == 0) { "
              "limits[warp * 4] = lo; limits[warp * 4 + 1] = hi; limits[warp * 4 + 2] = from; "
              "limits[warp * 4 + 3] = until; }\n__syncthreads();\n",
              unrolled_loop("w", blocks_.warps()),
              " {\nlo = min(lo, limits[w * 4]), hi = max(hi, limits[w * 4 + 1]);\nfrom = max(from, "
              "limits[w * 4 + 2]), until = min(until, limits[w * 4 + 3]);\n}"));
  }

  // Blocks of keys [begin, end) are whole, as is the one after them, and every row sees them. The
  // others are on a border.
  void find_inner_blocks() {
    if (is_whole_) {
      lines("const int begin = lo, end = hi;");
      return;
    }
    std::string step = cat(blocks_.keys);
    auto round_down = [&](const std::string& x) {
      return cat("lo + (", x, " - lo) / ", step, " * ", step);
    };
    lines(cat("int begin = ",
              form_.first.empty() ? "lo" : round_down(cat("max(from, lo) + ", step, " - 1")),
              ", end = ", round_down("min(until, hi)"), ";\nif (end != hi) end = min(end, ",
              round_down(cat("hi - ", step)), ");\nif (begin >= end) begin = end = lo;"));
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
  // The index of a key that is there.
  Expr whole_key(const std::string& key) {
    std::string name = writer_.fresh("key");
    lines(cat("const int64_t ", name, " = ", key, ";"));
    return Expr::index(writer_.bind_index(name, key_size_, writer_.depth()));
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
    std::string step = cat(blocks_.keys), after = cat("n0 + ", step);
    bool has_first = is_limited_ && !form_.first.empty();
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
    double scale = inside && pass == Pass::kOnline ? scale_.value_or(0) : 0;
    if (scale == 0) weigh_scores(inside);
    pass == Pass::kProducts ? normalise() : exponentiate(pass, scale == 0 ? 1 : scale);
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

  // By what scores are multiplied to become what the softmax takes, where nothing else is done to
  // those that every row sees.
  std::optional<double> find_scale(common::NodeId id) const {
    const common::Node& node = body_.node(id);
    if (id == form_.scores) return 1;
    if (node.op == common::Op::kView) {
      return attr<common::ViewAttr>(node).view.valid.empty() ? find_scale(node.operands[0])
                                                             : std::nullopt;
    }
    for (const AttentionForm::Mask& mask : form_.masks) {
      if (!is_limited_ || !mask.is_positional) continue;
      if (mask.is_added && common::contains(node.operands, mask.node)) {
        return find_scale(node.operands[node.operands[0] == mask.node ? 1 : 0]);
      }
      if (node.op == common::Op::kSelect && node.operands[0] == mask.node) {
        return find_scale(node.operands[mask.hides ? 2 : 1]);
      }
    }
    if (node.op != common::Op::kBinary ||
        attr<common::BinaryAttr>(node).op != common::BinaryOp::kMul) {
      return std::nullopt;
    }
    for (size_t side : {0, 1}) {
      auto factor = constant_of(node.operands[side]);
      if (!factor || *factor <= 0 || find_scale(node.operands[1 - side]) != 1.0) continue;
      return factor;
    }
    return std::nullopt;
  }
  std::optional<double> constant_of(common::NodeId id) const {
    while (body_.node(id).op == common::Op::kView) id = body_.node(id).operands[0];
    const common::Node& node = body_.node(id);
    return node.op == common::Op::kConstant ? common::uniform_constant(node) : std::nullopt;
  }

  // Scores become what the softmax takes. Inside nothing is asked of positions.
  void weigh_scores(bool inside) {
    for (int64_t slot = 0; slot < slots(); ++slot) {
      const std::vector<Expr>& rows = rows_[static_cast<size_t>(slot)];
      writer_.open(false);
      writer_.open(false);
      lines("const int n = n0 + j * 8 + t * 2 + c;");
      std::string place = cat("dot[", slot / 2, "][j][", slot % 2 * 2, " + c]");
      Expr key = inside ? whole_key("n") : key_index("n");
      Indices at = operands_.softmax_at(rows, key);
      CodeValue score = writer_.declare(writer_.depth(), type_, "s", place);
      writer_.remember({form_.scores, 0, operands_.scores_at(rows, key)}, score);
      if (inside) see_positions(at);
      CodeValue x = emitter_.value(operands_.exponents(), at);
      lines(cat(place, " = ", inside ? x.text : cat("n < hi ? ", x.text, " : ", lowest_), ";"));
      writer_.close(unrolled_loop("c", 2));
      writer_.close(unrolled_loop("j", key_tiles()));
    }
  }

  // What positions hide is known to be seen.
  void see_positions(const Indices& at) {
    if (!is_limited_) return;
    for (const AttentionForm::Mask& mask : form_.masks) {
      if (!mask.is_positional) continue;
      Indices place = operands_.demanded(operands_.exponents(), at, mask.node);
      std::string value = mask.is_added || mask.hides ? "0" : "1";
      writer_.remember({mask.node, 0, place}, {value, writer_.depth(), -1});
    }
  }

  // Loops over a thread's scores of slot s.
  std::string each_score() const {
    return cat(unrolled_loop("j", key_tiles()), "\n", unrolled_loop("c", 2), " ");
  }

  // Exponentials of scores times `scale` relative to the row's greatest so far. A row that has seen
  // nothing yet must not turn into NaN. The product with log2(e) is that with the scale, before the
  // greatest is subtracted; where it might be infinite, and where the second pass computes
  // probabilities again, the greatest is subtracted first.
  void exponentiate(Pass pass, double scale) {
    bool keeps = pass == Pass::kOnline;
    auto number = [](double x) { return common::c_literal(DType::kFloat32, x); };
    std::string times = scale == 1 ? "" : cat(" * ", number(scale));
    std::string x = "x[j][h + c]";
    lines(cat("float turn[", slots(), "];\n", unrolled_loop("s", slots()), " {\nfloat(&x)[",
              key_tiles(), "][4] = dot[s / 2];\nconst int h = s % 2 * 2;\n",
              "float most[2] = {x[0][h], x[0][h + 1]}, part[2] = {};\n", each_score(),
              "most[c] = lf_greater(most[c], ", x, ");\n",
              "const float here = lf_quad_greatest(lf_greater(most[0], most[1]))", times, ";\n",
              "const float after = lf_greater(top[s], here);\n",
              "const float shift = after == ", lowest_, " ? 0 : after;\n",
              "turn[s] = after == top[s] ? 1 : lf_exp_less(top[s], shift);\ntop[s] = after;"));
    if (keeps) {
      std::string less =
          scale == 1 ? cat(x, " - shift") : cat("fmaf(", x, ", ", number(scale), ", -shift)");
      lines(cat("float factor = ", number(scale * kLog2E), ", scaled = shift * ", number(kLog2E),
                ";\nif (!lf_fits_scaled(shift)) {\nfactor = ", number(kLog2E), ", scaled = 0;\n",
                each_score(), x, " = ", less, ";\n}\n", each_score(), "part[c] += ", x,
                " = lf_exp_scaled(", x, ", factor, scaled);"));
    } else {
      lines(cat(each_score(), "part[c] += lf_exp_less(", x, ", shift);"));
    }
    lines("total[s] = total[s] * turn[s] + (part[0] + part[1]);\n}");
    if (keeps) turn_sums();
  }

  void turn_sums() {
    std::string changed = "turn[0] != 1";
    for (int64_t s = 1; s < slots(); ++s) changed += cat(" | turn[", s, "] != 1");
    lines(cat("if (__any_sync(0xffffffffu, ", changed, ")) {\n", unrolled_loop("s", slots()), "\n",
              unrolled_loop("j", width_tiles()),
              " { sum[s / 2][j][s % 2 * 2] *= turn[s]; sum[s / 2][j][s % 2 * 2 + 1] *= turn[s]; "
              "}\n}"));
  }

  // In the second pass: totals are inverse.
  void normalise() {
    for (int64_t slot = 0; slot < slots(); ++slot) {
      const std::vector<Expr>& rows = rows_[static_cast<size_t>(slot)];
      writer_.open(false);
      lines(cat("const float greatest = top[", slot, "];"));
      remember_greatest(rows, {"greatest", writer_.depth(), -1});
      writer_.open(false);
      writer_.open(false);
      lines("const int n = n0 + j * 8 + t * 2 + c;");
      std::string place = cat("dot[", slot / 2, "][j][", slot % 2 * 2, " + c]");
      Expr key = key_index("n");
      CodeValue p = writer_.declare(writer_.depth(), type_, "p",
                                    cat("lf_exp_less(", place, ", greatest) * total[", slot, "]"));
      writer_.remember({form_.softmax, 0, operands_.softmax_at(rows, key)}, p);
      std::string x = operands_.probability(emitter_, rows, key);
      lines(cat(place, " = n < hi ? ", x, " : 0;"));
      writer_.close(unrolled_loop("c", 2));
      writer_.close(unrolled_loop("j", key_tiles()));
      writer_.close("");
    }
  }

  // The probabilities of 16 keys, as the product takes them, and what rounding left of them.
  std::string packed() const {
    std::string type = dtype_ == DType::kFloat16 ? "f16" : "bf16";
    std::string text =
        cat("uint32_t a[", tiles(), "][4]", splits_ ? cat(", rest[", tiles(), "][4]") : "", ";\n",
            unrolled_loop("i", tiles()), "\n", unrolled_loop("e", 4), " {\n",
            "const float p = dot[i][k * 2 + e / 2][e % 2 * 2], q = dot[i][k * 2 + e "
            "/ 2][e % 2 * 2 + 1];\n");
    return cat(text, splits_ ? cat("lf_two_", type, "(p, q, a[i][e], rest[i][e]);\n}")
                             : cat("a[i][e] = lf_pair_", type, "(p, q);\n}"));
  }

  void multiply_values() {
    lines(cat(
        "lf_compute_again(chunk_v);\nconst lf_shared_place value_rows = lf_shared_at(buffers) + "
        "buffer * ",
        buffer_bytes(), " + ", keys_.bytes(), " + row_v;\n", unrolled_loop("k", blocks_.keys / 16),
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

  // Normalises the sums, if that is still to do, and stores what follows from them.
  void store(bool online) {
    for (int64_t slot = 0; online && slot < slots(); ++slot) {
      const std::vector<Expr>& rows = rows_[static_cast<size_t>(slot)];
      writer_.open(false);
      lines(cat("const float greatest = top[", slot, "];"));
      remember_greatest(rows, {"greatest", writer_.depth(), -1});
      std::string inverse = cat("lf_inverse(lf_quad_sum(total[", slot, "]))");
      // A sum over no keys is 0.
      if (writer_.bounds().lower(key_size_) < 1) {
        inverse = cat(writer_.rare_text(key_size_), " < 1 ? 0 : ", inverse);
      }
      CodeValue x = writer_.declare(writer_.depth(), type_, "inverse", inverse);
      writer_.remember({form_.softmax, 0, operands_.softmax_at(rows, Expr(0))}, x);
      lines(cat("total[", slot, "] = ", operands_.probability(emitter_, rows, Expr(0)), ";"));
      writer_.close("");
    }
    int64_t stride = values_.padded() + 8;
    std::string scaled = online ? " * total[s]" : "";
    // Queries are still under way where there was no key.
    lines(cat("lf_cp_async_wait<0>();\n__syncthreads();\nfloat* const stage = (float*)memory;\n",
              unrolled_loop("s", slots()), " {\nfloat* const line = stage + (warp * ", 16 * tiles(),
              " + s * 8 + g) * ", stride, " + t * 2;\n", unrolled_loop("j", width_tiles()),
              " *(float2*)(line + j * 8) = make_float2(sum[s / 2][j][s % 2 * 2]", scaled,
              ", sum[s / 2][j][s % 2 * 2 + 1]", scaled, ");\n}\n__syncthreads();"));
    flows_ = store_staged({"0", blocks_.rows, stride, threads()});
  }

  FlashBlocks blocks_;
  DType dtype_;              // of values, and of the probabilities they are multiplied with
  bool splits_;              // probabilities are not rounded
  bool is_limited_ = false;  // positions hide keys from rows
  bool is_whole_ = false;    // all blocks of keys are whole, and every row sees them
  bool flows_ = true;
  std::optional<double> scale_;  // see find_scale()
  Panel queries_, keys_, values_;
  std::vector<std::vector<Expr>> rows_;  // of each slot
};

// The blocks that the schedule asks for, or those that take least.
std::optional<FlashBlocks> blocks_of(const FlashShape& shape, const Schedule& schedule,
                                     const CudaMachine& machine) {
  FlashBlocks given{schedule_value(schedule, Template::kAttention, "block_rows"),
                    schedule_value(schedule, Template::kAttention, "block_keys")};
  return common::flash_blocks(shape, given, machine.processors);
}

}  // namespace

Result<GpuFunction> emit_cuda_attention_flash(const HalfAttention& attention,
                                              const Schedule& schedule,
                                              const CudaMachine& machine) {
  const bool online = schedule_value(schedule, Template::kAttention, "online") != 0;
  auto before = online && !attention.form.scales_rows ? rounded_before(attention) : std::nullopt;
  const HalfAttention& a = before ? *before : attention;
  AttentionForm form = with_long_rows(a.form);
  common::Bounds bounds(a.body.symbols, {});
  Expr keys = form.label_size[static_cast<size_t>(form.key)];
  if (a.body.node(form.product).dtype != DType::kFloat32 || bounds.upper(keys) > kCountMax ||
      bounds.upper(form.size(form.rows)) > kCountMax) {
    return common::unsupported("an attention with other types or too many keys");
  }
  auto typical = [](const Expr& size) {
    return size.is_constant() ? std::max<int64_t>(1, size.constant()) : kTypicalSize;
  };
  common::CodeWriter writer(a.body.symbols);
  FlashShape shape{typical(form.size(form.batch)), typical(form.size(form.rows)), typical(keys),
                   AttentionOperands(a.body, form, writer).depth(),
                   form.size(form.columns).constant()};
  shape.two_parts = !form.rounds_to && !a.rounds;
  shape.two_passes = !(online && form.scales_rows);
  auto blocks = blocks_of(shape, schedule, machine);
  if (!blocks) return common::unsupported("an attention's rows do not fit into registers");
  return FlashAttention(a, *blocks).run(!shape.two_passes, shape);
}

}  // namespace worker
