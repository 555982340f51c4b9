#include "worker/codegen/cuda/attention/attention_text.h"

#include "common/base/cat.h"
#include "common/base/divide_up.h"
#include "common/ir/expr/index.h"
#include "common/ir/llir/view_inverse.h"
#include "common/lowering/body/function_body.h"
#include "common/lowering/text/c_text.h"

namespace worker {

using common::at;
using common::AttentionForm;
using common::c_literal;
using common::c_suffix;
using common::c_unary;
using common::c_value_type;
using common::cat;
using common::CodeValue;
using common::declare_positions;
using common::DType;
using common::Expr;
using common::Graph;
using common::Indices;

namespace {

constexpr int64_t kStoresUnrolled = 16;

}  // namespace

CudaAttentionText::CudaAttentionText(const Graph& body, AttentionForm form)
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

Expr CudaAttentionText::batch_size() const {
  return common::element_count(operands_.sizes_of(form_.batch));
}

void CudaAttentionText::bind_batch(const std::string& element) {
  std::vector<Expr> extents = operands_.sizes_of(form_.batch);
  if (extents.empty()) return;
  lines(cat("const int64_t batch = ", element, ";"));
  Expr flat = Expr::index(writer_.bind_index("batch", batch_size(), 0));
  operands_.set_batch(declare_positions(writer_, "batch", extents, flat));
}

void CudaAttentionText::declare_clamped(const std::string& name, const std::string& value,
                                        const std::string& last) {
  lines(cat("const int64_t ", name,
            is_short_ ? cat(" = min((int)(", value, "), (int)(", last, "));")
                      : cat(" = lf_min_i64(", value, ", ", last, ");")));
}

std::vector<Expr> CudaAttentionText::row_labels(const std::string& row) {
  std::string name = writer_.fresh("row");
  declare_clamped(name, cat("m0 + ", row), writer_.rare_text(row_count_ - Expr(1)));
  Expr m = Expr::index(writer_.bind_index(name, row_count_, writer_.depth()));
  std::vector<Expr> sizes = operands_.sizes_of(form_.rows);
  return declare_positions(writer_, cat(writer_.fresh("r"), "_"), sizes, m);
}

Expr CudaAttentionText::key_index(const std::string& key) {
  std::string name = writer_.fresh("key");
  declare_clamped(name, key, writer_.rare_text(key_size_ - Expr(1)));
  return Expr::index(writer_.bind_index(name, key_size_, writer_.depth()));
}

Expr CudaAttentionText::inner_index(const std::string& value, int64_t extent) {
  std::string name = writer_.fresh("d");
  lines(cat("const int64_t ", name, " = lf_min_i64(", value, ", ", extent - 1, ");"));
  return Expr::index(writer_.bind_index(name, extent, writer_.depth()));
}

std::string CudaAttentionText::exp_of(const std::string& x) const {
  return c_unary(common::UnaryOp::kExp, product_.dtype, x);
}

void CudaAttentionText::remember_greatest(const std::vector<Expr>& rows,
                                          const CodeValue& greatest) {
  if (form_.greatest) {
    writer_.remember({*form_.greatest, 0, operands_.greatest_at(rows)}, greatest);
  }
}

void CudaAttentionText::row_range(const std::vector<Expr>& rows) {
  lines(cat("int64_t first = 0, last = ", writer_.rare_text(key_size_), " - 1;"));
  auto limit = [&](const std::vector<Expr>& limits, const char* name, const char* pick) {
    Indices indices = operands_.labels_at(rows);
    for (const Expr& e : limits) {
      Expr here = writer_.simplify(e.substitute([&](common::Var v) {
        return v.kind == common::Var::Kind::kIndex ? indices[at(v.id)] : Expr::var(v);
      }));
      lines(cat(name, " = ", pick, "(", name, ", ", writer_.rare_text(here), ");"));
    }
  };
  limit(form_.hidden.first, "first", "lf_max_i64");
  limit(form_.hidden.last, "last", "lf_min_i64");
}

bool CudaAttentionText::is_stored_in_runs(common::NodeId output, int64_t run) const {
  common::AttentionTrial trial(body_, form_, form_.rows);
  auto offset = [&](const Expr& column) -> std::optional<Expr> {
    auto at = common::flow_forward(body_, form_.product, output,
                                   trial.operands.product_at(trial.place, column));
    if (!at) return std::nullopt;
    return trial.writer.simplify(linear_position(*at, body_.node(output).shape));
  };
  int64_t width = form_.size(form_.columns).constant();
  if (width % run != 0) return false;
  Expr chunk = Expr::index(trial.writer.bind_index("c", Expr(width / run), 0)) * Expr(run);
  Expr inside = Expr::index(trial.writer.bind_index("e", Expr(run), 0));
  auto first = offset(chunk), other = offset(chunk + inside);
  if (!first || !other || trial.writer.simplify(*other - *first) != inside) return false;
  bool aligned = first->sum_constant() % run == 0;
  for (const auto& term : first->terms()) aligned = aligned && term.coefficient % run == 0;
  return aligned;
}

int64_t CudaAttentionText::output_run() const {
  int64_t run = 0;
  for (const auto& output : body_.outputs) {
    DType dtype = body_.node(output.node).dtype;
    int64_t own = common::is_half(dtype) ? 8 : dtype == DType::kFloat32 ? 4 : 1;
    if ((run != 0 && own != run) || !is_stored_in_runs(output.node, own)) return 1;
    run = own;
  }
  return run;
}

bool CudaAttentionText::store_staged(const Staged& staged) {
  int64_t run = output_run(), chunks = form_.size(form_.columns).constant() / run;
  int64_t count = staged.rows * chunks, steps = common::divide_up(count, staged.threads);
  writer_.open(false);
  lines(cat("const int e = x * ", staged.threads, " + tid, row = e / ", chunks, ", d = e % ",
            chunks, " * ", run, ";"));
  writer_.open(true);
  std::vector<Expr> rows = row_labels(cat(staged.first, " + row"));
  bool flows = run == 1 ? store_one(staged, rows) : store_run(staged, run, rows);
  writer_.close(cat("if (", count % staged.threads == 0 ? "" : cat("e < ", count, " & "), "m0 + ",
                    staged.first, " + row < ", writer_.rare_text(row_count_), ")"));
  writer_.close(steps <= kStoresUnrolled
                    ? unrolled_loop("x", steps)
                    : cat("#pragma unroll 4\nfor (int x = 0; x < ", steps, "; ++x)"));
  return flows;
}

Indices CudaAttentionText::remember_staged(const Staged& staged, const char* column,
                                           const std::vector<Expr>& rows) {
  std::string name = writer_.fresh("d");
  lines(cat("const int ", name, " = ", column, ";"));
  int64_t width = form_.size(form_.columns).constant();
  Indices at =
      operands_.product_at(rows, Expr::index(writer_.bind_index(name, width, writer_.depth())));
  CodeValue x =
      writer_.declare(writer_.depth(), type_, "c",
                      staged.element.empty() ? cat("stage[row * ", staged.stride, " + ", name, "]")
                                             : staged.element);
  writer_.remember({form_.product, 0, at}, x);
  return at;
}

bool CudaAttentionText::store_one(const Staged& staged, const std::vector<Expr>& rows) {
  Indices at = remember_staged(staged, "d", rows);
  return common::store_flows(form_.product, at, body_, emitter_, writer_);
}

bool CudaAttentionText::store_run(const Staged& staged, int64_t run,
                                  const std::vector<Expr>& rows) {
  std::string type = run == 8 ? "uint16_t" : "float";
  for (size_t k = 0; k < body_.outputs.size(); ++k) {
    lines(cat("LfVec<", type, ", ", run, "> h", k, ";"));
  }
  auto each_output = [&](const Indices& product, auto use) {
    for (size_t k = 0; k < body_.outputs.size(); ++k) {
      common::NodeId id = body_.outputs[k].node;
      auto target = common::flow_forward(body_, form_.product, id, product);
      LFARM_CHECK(target.has_value(), "output_run() asked the same");
      use(k, id, *target);
    }
  };
  writer_.open(false);
  each_output(remember_staged(staged, "d + y", rows),
              [&](size_t k, common::NodeId id, const Indices& target) {
                lines(cat("h", k, ".e[y] = ", emitter_.value(id, target).text, ";"));
              });
  writer_.close(unrolled_loop("y", run));
  int64_t width = form_.size(form_.columns).constant();
  Expr first = Expr::index(writer_.bind_index("d", width, writer_.depth()));
  each_output(operands_.product_at(rows, first),
              [&](size_t k, common::NodeId id, const Indices& target) {
                Expr offset = writer_.simplify(linear_position(target, body_.node(id).shape));
                lines(cat("lf_store(out", k, " + ", writer_.text(offset), ", h", k, ");"));
              });
  return true;
}

}  // namespace worker
