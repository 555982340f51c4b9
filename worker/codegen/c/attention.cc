#include "worker/codegen/c/attention.h"

#include <algorithm>
#include <functional>

#include "common/base/cat.h"
#include "common/lowering/attention/attention_operands.h"
#include "common/lowering/body/accumulation.h"
#include "common/lowering/body/unit_loop.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/c/attention_products.h"
#include "worker/codegen/c/attention_sizes.h"
#include "worker/codegen/c/attention_tiles.h"
#include "worker/codegen/c/attention_values.h"

namespace worker {

using common::Accumulation;
using common::accumulation_of;
using common::AttentionForm;
using common::AttentionOperands;
using common::AttentionTiling;
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
using common::Expr;
using common::finish_body;
using common::FunctionBody;
using common::Graph;
using common::Indices;
using common::Node;
using common::Result;
using common::Scratch;
using common::store_flows;
using common::Tiling;
using common::UnitLoop;
using common::VectorUnit;

namespace {

// A row's sum is collected in double after this many keys.
constexpr int64_t kSumBlock = 2048;

size_t at(int index) { return static_cast<size_t>(index); }

// Row-major parts of a unit, all in scratch:
//   queries[row][depth], scores[row][key] (then exponentials), sums[row][column], top[row],
//   total[row]; panels of the keys' and the values' block, as register tiles read them.
class AttentionEmitter {
 public:
  AttentionEmitter(const Graph& body, AttentionForm form, const AttentionTiling& tiling,
                   const VectorUnit& unit)
      : body_(body),
        form_(std::move(form)),
        product_(body.node(form_.product)),
        writer_(body.symbols),
        emitter_(body, writer_),
        operands_(body, form_, writer_),
        z_(attention_sizes(body, form_, tiling, unit)),
        type_(c_value_type(product_.dtype)),
        suffix_(c_suffix(product_.dtype)),
        tiles_(body, writer_, emitter_, type_, z_.lanes) {
    auto in_place = values_in_place(body_, form_, operands_, z_);
    score_stride_ = writer_.rare_text(z_.score_stride());
    products_.emplace(body_, operands_, z_, std::move(in_place), tiles_, writer_, emitter_);
  }

  Result<FunctionBody> run() {
    declare_scratch();
    std::vector<Expr> extents;
    for (int label : form_.batch) extents.push_back(form_.label_size[at(label)]);
    extents.push_back(
        common::floor_div(z_.row_count + Expr(z_.tiling.rows - 1), Expr(z_.tiling.rows)));
    UnitLoop units(writer_, extents);
    operands_.set_batch({units.indices().begin(), units.indices().end() - 1});
    writer_.line(cat("const int64_t m0 = ", writer_.rare_text(units.indices().back()), " * ",
                     z_.tiling.rows, ";"));
    writer_.line(cat("const int64_t m1 = lf_min_i64(m0 + ", z_.tiling.rows, ", ",
                     writer_.rare_text(z_.row_count), ");"));
    begin_rows();
    find_range();
    z_.tiling.online ? emit_online() : emit_whole();
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
    int64_t rows = z_.tiling.rows + std::max(z_.tiling.score_mr, z_.tiling.sum_mr);
    add("queries", type_, size, Expr(rows * z_.query_stride()));
    add("scores", type_, size, Expr(rows) * z_.score_stride());
    add("sums", type_, size, Expr(rows * z_.sum_stride()));
    add("top", type_, size, Expr(z_.tiling.rows));
    add("total", "double", 8, Expr(z_.tiling.rows));
    if (!z_.tiling.dots) add("key_panels", type_, size, Expr(z_.packed_keys() * z_.depth));
    add("value_panels", type_, size, Expr(z_.tiling.keys * z_.sum_stride()));
    writer_.line(
        cat(type_, " square[", z_.lanes * z_.lanes, "] __attribute__((aligned(64))) = {0};"));
  }

  // Opens the loop over the unit's rows, m, and names each row label's index.
  std::vector<Expr> open_rows() {
    Expr m = Expr::index(writer_.open_loop("m", z_.row_count));
    return declare_positions(writer_, cat(writer_.fresh("r"), "_"), operands_.sizes_of(form_.rows),
                             m);
  }
  void close_rows() { writer_.close(counting_loop("m", "m0", "m1")); }

  // Opens the loop over keys [from, to), which `pragma` goes before when it is closed.
  Expr open_keys() { return Expr::index(writer_.open_loop("n", z_.key_count)); }
  void close_keys(const std::string& from, const std::string& to, const std::string& pragma) {
    tiles_.close_vector_loop("n", from, to, pragma);
  }

  // ---- rows
  void begin_rows() {
    std::vector<Expr> rows = open_rows();
    std::string lowest = c_literal(product_.dtype, -1.0 / 0.0);
    writer_.line(cat("top[m - m0] = ", lowest, ";"));
    writer_.line("total[m - m0] = 0;");
    writer_.line(cat("for (int64_t d = 0; d < ", z_.sum_stride(), "; ++d) sums[(m - m0) * ",
                     z_.sum_stride(), " + d] = 0;"));
    Expr k = Expr::index(writer_.open_loop("k", z_.depth));
    std::string x = operands_.query(emitter_, rows, k);
    writer_.line(cat("queries[(m - m0) * ", z_.query_stride(), " + k] = ", x, ";"));
    tiles_.close_vector_loop("k", "0", cat(z_.depth));
    close_rows();
  }

  // [lo, hi): the keys that some row of the unit sees.
  void find_range() {
    if (z_.tiling.reads_masks) return find_in_masks();
    std::string keys = writer_.rare_text(z_.key_count);
    bool limited = !form_.hidden.first.empty() || !form_.hidden.last.empty();
    if (!limited || !form_.weights.keeps_zero) {
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
    limit(form_.hidden.first, "first", "lf_max_i64");
    limit(form_.hidden.last, "last", "lf_min_i64");
    widen_range();
    close_rows();
    // Rows that see nothing are NaN all over, which only a key can tell them.
    if (!z_.tiling.online) writer_.line(cat("if (hi <= lo) { lo = 0; hi = ", keys, "; }"));
  }

  // [lo, hi) has the keys from `first` to `last`, too.
  void widen_range() {
    writer_.line("lo = lf_min_i64(lo, first);");
    writer_.line("hi = lf_max_i64(hi, last + 1);");
  }

  // From the first key that some row sees to the last. A row that sees none may be spread over all
  // keys, which then are all read.
  void find_in_masks() {
    std::string keys = writer_.rare_text(z_.key_count);
    writer_.line(cat("int64_t lo = ", keys, ", hi = 0, blind = 0;"));
    std::vector<Expr> rows = open_rows();
    writer_.line(cat("int64_t first = ", keys, ", last = -1;"));
    Expr key = open_keys();
    std::string visible = operands_.sees(emitter_, rows, key);
    writer_.line(cat("const _Bool sees = ", visible, ";"));
    writer_.line("first = sees & (n < first) ? n : first;");
    writer_.line("last = sees & (n > last) ? n : last;");
    close_keys("0", keys, "#pragma omp simd reduction(min:first) reduction(max:last)");
    widen_range();
    writer_.line("blind |= last < 0;");
    close_rows();
    writer_.line(cat("if (blind) { lo = 0; hi = ", keys, "; }"));
  }

  void open_key_blocks() {
    writer_.open_blocks(
        common::floor_div(z_.key_count + Expr(z_.tiling.keys - 1), Expr(z_.tiling.keys)));
    writer_.line(cat("const int64_t n1 = lf_min_i64(n0 + ", z_.tiling.keys, ", hi);"));
  }
  void close_key_blocks() { writer_.close(counting_loop("n0", "lo", "hi", z_.tiling.keys)); }

  void emit_online() {
    open_key_blocks();
    products_->multiply_keys("n0");
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
    writer_.line(cat(type_, "* restrict const to = sums + (m - m0) * ", z_.sum_stride(), ";"));
    writer_.line(cat("for (int64_t d = 0; d < ", z_.sum_stride(), "; ++d) to[d] *= scale;"));
    writer_.close("if (scale != 1)");
    close_rows();
    products_->multiply_values("n0");
    close_key_blocks();
  }

  void emit_whole() {
    open_key_blocks();
    products_->multiply_keys("lo");
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
    products_->multiply_values("lo");
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
    if (z_.tiling.online) {
      CodeValue top = writer_.declare(writer_.depth(), type_, "t", "top[m - m0]");
      remember_greatest(rows, top);
      // A sum over no keys is 0.
      std::string inverse = cat("(", type_, ")(1 / total[m - m0])");
      if (writer_.bounds().lower(z_.key_count) < 1) {
        inverse = cat(writer_.rare_text(z_.key_count), " < 1 ? 0 : ", inverse);
      }
      CodeValue x = writer_.declare(writer_.depth(), type_, "inverse", inverse);
      writer_.remember({form_.softmax, 0, operands_.softmax_at(rows, Expr(0))}, x);
      factor = cat(" * ", operands_.probability(emitter_, rows, Expr(0)));
    }
    Expr d = Expr::index(writer_.open_loop("d", z_.width));
    Indices out = operands_.product_at(rows, d);
    CodeValue x = writer_.declare(writer_.depth(), type_, "c",
                                  cat("sums[(m - m0) * ", z_.sum_stride(), " + d]", factor));
    writer_.remember({form_.product, 0, out}, x);
    flows_ = flows_ && store_flows(form_.product, out, body_, emitter_, writer_);
    tiles_.close_vector_loop("d", "0", cat(z_.width));
    close_rows();
  }

  const Graph& body_;
  AttentionForm form_;
  const Node& product_;
  CodeWriter writer_;
  BodyEmitter emitter_;
  AttentionOperands operands_;
  Scratch scratch_;
  AttentionSizes z_;
  std::string type_;
  std::string suffix_;
  std::string score_stride_;
  AttentionTiles tiles_;
  std::optional<AttentionProducts> products_;
  bool flows_ = true;
};

}  // namespace

Result<FunctionBody> emit_attention(const Graph& body, const Tiling& tiling,
                                    const VectorUnit& unit) {
  auto form = common::attention_form(body);
  if (!form) return common::unsupported("an attention kernel holds one attention and nothing else");
  LFARM_ASSIGN_OR_RETURN(auto sizes, common::from_tiling<AttentionTiling>(tiling));
  LFARM_RETURN_IF_ERROR(common::verify(sizes, body, *form, unit));
  return AttentionEmitter(body, *std::move(form), sizes, unit).run();
}

}  // namespace worker
