#include "worker/codegen/c/attention.h"

#include <algorithm>
#include <functional>

#include "common/base/cat.h"
#include "common/ir/hlir/attention_form.h"
#include "common/lowering/body/accumulation.h"
#include "common/lowering/body/unit_loop.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/body/attention_operands.h"
#include "worker/codegen/c/attention_tiles.h"
#include "worker/codegen/text/tile_params.h"

namespace worker {

using common::Accumulation;
using common::accumulation_of;
using common::AttentionForm;
using common::BodyEmitter;
using common::c_literal;
using common::c_suffix;
using common::c_unary;
using common::c_value_type;
using common::cat;
using common::CodeValue;
using common::CodeWriter;
using common::counting_loop;
using common::declare_positions;
using common::DType;
using common::Expr;
using common::finish_body;
using common::FunctionBody;
using common::Graph;
using common::Indices;
using common::linear_position;
using common::Node;
using common::NodeId;
using common::Op;
using common::Result;
using common::Schedule;
using common::Scratch;
using common::store_flows;
using common::stride_along;
using common::Template;
using common::UnitLoop;

namespace {

// A row's sum is collected in double after this many keys.
constexpr int64_t kSumBlock = 2048;

size_t at(int index) { return static_cast<size_t>(index); }
int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

struct Sizes {
  int64_t lanes = 16;            // elements of a vector
  int64_t depth = 1, width = 1;  // of a query, of a value
  int64_t rows = 64;             // of one unit
  int64_t keys = 128;            // of one block
  TileParams scores, product;    // register tiles
  bool skinny = false;           // keys and values are read in place
};

Sizes choose_sizes(const AttentionForm& form, int64_t depth, DType dtype, const Schedule& schedule,
                   int vector_bytes) {
  auto given = [&](std::string_view name) {
    return schedule_value(schedule, Template::kAttention, name);
  };
  Sizes s;
  s.depth = depth;
  s.width = form.size(form.columns).constant();
  s.rows = given("rows") != 0 ? given("rows") : common::kAttentionRows;
  s.keys = given("keys") != 0 ? given("keys") : common::kAttentionKeys;
  Expr rows = form.size(form.rows);
  if (rows.is_constant()) {
    s.rows = std::clamp<int64_t>(rows.constant(), 1, s.rows);
    s.skinny = rows.constant() <= common::kAttentionSkinnyRows;
  }
  Expr keys = form.label_size[at(form.key)];
  if (keys.is_constant()) s.keys = std::min(s.keys, std::max<int64_t>(keys.constant(), 1));
  common::TileProblem problem;
  problem.dtype = dtype;
  problem.m_size = s.rows;
  problem.n_size = s.keys;
  problem.k_size = s.depth;
  s.scores = choose_tile(problem, {}, vector_bytes);
  problem.n_size = s.width;
  problem.k_size = s.keys;
  s.product = choose_tile(problem, {}, vector_bytes);
  s.lanes = s.scores.lanes;
  return s;
}

// Row-major parts of a unit, all in scratch:
//   queries[row][depth], scores[row][key] (then exponentials), sums[row][column], top[row],
//   total[row]; panels of the keys' and the values' block, as register tiles read them.
class AttentionEmitter {
 public:
  AttentionEmitter(const Graph& body, AttentionForm form, const Schedule& schedule,
                   int vector_bytes)
      : body_(body),
        form_(std::move(form)),
        product_(body.node(form_.product)),
        writer_(body.symbols),
        emitter_(body, writer_),
        operands_(body, form_, writer_),
        type_(c_value_type(product_.dtype)),
        suffix_(c_suffix(product_.dtype)),
        tiles_(body, writer_, emitter_, type_, vector_bytes / common::dtype_size(product_.dtype)),
        key_size_(form_.label_size[at(form_.key)]),
        row_count_(form_.size(form_.rows)) {
    z_ = choose_sizes(form_, operands_.depth(), product_.dtype, schedule, vector_bytes);
    online_ = form_.scales_rows && schedule_value(schedule, Template::kAttention, "online") != 0;
  }

  Result<FunctionBody> run() {
    place_values();
    keys_transposed_ = tiles_.runs_along_steps(key_panel());
    values_transposed_ = tiles_.runs_along_steps(value_panel());
    declare_scratch();
    std::vector<Expr> extents;
    for (int label : form_.batch) extents.push_back(form_.label_size[at(label)]);
    extents.push_back(common::floor_div(row_count_ + Expr(z_.rows - 1), Expr(z_.rows)));
    UnitLoop units(writer_, extents);
    operands_.set_batch({units.indices().begin(), units.indices().end() - 1});
    writer_.line(
        cat("const int64_t m0 = ", writer_.rare_text(units.indices().back()), " * ", z_.rows, ";"));
    writer_.line(cat("const int64_t m1 = lf_min_i64(m0 + ", z_.rows, ", ",
                     writer_.rare_text(row_count_), ");"));
    begin_rows();
    find_range();
    online_ ? emit_online() : emit_whole();
    finish_rows();
    Expr count = units.close("", writer_.holds_loops(0));
    LFARM_RETURN_IF_ERROR(emitter_.status());
    if (!flows_) return common::unsupported("an output mixes elements of the attention");
    return finish_body(writer_, count, scratch_);
  }

 private:
  // ---- shapes and names
  void declare_scratch() {
    int64_t size = common::dtype_size(product_.dtype);
    auto add = [&](const char* name, std::string_view type, int64_t bytes, const Expr& count) {
      scratch_.add(name, type, bytes, count);
    };
    // The last tile may reach past the last row.
    int64_t rows = z_.rows + std::max(z_.scores.mr, z_.product.mr);
    query_stride_ = round_up(z_.depth, z_.lanes) + z_.lanes;
    int64_t block = round_up(z_.keys, z_.scores.nr);
    sum_stride_ = round_up(z_.width, z_.product.nr);
    Expr row = block + z_.lanes;
    if (!online_) row = common::floor_div(key_size_ + Expr(63), Expr(64)) * Expr(64) + row;
    add("queries", type_, size, Expr(rows * query_stride_));
    add("scores", type_, size, Expr(rows) * row);
    add("sums", type_, size, Expr(rows * sum_stride_));
    add("top", type_, size, Expr(z_.rows));
    add("total", "double", 8, Expr(z_.rows));
    add("key_panels", type_, size, Expr(block * z_.depth));
    add("value_panels", type_, size, Expr(z_.keys * sum_stride_));
    score_stride_ = writer_.rare_text(row);
    writer_.line(
        cat(type_, " square[", z_.lanes * z_.lanes, "] __attribute__((aligned(64))) = {0};"));
  }

  // Opens the loop over the unit's rows, m, and names each row label's index.
  std::vector<Expr> open_rows() {
    Expr m = Expr::index(writer_.open_loop("m", row_count_));
    return declare_positions(writer_, cat(writer_.fresh("r"), "_"), operands_.sizes_of(form_.rows),
                             m);
  }
  void close_rows() { writer_.close(counting_loop("m", "m0", "m1")); }

  // Opens the loop over keys [from, to), which `pragma` goes before when it is closed.
  Expr open_keys() { return Expr::index(writer_.open_loop("n", key_size_)); }
  void close_keys(const std::string& from, const std::string& to, const std::string& pragma) {
    std::string before = writer_.holds_loops() ? "" : cat(pragma, "\n");
    writer_.close(cat(before, counting_loop("n", from, to)));
  }

  // ---- rows
  void begin_rows() {
    std::vector<Expr> rows = open_rows();
    std::string lowest = c_literal(product_.dtype, -1.0 / 0.0);
    writer_.line(cat("top[m - m0] = ", lowest, ";"));
    writer_.line("total[m - m0] = 0;");
    writer_.line(cat("for (int64_t d = 0; d < ", sum_stride_, "; ++d) sums[(m - m0) * ",
                     sum_stride_, " + d] = 0;"));
    Expr k = Expr::index(writer_.open_loop("k", z_.depth));
    std::string x = operands_.query(emitter_, rows, k);
    writer_.line(cat("queries[(m - m0) * ", query_stride_, " + k] = ", x, ";"));
    tiles_.close_vector_loop("k", "0", cat(z_.depth));
    close_rows();
  }

  // [lo, hi): the keys that some row of the unit sees.
  void find_range() {
    std::string keys = writer_.rare_text(key_size_);
    bool limited = !form_.first.empty() || !form_.last.empty();
    if (!limited || !form_.keeps_zero) {
      writer_.line(cat("const int64_t lo = 0, hi = ", keys, ";"));
      return;
    }
    writer_.line(cat("int64_t lo = ", keys, ", hi = 0;"));
    std::vector<Expr> rows = open_rows();
    writer_.line(cat("int64_t first = 0, last = ", keys, " - 1;"));
    auto limit = [&](const std::vector<Expr>& limits, const char* name, const char* pick) {
      Indices indices = operands_.labels_at(rows);
      for (const Expr& e : limits) {
        Expr here = writer_.simplify(e.substitute([&](common::Var v) {
          return v.kind == common::Var::Kind::kIndex ? indices[at(v.id)] : Expr::var(v);
        }));
        writer_.line(cat(name, " = ", pick, "(", name, ", ", writer_.rare_text(here), ");"));
      }
    };
    limit(form_.first, "first", "lf_max_i64");
    limit(form_.last, "last", "lf_min_i64");
    writer_.line("lo = lf_min_i64(lo, first);");
    writer_.line("hi = lf_max_i64(hi, last + 1);");
    close_rows();
    // Rows that see nothing are NaN all over, which only a key can tell them.
    if (!online_) writer_.line(cat("if (hi <= lo) { lo = 0; hi = ", keys, "; }"));
  }

  void open_key_blocks() {
    writer_.open_blocks(common::floor_div(key_size_ + Expr(z_.keys - 1), Expr(z_.keys)));
    writer_.line(cat("const int64_t n1 = lf_min_i64(n0 + ", z_.keys, ", hi);"));
  }
  void close_key_blocks() { writer_.close(counting_loop("n0", "lo", "hi", z_.keys)); }

  void emit_online() {
    open_key_blocks();
    multiply_keys("n0");
    std::vector<Expr> rows = open_rows();
    writer_.line(
        cat(type_, "* restrict const row = scores + (m - m0) * ", score_stride_, " - n0;"));
    std::string greatest = find_greatest(rows, "n0", "n1");
    // A row that has seen nothing yet must not turn into NaN.
    std::string lowest = c_literal(product_.dtype, -1.0 / 0.0);
    writer_.line(cat("const ", type_, " before = top[m - m0];"));
    writer_.line(cat("const ", type_, " after = lf_max_", suffix_, "(before, ", greatest, ");"));
    writer_.line(cat("const ", type_, " shift = after == ", lowest, " ? 0 : after;"));
    writer_.line(cat("const ", type_, " scale = after == before ? 1 : ",
                     c_unary(common::UnaryOp::kExp, product_.dtype, "(before - shift)"), ";"));
    writer_.line("double sum = 0;");
    exponentials("shift", "n0", "n1");
    writer_.line("total[m - m0] = total[m - m0] * scale + sum;");
    writer_.line("top[m - m0] = after;");
    writer_.open(true);
    writer_.line(cat(type_, "* restrict const to = sums + (m - m0) * ", sum_stride_, ";"));
    writer_.line(cat("for (int64_t d = 0; d < ", sum_stride_, "; ++d) to[d] *= scale;"));
    writer_.close("if (scale != 1)");
    close_rows();
    multiply_values("n0");
    close_key_blocks();
  }

  void emit_whole() {
    open_key_blocks();
    multiply_keys("lo");
    close_key_blocks();
    std::vector<Expr> rows = open_rows();
    writer_.line(
        cat(type_, "* restrict const row = scores + (m - m0) * ", score_stride_, " - lo;"));
    std::string greatest = find_greatest(rows, "lo", "hi");
    writer_.line(cat("top[m - m0] = ", greatest, ";"));
    writer_.line("double sum = 0;");
    exponentials(greatest, "lo", "hi");
    writer_.line(cat("const ", type_, " inverse = 1 / (", type_, ")sum;"));
    remember_greatest(rows, {greatest, writer_.depth(), -1});
    Expr key = open_keys();
    CodeValue p = writer_.declare(writer_.depth(), type_, "p", "row[n] * inverse");
    writer_.remember({form_.softmax, 0, operands_.softmax_at(rows, key)}, p);
    writer_.line(cat("row[n] = ", operands_.probability(emitter_, rows, key), ";"));
    close_keys("lo", "hi", "LF_VECTOR_LOOP(0, 1)");
    close_rows();
    open_key_blocks();
    multiply_values("lo");
    close_key_blocks();
  }

  // Turns the row's products into what the softmax takes. The C name of the greatest.
  std::string find_greatest(const std::vector<Expr>& rows, const std::string& from,
                            const std::string& to) {
    Accumulation most = accumulation_of(common::ReduceOp::kMax, product_.dtype);
    writer_.line(cat(most.type, " key = ", most.start, ";"));
    Expr key = open_keys();
    CodeValue c = writer_.declare(writer_.depth(), type_, "c", "row[n]");
    writer_.remember({form_.scores, 0, operands_.scores_at(rows, key)}, c);
    CodeValue x = emitter_.value(operands_.exponents(), operands_.softmax_at(rows, key));
    writer_.line(cat("row[n] = ", x.text, ";"));
    CodeValue entered = writer_.declare(writer_.depth(), most.type, "k", most.enter(x.text));
    writer_.line(most.step("key", entered.text));
    close_keys(from, to, "#pragma omp simd reduction(max:key)");
    return writer_.declare(writer_.depth(), type_, "greatest", most.leave("key")).text;
  }

  void exponentials(const std::string& shift, const std::string& from, const std::string& to) {
    writer_.open(true);
    writer_.line(cat("const int64_t be = lf_min_i64(b + ", kSumBlock, ", ", to, ");"));
    writer_.line(cat(type_, " part = 0;"));
    writer_.open(true);
    std::string e = c_unary(common::UnaryOp::kExp, product_.dtype, cat("(row[n] - ", shift, ")"));
    writer_.line(cat("const ", type_, " e = ", e, ";"));
    writer_.line("row[n] = e;");
    writer_.line("part += e;");
    writer_.close(cat("#pragma omp simd reduction(+:part)\n", counting_loop("n", "b", "be")));
    writer_.line("sum += part;");
    writer_.close(counting_loop("b", from, to, kSumBlock));
  }

  void remember_greatest(const std::vector<Expr>& rows, const CodeValue& greatest) {
    if (form_.greatest) {
      writer_.remember({*form_.greatest, 0, operands_.greatest_at(rows)}, greatest);
    }
  }

  // Normalises the sums, if that is still to do, and stores what follows from them.
  void finish_rows() {
    std::vector<Expr> rows = open_rows();
    std::string factor;
    if (online_) {
      CodeValue top = writer_.declare(writer_.depth(), type_, "t", "top[m - m0]");
      remember_greatest(rows, top);
      // A sum over no keys is 0.
      std::string inverse = cat("(", type_, ")(1 / total[m - m0])");
      if (writer_.bounds().lower(key_size_) < 1) {
        inverse = cat(writer_.rare_text(key_size_), " < 1 ? 0 : ", inverse);
      }
      CodeValue x = writer_.declare(writer_.depth(), type_, "inverse", inverse);
      writer_.remember({form_.softmax, 0, operands_.softmax_at(rows, Expr(0))}, x);
      factor = cat(" * ", operands_.probability(emitter_, rows, Expr(0)));
    }
    Expr d = Expr::index(writer_.open_loop("d", z_.width));
    Indices out = operands_.product_at(rows, d);
    CodeValue x = writer_.declare(writer_.depth(), type_, "c",
                                  cat("sums[(m - m0) * ", sum_stride_, " + d]", factor));
    writer_.remember({form_.product, 0, out}, x);
    flows_ = flows_ && store_flows(form_.product, out, body_, emitter_, writer_);
    tiles_.close_vector_loop("d", "0", cat(z_.width));
    close_rows();
  }

  // ---- products
  Panel key_panel() {
    return {
        "n",
        "k",
        key_size_,
        Expr(z_.depth),
        "n0",
        "n1",
        "0",
        cat(z_.depth),
        z_.scores.nr,
        "key_panels",
        cat(z_.depth),
        [this](BodyEmitter& e, const Expr& c, const Expr& s) { return operands_.key(e, c, s); }};
  }
  Panel value_panel() {
    return {
        "d",
        "n",
        Expr(z_.width),
        key_size_,
        "0",
        cat(z_.width),
        "n0",
        "n1",
        z_.product.nr,
        "value_panels",
        cat(z_.keys),
        [this](BodyEmitter& e, const Expr& c, const Expr& s) { return operands_.value(e, s, c); }};
  }
  // scores[m - m0][n - origin] for keys [n0, n1).
  void multiply_keys(const std::string& origin) {
    if (z_.skinny) {
      dot_products(origin);
      return;
    }
    tiles_.pack(key_panel(), keys_transposed_);
    Product product;
    product.c0 = "n0";
    product.c1 = "n1";
    product.s0 = "0";
    product.s1 = cat(z_.depth);
    product.left = [this](const std::string& row) {
      return cat("queries + ", row, " * ", query_stride_);
    };
    product.right = cat("key_panels + (j - n0) * ", z_.depth);
    product.to = cat("scores + (i - m0) * ", score_stride_, " + (j - ", origin, ")");
    product.to_stride = score_stride_;
    tiles_.multiply(product, z_.scores);
  }

  // Each key once, for all rows of a unit, where it lies.
  void dot_products(const std::string& origin) {
    Expr key = open_keys();
    std::string dots;
    for (int64_t m = 0; m < z_.rows; ++m) {
      dots += cat(m == 0 ? "" : ", ", "dot", m);
      writer_.line(cat(type_, " dot", m, " = 0;"));
    }
    Expr k = Expr::index(writer_.open_loop("k", z_.depth));
    std::string x = operands_.key(emitter_, key, k);
    for (int64_t m = 0; m < z_.rows; ++m) {
      writer_.line(cat("dot", m, " += queries[", m * query_stride_, " + k] * ", x, ";"));
    }
    std::string pragma =
        writer_.holds_loops() ? "" : cat("#pragma omp simd reduction(+:", dots, ")\n");
    writer_.close(cat(pragma, counting_loop("k", "0", cat(z_.depth))));
    for (int64_t m = 0; m < z_.rows; ++m) {
      writer_.line(cat("scores[", m, " * ", score_stride_, " + (n - ", origin, ")] = dot", m, ";"));
    }
    close_keys("n0", "n1", "");
  }

  // sums[m - m0] += the exponentials of keys [n0, n1) times their values.
  void multiply_values(const std::string& origin) {
    Product product;
    product.c0 = "0";
    product.c1 = cat(z_.width);
    product.s0 = "n0";
    product.s1 = "n1";
    product.left = [this, origin](const std::string& row) {
      return cat("scores + ", row, " * ", score_stride_, " - ", origin);
    };
    product.to = cat("sums + (i - m0) * ", sum_stride_, " + j");
    product.to_stride = cat(sum_stride_);
    product.adds = true;
    if (in_place_) {
      product.step_extent = key_size_;
      product.has_halves = in_place_->has_halves;
      product.in_place = [this](const Expr& key) {
        return cat(in_place_->pointer, " + ", writer_.text(value_offset(key)));
      };
    } else {
      tiles_.pack(value_panel(), values_transposed_);
      product.right = cat("value_panels + j * ", z_.keys);
    }
    tiles_.multiply(product, z_.product);
  }

  // ---- values in place
  // The values as an input whose columns are contiguous, for rows so few that packing would cost
  // more than it saves.
  struct InPlace {
    NodeId input;
    std::string pointer;
    bool has_halves = false;  // bfloat16, where the product is float32
  };
  Expr value_offset(const Expr& key) {
    Indices indices =
        operands_.demanded(operands_.values(), operands_.values_at(key, Expr(0)), in_place_->input);
    return writer_.simplify(linear_position(indices, body_.node(in_place_->input).shape));
  }
  void place_values() {
    NodeId id = operands_.values();
    if (!z_.skinny || form_.columns.size() != 1 || z_.width % z_.lanes != 0) return;
    bool is_float32 = product_.dtype == DType::kFloat32;
    while (body_.node(id).op == Op::kView || (is_float32 && body_.node(id).op == Op::kCast)) {
      const Node& node = body_.node(id);
      if (node.op == Op::kView && !attr<common::ViewAttr>(node).view.valid.empty()) return;
      id = node.operands[0];
    }
    const Node& input = body_.node(id);
    bool has_halves = is_float32 && input.dtype == DType::kBfloat16;
    if (input.op != Op::kInput || (input.dtype != product_.dtype && !has_halves)) return;
    CodeWriter trial(body_.symbols);
    BodyEmitter emitter(body_, trial);
    int column = trial.bind_index("d", z_.width, 0);
    operands_.value(emitter, Expr(0), Expr::index(column));
    for (const Expr& offset : emitter.load_offsets()) {
      if (stride_along(offset, column) != 1) return;
    }
    in_place_ = InPlace{id, cat("in", attr<common::InputAttr>(input).position), has_halves};
    // Tiles must not reach past a row of values.
    int64_t vectors = std::min<int64_t>(z_.width / z_.lanes, 4);
    while (z_.width % (vectors * z_.lanes) != 0) --vectors;
    z_.product.nr = vectors * z_.lanes;
  }

  const Graph& body_;
  AttentionForm form_;
  const Node& product_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  AttentionOperands operands_;
  Scratch scratch_;
  Sizes z_;
  std::string type_;
  std::string suffix_;
  AttentionTiles tiles_;
  bool online_ = true;
  bool keys_transposed_ = false;    // the keys' memory runs along the depth
  bool values_transposed_ = false;  // the values' runs along the keys
  bool flows_ = true;
  Expr key_size_;
  Expr row_count_;
  int64_t query_stride_ = 0;
  int64_t sum_stride_ = 0;
  std::string score_stride_;
  std::optional<InPlace> in_place_;
};

}  // namespace

Result<FunctionBody> emit_attention(const Graph& body, const Schedule& schedule, int vector_bytes) {
  auto form = common::attention_form(body);
  if (!form) return common::unsupported("an attention kernel holds one attention and nothing else");
  return AttentionEmitter(body, *std::move(form), schedule, vector_bytes).run();
}

}  // namespace worker
