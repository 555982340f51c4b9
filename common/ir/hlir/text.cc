#include "common/ir/hlir/text.h"

#include <cmath>

#include "common/base/cat.h"

namespace common {
namespace {

std::string ints_text(const std::vector<int>& values) {
  std::string out = "[";
  for (size_t k = 0; k < values.size(); ++k) out += cat(k ? ", " : "", values[k]);
  return out + "]";
}

std::string coordinates_text(const std::vector<Coordinate>& coordinates) {
  std::string out = "[";
  for (size_t k = 0; k < coordinates.size(); ++k) {
    const Coordinate& c = coordinates[k];
    out += cat(k ? ", " : "", c.slot >= 0 ? cat('@', c.slot) : c.expr.text());
  }
  return out + "]";
}

std::string view_text(const View& view) {
  std::string out = cat(" index=", shape_text(view.index));
  if (view.valid.empty()) return out;
  out += " valid=[";
  for (size_t k = 0; k < view.valid.size(); ++k) {
    out += cat(k ? ", " : "", view.valid[k].value.text(), " < ", view.valid[k].bound.text());
  }
  return out + cat("] fill=", view.fill);
}

struct DescribeAttr {
  std::string operator()(const std::monostate&) const { return ""; }
  std::string operator()(const InputAttr& a) const { return cat(" position=", a.position); }
  std::string operator()(const ConstantAttr& a) const { return cat(" data=", to_hex(*a.data)); }
  std::string operator()(const ViewAttr& a) const { return view_text(a.view); }
  std::string operator()(const UnaryAttr&) const { return ""; }
  std::string operator()(const BinaryAttr&) const { return ""; }
  std::string operator()(const ReduceAttr& a) const { return cat(" axes=", ints_text(a.axes)); }
  std::string operator()(const ScanAttr& a) const { return cat(" axis=", a.axis); }
  std::string operator()(const GatherAttr& a) const {
    return cat(" at=", coordinates_text(a.coordinates));
  }
  std::string operator()(const ScatterAttr& a) const {
    return cat(" at=", coordinates_text(a.coordinates));
  }
  std::string operator()(const SortAttr& a) const {
    const std::string count = a.count == 0 ? "" : cat(" count=", a.count);
    return cat(" axis=", a.axis, " descending=", a.descending ? 1 : 0, count);
  }
  std::string operator()(const LoopAttr& a) const {
    return cat(" trip_count=", a.trip_count, " carried=", a.carried, " invariant=", a.invariant,
               " per_iteration=", a.per_iteration, " outputs=", a.outputs);
  }
  std::string operator()(const LoopResultAttr& a) const { return cat(" result=", a.result); }
  std::string operator()(const ContractAttr& a) const {
    return cat(" a=", ints_text(a.a), " b=", ints_text(a.b), " out=", ints_text(a.out));
  }
  std::string operator()(const SoftmaxAttr& a) const {
    return cat(" axis=", a.axis, " log=", a.log ? 1 : 0);
  }
  std::string operator()(const NormAttr& a) const {
    return cat(" axes=", a.axes, " centred=", a.centred ? 1 : 0, " epsilon=", a.epsilon);
  }
  std::string operator()(const FourierAttr& a) const {
    return cat(" imaginary=", a.imaginary ? 1 : 0, " inverse=", a.inverse ? 1 : 0,
               " count=", a.count);
  }
};

std::string operation_text(const Node& node) {
  switch (node.op) {
    case Op::kUnary:
      return cat("unary.", unary_name(attr<UnaryAttr>(node).op));
    case Op::kBinary:
      return cat("binary.", binary_name(attr<BinaryAttr>(node).op));
    case Op::kReduce:
      return cat("reduce.", reduce_name(attr<ReduceAttr>(node).op));
    case Op::kScan:
      return cat("scan.", scan_name(attr<ScanAttr>(node).op));
    case Op::kScatter:
      return cat("scatter.", scatter_name(attr<ScatterAttr>(node).mode));
    default:
      return std::string(op_name(node.op));
  }
}

constexpr std::string_view kInputKinds[] = {"user", "weight", "state"};

std::string quoted(const std::string& name) {
  std::string out = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 32) {
      out += '_';
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void print_into(const Graph& graph, const std::string& indent, bool is_body, std::string& out) {
  if (!is_body) {
    for (size_t s = 0; s < graph.symbols.size(); ++s) {
      out +=
          cat(indent, "symbol s", s, " ", graph.symbols[s].min, "..", graph.symbols[s].max, "\n");
    }
  }
  for (const GraphInput& input : graph.inputs) {
    out += cat(indent, "input ", kInputKinds[static_cast<size_t>(input.kind)], " ",
               dtype_name(input.dtype), shape_text(input.shape), " ", quoted(input.name), "\n");
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    out += cat(indent, "%", i, " = ", describe(node), " (");
    for (size_t k = 0; k < node.operands.size(); ++k) {
      out += cat(k ? " %" : "%", node.operands[k]);
    }
    out += ")";
    if (node.op == Op::kLoop) {
      out += " {\n";
      print_into(*attr<LoopAttr>(node).body, indent + "  ", true, out);
      out += indent + "}";
    }
    out += "\n";
  }
  for (const GraphOutput& output : graph.outputs) {
    if (output.kind == OutputKind::kUser) out += cat(indent, "output %", output.node, "\n");
    if (output.kind == OutputKind::kMutate) {
      out += cat(indent, "mutate ", output.input, " %", output.node, "\n");
    }
    if (output.kind == OutputKind::kCheck) {
      out += cat(indent, "check ", output.input, " %", output.node, output.wraps ? " wraps" : "",
                 " below ", output.limit.text(), "\n");
    }
  }
}

}  // namespace

std::string describe(const Node& node) {
  return cat(operation_text(node), " ", dtype_name(node.dtype), shape_text(node.shape),
             std::visit(DescribeAttr{}, node.attr));
}

std::string print(const Graph& graph) {
  std::string out;
  print_into(graph, "", false, out);
  return out;
}

}  // namespace common
