#include "worker/codegen/c/attention_values.h"

#include "common/base/cat.h"

namespace worker {

using common::AttentionOperands;
using common::BodyEmitter;
using common::cat;
using common::CodeWriter;
using common::DType;
using common::Expr;
using common::Graph;
using common::Indices;
using common::linear_position;
using common::Node;
using common::NodeId;
using common::Op;
using common::stride_along;

std::optional<ValuesInPlace> values_in_place(const Graph& body, const common::AttentionForm& form,
                                             const AttentionOperands& operands,
                                             const AttentionSizes& sizes) {
  const DType dtype = body.node(form.product).dtype;
  NodeId id = operands.values();
  if (!sizes.tiling.dots || form.columns.size() != 1 || sizes.width % sizes.tiling.sum_nr != 0) {
    return {};
  }
  bool is_float32 = dtype == DType::kFloat32;
  while (body.node(id).op == Op::kView || (is_float32 && body.node(id).op == Op::kCast)) {
    const Node& node = body.node(id);
    if (node.op == Op::kView && !attr<common::ViewAttr>(node).view.valid.empty()) return {};
    id = node.operands[0];
  }
  const Node& input = body.node(id);
  const bool is_widened = is_float32 && common::is_half(input.dtype);
  if (input.op != Op::kInput || (input.dtype != dtype && !is_widened)) return {};
  CodeWriter trial(body.symbols);
  BodyEmitter emitter(body, trial);
  int column = trial.bind_index("d", sizes.width, 0);
  operands.value(emitter, Expr(0), Expr::index(column));
  for (const Expr& offset : emitter.load_offsets()) {
    if (stride_along(offset, column) != 1) return {};
  }
  return ValuesInPlace{id, cat("in", attr<common::InputAttr>(input).position), input.dtype};
}

Expr value_offset(const ValuesInPlace& values, const Graph& body, const AttentionOperands& operands,
                  const Expr& key) {
  Indices indices =
      operands.demanded(operands.values(), operands.values_at(key, Expr(0)), values.input);
  return linear_position(indices, body.node(values.input).shape);
}

}  // namespace worker
