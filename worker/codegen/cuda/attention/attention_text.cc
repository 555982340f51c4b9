#include "worker/codegen/cuda/attention/attention_text.h"

#include "common/base/cat.h"
#include "common/lowering/body/plain_read.h"
#include "common/lowering/text/c_text.h"

namespace worker {

using common::AttentionForm;
using common::c_literal;
using common::c_suffix;
using common::c_unary;
using common::c_value_type;
using common::cat;
using common::CodeValue;
using common::declare_positions;
using common::Expr;
using common::Graph;
using common::Indices;

namespace {

size_t at(int index) { return static_cast<size_t>(index); }

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

std::vector<Expr> CudaAttentionText::row_labels(const std::string& row) {
  std::string name = writer_.fresh("row");
  lines(cat("const int64_t ", name, " = lf_min_i64(m0 + ", row, ", ",
            writer_.rare_text(row_count_ - Expr(1)), ");"));
  Expr m = Expr::index(writer_.bind_index(name, row_count_, writer_.depth()));
  std::vector<Expr> sizes = operands_.sizes_of(form_.rows);
  return declare_positions(writer_, cat(writer_.fresh("r"), "_"), sizes, m);
}

Expr CudaAttentionText::key_index(const std::string& key) {
  std::string name = writer_.fresh("key");
  lines(cat("const int64_t ", name, " = lf_min_i64(", key, ", ",
            writer_.rare_text(key_size_ - Expr(1)), ");"));
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
  limit(form_.first, "first", "lf_max_i64");
  limit(form_.last, "last", "lf_min_i64");
}

bool CudaAttentionText::lies_in_runs(common::NodeId node, int64_t length, const OperandAt& at,
                                     const std::vector<int>& labels, int64_t run) const {
  common::CodeWriter trial(body_.symbols);
  AttentionOperands operands(body_, form_, trial);
  auto bind = [&](const std::vector<int>& bound) {
    std::vector<common::Expr> indices;
    for (const common::Expr& size : operands_.sizes_of(bound)) {
      indices.push_back(common::Expr::index(trial.bind_index("i", size, 0)));
    }
    return indices;
  };
  operands.set_batch(bind(form_.batch));
  std::vector<common::Expr> place = bind(labels);
  return common::runs_are_chunks(
      body_, node, [&](const common::Expr& position) { return at(operands, place, position); },
      common::Expr(length), run, trial);
}

}  // namespace worker
