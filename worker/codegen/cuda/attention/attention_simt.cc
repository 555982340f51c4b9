#include "worker/codegen/cuda/attention/attention_simt.h"

#include "common/base/cat.h"
#include "worker/codegen/cuda/attention/attention_block.h"

namespace worker {

using common::AttentionForm;
using common::cat;
using common::DType;
using common::Expr;
using common::GpuFunction;
using common::Graph;
using common::Result;
using common::ThreadsAttentionTiling;

namespace {

// Operands are kept in the product's type: queries[row][depth], keys[key][depth],
// values[key][column], with strides that keep vectors of four aligned and spread rows over banks.
class SimtAttention final : public CudaAttentionBlock {
 public:
  SimtAttention(const Graph& body, AttentionForm form, const ThreadsAttentionTiling& tiling)
      : CudaAttentionBlock(body, std::move(form), tiling),
        fma_(product_.dtype == DType::kFloat64 ? "fma" : "fmaf") {}

 private:
  static constexpr int64_t kColumns = common::kProductColumns, kRows = common::kProductRows;
  static constexpr int64_t kScoreColumns = common::kScoreColumns, kScoreRows = common::kScoreRows;

  // A thread's rows and columns of the product.
  int64_t tall() const { return tiling_.rows / kRows; }
  int64_t wide() const { return z_.width_padded / kColumns; }
  // A thread's column j: in groups of up to four, which neighbouring threads read side by side.
  std::string column(const char* j) const {
    int64_t group = wide() % 4 == 0 ? 4 : wide() % 2 == 0 ? 2 : 1;
    return cat(j, " / ", group, " * ", kColumns * group, " + tx * ", group, " + ", j, " % ", group);
  }
  // Zero beyond the last of so many elements, where a row is longer.
  static std::string masked(const char* i, int64_t count, int64_t padded, const std::string& x) {
    return count == padded ? x : cat(i, " < ", count, " ? ", x, " : 0");
  }

  void declare() override {
    lines(cat(type_, " sum[", tall(), "][", wide(), "] = {};\nconst int ty = tid / ", kColumns,
              ", tx = tid % ", kColumns, ";"));
    for (const char* name : {"queries", "keys", "values"}) {
      lines(cat(type_, "* const ", name[0], "_part = (", type_, "*)", name, ";"));
    }
  }

  void load_queries() override {
    writer_.open(false);
    lines(cat("const int row = e / ", z_.depth_padded, ", d = e % ", z_.depth_padded, ";"));
    std::vector<Expr> rows = row_labels("row");
    std::string x = operands_.query(emitter_, rows, inner_index("d", z_.depth));
    lines(cat("q_part[row * ", z_.depth_stride,
              " + d] = ", masked("d", z_.depth, z_.depth_padded, x), ";"));
    writer_.close(shared_loop(tiling_.rows * z_.depth_padded));
  }

  void load_keys() override {
    writer_.open(false);
    lines(cat("const int key = e / ", z_.depth_padded, ", d = e % ", z_.depth_padded, ";"));
    Expr key = key_index("n0 + key");
    std::string x = operands_.key(emitter_, key, inner_index("d", z_.depth));
    lines(cat("k_part[key * ", z_.depth_stride,
              " + d] = ", masked("d", z_.depth, z_.depth_padded, x), ";"));
    writer_.close(shared_loop(tiling_.keys * z_.depth_padded));
  }

  void load_values() override {
    writer_.open(false);
    lines(cat("const int key = e / ", z_.width_padded, ", d = e % ", z_.width_padded, ";"));
    Expr key = key_index("n0 + key");
    std::string x = operands_.value(emitter_, key, inner_index("d", z_.width));
    lines(cat("v_part[e] = n0 + key < hi ? ", x, " : 0;"));
    writer_.close(shared_loop(tiling_.keys * z_.width_padded));
  }

  void multiply_keys() override {
    int64_t rows = tiling_.rows / kScoreRows;
    int64_t keys = tiling_.keys / kScoreColumns;
    std::string each_row = unrolled_loop("i", rows);
    std::string each_key = unrolled_loop("j", keys);
    std::string each_step = unrolled_loop("x", 4);
    writer_.open(false);
    lines(cat("const int sy = tid / ", kScoreColumns, ", sx = tid % ", kScoreColumns, ";\n", type_,
              " dot[", rows, "][", keys, "] = {};\n#pragma unroll 4\nfor (int d = 0; d < ",
              z_.depth_padded, "; d += 4) {\n", type_, " q[", rows, "][4], k[", keys, "][4];\n"));
    lines(cat(each_row, "\n", each_step, " q[i][x] = q_part[(sy + i * ", kScoreRows, ") * ",
              z_.depth_stride, " + d + x];"));
    lines(cat(each_key, "\n", each_step, " k[j][x] = k_part[(sx + j * ", kScoreColumns, ") * ",
              z_.depth_stride, " + d + x];"));
    lines(cat(each_step, "\n", each_row, "\n", each_key, " dot[i][j] = ", fma_,
              "(q[i][x], k[j][x], dot[i][j]);\n}"));
    lines(cat(each_row, "\n", each_key, " scores[(sy + i * ", kScoreRows, ") * ", z_.score_stride,
              " + sx + j * ", kScoreColumns, "] = dot[i][j];"));
    writer_.close("");
  }

  std::string keep(const std::string& p) const override {
    return cat("line[lane + i * 32] = ", p, ";");
  }

  void multiply_values(bool rescaled) override {
    std::string each_row = unrolled_loop("i", tall());
    std::string each_column = unrolled_loop("j", wide());
    if (rescaled) {
      lines(cat(each_row, " {\nconst ", type_, " turn = scale[ty * ", tall(), " + i];\n",
                each_column, " sum[i][j] *= turn;\n}"));
    }
    lines(cat("#pragma unroll 2\nfor (int k = 0; k < ", tiling_.keys, "; k += 4) {\n", type_, " p[",
              tall(), "][4];\n", each_row, "\n", unrolled_loop("x", 4), " p[i][x] = scores[(ty * ",
              tall(), " + i) * ", z_.score_stride, " + k + x];"));
    lines(cat(unrolled_loop("x", 4), " {\n", type_, " v[", wide(), "];\n", each_column,
              " v[j] = v_part[(k + x) * ", z_.width_padded, " + ", column("j"), "];\n", each_row,
              "\n", each_column, " sum[i][j] = ", fma_, "(p[i][x], v[j], sum[i][j]);\n}\n}"));
  }

  void stage_sums(int64_t height) override {
    lines(cat(unrolled_loop("i", tall()), " {\nconst int row = ty * ", tall(),
              " + i;\nif (row >= first & row < first + ", height, ") {\n",
              unrolled_loop("j", wide()), " stage[(row - first) * ", z_.width_padded, " + ",
              column("j"), "] = sum[i][j] * scale[row];\n}\n}"));
  }

  std::string fma_;
};

}  // namespace

Result<GpuFunction> emit_cuda_attention_simt(const Graph& body, AttentionForm form,
                                             const ThreadsAttentionTiling& tiling) {
  LFARM_RETURN_IF_ERROR(common::verify(tiling, body, form));
  return SimtAttention(body, std::move(form), tiling).run();
}

}  // namespace worker
