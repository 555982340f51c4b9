#include "coordinator/search/partition/rewrites/known_comparisons.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "common/ir/expr/with_indices.h"
#include "common/ir/hlir/builder.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::Bounds;
using common::DType;
using common::Expr;
using common::Graph;
using common::Node;
using common::NodeId;
using common::Op;

using Indices = std::vector<Expr>;

// Nodes that one comparison may look at, again and again where several need them.
constexpr int kVisitsMax = 1000;
constexpr double kWholeMax = 1e15;  // whole numbers that doubles tell apart

bool is_comparison(const Node& node) {
  if (node.op != Op::kBinary || node.dtype != DType::kBool) return false;
  BinaryOp op = attr<common::BinaryAttr>(node).op;
  return op == BinaryOp::kLess || op == BinaryOp::kLessEqual || op == BinaryOp::kEqual ||
         op == BinaryOp::kNotEqual;
}

// Elements of whole numbers and conditions as expressions over indices; conditions are 0 and 1.
class Positions {
 public:
  explicit Positions(const Graph& graph) : graph_(graph), is_position_(graph.nodes.size(), 0) {
    for (size_t id = 0; id < graph.nodes.size(); ++id) {
      is_position_[id] = follows_from_positions(graph.nodes[id]) ? 1 : 0;
    }
  }

  // What every element of the comparison is.
  std::optional<bool> decide(NodeId id) {
    const Node& node = graph_.node(id);
    if (!is_comparison(node) || is_position_[static_cast<size_t>(id)] == 0) return std::nullopt;
    visits_ = 0;
    Loops loops{{}, node.shape};
    for (size_t k = 0; k < node.shape.size(); ++k) {
      loops.at.push_back(Expr::index(static_cast<int>(k)));
    }
    auto value = element(id, loops);
    if (!value || !value->is_constant()) return std::nullopt;
    return value->constant() != 0;
  }

 private:
  // Where an element is needed, over indices with these extents.
  struct Loops {
    Indices at;
    std::vector<Expr> extents;
  };

  bool follows_from_positions(const Node& node) const {
    switch (node.op) {
      case Op::kIota:
        return common::is_integer(node.dtype);
      case Op::kConstant:
        return common::uniform_constant(node).has_value();
      case Op::kView:
      case Op::kCast:
      case Op::kUnary:
      case Op::kBinary:
      case Op::kSelect:
      case Op::kScan:
      case Op::kGather:
        return (common::is_integer(node.dtype) || node.dtype == DType::kBool) &&
               std::ranges::all_of(node.operands, [&](NodeId x) {
                 return is_position_[static_cast<size_t>(x)] != 0;
               });
      default:
        return false;
    }
  }

  Bounds bounds(const Loops& loops) const { return {graph_.symbols, loops.extents}; }

  std::optional<Expr> element(NodeId id, const Loops& loops) {
    if (++visits_ > kVisitsMax || is_position_[static_cast<size_t>(id)] == 0) return std::nullopt;
    const Node& node = graph_.node(id);
    switch (node.op) {
      case Op::kIota:
        return loops.at[0];
      case Op::kConstant: {
        double value = *common::uniform_constant(node);
        if (std::abs(value) > kWholeMax) return std::nullopt;
        return Expr(static_cast<int64_t>(value));
      }
      case Op::kView:
        return of_view(node, loops);
      case Op::kCast:
        return of_cast(node, loops);
      case Op::kUnary:
        return of_not(node, loops);
      case Op::kBinary:
        return of_binary(node, loops);
      case Op::kSelect:
        return of_select(node, loops);
      case Op::kScan:
        return of_scan(node, loops);
      case Op::kGather:
        return of_gather(node, loops);
      default:
        return std::nullopt;
    }
  }

  std::optional<Expr> of_view(const Node& node, const Loops& loops) {
    const common::View& view = attr<common::ViewAttr>(node).view;
    const Bounds known = bounds(loops);
    for (const common::Validity& v : view.valid) {
      Expr value = common::with_indices(v.value, loops.at);
      Expr bound = common::with_indices(v.bound, loops.at);
      if (known.provably_less(value, 0) || known.provably_non_negative(value - bound)) {
        return Expr(static_cast<int64_t>(view.fill));
      }
      if (!known.provably_non_negative(value) || !known.provably_less(value, bound)) {
        return std::nullopt;
      }
    }
    Loops inner{{}, loops.extents};
    for (const Expr& e : view.index) {
      inner.at.push_back(known.simplify(common::with_indices(e, loops.at)));
    }
    return element(node.operands[0], inner);
  }

  // What keeps every whole number.
  std::optional<Expr> of_cast(const Node& node, const Loops& loops) {
    DType from = graph_.node(node.operands[0]).dtype;
    bool is_wide = node.dtype == DType::kInt64 || from == DType::kBool;
    if (!common::is_integer(node.dtype) || !is_wide) return std::nullopt;
    return element(node.operands[0], loops);
  }

  std::optional<Expr> of_not(const Node& node, const Loops& loops) {
    if (node.dtype != DType::kBool || attr<common::UnaryAttr>(node).op != common::UnaryOp::kNot) {
      return std::nullopt;
    }
    auto x = element(node.operands[0], loops);
    return x ? std::optional<Expr>(Expr(1) - *x) : std::nullopt;
  }

  std::optional<Expr> of_binary(const Node& node, const Loops& loops) {
    auto x = element(node.operands[0], loops), y = element(node.operands[1], loops);
    if (!x || !y) return std::nullopt;
    BinaryOp op = attr<common::BinaryAttr>(node).op;
    const Bounds known = bounds(loops);
    if (node.dtype == DType::kInt64 && op == BinaryOp::kAdd) return known.simplify(*x + *y);
    if (node.dtype == DType::kInt64 && op == BinaryOp::kSub) return known.simplify(*x - *y);
    if (!is_comparison(node)) return std::nullopt;
    const Expr more = known.simplify(*y - *x);
    const bool is_less = known.lower(more) > 0, is_more = known.upper(more) < 0;
    const bool is_equal = more.is_constant(0);
    auto outcome = [](bool holds) { return std::optional<Expr>(Expr(holds ? 1 : 0)); };
    switch (op) {
      case BinaryOp::kLess:
        if (is_less || known.upper(more) <= 0) return outcome(is_less);
        return std::nullopt;
      case BinaryOp::kLessEqual:
        if (is_more || known.lower(more) >= 0) return outcome(!is_more);
        return std::nullopt;
      default:
        if (is_equal || is_less || is_more) return outcome(is_equal == (op == BinaryOp::kEqual));
        return std::nullopt;
    }
  }

  std::optional<Expr> of_select(const Node& node, const Loops& loops) {
    auto condition = element(node.operands[0], loops);
    if (condition && condition->is_constant()) {
      return element(node.operands[condition->constant() != 0 ? 1 : 2], loops);
    }
    for (size_t k = 0; k < loops.extents.size(); ++k) {
      if (auto found = of_halves(node, loops, static_cast<int>(k))) return found;
    }
    return std::nullopt;
  }

  // The first step of a loop apart from the others, where the condition is known in either: they
  // may be one expression after all, as the two parts of cat([x[:1] - 1, x[:-1]]) are for x = 0, 1,
  // ...
  std::optional<Expr> of_halves(const Node& node, const Loops& loops, int index) {
    const common::Var var{common::Var::Kind::kIndex, index};
    auto moved = [&](const Expr& to, Expr extent) {
      Loops result = loops;
      for (Expr& e : result.at) {
        e = e.substitute([&](common::Var v) { return v == var ? to : Expr::var(v); });
      }
      result.extents[static_cast<size_t>(index)] = std::move(extent);
      return result;
    };
    const Loops first = moved(0, 1);
    const Loops others =
        moved(Expr::var(var) + Expr(1), loops.extents[static_cast<size_t>(index)] - Expr(1));
    auto is_first = element(node.operands[0], first), is_other = element(node.operands[0], others);
    if (!is_first || !is_other || !is_first->is_constant() || !is_other->is_constant()) {
      return std::nullopt;
    }
    auto branch = [&](const Expr& condition) {
      return node.operands[condition.constant() != 0 ? 1 : 2];
    };
    auto x = element(branch(*is_first), first), y = element(branch(*is_other), others);
    if (!x || !y) return std::nullopt;
    auto at = [&](const Expr& e, const Expr& to) {
      return e.substitute([&](common::Var v) { return v == var ? to : Expr::var(v); });
    };
    if (at(*y, Expr(-1)) != at(*x, 0)) return std::nullopt;
    return bounds(loops).simplify(at(*y, Expr::var(var) - Expr(1)));
  }

  // A sum of zeros.
  std::optional<Expr> of_scan(const Node& node, const Loops& loops) {
    const auto& scan = attr<common::ScanAttr>(node);
    if (scan.op != common::ScanOp::kSum) return std::nullopt;
    Loops inner = loops;
    inner.at[static_cast<size_t>(scan.axis)] = Expr::index(static_cast<int>(inner.extents.size()));
    inner.extents.push_back(node.shape[static_cast<size_t>(scan.axis)]);
    auto term = element(node.operands[0], inner);
    return term && term->is_constant(0) ? term : std::nullopt;
  }

  std::optional<Expr> of_gather(const Node& node, const Loops& loops) {
    const common::Shape& shape = graph_.node(node.operands[0]).shape;
    const Bounds known = bounds(loops);
    Loops inner{{}, loops.extents};
    for (const common::Coordinate& c : attr<common::GatherAttr>(node).coordinates) {
      if (c.slot < 0) {
        inner.at.push_back(known.simplify(common::with_indices(c.expr, loops.at)));
        continue;
      }
      auto at = element(node.operands[static_cast<size_t>(c.slot) + 1], loops);
      const Expr& size = shape[inner.at.size()];
      if (!at || !known.provably_non_negative(*at) || !known.provably_less(*at, size)) {
        return std::nullopt;
      }
      inner.at.push_back(*at);
    }
    return element(node.operands[0], inner);
  }

  const Graph& graph_;
  std::vector<char> is_position_;
  int visits_ = 0;
};

}  // namespace

Graph decide_comparisons(const Graph& graph) {
  Positions positions(graph);
  std::unordered_map<NodeId, bool> known;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    if (auto value = positions.decide(static_cast<NodeId>(id))) {
      known.emplace(static_cast<NodeId>(id), *value);
    }
  }
  if (known.empty()) return graph;
  std::vector<char> needed(graph.nodes.size(), 0);
  auto need = [&](NodeId id) { needed[static_cast<size_t>(id)] = 1; };
  for (const common::GraphOutput& output : graph.outputs) need(output.node);
  for (auto id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    if (needed[static_cast<size_t>(id)] == 0 || known.contains(id)) continue;
    std::ranges::for_each(graph.node(id).operands, need);
  }
  common::GraphBuilder builder(graph.symbols);
  const std::vector<NodeId> inputs = builder.inputs_like(graph);
  std::vector<NodeId> renamed(graph.nodes.size(), -1);
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    if (needed[id] == 0) continue;
    Node copy = graph.nodes[id];
    if (copy.op == Op::kInput) {
      renamed[id] = inputs[static_cast<size_t>(attr<common::InputAttr>(copy).position)];
      continue;
    }
    if (auto value = known.find(static_cast<NodeId>(id)); value != known.end()) {
      renamed[id] = builder.full(DType::kBool, copy.shape, value->second ? 1 : 0);
      continue;
    }
    for (NodeId& operand : copy.operands) operand = renamed[static_cast<size_t>(operand)];
    renamed[id] = builder.raw(std::move(copy));
  }
  for (const common::GraphOutput& output : graph.outputs) {
    builder.output_like(output, renamed[static_cast<size_t>(output.node)]);
  }
  return builder.finish();
}

}  // namespace coordinator
