#include "common/ir/hlir/graph.h"

#include <array>

#include "common/base/cat.h"

namespace common {
namespace {

template <size_t N, class E>
std::string_view name_in(const std::array<std::string_view, N>& names, E value) {
  auto index = static_cast<size_t>(value);
  LFARM_CHECK(index < N, "enumerator out of range");
  return names[index];
}

constexpr std::array<std::string_view, kOpCount> kOpNames = {
    "input",       "constant", "iota",    "view",   "cast",    "unary", "binary",
    "select",      "reduce",   "scan",    "gather", "scatter", "sort",  "loop",
    "loop_result", "contract", "softmax", "norm",   "fourier", "philox"};
constexpr std::array<std::string_view, kUnaryOpCount> kUnaryNames = {
    "neg",   "abs",   "sign",  "not",   "exp",   "exp2",   "expm1",   "log",   "log2",    "log10",
    "log1p", "sqrt",  "rsqrt", "recip", "sin",   "cos",    "tan",     "asin",  "acos",    "atan",
    "sinh",  "cosh",  "tanh",  "asinh", "acosh", "atanh",  "erf",     "erfc",  "sigmoid", "floor",
    "ceil",  "trunc", "round", "isnan", "isinf", "lgamma", "digamma", "erfinv"};
constexpr std::array<std::string_view, kBinaryOpCount> kBinaryNames = {
    "add", "sub", "mul",   "div",      "floordiv",   "mod",       "fmod",     "min",
    "max", "pow", "atan2", "copysign", "hypot",      "nextafter", "and",      "or",
    "xor", "shl", "shr",   "less",     "less_equal", "equal",     "not_equal"};
constexpr std::array<std::string_view, kReduceOpCount> kReduceNames = {
    "sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};
constexpr std::array<std::string_view, kScanOpCount> kScanNames = {"cumsum", "cumprod", "cummax",
                                                                   "cummin", "logcumsumexp"};
constexpr std::array<std::string_view, kScatterModeCount> kScatterNames = {"assign", "add", "mul",
                                                                           "min", "max"};
}  // namespace

std::string_view op_name(Op op) { return name_in(kOpNames, op); }
std::string_view unary_name(UnaryOp op) { return name_in(kUnaryNames, op); }
std::string_view binary_name(BinaryOp op) { return name_in(kBinaryNames, op); }
std::string_view reduce_name(ReduceOp op) { return name_in(kReduceNames, op); }
std::string_view scan_name(ScanOp op) { return name_in(kScanNames, op); }
std::string_view scatter_name(ScatterMode mode) { return name_in(kScatterNames, mode); }
bool is_elementwise(Op op) {
  return op == Op::kUnary || op == Op::kBinary || op == Op::kSelect || op == Op::kCast ||
         op == Op::kPhilox;
}
bool is_comparison(BinaryOp op) { return op >= BinaryOp::kLess; }

bool operator==(const LoopAttr& a, const LoopAttr& b) {
  return a.trip_count == b.trip_count && a.carried == b.carried && a.invariant == b.invariant &&
         a.per_iteration == b.per_iteration && a.outputs == b.outputs &&
         (a.body == b.body || *a.body == *b.body);
}

TensorType loop_result_type(const Node& loop, int index) {
  const auto& a = attr<LoopAttr>(loop);
  int output =
      index < a.carried ? index : a.carried + static_cast<int>((index - a.carried) / a.trip_count);
  const Node& node = a.body->node(a.body->outputs[static_cast<size_t>(output)].node);
  return {node.dtype, node.shape};
}

std::vector<int> use_counts(const Graph& graph) {
  std::vector<int> uses(graph.nodes.size(), 0);
  for (const Node& node : graph.nodes) {
    for (NodeId operand : node.operands) ++uses[static_cast<size_t>(operand)];
  }
  for (const GraphOutput& output : graph.outputs) ++uses[static_cast<size_t>(output.node)];
  return uses;
}

std::vector<char> live_nodes(const Graph& graph) {
  std::vector<char> live(graph.nodes.size(), 0);
  for (const GraphOutput& output : graph.outputs) live[static_cast<size_t>(output.node)] = 1;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (!live[i]) continue;
    for (NodeId operand : graph.nodes[i].operands) live[static_cast<size_t>(operand)] = 1;
  }
  return live;
}

Graph without_dead_nodes(const Graph& graph) {
  std::vector<char> live = live_nodes(graph);
  Graph result;
  result.symbols = graph.symbols;
  result.inputs = graph.inputs;
  std::vector<NodeId> renamed(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!live[i]) continue;
    renamed[i] = static_cast<NodeId>(result.nodes.size());
    Node node = graph.nodes[i];
    for (NodeId& operand : node.operands) operand = renamed[static_cast<size_t>(operand)];
    result.nodes.push_back(std::move(node));
  }
  for (GraphOutput output : graph.outputs) {
    output.node = renamed[static_cast<size_t>(output.node)];
    result.outputs.push_back(output);
  }
  return result;
}

namespace {

void mark_symbols(const Graph& graph, std::vector<char>& used) {
  auto visit = [&](const Expr& e) {
    e.visit_vars([&](Var v) {
      if (v.kind == Var::Kind::kSymbol) used[static_cast<size_t>(v.id)] = 1;
    });
  };
  for (const GraphInput& input : graph.inputs) {
    for (const Expr& size : input.shape) visit(size);
  }
  for (const Node& node : graph.nodes) {
    for (const Expr& size : node.shape) visit(size);
    if (const auto* view = std::get_if<ViewAttr>(&node.attr)) {
      for (const Expr& e : view->view.index) visit(e);
      for (const Validity& v : view->view.valid) {
        visit(v.value);
        visit(v.bound);
      }
    } else if (const auto* gather = std::get_if<GatherAttr>(&node.attr)) {
      for (const Coordinate& c : gather->coordinates) visit(c.expr);
    } else if (const auto* scatter = std::get_if<ScatterAttr>(&node.attr)) {
      for (const Coordinate& c : scatter->coordinates) visit(c.expr);
    } else if (const auto* loop = std::get_if<LoopAttr>(&node.attr)) {
      mark_symbols(*loop->body, used);
    }
  }
}

}  // namespace

std::vector<char> used_symbols(const Graph& graph) {
  std::vector<char> used(graph.symbols.size(), 0);
  mark_symbols(graph, used);
  return used;
}

bool shows_symbol(const Shape& shape, int symbol) {
  for (const Expr& size : shape) {
    if (size.as_var() == Var{Var::Kind::kSymbol, symbol}) return true;
  }
  return false;
}

std::vector<int> hidden_symbols(const Graph& graph) {
  std::vector<int> hidden;
  std::vector<char> used = used_symbols(graph);
  for (int s = 0; s < static_cast<int>(used.size()); ++s) {
    bool shown = false;
    for (const GraphInput& input : graph.inputs) shown = shown || shows_symbol(input.shape, s);
    if (used[static_cast<size_t>(s)] && !shown) hidden.push_back(s);
  }
  return hidden;
}

namespace {

// Solves size == value for the one unbound symbol of a linear size expression, if it is of that
// form; leaves `values` alone otherwise.
void solve_size(const Expr& size, int64_t value, std::vector<int64_t>& values,
                std::vector<char>& bound) {
  std::optional<Var> unknown;
  int64_t coefficient = 0;
  int64_t known = size.sum_constant();
  for (const auto& term : size.terms()) {
    auto var = term.factors.size() == 1 ? term.factors[0].as_var() : std::nullopt;
    if (!var || var->kind != Var::Kind::kSymbol) return;
    auto id = static_cast<size_t>(var->id);
    if (id >= values.size()) return;
    if (bound[id]) {
      known += term.coefficient * values[id];
    } else if (!unknown) {
      unknown = var;
      coefficient = term.coefficient;
    } else {
      return;
    }
  }
  if (!unknown || coefficient == 0 || (value - known) % coefficient != 0) return;
  auto id = static_cast<size_t>(unknown->id);
  values[id] = (value - known) / coefficient;
  bound[id] = 1;
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text = "[";
  for (size_t k = 0; k < sizes.size(); ++k) text += cat(k ? ", " : "", sizes[k]);
  return text + "]";
}

}  // namespace

Result<std::vector<int64_t>> bind_symbols(const Graph& graph,
                                          const std::vector<std::vector<int64_t>>& input_sizes) {
  if (input_sizes.size() != graph.inputs.size()) {
    return invalid_input(cat("the graph takes ", graph.inputs.size(), " inputs, ",
                             input_sizes.size(), " were given"));
  }
  std::vector<int64_t> values(graph.symbols.size(), 0);
  std::vector<char> bound(graph.symbols.size(), 0);
  for (int pass = 0; pass < 2; ++pass) {  // a second pass solves sums of two symbols
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Shape& shape = graph.inputs[i].shape;
      for (size_t k = 0; k < shape.size() && k < input_sizes[i].size(); ++k) {
        solve_size(shape[k], input_sizes[i][k], values, bound);
      }
    }
  }
  for (size_t s = 0; s < values.size(); ++s) {
    if (!bound[s]) values[s] = graph.symbols[s].min;  // a symbol no input shows has one value
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const GraphInput& input = graph.inputs[i];
    if (evaluate_shape(input.shape, values) != input_sizes[i]) {
      return invalid_input(cat("input '", input.name, "' has sizes ", sizes_text(input_sizes[i]),
                               " but the model takes ", shape_text(input.shape)));
    }
  }
  for (size_t s = 0; s < values.size(); ++s) {
    if (values[s] < graph.symbols[s].min || values[s] > graph.symbols[s].max) {
      return invalid_input(cat("size s", s, " is ", values[s], ", outside the model's range ",
                               graph.symbols[s].min, "..", graph.symbols[s].max));
    }
  }
  return values;
}

std::vector<int64_t> evaluate_shape(const Shape& shape, std::span<const int64_t> symbols) {
  std::vector<int64_t> sizes;
  sizes.reserve(shape.size());
  for (const Expr& size : shape) sizes.push_back(size.evaluate(symbols));
  return sizes;
}

}  // namespace common
