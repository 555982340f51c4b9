#include "worker/codegen/plain_read.h"

namespace worker {

using common::Expr;
using common::Graph;
using common::InputAttr;
using common::Node;
using common::NodeId;
using common::Op;
using common::Var;
using common::ViewAttr;

std::optional<PlainRead> plain_read(const Graph& body, NodeId node, const Indices& at,
                                    const CodeWriter& writer) {
  Indices position = at;
  while (body.node(node).op == Op::kView) {
    const common::View& view = attr<ViewAttr>(body.node(node)).view;
    if (!view.valid.empty()) return std::nullopt;
    Indices inner;
    for (const Expr& e : view.index) {
      inner.push_back(writer.simplify(e.substitute([&](Var v) -> Expr {
        return v.kind == Var::Kind::kIndex ? position[static_cast<size_t>(v.id)] : Expr::var(v);
      })));
    }
    position = std::move(inner);
    node = body.node(node).operands[0];
  }
  const Node& input = body.node(node);
  if (input.op != Op::kInput) return std::nullopt;
  return PlainRead{attr<InputAttr>(input).position,
                   writer.simplify(linear_position(position, input.shape))};
}

bool runs_are_chunks(const Graph& body, NodeId node,
                     const std::function<Indices(const Expr& position)>& at, const Expr& extent,
                     int64_t length, CodeWriter& trial) {
  auto count = common::exact_div(extent, Expr(length));
  if (!count) return false;
  Expr chunk = Expr::index(trial.bind_index("c", *count, 0)) * Expr(length);
  Expr inside = Expr::index(trial.bind_index("e", Expr(length), 0));
  auto first = plain_read(body, node, at(chunk), trial);
  auto other = plain_read(body, node, at(chunk + inside), trial);
  if (!first || !other || trial.simplify(other->offset - first->offset) != inside) return false;
  bool aligned = first->offset.sum_constant() % length == 0;
  for (const auto& term : first->offset.terms()) {
    aligned = aligned && term.coefficient % length == 0;
  }
  return aligned;
}

}  // namespace worker
