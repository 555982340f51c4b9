#include "worker/codegen/cuda/attention/attention_scores.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/ir/hlir/builder.h"
#include "common/lowering/body/function_body.h"
#include "common/lowering/text/c_text.h"

namespace worker {

using common::AttentionForm;
using common::cat;
using common::CodeValue;
using common::DType;
using common::Expr;
using common::Indices;

namespace {

constexpr double kLog2E = 1.4426950408889634;

}  // namespace

CudaAttentionScores::CudaAttentionScores(const common::HalfAttention& attention,
                                         const ScoreBlock& block)
    : CudaAttentionPanels(attention.body, attention.form),
      block_(block),
      dtype_(body_.node(operands_.values()).dtype),
      splits_(!attention.rounds && body_.node(operands_.probabilities()).dtype != dtype_) {
  queries_ = {common::attention_queries(form_, operands_), block.rows};
  keys_ = {common::attention_keys(form_, operands_), block.keys};
  values_ = {common::attention_values(form_, operands_), block.keys};
  is_short_ = true;
  is_limited_ =
      form_.weights.keeps_zero && !(form_.hidden.first.empty() && form_.hidden.last.empty());
  is_whole_ = !is_limited_ && key_size_.is_constant() && key_size_.constant() > 0 &&
              key_size_.constant() % block.keys == 0;
  scale_ = find_scale(operands_.exponents());
  keeps_limits_ = is_limited_ && tiles() == 1;
}

void CudaAttentionScores::declare_sums() {
  lines(cat("float sum[", tiles(), "][", width_tiles(), "][4] = {}, top[", slots(), "], total[",
            slots(), "];\n", unrolled_loop("s", slots()), " top[s] = ", lowest_,
            ", total[s] = 0;"));
  if (!keeps_limits_) return;
  lines(cat("int first_seen[", slots(), "], last_seen[", slots(), "];"));
  for (int64_t slot = 0; slot < slots(); ++slot) {
    writer_.open(false);
    row_range(rows_[static_cast<size_t>(slot)]);
    lines(cat("first_seen[", slot, "] = (int)lf_min_i64(first, ", key_count(), "), last_seen[",
              slot, "] = (int)lf_max_i64(last, -1);"));
    writer_.close("");
  }
}

void CudaAttentionScores::weigh(Pass pass, bool inside) {
  const bool seen = inside || keeps_limits_;
  const double scale = seen && pass == Pass::kOnline ? scale_.value_or(0) : 0;
  if (scale == 0) weigh_scores(seen, inside);
  if (seen && !inside) hide_scores();
  pass == Pass::kProducts ? normalise() : exponentiate(pass, scale == 0 ? 1 : scale);
}

// Scores of the thread's keys from n0 + 2 t on that its rows do not see.
void CudaAttentionScores::hide_scores() {
  std::string hidden = form_.hidden.last.empty() ? "" : "i > until";
  if (!form_.hidden.first.empty()) hidden += cat(hidden.empty() ? "" : " | ", "i < from");
  lines(cat(unrolled_loop("s", slots()), " {\nconst int until = last_seen[s] - n0 - t * 2",
            form_.hidden.first.empty() ? "" : ", from = first_seen[s] - n0 - t * 2", ";\n",
            unrolled_loop("i", block_.keys), " {\nif (i % 8 < 2 && (",
            form_.hidden.last.empty() ? cat("i >= hi - n0 - t * 2 | ", hidden) : hidden,
            ")) dot[s / 2][i / 8][s % 2 * 2 + i % 2] = ", lowest_, ";\n}\n}"));
}

// Names the block's rows and its elements of the batch.
Expr CudaAttentionScores::begin() {
  Expr blocks = common::floor_div(row_count_ + Expr(block_.rows - 1), Expr(block_.rows));
  std::string count = writer_.rare_text(blocks);
  lines(
      "const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, g = lane / 4, t = lane % "
      "4;");
  // Where positions hide the last keys the last rows see most: their blocks start first.
  bool is_last_first = is_limited_ && !form_.hidden.last.empty();
  std::string divisor = is_last_first ? writer_.rare_text(batch_size()) : count;
  std::string quotient = cat("blockIdx.x / (uint32_t)(", divisor, ")");
  std::string rest = cat("blockIdx.x % (uint32_t)(", divisor, ")");
  lines(is_last_first ? cat("const int m0 = ((int)(", count, ") - 1 - (int)(", quotient, ")) * ",
                            block_.rows, ";")
                      : cat("const int m0 = (int)(", rest, ") * ", block_.rows, ";"));
  bind_batch(is_last_first ? rest : quotient);
  for (int64_t slot = 0; slot < slots(); ++slot) {
    rows_.push_back(row_labels(cat("warp * ", 16 * tiles(), " + g + ", slot * 8)));
  }
  return batch_size() * blocks;
}

std::string CudaAttentionScores::key_count() const {
  return cat("(int)(", writer_.rare_text(key_size_), ")");
}

bool CudaAttentionScores::find_range(int64_t limits) {
  std::string keys = key_count();
  if (!is_limited_) {
    lines(cat("const int lo = 0, hi = ", keys, ", from = 0, until = hi;"));
    return false;
  }
  lines(cat("int lo = ", keys, ", hi = 0, from = 0, until = lo;"));
  writer_.open(true);
  row_range(row_labels("tid"));
  lines(cat("lo = from = (int)lf_min_i64(first, ", keys,
            ");\nhi = until = (int)lf_max_i64(last + 1, 0);"));
  writer_.close(cat("if (tid < ", block_.rows, ")"));
  lines(
      "lo = lf_warp_min(lo), hi = -lf_warp_min(-hi), from = -lf_warp_min(-from), "
      "until = lf_warp_min(until);");
  if (block_.warps() == 1) return false;
  const int64_t sharers = std::max<int64_t>(1, block_.rows / 32);
  lines(cat("int* const limits = (int*)(memory + ", limits, ");\nif (lane == 0 & warp < ", sharers,
            ") { "
            "limits[warp * 4] = lo; limits[warp * 4 + 1] = hi; limits[warp * 4 + 2] = from; "
            "limits[warp * 4 + 3] = until; }\n__syncthreads();\n",
            unrolled_loop("w", sharers),
            " {\nlo = min(lo, limits[w * 4]), hi = max(hi, limits[w * 4 + 1]);\nfrom = max(from, "
            "limits[w * 4 + 2]), until = min(until, limits[w * 4 + 3]);\n}"));
  return true;
}

void CudaAttentionScores::find_inner_blocks(int64_t ahead) {
  if (is_whole_) {
    lines("const int begin = lo, end = hi;");
    return;
  }
  std::string step = cat(block_.keys);
  auto round_down = [&](const std::string& x) {
    return cat("lo + (", x, " - lo) / ", step, " * ", step);
  };
  lines(cat("int begin = ",
            form_.hidden.first.empty() ? "lo" : round_down(cat("max(from, lo) + ", step, " - 1")),
            ", end = ", round_down("min(until, hi)"), ";"));
  if (ahead > 0) {
    lines(
        cat("if (end != hi) end = min(end, ", round_down(cat("hi - ", ahead * block_.keys)), ");"));
  }
  lines("if (begin >= end) begin = end = lo;");
}

// The index of a key that is there.
Expr CudaAttentionScores::whole_key(const std::string& key) {
  std::string name = writer_.fresh("key");
  lines(cat("const int64_t ", name, " = ", key, ";"));
  return Expr::index(writer_.bind_index(name, key_size_, writer_.depth()));
}

// By what scores are multiplied to become what the softmax takes, where nothing else is done to
// those that every row sees.
std::optional<double> CudaAttentionScores::find_scale(common::NodeId id) const {
  const common::Node& node = body_.node(id);
  if (id == form_.scores) return 1;
  if (node.op == common::Op::kView) {
    return attr<common::ViewAttr>(node).view.valid.empty() ? find_scale(node.operands[0])
                                                           : std::nullopt;
  }
  for (const AttentionForm::Mask& mask : form_.hidden.masks) {
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
std::optional<double> CudaAttentionScores::constant_of(common::NodeId id) const {
  while (body_.node(id).op == common::Op::kView) id = body_.node(id).operands[0];
  const common::Node& node = body_.node(id);
  return node.op == common::Op::kConstant ? common::uniform_constant(node) : std::nullopt;
}

// Scores become what the softmax takes. Inside nothing is asked of positions.
void CudaAttentionScores::weigh_scores(bool seen, bool whole) {
  for (int64_t slot = 0; slot < slots(); ++slot) {
    const std::vector<Expr>& rows = rows_[static_cast<size_t>(slot)];
    writer_.open(false);
    writer_.open(false);
    lines("const int n = n0 + j * 8 + t * 2 + c;");
    std::string place = cat("dot[", slot / 2, "][j][", slot % 2 * 2, " + c]");
    Expr key = whole ? whole_key("n") : key_index("n");
    Indices at = operands_.softmax_at(rows, key);
    CodeValue score = writer_.declare(writer_.depth(), type_, "s", place);
    writer_.remember({form_.scores, 0, operands_.scores_at(rows, key)}, score);
    if (seen) see_positions(at);
    CodeValue x = emitter_.value(operands_.exponents(), at);
    lines(cat(place, " = ", seen ? x.text : cat("n < hi ? ", x.text, " : ", lowest_), ";"));
    writer_.close(unrolled_loop("c", 2));
    writer_.close(unrolled_loop("j", key_tiles()));
  }
}

// What positions hide is known to be seen: a mask adds nothing, and what was rounded before it is
// not rounded again.
void CudaAttentionScores::see_positions(const Indices& at) {
  if (!is_limited_) return;
  for (const AttentionForm::Mask& mask : form_.hidden.masks) {
    if (!mask.is_positional) continue;
    auto place = [&](common::NodeId id) {
      return operands_.demanded(operands_.exponents(), at, id);
    };
    std::string value = mask.is_added || mask.hides ? "0" : "1";
    writer_.remember({mask.node, 0, place(mask.node)}, {value, writer_.depth(), -1});
    if (mask.is_added) forward_scores(mask.node, place);
  }
}

// The sum with a mask that adds nothing is the other operand.
void CudaAttentionScores::forward_scores(common::NodeId mask,
                                         const std::function<Indices(common::NodeId)>& place) {
  for (common::NodeId sum = 0; static_cast<size_t>(sum) < body_.nodes.size(); ++sum) {
    const common::Node& node = body_.node(sum);
    if (node.op != common::Op::kBinary || !common::contains(node.operands, mask) ||
        !common::contains(form_.members, sum)) {
      continue;
    }
    common::NodeId scores = node.operands[node.operands[0] == mask ? 1 : 0];
    writer_.remember({sum, 0, place(sum)}, emitter_.value(scores, place(sum)));
    const common::Node& wide = body_.node(scores);
    if (wide.op != common::Op::kCast || !common::is_half(body_.node(wide.operands[0]).dtype)) {
      continue;
    }
    for (common::NodeId again : form_.members) {
      const common::Node& rounded = body_.node(again);
      if (rounded.op != common::Op::kCast || rounded.operands[0] != sum ||
          rounded.dtype != body_.node(wide.operands[0]).dtype) {
        continue;
      }
      writer_.remember({again, 0, place(again)}, emitter_.value(wide.operands[0], place(sum)));
    }
  }
}

// Loops over a thread's scores of slot s.
std::string CudaAttentionScores::each_score() const {
  return cat(unrolled_loop("j", key_tiles()), "\n", unrolled_loop("c", 2), " ");
}

// Exponentials of scores times `scale` relative to the row's greatest so far. A row that has seen
// nothing yet must not turn into NaN. The product with log2(e) is that with the scale, before the
// greatest is subtracted; where it might be infinite, and where the second pass computes
// probabilities again, the greatest is subtracted first.
void CudaAttentionScores::exponentiate(Pass pass, double scale) {
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
}

void CudaAttentionScores::turn_sums() {
  std::string changed = "turn[0] != 1";
  for (int64_t s = 1; s < slots(); ++s) changed += cat(" | turn[", s, "] != 1");
  lines(cat("if (__any_sync(0xffffffffu, ", changed, ")) {\n", unrolled_loop("s", slots()), "\n",
            unrolled_loop("j", width_tiles()),
            " { sum[s / 2][j][s % 2 * 2] *= turn[s]; sum[s / 2][j][s % 2 * 2 + 1] *= turn[s]; "
            "}\n}"));
}

// In the second pass: totals are inverse.
void CudaAttentionScores::normalise() {
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
std::string CudaAttentionScores::packed() const {
  std::string type = dtype_ == DType::kFloat16 ? "f16" : "bf16";
  std::string text =
      cat("uint32_t a[", tiles(), "][4]", splits_ ? cat(", rest[", tiles(), "][4]") : "", ";\n",
          unrolled_loop("i", tiles()), "\n", unrolled_loop("e", 4), " {\n",
          "const float p = dot[i][k * 2 + e / 2][e % 2 * 2], q = dot[i][k * 2 + e "
          "/ 2][e % 2 * 2 + 1];\n");
  return cat(text, splits_ ? cat("lf_two_", type, "(p, q, a[i][e], rest[i][e]);\n}")
                           : cat("a[i][e] = lf_pair_", type, "(p, q);\n}"));
}

// Normalises the sums, if that is still to do, and stores what follows from them.
void CudaAttentionScores::store(bool online) {
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
  const int64_t run = output_run();
  if (run > 1 && values_.length % (4 * run) == 0)
    return store_registers(run, online ? "total" : "");
  int64_t stride = values_.padded() + 8;
  std::string scaled = online ? " * total[s]" : "";
  // Queries are still under way where there was no key.
  lines(cat("lf_cp_async_wait<0>();\n__syncthreads();\nfloat* const stage = (float*)memory;\n",
            unrolled_loop("s", slots()), " {\nfloat* const line = stage + (warp * ", 16 * tiles(),
            " + s * 8 + g) * ", stride, " + t * 2;\n", unrolled_loop("j", width_tiles()),
            " *(float2*)(line + j * 8) = make_float2(sum[s / 2][j][s % 2 * 2]", scaled,
            ", sum[s / 2][j][s % 2 * 2 + 1]", scaled, ");\n}\n__syncthreads();"));
  flows_ = store_staged({"0", block_.rows, stride, threads()});
}

// Threads of a row exchange columns until each has runs of 16 bytes.
void CudaAttentionScores::store_registers(int64_t run, const std::string& scale) {
  const int64_t taken = run / 2;  // tiles of 8 columns at a time
  // Copies may still be under way where there was no key.
  lines("lf_cp_async_wait<0>();");
  for (int64_t slot = 0; slot < slots(); ++slot) {
    writer_.open(false);
    writer_.open(false);
    const std::string tile =
        cat("sum[", slot / 2, "][j * ", taken, " + i][", slot % 2 * 2, " + c]");
    lines(cat("float x[", taken, "][2], v[", run, "];\n", unrolled_loop("i", taken), "\n",
              unrolled_loop("c", 2), " x[i][c] = ", tile,
              scale.empty() ? "" : cat(" * ", scale, "[", slot, "]"),
              ";\nlf_exchange_columns(x, t, v);", "\nconst int d = (j * ", taken, " + t % ", taken,
              ") * 8 + t / ", taken, " * ", run, ";"));
    writer_.open(true);
    bool flows = store_run({.element = "v[y]"}, run, rows_[static_cast<size_t>(slot)]);
    flows_ = flows_ && flows;
    writer_.close(cat("if (m0 + warp * ", 16 * tiles(), " + g + ", slot * 8, " < ",
                      writer_.rare_text(row_count_), ")"));
    writer_.close(unrolled_loop("j", values_.length / (4 * run)));
    writer_.close("");
  }
}

}  // namespace worker
