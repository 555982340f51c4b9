#include "common/ir/hlir/graph_hash.h"

#include <algorithm>
#include <unordered_map>

#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"

namespace common {
namespace {

// s<k> -> the order in which the inputs' shapes mention it.
std::vector<int> symbol_order(const Graph& graph) {
  std::vector<int> order(graph.symbols.size(), -1);
  int next = 0;
  auto visit = [&](const Shape& shape) {
    for (const Expr& size : shape) {
      size.visit_vars([&](Var v) {
        if (v.kind == Var::Kind::kSymbol && order[static_cast<size_t>(v.id)] < 0) {
          order[static_cast<size_t>(v.id)] = next++;
        }
      });
    }
  };
  for (const GraphInput& input : graph.inputs) visit(input.shape);
  for (int& position : order) {
    if (position < 0) position = next++;
  }
  return order;
}

// Copies a graph depth first from its outputs, renaming symbols.
class Canonicalizer {
 public:
  // `ranges`, unless null: those that the symbols have from now on, by their old numbers.
  Canonicalizer(const Graph& graph, const std::vector<int>& order,
                const std::vector<SymbolRange>* ranges = nullptr)
      : graph_(graph), order_(order), ranges_(ranges) {}

  Graph run() {
    std::vector<SymbolRange> symbols(graph_.symbols.size());
    for (size_t s = 0; s < symbols.size(); ++s) {
      symbols[static_cast<size_t>(order_[s])] =
          ranges_ != nullptr ? (*ranges_)[s] : graph_.symbols[s];
    }
    GraphBuilder builder(std::move(symbols));
    std::vector<NodeId> inputs;
    for (const GraphInput& input : graph_.inputs) {
      inputs.push_back(builder.input(input.kind, input.dtype, rename(input.shape), ""));
    }
    std::vector<NodeId> copied(graph_.nodes.size(), -1);
    for (const GraphOutput& output : graph_.outputs) copy(output.node, builder, inputs, copied);
    for (const GraphOutput& output : graph_.outputs) {
      GraphOutput named = output;
      named.limit = rename(output.limit);
      builder.output_like(named, copied[static_cast<size_t>(output.node)]);
    }
    return builder.finish();
  }

 private:
  Expr rename(const Expr& e) const {
    return e.substitute([&](Var v) -> Expr {
      if (v.kind != Var::Kind::kSymbol) return Expr::var(v);
      auto id = static_cast<size_t>(v.id);
      bool is_fixed = ranges_ != nullptr && (*ranges_)[id].min == (*ranges_)[id].max;
      return is_fixed ? Expr((*ranges_)[id].min) : Expr::symbol(order_[id]);
    });
  }
  Shape rename(Shape shape) const {
    for (Expr& size : shape) size = rename(size);
    return shape;
  }
  Node renamed(const Node& node) const {
    Node result = node;
    result.shape = rename(node.shape);
    if (auto* view = std::get_if<ViewAttr>(&result.attr)) {
      view->view.shape = rename(view->view.shape);
      for (Expr& e : view->view.index) e = rename(e);
      for (Validity& v : view->view.valid) v = {rename(v.value), rename(v.bound)};
    } else if (auto* gather = std::get_if<GatherAttr>(&result.attr)) {
      for (Coordinate& c : gather->coordinates) c.expr = rename(c.expr);
    } else if (auto* scatter = std::get_if<ScatterAttr>(&result.attr)) {
      for (Coordinate& c : scatter->coordinates) c.expr = rename(c.expr);
    } else if (auto* loop = std::get_if<LoopAttr>(&result.attr)) {
      loop->body = std::make_shared<const Graph>(Canonicalizer(*loop->body, order_, ranges_).run());
    }
    return result;
  }
  // Iterative: models are deeper than the stack.
  void copy(NodeId root, GraphBuilder& builder, const std::vector<NodeId>& inputs,
            std::vector<NodeId>& copied) const {
    std::vector<NodeId> stack{root};
    while (!stack.empty()) {
      NodeId id = stack.back();
      NodeId& target = copied[static_cast<size_t>(id)];
      const Node& node = graph_.node(id);
      bool ready = true;
      if (target < 0) {
        for (size_t k = node.operands.size(); k-- > 0;) {
          if (copied[static_cast<size_t>(node.operands[k])] < 0) {
            stack.push_back(node.operands[k]);
            ready = false;
          }
        }
        if (!ready) continue;
        if (node.op == Op::kInput) {
          target = inputs[static_cast<size_t>(attr<InputAttr>(node).position)];
        } else {
          Node copy_of = renamed(node);
          for (NodeId& operand : copy_of.operands) operand = copied[static_cast<size_t>(operand)];
          target = builder.raw(std::move(copy_of));
        }
      }
      stack.pop_back();
    }
  }
  const Graph& graph_;
  const std::vector<int>& order_;
  const std::vector<SymbolRange>* ranges_;
};

Digest hash_canonical(const Graph& graph) {
  Hasher hasher;
  hasher.text("lfarm-graph-1").u64(graph.symbols.size());
  for (const SymbolRange& s : graph.symbols) hasher.i64(s.min).i64(s.max);
  hasher.u64(graph.inputs.size());
  for (const GraphInput& input : graph.inputs) {
    hasher.u64(static_cast<uint64_t>(input.kind)).u64(static_cast<uint64_t>(input.dtype));
    hasher.text(shape_text(input.shape));
  }
  hasher.u64(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    hasher.text(describe(node)).u64(node.operands.size());
    for (NodeId operand : node.operands) hasher.i64(operand);
    if (const auto* loop = std::get_if<LoopAttr>(&node.attr)) {
      hasher.digest(hash_canonical(*loop->body));
    }
  }
  hasher.u64(graph.outputs.size());
  for (const GraphOutput& output : graph.outputs) {
    hasher.u64(static_cast<uint64_t>(output.kind)).i64(output.node).i64(output.input);
    if (output.kind == OutputKind::kCheck) {
      hasher.text(output.limit.text()).u64(output.wraps ? 1 : 0);
    }
  }
  return hasher.finish();
}

}  // namespace

Graph canonical(const Graph& graph) {
  std::vector<int> order = symbol_order(graph);
  return Canonicalizer(graph, order).run();
}

Graph narrowed(const Graph& graph, const std::vector<SymbolRange>& ranges) {
  std::vector<int> order = symbol_order(graph);
  Graph result = Canonicalizer(graph, order, &ranges).run();
  // Symbols that became numbers are gone from the inputs, so that the others come in another order.
  return canonical(result);
}

Canonical canonical_without_unused_symbols(const Graph& graph) {
  // Unused symbols are numbered last, so that cutting them off renames nothing.
  std::vector<char> used = used_symbols(graph);
  std::vector<int> by_input = symbol_order(graph);
  std::vector<int> sorted(used.size());
  for (size_t s = 0; s < used.size(); ++s)
    sorted[static_cast<size_t>(by_input[s])] = static_cast<int>(s);
  std::stable_partition(sorted.begin(), sorted.end(),
                        [&](int s) { return used[static_cast<size_t>(s)] != 0; });
  std::vector<int> order(used.size());
  for (size_t k = 0; k < sorted.size(); ++k) {
    order[static_cast<size_t>(sorted[k])] = static_cast<int>(k);
  }
  auto count = static_cast<size_t>(std::count(used.begin(), used.end(), 1));
  Canonical result{Canonicalizer(graph, order).run(), std::move(sorted)};
  result.graph.symbols.resize(count);
  result.symbols.resize(count);
  return result;
}

Digest graph_hash(const Graph& graph) { return hash_canonical(canonical(graph)); }

}  // namespace common
