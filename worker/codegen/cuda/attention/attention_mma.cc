#include "worker/codegen/cuda/attention/attention_mma.h"

#include <functional>

#include "common/base/cat.h"
#include "common/lowering/body/plain_read.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/cuda/attention/attention_block.h"
#include "worker/codegen/text/half_operands.h"

namespace worker {

using common::AttentionForm;
using common::c_cast;
using common::cat;
using common::CodeValue;
using common::CodeWriter;
using common::DType;
using common::Expr;
using common::GpuFunction;
using common::Graph;
using common::Indices;
using common::NodeId;
using common::plain_read;
using common::Result;
using common::Schedule;

namespace {

constexpr int64_t kChunk = 8;  // elements of 16 bytes
// Rows are longer by this many elements, which makes them an odd number of 16 bytes: the eight rows
// that ldmatrix reads meet every bank once.
constexpr int64_t kPad = 8;
constexpr int64_t kWidthMax = 128;  // of a warp's part of the product

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Operands are kept in half precision: queries[row][depth], keys[key][depth], values[key][column].
// Each warp takes 16 rows; where there are fewer rows than that, warps share the keys of a score
// and the columns of the product. A row of probabilities takes the place of its scores: the
// probabilities, then what their rounding left.
class MmaAttention final : public CudaAttentionBlock {
 public:
  explicit MmaAttention(const HalfAttention& attention)
      : CudaAttentionBlock(attention.body, attention.form),
        dtype_(body_.node(operands_.values()).dtype),
        split_(body_.node(operands_.probabilities()).dtype != dtype_) {}

 private:
  // What is loaded: `rows` rows of `length` elements, padded to `padded`.
  struct Panel {
    const char* name;
    NodeId node;
    int64_t rows, length, padded;
    std::string valid;  // rows for which this does not hold are 0; empty: all hold
    // The indices of the element at row C expression and position.
    std::function<Indices(const AttentionOperands&, const std::vector<Expr>& row, const Expr&)> at;
  };

  bool size_for(int64_t rows, int64_t keys, Sizes& z) const override {
    int64_t shares = kThreads / 32 / (rows / 16);
    z.width_padded = round_up(z.width, 16 * shares);
    z.score_stride = keys + 4;
    z.query_bytes = rows * (round_up(z.depth, 16) + kPad) * 2;
    z.key_bytes = keys * (round_up(z.depth, 16) + kPad) * 2;
    z.value_bytes = keys * (z.width_padded + kPad) * 2;
    return keys / shares >= 16 && z.width_padded / shares <= kWidthMax;
  }

  int64_t depth_padded() const { return round_up(z_.depth, 16); }
  int64_t depth_stride() const { return depth_padded() + kPad; }
  int64_t value_stride() const { return z_.width_padded + kPad; }
  // Warps that share 16 rows, and the keys and columns that each of them takes.
  int64_t shares() const { return kThreads / 32 / (z_.rows / 16); }
  int64_t warp_keys() const { return z_.keys / shares(); }
  int64_t warp_columns() const { return z_.width_padded / shares(); }

  void declare() override {
    lines(cat("const int panel = tid / 32 / ", shares(), " * 16, share = tid / 32 % ", shares(),
              ";\nfloat sum[", warp_columns() / 8, "][4] = {};"));
  }

  // Whether a panel's chunks can be read as they are.
  bool is_plain(const Panel& panel) const {
    return lies_in_runs(panel.node, panel.length, panel.at,
                        panel.name[0] == 'q' ? form_.rows : std::vector<int>{form_.key}, kChunk);
  }

  void load(const Panel& panel) {
    int64_t chunks = panel.padded / kChunk;
    writer_.open(false);
    lines(cat("const int row = e / ", chunks, ", chunk = e % ", chunks, ";"));
    std::vector<Expr> row =
        panel.name[0] == 'q' ? row_labels("row") : std::vector<Expr>{key_index("n0 + row")};
    lines("uint4 q = make_uint4(0, 0, 0, 0);");
    std::string inside =
        panel.length == panel.padded
            ? panel.valid
            : cat("chunk * 8 < ", panel.length, panel.valid.empty() ? "" : " & ", panel.valid);
    writer_.open(!inside.empty());
    if (is_plain(panel)) {
      Expr position = inner_index("chunk * 8", panel.length);
      auto read = plain_read(panel.node, panel.at(operands_, row, position), emitter_);
      lines(cat("q = *(const uint4*)(in", read->input, " + ", writer_.text(read->offset), ");"));
    } else {
      lines("uint16_t h[8];");
      writer_.open(false);
      Expr position = inner_index("chunk * 8 + y", panel.length);
      CodeValue x = emitter_.value(panel.node, panel.at(operands_, row, position));
      lines(cat("h[y] = ",
                panel.length % kChunk == 0
                    ? x.text
                    : cat("chunk * 8 + y < ", panel.length, " ? ", x.text, " : 0"),
                ";"));
      writer_.close(unrolled_loop("y", kChunk));
      lines(
          "q = make_uint4(h[0] | (uint32_t)h[1] << 16, h[2] | (uint32_t)h[3] << 16, "
          "h[4] | (uint32_t)h[5] << 16, h[6] | (uint32_t)h[7] << 16);");
    }
    writer_.close(inside.empty() ? "" : cat("if (", inside, ")"));
    if (split_ && panel.name[0] == 'v') {
      std::string unusual = cat("lf_not_finite<", exponents(), ">(q.");
      lines(
          cat("unusual |= ", unusual, "x) | ", unusual, "y) | ", unusual, "z) | ", unusual, "w);"));
    }
    lines(cat("*(uint4*)(", panel.name, " + (row * ", panel.padded + kPad,
              " + chunk * 8) * 2) = q;"));
    writer_.close(shared_loop(panel.rows * chunks));
  }

  void load_queries() override {
    load({"queries", operands_.queries(), z_.rows, z_.depth, depth_padded(), "",
          [](const AttentionOperands& o, const std::vector<Expr>& row, const Expr& d) {
            return o.queries_at(row, d);
          }});
  }
  void load_keys() override {
    load({"keys", operands_.keys(), z_.keys, z_.depth, depth_padded(), "",
          [](const AttentionOperands& o, const std::vector<Expr>& key, const Expr& d) {
            return o.keys_at(key[0], d);
          }});
  }
  void load_values() override {
    load({"values", operands_.values(), z_.keys, z_.width, z_.width_padded, "(n0 + row < hi)",
          [](const AttentionOperands& o, const std::vector<Expr>& key, const Expr& d) {
            return o.values_at(key[0], d);
          }});
  }
  void begin_loading() override {
    if (split_) lines("uint32_t unusual = 0;");
  }
  void finish_loading() override {
    if (!split_) return CudaAttentionBlock::finish_loading();
    lines("const bool all_finite = !__syncthreads_or(unusual != 0);");
  }
  // The bits of the values' exponents in a pair.
  std::string exponents() const {
    return dtype_ == DType::kFloat16 ? "0x7c007c00u" : "0x7f807f80u";
  }

  static std::string mma(DType dtype) {
    return dtype == DType::kFloat16 ? "lf_mma_f16" : "lf_mma_bf16";
  }
  // Element e of accumulator j of a warp's tile.
  static std::string element_row() { return "panel + lane / 4 + e / 2 * 8"; }
  static std::string element_column() { return "j * 8 + lane % 4 * 2 + e % 2"; }

  void multiply_keys() override {
    int64_t tiles = warp_keys() / 8;
    writer_.open(false);
    lines(cat("const int from = share * ", warp_keys(), ";\nfloat dot[", tiles,
              "][4] = {};\n#pragma unroll 4\nfor (int d = 0; d < ", depth_padded(),
              "; d += 16) {\nuint32_t a[4];\nlf_ldmatrix_x4(a, queries + ((panel + lane % 16) * ",
              depth_stride(), " + d + lane / 16 * 8) * 2);\n#pragma unroll\nfor (int j = 0; j < ",
              tiles, "; j += 2) {\nuint32_t q[4];\n",
              "lf_ldmatrix_x4(q, keys + ((from + j * 8 + lane % 8 + lane / 16 * 8) * ",
              depth_stride(), " + d + lane / 8 % 2 * 8) * 2);"));
    std::string multiply = mma(body_.node(operands_.queries()).dtype);
    lines(cat("const uint32_t b[2] = {q[0], q[1]}, c[2] = {q[2], q[3]};\n", multiply,
              "(dot[j], a, b);\n", multiply, "(dot[j + 1], a, c);\n}\n}"));
    lines(cat(unrolled_loop("j", tiles), "\n", unrolled_loop("e", 4), " scores[(", element_row(),
              ") * ", z_.score_stride, " + from + ", element_column(), "] = dot[j][e];"));
    writer_.close("");
  }

  std::string keep(const std::string& p) const override {
    std::string half = c_cast(DType::kFloat32, dtype_, p);
    // What is not 0 stays so: times infinity it is no NaN.
    std::string least = split_ ? cat(" + (nearest % 32768 == 0 & ", p, " != 0)") : "";
    std::string text = cat("const uint16_t nearest = ", half, ", half = nearest", least,
                           "; ((uint16_t*)line)[lane + i * 32] = half;");
    if (split_) {
      std::string rest = cat("(", p, " - ", c_cast(dtype_, DType::kFloat32, "half"), ")");
      text += cat(" ((uint16_t*)line)[", z_.keys,
                  " + lane + i * 32] = ", c_cast(DType::kFloat32, dtype_, rest), ";");
    }
    return text;
  }

  void multiply_values(bool rescaled) override {
    int64_t tiles = warp_columns() / 8;
    if (rescaled) {
      lines(cat(unrolled_loop("e", 4), " {\nconst float turn = scale[", element_row(), "];\n",
                unrolled_loop("j", tiles), " sum[j][e] *= turn;\n}"));
    }
    std::string from = cat("(const uint16_t*)scores + (panel + lane % 16) * ", 2 * z_.score_stride,
                           " + k + lane / 16 * 8");
    lines(cat("#pragma unroll 2\nfor (int k = 0; k < ", z_.keys,
              "; k += 16) {\nuint32_t a[4];\nlf_ldmatrix_x4(a, ", from, ");"));
    if (split_) lines(cat("uint32_t rest[4];\nlf_ldmatrix_x4(rest, ", from, " + ", z_.keys, ");"));
    lines(cat("#pragma unroll\nfor (int j = 0; j < ", tiles, "; j += 2) {\nuint32_t q[4];\n",
              "lf_ldmatrix_x4_trans(q, values + ((k + lane % 8 + lane / 8 % 2 * 8) * ",
              value_stride(), " + share * ", warp_columns(), " + j * 8 + lane / 16 * 8) * 2);\n",
              multiply_pair("a")));
    if (split_) {
      lines(cat("if (!all_finite) {\n", unrolled_loop("x", 4), " q[x] = lf_finite_or_zero<",
                exponents(), ">(q[x]);\n}\n", multiply_pair("rest")));
    }
    lines("}\n}");
  }

  // Sums j and j + 1 += `left` * q.
  std::string multiply_pair(const std::string& left) const {
    return cat("{\nconst uint32_t b[2] = {q[0], q[1]}, c[2] = {q[2], q[3]};\n", mma(dtype_),
               "(sum[j], ", left, ", b);\n", mma(dtype_), "(sum[j + 1], ", left, ", c);\n}");
  }

  void stage_sums(int64_t height) override {
    lines(cat(unrolled_loop("e", 4), " {\nconst int row = ", element_row(),
              ";\nif (row >= first & row < first + ", height, ") {\n",
              unrolled_loop("j", warp_columns() / 8), " stage[(row - first) * ", z_.width_padded,
              " + share * ", warp_columns(), " + ", element_column(),
              "] = sum[j][e] * scale[row];\n}\n}"));
  }

  DType dtype_;  // of values, and of the probabilities they are multiplied with
  bool split_;   // probabilities are not rounded
};

}  // namespace

std::optional<HalfAttention> half_attention(const Graph& body, const AttentionForm& form) {
  HalfAttention half;
  Graph scores = with_half_operands(body, form.scores);
  auto found = common::attention_form(scores);
  if (!found) return std::nullopt;
  half.body = with_half_operands(scores, found->product);
  found = common::attention_form(half.body);
  if (!found) return std::nullopt;
  half.form = *std::move(found);
  auto dtype = [&](NodeId product, int operand) {
    return half.body.node(half.body.node(product).operands[static_cast<size_t>(operand)]).dtype;
  };
  DType queries = dtype(half.form.scores, half.form.queries);
  DType values = dtype(half.form.product, 1 - half.form.probabilities);
  bool fits = common::is_half(queries) && common::is_half(values) &&
              dtype(half.form.scores, 1 - half.form.queries) == queries;
  return fits ? std::optional<HalfAttention>(std::move(half)) : std::nullopt;
}

Result<GpuFunction> emit_cuda_attention_mma(const HalfAttention& attention,
                                            const Schedule& schedule, const CudaMachine& machine) {
  return MmaAttention(attention).run(schedule, machine);
}

}  // namespace worker
