#include "common/lowering/attention/attention_operands.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/lowering/text/c_text.h"

namespace common {

int64_t attention_depth(const Graph& body, const AttentionForm& form) {
  const Node& scores = body.node(form.scores);
  const auto& contraction = attr<ContractAttr>(scores);
  const Shape& queries = body.node(scores.operands[0]).shape;
  int64_t depth = 1;
  for (size_t k = 0; k < contraction.a.size(); ++k) {
    if (!contains(contraction.out, contraction.a[k])) depth *= queries[k].constant();
  }
  return depth;
}

AttentionOperands::AttentionOperands(const Graph& body, const AttentionForm& form,
                                     const CodeWriter& writer)
    : body_(body),
      form_(form),
      product_(body.node(form.product)),
      scores_(body.node(form.scores)),
      writer_(writer),
      batch_(form.batch.size(), Expr(0)) {
  const auto& c = attr<ContractAttr>(scores_);
  for (size_t k = 0; k < c.a.size(); ++k) {
    if (contains(c.out, c.a[k])) continue;
    depth_labels_.push_back(c.a[k]);
    depth_sizes_.push_back(body.node(scores_.operands[0]).shape[k]);
  }
}

int64_t AttentionOperands::depth() const { return attention_depth(body_, form_); }

std::vector<Expr> AttentionOperands::sizes_of(const std::vector<int>& labels) const {
  std::vector<Expr> sizes;
  for (int label : labels) sizes.push_back(form_.label_size[at(label)]);
  return sizes;
}

std::vector<Expr> AttentionOperands::no_rows() const {
  return std::vector<Expr>(form_.rows.size(), Expr(0));
}

std::vector<Expr> AttentionOperands::no_columns() const {
  return std::vector<Expr>(form_.columns.size(), Expr(0));
}

Indices AttentionOperands::by_label(const std::vector<int>& labels, const std::vector<Expr>& rows,
                                    const Expr& key, const std::vector<Expr>& columns) const {
  LabelIndices given(form_.label_size.size());
  given.give(form_.batch, batch_);
  given.give(form_.rows, rows);
  given.give(form_.columns, columns);
  given.give({form_.key}, {key});
  Indices indices = given.of(labels);
  for (Expr& index : indices) index = writer_.simplify(index);
  return indices;
}

const std::vector<int>& AttentionOperands::operand_labels(int operand) const {
  const auto& c = attr<ContractAttr>(product_);
  return operand == 0 ? c.a : c.b;
}

Indices AttentionOperands::product_at(const std::vector<Expr>& rows, const Expr& column) const {
  return by_label(attr<ContractAttr>(product_).out, rows, Expr(0),
                  unfold(sizes_of(form_.columns), column));
}

Indices AttentionOperands::probabilities_at(const std::vector<Expr>& rows, const Expr& key) const {
  return by_label(operand_labels(form_.probabilities), rows, key, no_columns());
}

Indices AttentionOperands::values_at(const Expr& key, const Expr& column) const {
  return by_label(operand_labels(1 - form_.probabilities), no_rows(), key,
                  unfold(sizes_of(form_.columns), column));
}

Indices AttentionOperands::labels_at(const std::vector<Expr>& rows) const {
  std::vector<int> labels;
  for (size_t k = 0; k < form_.label_size.size(); ++k) labels.push_back(static_cast<int>(k));
  return by_label(labels, rows, Expr(0), no_columns());
}

Indices AttentionOperands::demanded(NodeId from, const Indices& indices, NodeId target) const {
  auto found = demanded_at(body_, from, indices, target,
                           [this](const Expr& e) { return writer_.simplify(e); });
  LFARM_CHECK(found.has_value(), "the form of an attention lost a node");
  return *std::move(found);
}

Indices AttentionOperands::softmax_at(const std::vector<Expr>& rows, const Expr& key) const {
  return demanded(probabilities(), probabilities_at(rows, key), form_.softmax);
}

Indices AttentionOperands::scores_at(const std::vector<Expr>& rows, const Expr& key) const {
  return demanded(exponents(), softmax_at(rows, key), form_.scores);
}

Indices AttentionOperands::greatest_at(const std::vector<Expr>& rows) const {
  Indices indices = softmax_at(rows, Expr(0));
  int axis = attr<SoftmaxAttr>(body_.node(form_.softmax)).axis;
  indices.erase(indices.begin() + axis);
  return indices;
}

std::string AttentionOperands::element(BodyEmitter& emitter, NodeId id,
                                       const Indices& indices) const {
  CodeValue x = emitter.value(id, indices);
  return c_cast(body_.node(id).dtype, product_.dtype, x.text);
}

Indices AttentionOperands::score_operand_at(int operand, const std::vector<Expr>& rows,
                                            const Expr& key, const Expr& depth) const {
  const auto& c = attr<ContractAttr>(scores_);
  Indices out = scores_at(rows, key);
  std::vector<Expr> summed = unfold(depth_sizes_, depth);
  Indices indices;
  for (int label : operand == 0 ? c.a : c.b) {
    auto own = std::find(c.out.begin(), c.out.end(), label);
    if (own != c.out.end()) {
      indices.push_back(out[static_cast<size_t>(own - c.out.begin())]);
    } else {
      auto position = std::find(depth_labels_.begin(), depth_labels_.end(), label);
      indices.push_back(summed[static_cast<size_t>(position - depth_labels_.begin())]);
    }
  }
  return indices;
}

Indices AttentionOperands::queries_at(const std::vector<Expr>& rows, const Expr& depth) const {
  return score_operand_at(form_.queries, rows, Expr(0), depth);
}

Indices AttentionOperands::keys_at(const Expr& key, const Expr& depth) const {
  return score_operand_at(1 - form_.queries, no_rows(), key, depth);
}

std::string AttentionOperands::query(BodyEmitter& emitter, const std::vector<Expr>& rows,
                                     const Expr& depth) const {
  return element(emitter, queries(), queries_at(rows, depth));
}

std::string AttentionOperands::key(BodyEmitter& emitter, const Expr& key, const Expr& depth) const {
  return element(emitter, keys(), keys_at(key, depth));
}

std::string AttentionOperands::value(BodyEmitter& emitter, const Expr& key,
                                     const Expr& column) const {
  return element(emitter, values(), values_at(key, column));
}

std::string AttentionOperands::probability(BodyEmitter& emitter, const std::vector<Expr>& rows,
                                           const Expr& key) const {
  return element(emitter, probabilities(), probabilities_at(rows, key));
}

std::string AttentionOperands::sees(BodyEmitter& emitter, const std::vector<Expr>& rows,
                                    const Expr& key) const {
  std::string all;
  for (const AttentionForm::Mask& mask : form_.hidden.masks) {
    CodeValue x = emitter.value(mask.node, demanded(exponents(), softmax_at(rows, key), mask.node));
    DType dtype = body_.node(mask.node).dtype;
    if (!all.empty()) all += " & ";
    all += mask.is_added ? cat("!(", c_cast(dtype, DType::kFloat32, x.text),
                               " <= ", c_literal(DType::kFloat32, AttentionForm::kHiddenScore), ")")
                         : cat("(", x.text, mask.hides ? " == 0)" : " != 0)");
  }
  return all;
}

}  // namespace common
