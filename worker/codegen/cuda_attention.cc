#include "worker/codegen/cuda_attention.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/attention_form.h"
#include "worker/codegen/attention_operands.h"
#include "worker/codegen/c_text.h"
#include "worker/codegen/cuda_text.h"

namespace worker {

using common::AttentionForm;
using common::cat;
using common::DType;
using common::Expr;
using common::Graph;
using common::Node;
using common::Result;
using common::Schedule;
using common::Template;

namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kBusyBlocks = 132;
// The grids of threads that share the scores and the products of a block.
constexpr int64_t kScoreColumns = 8, kScoreRows = kThreads / kScoreColumns;
constexpr int64_t kProductColumns = 16, kProductRows = kThreads / kProductColumns;
constexpr int64_t kAccumulatorsMax = 64;  // of the product, a thread

size_t at(int index) { return static_cast<size_t>(index); }
int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// In elements. Strides keep vectors of four aligned and spread rows over the banks.
struct Sizes {
  int64_t depth = 1, width = 1;  // of a query, of a value
  int64_t rows = 64, keys = 32;  // of a block
  int64_t element = 4;
  int64_t depth_padded() const { return round_up(depth, 4); }
  int64_t width_padded() const { return round_up(width, kProductColumns); }
  int64_t depth_stride() const { return depth_padded() + (depth_padded() / 4 % 2 == 0 ? 4 : 0); }
  int64_t score_stride() const { return keys + 8; }
  int64_t elements() const {
    return (rows + keys) * depth_stride() + keys * width_padded() + rows * score_stride();
  }
  // Of a row: its sum, its greatest, its scale.
  int64_t bytes() const { return elements() * element + rows * (8 + 2 * element); }
  bool fits() const {
    return bytes() <= kSharedBytesMax &&
           rows / kProductRows * (width_padded() / kProductColumns) <= kAccumulatorsMax;
  }
};

bool choose_sizes(const AttentionForm& form, const Schedule& schedule, Sizes& s) {
  auto given = [&](std::string_view name) {
    return schedule_value(schedule, Template::kAttention, name);
  };
  Expr rows = form.size(form.rows);
  Expr batch = form.size(form.batch);
  int64_t wanted = 64;
  if (rows.is_constant() && batch.is_constant()) {
    auto blocks = [&](int64_t step) {
      return batch.constant() * ((rows.constant() + step - 1) / step);
    };
    while (wanted > 16 && (blocks(wanted) < kBusyBlocks || rows.constant() <= wanted / 2)) {
      wanted /= 2;
    }
  }
  if (given("rows") != 0) wanted = std::clamp<int64_t>(given("rows"), 16, 64);
  s.rows = wanted;
  int64_t keys = given("keys") != 0 ? std::clamp<int64_t>(given("keys"), 32, 64) : 32;
  for (; s.rows >= 16; s.rows /= 2) {
    for (s.keys = keys; s.keys >= 32; s.keys /= 2) {
      if (s.fits()) return true;
    }
  }
  return false;
}

// Shared memory, row-major: queries[row][depth], keys[key][depth], values[key][column],
// scores[row][key] (then probabilities), total[row], top[row], scale[row].
class CudaAttentionEmitter {
 public:
  CudaAttentionEmitter(const Graph& body, AttentionForm form)
      : body_(body),
        form_(std::move(form)),
        product_(body.node(form_.product)),
        writer_(body.symbols),
        emitter_(body, writer_),
        operands_(body, form_, writer_),
        type_(c_value_type(product_.dtype)),
        suffix_(c_suffix(product_.dtype)),
        lowest_(c_literal(product_.dtype, -1.0 / 0.0)),
        key_size_(form_.label_size[at(form_.key)]),
        row_count_(form_.size(form_.rows)) {}

  Result<CudaFunction> run(const Schedule& schedule) {
    z_.depth = operands_.depth();
    z_.width = form_.size(form_.columns).constant();
    z_.element = common::dtype_size(product_.dtype);
    if (!choose_sizes(form_, schedule, z_)) {
      return common::unsupported("an attention's rows do not fit into shared memory");
    }
    online_ = form_.scales_rows && schedule_value(schedule, Template::kAttention, "online") != 0;
    CudaFunction function;
    Expr units = begin(function);
    begin_rows();
    find_range();
    blocks();
    finish_rows();
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!flows_) return common::unsupported("an output mixes elements of the attention");
    function.body = finish_body(writer_, units, emitter_.scratch());
    return function;
  }

 private:
  void lines(const std::string& text) { write_lines(writer_, text); }

  // ---- the block
  Expr begin(CudaFunction& function) {
    std::vector<Expr> extents;
    for (int label : form_.batch) extents.push_back(form_.label_size[at(label)]);
    // The last rows see the most keys where some are hidden: their blocks start first.
    Expr tiles = common::floor_div(row_count_ + Expr(z_.rows - 1), Expr(z_.rows));
    std::string count = writer_.rare_text(tiles);
    lines(cat("const int tid = threadIdx.x, lane = tid % 32;\nconst int64_t m0 = (", count,
              " - 1 - (int64_t)blockIdx.x % ", count, ") * ", z_.rows, ";"));
    Expr batch_size = common::element_count(extents);
    if (!extents.empty()) {
      lines(cat("const int64_t batch = (int64_t)blockIdx.x / ", count, ";"));
      Expr flat = Expr::index(writer_.bind_index("batch", batch_size, 0));
      std::vector<Expr> positions = unfold(extents, flat);
      std::vector<Expr> batch;
      for (size_t k = 0; k < extents.size(); ++k) {
        std::string name = cat("batch", k);
        lines(cat("const int64_t ", name, " = ", writer_.rare_text(positions[k]), ";"));
        batch.push_back(Expr::index(writer_.bind_index(name, extents[k], 0)));
      }
      operands_.set_batch(std::move(batch));
    }
    function.block.threads = kThreads;
    function.block.shared_bytes = declare_shared(writer_, z_.bytes());
    int64_t offset = 0;
    auto piece = [&](std::string_view type, const char* name, int64_t bytes) {
      lines(cat(type, "* const ", name, " = (", type, "*)(memory + ", offset, ");"));
      offset += bytes;
    };
    piece("double", "total", z_.rows * 8);
    piece(type_, "queries", z_.rows * z_.depth_stride() * z_.element);
    piece(type_, "keys", z_.keys * z_.depth_stride() * z_.element);
    piece(type_, "values", z_.keys * z_.width_padded() * z_.element);
    piece(type_, "scores", z_.rows * z_.score_stride() * z_.element);
    piece(type_, "top", z_.rows * z_.element);
    piece(type_, "scale", z_.rows * z_.element);
    lines(cat(type_, " sum[", tall(), "][", wide(), "] = {};\nconst int ty = tid / ",
              kProductColumns, ", tx = tid % ", kProductColumns, ";"));
    return batch_size * tiles;
  }
  // A thread's rows and columns of the product.
  int64_t tall() const { return z_.rows / kProductRows; }
  int64_t wide() const { return z_.width_padded() / kProductColumns; }
  // A thread's column j: in groups of up to four, which neighbouring threads read side by side.
  std::string column(const char* j) const {
    int64_t group = wide() % 4 == 0 ? 4 : wide() % 2 == 0 ? 2 : 1;
    return cat(j, " / ", group, " * ", kProductColumns * group, " + tx * ", group, " + ", j, " % ",
               group);
  }

  // The indices of each row label for row C expression `row` of the block, clamped to the last row.
  std::vector<Expr> row_labels(const std::string& row) {
    std::string name = writer_.fresh("row");
    lines(cat("const int64_t ", name, " = lf_min_i64(m0 + ", row, ", ",
              writer_.rare_text(row_count_ - Expr(1)), ");"));
    Expr m = Expr::index(writer_.bind_index(name, row_count_, writer_.depth()));
    std::vector<Expr> sizes = operands_.sizes_of(form_.rows);
    if (sizes.empty()) return {};
    if (sizes.size() == 1) return {m};
    std::vector<Expr> rows;
    std::vector<Expr> flat = unfold(sizes, m);
    for (size_t k = 0; k < flat.size(); ++k) {
      std::string label = writer_.fresh("r");
      lines(cat("const int64_t ", label, " = ", writer_.rare_text(flat[k]), ";"));
      rows.push_back(Expr::index(writer_.bind_index(label, sizes[k], writer_.depth())));
    }
    return rows;
  }
  // The index of a key, clamped to the last.
  Expr key_index(const std::string& key) {
    std::string name = writer_.fresh("key");
    lines(cat("const int64_t ", name, " = lf_min_i64(", key, ", ",
              writer_.rare_text(key_size_ - Expr(1)), ");"));
    return Expr::index(writer_.bind_index(name, key_size_, writer_.depth()));
  }
  Expr inner_index(const std::string& value, int64_t extent) {
    std::string name = writer_.fresh("d");
    lines(cat("const int64_t ", name, " = lf_min_i64(", value, ", ", extent - 1, ");"));
    return Expr::index(writer_.bind_index(name, extent, writer_.depth()));
  }

  // ---- rows
  void begin_rows() {
    writer_.open(false);
    lines(cat("const int row = e / ", z_.depth_padded(), ", d = e % ", z_.depth_padded(), ";"));
    std::vector<Expr> rows = row_labels("row");
    Expr depth = inner_index("d", z_.depth);
    std::string x = operands_.query(emitter_, rows, depth);
    lines(cat("queries[row * ", z_.depth_stride(), " + d] = ", masked("d", z_.depth, x), ";"));
    writer_.close(shared_loop(z_.rows * z_.depth_padded()));
    lines(cat("if (tid < ", z_.rows, ") {\n  top[tid] = ", lowest_, ";\n  total[tid] = 0;\n}"));
  }
  std::string shared_loop(int64_t count) const {
    return cat("#pragma unroll 4\nfor (int e = tid; e < ", count, "; e += ", kThreads, ")");
  }
  // Zero beyond the last of so many elements, where a row is longer.
  static std::string masked(const char* i, int64_t count, const std::string& x) {
    return count % 16 == 0 ? x : cat(i, " < ", count, " ? ", x, " : 0");
  }

  // [lo, hi): the keys that some row of the block sees.
  void find_range() {
    std::string keys = writer_.rare_text(key_size_);
    bool limited = !form_.first.empty() || !form_.last.empty();
    if (!limited || !form_.keeps_zero) {
      lines(cat("const int64_t lo = 0, hi = ", keys, ";"));
      return;
    }
    // Only until the first scores are computed.
    lines("int64_t* const first_seen = (int64_t*)keys;");
    writer_.open(true);
    std::vector<Expr> rows = row_labels("tid");
    lines(cat("int64_t first = 0, last = ", keys, " - 1;"));
    auto limit = [&](const std::vector<Expr>& limits, const char* name, const char* pick) {
      Indices indices = operands_.labels_at(rows);
      for (const Expr& e : limits) {
        Expr here = writer_.simplify(e.substitute([&](common::Var v) {
          return v.kind == common::Var::Kind::kIndex ? indices[at(v.id)] : Expr::var(v);
        }));
        lines(cat(name, " = ", pick, "(", name, ", ", writer_.rare_text(here), ");"));
      }
    };
    limit(form_.first, "first", "lf_max_i64");
    limit(form_.last, "last", "lf_min_i64");
    lines(cat("first_seen[tid] = first;\nfirst_seen[", z_.rows, " + tid] = last;"));
    writer_.close(cat("if (tid < ", z_.rows, ")"));
    lines(cat("__syncthreads();\nint64_t lo = ", keys, ", hi = 0;\nfor (int r = 0; r < ", z_.rows,
              "; ++r) {\n  lo = lf_min_i64(lo, first_seen[r]);\n  hi = lf_max_i64(hi, first_seen[",
              z_.rows, " + r] + 1);\n}"));
    // Rows that see nothing are NaN all over, which only a key can tell them.
    if (!online_) lines(cat("if (hi <= lo) { lo = 0; hi = ", keys, "; }"));
  }

  // ---- blocks of keys
  void blocks() {
    writer_.open(false);  // passes
    writer_.open(true);   // blocks
    lines("__syncthreads();");
    load_keys();
    writer_.open(!online_);
    load_values();
    writer_.close(online_ ? "" : "if (pass == 1)");
    lines("__syncthreads();");
    multiply_keys();
    lines("__syncthreads();");
    weigh();
    lines("__syncthreads();");
    writer_.open(!online_);
    multiply_values();
    writer_.close(online_ ? "" : "if (pass == 1)");
    writer_.close(cat("for (int64_t n0 = lo; n0 < hi; n0 += ", z_.keys, ")"));
    writer_.close(cat("for (int pass = 0; pass < ", online_ ? 1 : 2, "; ++pass)"));
  }

  void load_keys() {
    writer_.open(false);
    lines(cat("const int key = e / ", z_.depth_padded(), ", d = e % ", z_.depth_padded(), ";"));
    Expr key = key_index("n0 + key");
    std::string x = operands_.key(emitter_, key, inner_index("d", z_.depth));
    lines(cat("keys[key * ", z_.depth_stride(), " + d] = ", masked("d", z_.depth, x), ";"));
    writer_.close(shared_loop(z_.keys * z_.depth_padded()));
  }

  // Values beyond the last key are 0, for their probabilities are.
  void load_values() {
    writer_.open(false);
    lines(cat("const int key = e / ", z_.width_padded(), ", d = e % ", z_.width_padded(), ";"));
    Expr key = key_index("n0 + key");
    std::string x = operands_.value(emitter_, key, inner_index("d", z_.width));
    lines(cat("values[e] = n0 + key < hi ? ", x, " : 0;"));
    writer_.close(shared_loop(z_.keys * z_.width_padded()));
  }

  std::string fma() const { return product_.dtype == DType::kFloat64 ? "fma" : "fmaf"; }

  void multiply_keys() {
    int64_t rows = z_.rows / kScoreRows;
    int64_t keys = z_.keys / kScoreColumns;
    writer_.open(false);
    lines(cat("const int sy = tid / ", kScoreColumns, ", sx = tid % ", kScoreColumns, ";\n", type_,
              " dot[", rows, "][", keys, "] = {};\n#pragma unroll 4\nfor (int d = 0; d < ",
              z_.depth_padded(), "; d += 4) {\n  ", type_, " q[", rows, "][4], k[", keys,
              "][4];\n  ", unrolled_loop("i", rows), "\n    ", unrolled_loop("x", 4),
              " q[i][x] = queries[(sy + i * ", kScoreRows, ") * ", z_.depth_stride(),
              " + d + x];\n  ", unrolled_loop("j", keys), "\n    ", unrolled_loop("x", 4),
              " k[j][x] = keys[(sx + j * ", kScoreColumns, ") * ", z_.depth_stride(),
              " + d + x];\n  ", unrolled_loop("x", 4), "\n  ", unrolled_loop("i", rows), "\n  ",
              unrolled_loop("j", keys), " dot[i][j] = ", fma(),
              "(q[i][x], k[j][x], dot[i][j]);\n}\n", unrolled_loop("i", rows), "\n",
              unrolled_loop("j", keys), " scores[(sy + i * ", kScoreRows, ") * ", z_.score_stride(),
              " + sx + j * ", kScoreColumns, "] = dot[i][j];"));
    writer_.close("");
  }

  // A warp takes a row: its scores become what the softmax takes, then exponentials or
  // probabilities.
  void weigh() {
    int64_t count = z_.keys / 32;
    writer_.open(false);
    std::vector<Expr> rows = row_labels("row");
    lines(cat(type_, "* const line = scores + row * ", z_.score_stride(), ";\n", type_, " x[",
              count, "];"));
    writer_.open(false);
    Expr key = key_index("n0 + lane + i * 32");
    CodeValue c = writer_.declare(writer_.depth(), type_, "c", "line[lane + i * 32]");
    writer_.remember({form_.scores, 0, operands_.scores_at(rows, key)}, c);
    CodeValue x = emitter_.value(operands_.exponents(), operands_.softmax_at(rows, key));
    lines(cat("x[i] = n0 + lane + i * 32 < hi ? ", x.text, " : ", lowest_, ";"));
    writer_.close(unrolled_loop("i", count));
    if (online_) {
      accumulate_row(count, true);
    } else {
      writer_.open(true);
      accumulate_row(count, false);
      writer_.close("if (pass == 0)");
      writer_.open(true);
      normalise_row(rows, count);
      writer_.close("else");
    }
    writer_.close(cat("for (int row = tid / 32; row < ", z_.rows, "; row += ", kWarps, ")"));
  }

  std::string exp_of(const std::string& x) const {
    return c_unary(common::UnaryOp::kExp, product_.dtype, x);
  }

  void accumulate_row(int64_t count, bool keep) {
    // A row that has seen nothing yet must not turn into NaN.
    lines(cat(type_, " most = x[0];\n", unrolled_loop("i", count), " most = lf_max_", suffix_,
              "(most, x[i]);\n", "#pragma unroll\nfor (int d = 16; d > 0; d /= 2) most = lf_max_",
              suffix_, "(most, __shfl_xor_sync(0xffffffffu, most, d));\n", "const ", type_,
              " before = top[row];\nconst ", type_, " after = lf_max_", suffix_,
              "(before, most);\nconst ", type_, " shift = after == ", lowest_, " ? 0 : after;\n",
              "const ", type_, " turn = after == before ? 1 : ", exp_of("(before - shift)"), ";\n",
              type_, " part = 0;\n", unrolled_loop("i", count), " {\n  const ", type_,
              " p = n0 + lane + i * 32 < hi ? ", exp_of("(x[i] - shift)"), " : 0;\n",
              keep ? "  line[lane + i * 32] = p;\n" : "", "  part += p;\n}\n",
              "#pragma unroll\nfor (int d = 16; d > 0; d /= 2) part += "
              "__shfl_xor_sync(0xffffffffu, part, d);\n",
              "__syncwarp();\nif (lane == 0) {\n  total[row] = total[row] * turn + part;\n  "
              "top[row] = after;\n  scale[row] = turn;\n}"));
  }

  void normalise_row(const std::vector<Expr>& rows, int64_t count) {
    lines(cat("const ", type_, " greatest = top[row], inverse = 1 / (", type_, ")total[row];"));
    remember_greatest(rows, {"greatest", writer_.depth(), -1});
    writer_.open(false);
    Expr key = key_index("n0 + lane + i * 32");
    CodeValue p = writer_.declare(writer_.depth(), type_, "p",
                                  cat(exp_of("(x[i] - greatest)"), " * inverse"));
    writer_.remember({form_.softmax, 0, operands_.softmax_at(rows, key)}, p);
    std::string probability = operands_.probability(emitter_, rows, key);
    lines(cat("line[lane + i * 32] = n0 + lane + i * 32 < hi ? ", probability, " : 0;"));
    writer_.close(unrolled_loop("i", count));
  }

  void remember_greatest(const std::vector<Expr>& rows, const CodeValue& greatest) {
    if (form_.greatest) {
      writer_.remember({*form_.greatest, 0, operands_.greatest_at(rows)}, greatest);
    }
  }

  void multiply_values() {
    std::string row = cat("(ty * ", tall(), " + i)");
    if (online_) {
      lines(cat(unrolled_loop("i", tall()), " {\n  const ", type_, " turn = scale[", row, "];\n  ",
                unrolled_loop("j", wide()), " sum[i][j] *= turn;\n}"));
    }
    lines(cat("#pragma unroll 2\nfor (int k = 0; k < ", z_.keys, "; k += 4) {\n  ", type_, " p[",
              tall(), "][4];\n  ", unrolled_loop("i", tall()), "\n    ", unrolled_loop("x", 4),
              " p[i][x] = scores[", row, " * ", z_.score_stride(), " + k + x];\n  ",
              unrolled_loop("x", 4), " {\n    ", type_, " v[", wide(), "];\n    ",
              unrolled_loop("j", wide()), " v[j] = values[(k + x) * ", z_.width_padded(), " + ",
              column("j"), "];\n    ", unrolled_loop("i", tall()), "\n    ",
              unrolled_loop("j", wide()), " sum[i][j] = ", fma(),
              "(p[i][x], v[j], sum[i][j]);\n  }\n}"));
  }

  // Normalises the sums, if that is still to do, and stores what follows from them.
  void finish_rows() {
    lines("__syncthreads();");
    writer_.open(true);
    std::vector<Expr> rows = row_labels("tid");
    std::string factor = "1";
    if (online_) {
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
    writer_.close(cat("if (tid < ", z_.rows, ")"));
    lines(cat("__syncthreads();"));
    store();
  }

  // The block's rows pass through the memory of queries and keys, as many at a time as fit.
  void store() {
    int64_t room = (z_.rows + z_.keys) * z_.depth_stride() / z_.width_padded();
    int64_t height = z_.rows;
    while (height > room) height /= 2;
    lines(cat(type_, "* const stage = queries;"));
    writer_.open(false);
    lines(cat("if (first != 0) __syncthreads();\n", unrolled_loop("i", tall()),
              " {\n  const int row = ty * ", tall(), " + i;\n  if (row >= first & row < first + ",
              height, ") {\n    ", unrolled_loop("j", wide()), " stage[(row - first) * ",
              z_.width_padded(), " + ", column("j"), "] = sum[i][j] * scale[row];\n  }\n}\n",
              "__syncthreads();"));
    writer_.open(false);
    lines(cat("const int row = e / ", z_.width, ", d = e % ", z_.width, ";"));
    writer_.open(true);
    std::vector<Expr> rows = row_labels("first + row");
    Expr d = Expr::index(writer_.bind_index("d", z_.width, writer_.depth()));
    Indices out = operands_.product_at(rows, d);
    CodeValue x = writer_.declare(writer_.depth(), type_, "c",
                                  cat("stage[row * ", z_.width_padded(), " + d]"));
    writer_.remember({form_.product, 0, out}, x);
    flows_ = flows_ && store_flows(form_.product, out, body_, emitter_, writer_);
    writer_.close(cat("if (m0 + first + row < ", writer_.rare_text(row_count_), ")"));
    writer_.close(shared_loop(height * z_.width));
    writer_.close(cat("for (int first = 0; first < ", z_.rows, "; first += ", height, ")"));
  }

  const Graph& body_;
  AttentionForm form_;
  const Node& product_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  AttentionOperands operands_;
  Sizes z_;
  std::string type_;
  std::string suffix_;
  std::string lowest_;
  bool online_ = true;
  bool flows_ = true;
  Expr key_size_;
  Expr row_count_;
};

}  // namespace

Result<CudaFunction> emit_cuda_attention(const Graph& body, const Schedule& schedule) {
  auto form = common::attention_form(body);
  if (!form) return common::unsupported("an attention kernel holds one attention and nothing else");
  return CudaAttentionEmitter(body, *std::move(form)).run(schedule);
}

}  // namespace worker
