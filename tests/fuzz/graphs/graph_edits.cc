#include "tests/fuzz/graphs/graph_edits.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/cat.h"

namespace fuzz {

using common::Expr;
using common::Graph;
using common::Node;
using common::NodeId;
using common::Op;
using common::Random;
using common::Shape;

namespace {

// Another value of an enumeration of `count` values.
template <class T>
T other(T value, int count, Random& random) {
  auto step = 1 + random.below(static_cast<uint64_t>(count) - 1);
  return static_cast<T>((static_cast<uint64_t>(value) + step) % static_cast<uint64_t>(count));
}

common::DType other_dtype(common::DType dtype, Random& random) {
  return other(dtype, common::kDTypeCount, random);
}

double other_number(double value, Random& random) {
  if (value == 0 && random.chance(0.5)) return std::signbit(value) ? 0.0 : -0.0;
  if (!std::isfinite(value)) return 0.5;
  return random.chance(0.5) ? std::nextafter(value, 2 * std::abs(value) + 1) : value + 1;
}

bool edit_shape(Shape& shape, Random& random) {
  if (shape.empty() || random.chance(0.2)) {
    shape.emplace_back(1);
    return true;
  }
  size_t axis = random.below(shape.size());
  if (random.chance(0.3) && shape.size() > 1) {
    size_t next = (axis + 1) % shape.size();
    if (shape[axis] == shape[next]) return false;
    std::swap(shape[axis], shape[next]);
    return true;
  }
  shape[axis] = shape[axis] + (random.chance(0.5) ? 1 : Expr(2));
  return true;
}

bool edit_labels(std::vector<int>& labels, Random& random) {
  if (labels.empty()) return false;
  labels[random.below(labels.size())] += 1;
  return true;
}

bool edit_coordinates(std::vector<common::Coordinate>& coordinates, Random& random) {
  if (coordinates.empty()) return false;
  common::Coordinate& c = coordinates[random.below(coordinates.size())];
  if (c.slot >= 0) {
    c.slot += 1;
  } else {
    c.expr = c.expr + 1;
  }
  return true;
}

bool edit_view(common::View& view, Random& random) {
  if (!view.valid.empty() && random.chance(0.5)) {
    common::Validity& v = view.valid[random.below(view.valid.size())];
    switch (random.below(3)) {
      case 0:
        v.value = v.value + 1;
        return true;
      case 1:
        v.bound = v.bound + 1;
        return true;
      default:
        view.fill = other_number(view.fill, random);
        return true;
    }
  }
  if (view.index.empty()) return false;
  Expr& e = view.index[random.below(view.index.size())];
  switch (random.below(3)) {
    case 0:
      e = e + 1;
      return true;
    case 1:
      e = e + Expr::index(0);
      return true;
    default: {
      Expr halved = common::floor_div(e, 2);
      if (halved == e) return false;
      e = halved;
      return true;
    }
  }
}

bool edit_loop(common::LoopAttr& loop, Random& random) {
  switch (random.below(3)) {
    case 0:
      loop.trip_count += 1;
      return true;
    case 1:
      if (loop.carried == 0) return false;
      loop.carried -= 1;
      loop.invariant += 1;
      return true;
    default: {
      Graph body = *loop.body;
      if (edit(body, random).empty()) return false;
      loop.body = std::make_shared<const Graph>(std::move(body));
      return true;
    }
  }
}

struct EditOperator {
  Random& random;
  bool operator()(common::UnaryAttr& a) const {
    a.op = other(a.op, common::kUnaryOpCount, random);
    return true;
  }
  bool operator()(common::BinaryAttr& a) const {
    a.op = other(a.op, common::kBinaryOpCount, random);
    return true;
  }
  bool operator()(common::ReduceAttr& a) const {
    a.op = other(a.op, common::kReduceOpCount, random);
    return true;
  }
  bool operator()(common::ScanAttr& a) const {
    a.op = other(a.op, common::kScanOpCount, random);
    return true;
  }
  bool operator()(common::ScatterAttr& a) const {
    a.mode = other(a.mode, common::kScatterModeCount, random);
    return true;
  }
  template <class T>
  bool operator()(T&) const {
    return false;
  }
};

struct EditAttribute {
  Random& random;
  bool operator()(common::ViewAttr& a) const { return edit_view(a.view, random); }
  bool operator()(common::ReduceAttr& a) const { return edit_labels(a.axes, random); }
  bool operator()(common::ScanAttr& a) const {
    a.axis += 1;
    return true;
  }
  bool operator()(common::GatherAttr& a) const { return edit_coordinates(a.coordinates, random); }
  bool operator()(common::ScatterAttr& a) const { return edit_coordinates(a.coordinates, random); }
  bool operator()(common::SortAttr& a) const {
    if (random.chance(0.5)) {
      a.descending = !a.descending;
    } else if (random.chance(0.5)) {
      a.axis += 1;
    } else {
      a.count += 1;
    }
    return true;
  }
  bool operator()(common::LoopAttr& a) const { return edit_loop(a, random); }
  bool operator()(common::LoopResultAttr& a) const {
    a.result += 1;
    return true;
  }
  bool operator()(common::ContractAttr& a) const {
    std::vector<int>* labels[] = {&a.a, &a.b, &a.out};
    return edit_labels(*labels[random.below(3)], random);
  }
  bool operator()(common::SoftmaxAttr& a) const {
    if (random.chance(0.5)) {
      a.log = !a.log;
    } else {
      a.axis += 1;
    }
    return true;
  }
  bool operator()(common::NormAttr& a) const {
    switch (random.below(3)) {
      case 0:
        a.centred = !a.centred;
        break;
      case 1:
        a.axes += 1;
        break;
      default:
        a.epsilon = other_number(a.epsilon, random);
    }
    return true;
  }
  bool operator()(common::FourierAttr& a) const {
    switch (random.below(3)) {
      case 0:
        a.imaginary = !a.imaginary;
        break;
      case 1:
        a.inverse = !a.inverse;
        break;
      default:
        a.count += 1;
    }
    return true;
  }
  template <class T>
  bool operator()(T&) const {
    return false;
  }
};

// In a canonical graph nodes of different numbers are different values.
std::string_view edit_node(Graph& graph, Random& random) {
  size_t at = random.below(graph.nodes.size());
  Node& node = graph.nodes[at];
  if (node.op == Op::kInput) return "";  // it says what the declaration says
  switch (random.below(7)) {
    case 0:
      // A loop has no type of its own.
      if (node.op == Op::kLoop || !edit_shape(node.shape, random)) return "";
      if (auto* view = std::get_if<common::ViewAttr>(&node.attr)) view->view.shape = node.shape;
      return "shape";
    case 1:
      if (node.op == Op::kLoop) return "";
      node.dtype = other_dtype(node.dtype, random);
      return "dtype";
    case 2:
      return std::visit(EditOperator{random}, node.attr) ? "operator" : "";
    case 3:
      return std::visit(EditAttribute{random}, node.attr) ? "attribute" : "";
    case 4: {
      if (node.operands.empty() || at < 2) return "";
      NodeId& operand = node.operands[random.below(node.operands.size())];
      auto next = static_cast<NodeId>(random.below(at));
      if (next == operand) return "";
      operand = next;
      return "operand";
    }
    case 5:
      if (node.operands.size() < 2 || node.operands[0] == node.operands[1]) return "";
      std::swap(node.operands[0], node.operands[1]);
      return "swap-operands";
    default: {
      auto* constant = std::get_if<common::ConstantAttr>(&node.attr);
      if (constant == nullptr || constant->data->empty()) return "";
      common::Bytes bytes = *constant->data;
      bytes[random.below(bytes.size())] ^= std::byte{1} << random.below(8);
      constant->data = std::make_shared<const common::Bytes>(std::move(bytes));
      return "constant";
    }
  }
}

bool is_read(const Graph& graph, int input) {
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kInput) continue;
    if (common::attr<common::InputAttr>(node).position == input) return true;
  }
  return false;
}

// Another order of the same inputs, each used as before.
bool swap_inputs(Graph& graph, Random& random) {
  if (graph.inputs.size() < 2) return false;
  auto a = static_cast<int>(random.below(graph.inputs.size()));
  auto b = static_cast<int>(random.below(graph.inputs.size()));
  if (a == b || (!is_read(graph, a) && !is_read(graph, b))) return false;
  std::swap(graph.inputs[static_cast<size_t>(a)], graph.inputs[static_cast<size_t>(b)]);
  auto moved = [&](int position) { return position == a ? b : position == b ? a : position; };
  for (Node& node : graph.nodes) {
    if (node.op != Op::kInput) continue;
    node.attr = common::InputAttr{moved(common::attr<common::InputAttr>(node).position)};
  }
  for (common::GraphOutput& output : graph.outputs) {
    if (output.input >= 0) output.input = moved(output.input);
  }
  return true;
}

void redeclare(Graph& graph, size_t input) {
  for (Node& node : graph.nodes) {
    if (node.op != Op::kInput) continue;
    if (common::attr<common::InputAttr>(node).position != static_cast<int>(input)) continue;
    node.dtype = graph.inputs[input].dtype;
    node.shape = graph.inputs[input].shape;
  }
}

std::string_view edit_signature(Graph& graph, Random& random) {
  size_t at = graph.inputs.empty() ? 0 : random.below(graph.inputs.size());
  bool has_inputs = !graph.inputs.empty();
  switch (random.below(5)) {
    case 0: {
      // Grown by a number: exchanged symbols may be the same model under other numbers.
      if (!has_inputs || graph.inputs[at].shape.empty()) return "";
      Expr& size = graph.inputs[at].shape[random.below(graph.inputs[at].shape.size())];
      size = size + 1;
      redeclare(graph, at);
      return "input-shape";
    }
    case 1:
      if (!has_inputs) return "";
      graph.inputs[at].dtype = other_dtype(graph.inputs[at].dtype, random);
      redeclare(graph, at);
      return "input-dtype";
    case 2:
      if (!has_inputs) return "";
      graph.inputs[at].kind = other(graph.inputs[at].kind, 3, random);
      return "input-kind";
    case 3:
      return swap_inputs(graph, random) ? "input-order" : "";
    default: {
      if (graph.symbols.empty()) return "";
      common::SymbolRange& range = graph.symbols[random.below(graph.symbols.size())];
      (random.chance(0.5) ? range.min : range.max) += 1;
      return "range";
    }
  }
}

std::string_view edit_outputs(Graph& graph, Random& random) {
  if (graph.outputs.empty()) return "";
  size_t a = random.below(graph.outputs.size()), b = random.below(graph.outputs.size());
  switch (random.below(4)) {
    case 0:
      if (graph.outputs[a] == graph.outputs[b]) return "";
      std::swap(graph.outputs[a], graph.outputs[b]);
      return "output-order";
    case 1: {
      auto node = static_cast<NodeId>(random.below(graph.nodes.size()));
      if (node == graph.outputs[a].node) return "";
      graph.outputs[a].node = node;
      return "output-node";
    }
    case 2:
      if (graph.outputs.size() < 2) return "";
      graph.outputs.erase(graph.outputs.begin() + static_cast<std::ptrdiff_t>(a));
      return "output-lost";
    default:
      if (graph.outputs[a].kind != common::OutputKind::kMutate) return "";
      graph.outputs[a] = {common::OutputKind::kUser, graph.outputs[a].node, -1};
      return "output-kind";
  }
}

// ---- Disguises ---------------------------------------------------------------------------------

using Numbers = std::vector<int>;  // s<k> becomes s<numbers[k]>

Expr renamed(const Expr& e, const Numbers& numbers) {
  return e.substitute([&](common::Var v) {
    return v.kind == common::Var::Kind::kSymbol ? Expr::symbol(numbers[static_cast<size_t>(v.id)])
                                                : Expr::var(v);
  });
}

void rename(Shape& shape, const Numbers& numbers) {
  for (Expr& size : shape) size = renamed(size, numbers);
}

void rename(Graph& graph, const Numbers& numbers);

struct Rename {
  const Numbers& numbers;
  void operator()(common::ViewAttr& a) const {
    rename(a.view.shape, numbers);
    rename(a.view.index, numbers);
    for (common::Validity& v : a.view.valid) {
      v = {renamed(v.value, numbers), renamed(v.bound, numbers)};
    }
  }
  void operator()(common::GatherAttr& a) const {
    for (common::Coordinate& c : a.coordinates) c.expr = renamed(c.expr, numbers);
  }
  void operator()(common::ScatterAttr& a) const {
    for (common::Coordinate& c : a.coordinates) c.expr = renamed(c.expr, numbers);
  }
  void operator()(common::LoopAttr& a) const {
    Graph body = *a.body;
    rename(body, numbers);
    a.body = std::make_shared<const Graph>(std::move(body));
  }
  template <class T>
  void operator()(T&) const {}
};

void rename(Graph& graph, const Numbers& numbers) {
  std::vector<common::SymbolRange> symbols = graph.symbols;
  for (size_t s = 0; s < symbols.size(); ++s) {
    graph.symbols[static_cast<size_t>(numbers[s])] = symbols[s];
  }
  for (common::GraphInput& input : graph.inputs) rename(input.shape, numbers);
  for (Node& node : graph.nodes) {
    rename(node.shape, numbers);
    std::visit(Rename{numbers}, node.attr);
  }
  for (common::GraphOutput& output : graph.outputs) output.limit = renamed(output.limit, numbers);
}

}  // namespace

std::string_view edit(Graph& graph, Random& random) {
  switch (random.below(4)) {
    case 0:
      return edit_signature(graph, random);
    case 1:
      return edit_outputs(graph, random);
    default:
      return edit_node(graph, random);
  }
}

Graph disguise(const Graph& graph, Random& random) {
  Graph result;
  result.symbols = graph.symbols;
  result.inputs = graph.inputs;
  for (common::GraphInput& input : result.inputs) input.name = common::cat("n", random.below(100));
  // Any node that is ready may be next; where a node came twice, readers take either. A loop's
  // results name the loop, of which there is one.
  std::vector<std::vector<NodeId>> places(graph.nodes.size());
  std::vector<size_t> open(graph.nodes.size());
  std::iota(open.begin(), open.end(), 0);
  auto copy = [&](size_t at) {
    Node node = graph.nodes[at];
    for (NodeId& operand : node.operands) {
      const auto& choices = places[static_cast<size_t>(operand)];
      operand = choices[random.below(choices.size())];
    }
    places[at].push_back(static_cast<NodeId>(result.nodes.size()));
    result.nodes.push_back(std::move(node));
  };
  auto is_ready = [&](size_t at) {
    const auto& operands = graph.nodes[at].operands;
    return std::all_of(operands.begin(), operands.end(), [&](NodeId operand) {
      return !places[static_cast<size_t>(operand)].empty();
    });
  };
  while (!open.empty()) {
    size_t k = random.below(open.size());
    while (!is_ready(open[k])) k = (k + 1) % open.size();
    size_t at = open[k];
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(k));
    copy(at);
    if (random.chance(0.1)) copy(at);
  }
  for (common::GraphOutput output : graph.outputs) {
    const auto& choices = places[static_cast<size_t>(output.node)];
    output.node = choices[random.below(choices.size())];
    result.outputs.push_back(output);
  }
  if (!result.nodes.empty() && random.chance(0.3)) {  // one more that nobody reads
    auto read = static_cast<NodeId>(random.below(result.nodes.size()));
    Node dead = result.node(read);
    if (dead.op != Op::kLoop) {
      dead.operands = {read};
      dead.op = Op::kUnary;
      dead.attr = common::UnaryAttr{common::UnaryOp::kAbs};
      result.nodes.push_back(std::move(dead));
    }
  }
  Numbers numbers(graph.symbols.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  for (size_t s = numbers.size(); s-- > 1;) std::swap(numbers[s], numbers[random.below(s + 1)]);
  rename(result, numbers);
  return result;
}

}  // namespace fuzz
