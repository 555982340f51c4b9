#include "common/lowering/body/plain_read.h"

#include <utility>
#include <vector>

#include "common/ir/expr/with_indices.h"

namespace common {

namespace {

struct Element {
  NodeId node = 0;
  Indices position;
};

Expr placed(const Expr& e, const Indices& position, const CodeWriter& writer) {
  return writer.simplify(with_indices(e, position));
}

// The element below views that are valid everywhere.
Element below_views(const Graph& body, Element x, const CodeWriter& writer) {
  while (body.node(x.node).op == Op::kView) {
    const View& view = attr<ViewAttr>(body.node(x.node)).view;
    if (!view.valid.empty()) break;
    Indices inner;
    for (const Expr& e : view.index) inner.push_back(placed(e, x.position, writer));
    x = {body.node(x.node).operands[0], std::move(inner)};
  }
  return x;
}

// `gathered` gives the position in a gather's data.
template <class Gathered>
std::optional<PlainRead> read_through(const Graph& body, Element x, const CodeWriter& writer,
                                      const Gathered& gathered) {
  for (x = below_views(body, std::move(x), writer); body.node(x.node).op == Op::kGather;
       x = below_views(body, std::move(x), writer)) {
    const Node& gather = body.node(x.node);
    x = {gather.operands[0], gathered(gather, x.position)};
  }
  const Node& input = body.node(x.node);
  if (input.op != Op::kInput) return std::nullopt;
  return PlainRead{attr<InputAttr>(input).position,
                   writer.simplify(linear_position(x.position, input.shape))};
}

// Stands for the positions that gathers read: one index for each element of their operands.
class TrialPositions {
 public:
  TrialPositions(const Graph& body, CodeWriter& trial) : body_(body), trial_(trial) {}

  Indices operator()(const Node& gather, const Indices& at) {
    Indices position;
    const Shape& shape = body_.node(gather.operands[0]).shape;
    for (const Coordinate& c : attr<GatherAttr>(gather).coordinates) {
      if (c.slot < 0) {
        position.push_back(placed(c.expr, at, trial_));
        continue;
      }
      NodeId operand = gather.operands[static_cast<size_t>(c.slot) + 1];
      position.push_back(
          index_of(below_views(body_, {operand, at}, trial_), shape[position.size()]));
    }
    return position;
  }

 private:
  Expr index_of(const Element& x, const Expr& extent) {
    for (const auto& [known, index] : known_) {
      if (known.node == x.node && known.position == x.position) return index;
    }
    Expr index = Expr::index(trial_.bind_index("g", extent, 0));
    known_.emplace_back(x, index);
    return index;
  }

  const Graph& body_;
  CodeWriter& trial_;
  std::vector<std::pair<Element, Expr>> known_;
};

}  // namespace

std::optional<PlainRead> plain_read(NodeId node, const Indices& at, BodyEmitter& emitter) {
  return read_through(emitter.graph(), {node, at}, emitter.writer(),
                      [&](const Node& gather, const Indices& position) {
                        return emitter.gathered_position(gather, position);
                      });
}

std::optional<PlainRead> plain_half_read(NodeId node, const Indices& at, BodyEmitter& emitter) {
  const Graph& body = emitter.graph();
  Element x = below_views(body, {node, at}, emitter.writer());
  const Node& cast = body.node(x.node);
  if (cast.op != Op::kCast || !is_half(body.node(cast.operands[0]).dtype)) return std::nullopt;
  return plain_read(cast.operands[0], x.position, emitter);
}

bool runs_are_chunks(const Graph& body, NodeId node,
                     const std::function<Indices(const Expr& position)>& at, const Expr& extent,
                     int64_t length, CodeWriter& trial) {
  auto count = exact_div(extent, Expr(length));
  if (!count) return false;
  Expr chunk = Expr::index(trial.bind_index("c", *count, 0)) * Expr(length);
  Expr inside = Expr::index(trial.bind_index("e", Expr(length), 0));
  TrialPositions positions(body, trial);
  auto gathered = [&](const Node& gather, const Indices& position) {
    return positions(gather, position);
  };
  auto first = read_through(body, {node, at(chunk)}, trial, gathered);
  auto other = read_through(body, {node, at(chunk + inside)}, trial, gathered);
  if (!first || !other || trial.simplify(other->offset - first->offset) != inside) return false;
  bool aligned = first->offset.sum_constant() % length == 0;
  for (const auto& term : first->offset.terms()) {
    aligned = aligned && term.coefficient % length == 0;
  }
  return aligned;
}

}  // namespace common
