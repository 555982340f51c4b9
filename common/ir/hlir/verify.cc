#include "common/ir/hlir/verify.h"

#include <set>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/ir/expr/bounds.h"
#include "common/ir/expr/index.h"

namespace common {
namespace {

bool is_arithmetic(DType d) { return !is_half(d) && d != DType::kComplex64; }

// A node with its operands at hand, and the checks of one operation each.
class Inference {
 public:
  Inference(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  Result<TensorType> run() {
    for (NodeId operand : node_.operands) {
      if (operand < 0 || at(operand) >= graph_.nodes.size()) return bad("an operand is missing");
    }
    switch (node_.op) {
      case Op::kInput:
        return input();
      case Op::kConstant:
        return constant();
      case Op::kIota:
        if (!is_arithmetic(node_.dtype) || node_.dtype == DType::kBool || node_.shape.size() != 1) {
          return bad("iota is an integer, f32 or f64 of one axis");
        }
        return arity(0, {node_.dtype, node_.shape});
      case Op::kView:
        return view();
      case Op::kCast:
        if (node_.operands.size() != 1) return bad("cast takes one operand");
        return TensorType{node_.dtype, type(0).shape};
      case Op::kUnary:
        return unary();
      case Op::kBinary:
        return binary();
      case Op::kSelect:
        return select();
      case Op::kReduce:
        return reduce();
      case Op::kScan:
        return scan();
      case Op::kGather:
        return gather();
      case Op::kScatter:
        return scatter();
      case Op::kSort:
        return sort();
      case Op::kLoop:
        return loop();
      case Op::kLoopResult:
        return loop_result();
      case Op::kContract:
        return contract();
      case Op::kSoftmax:
        return softmax();
      case Op::kNorm:
        return norm();
      case Op::kFourier:
        return fourier();
      case Op::kPhilox:
        return philox();
    }
    return bad("unknown operation");
  }

 private:
  Error bad(std::string_view what) const {
    return invalid_input(cat(op_name(node_.op), ": ", what));
  }
  const Node& type(size_t operand) const { return graph_.node(node_.operands[operand]); }
  Result<TensorType> arity(size_t count, TensorType result) const {
    if (node_.operands.size() != count) return bad(cat("takes ", count, " operands"));
    return result;
  }
  template <class T>
  const T* attribute() const {
    return std::get_if<T>(&node_.attr);
  }

  Result<TensorType> input() const {
    const auto* a = attribute<InputAttr>();
    if (!a || a->position < 0 || at(a->position) >= graph_.inputs.size()) {
      return bad("no such graph input");
    }
    const GraphInput& declared = graph_.inputs[at(a->position)];
    return arity(0, {declared.dtype, declared.shape});
  }

  Result<TensorType> constant() const {
    const auto* a = attribute<ConstantAttr>();
    if (!a || !a->data) return bad("has no data");
    int64_t bytes = dtype_size(node_.dtype);
    for (const Expr& size : node_.shape) {
      if (!size.is_constant() || size.constant() < 0) return bad("sizes must be constants");
      if (size.constant() > static_cast<int64_t>(kMaxConstantBytes)) return bad("too large");
      bytes *= size.constant();
      if (bytes > static_cast<int64_t>(kMaxConstantBytes)) return bad("too large");
    }
    if (static_cast<int64_t>(a->data->size()) != bytes) return bad("data has another size");
    return arity(0, {node_.dtype, node_.shape});
  }

  // No expression may use a loop index beyond `rank` or an undeclared symbol.
  bool in_scope(const Expr& e, size_t rank) const {
    bool ok = true;
    e.visit_vars([&](Var v) {
      size_t limit = v.kind == Var::Kind::kIndex ? rank : graph_.symbols.size();
      ok = ok && v.id >= 0 && at(v.id) < limit;
    });
    return ok;
  }

  Result<TensorType> view() const {
    const auto* a = attribute<ViewAttr>();
    if (!a || node_.operands.size() != 1) return bad("takes one operand and a view");
    const View& v = a->view;
    if (v.index.size() != type(0).shape.size()) return bad("must index every operand axis");
    for (const Expr& e : v.index) {
      if (!in_scope(e, v.shape.size())) return bad("index uses an unknown variable");
    }
    for (const Validity& check : v.valid) {
      if (!in_scope(check.value, v.shape.size()) || !in_scope(check.bound, v.shape.size())) {
        return bad("validity uses an unknown variable");
      }
    }
    return TensorType{type(0).dtype, v.shape};
  }

  Result<TensorType> unary() const {
    const auto* a = attribute<UnaryAttr>();
    if (!a || node_.operands.size() != 1) return bad("takes one operand");
    DType d = type(0).dtype;
    if (!is_arithmetic(d)) return bad("half and complex types are for storage only");
    switch (a->op) {
      case UnaryOp::kNot:
        if (is_float(d)) return bad("not takes bool or integers");
        break;
      case UnaryOp::kNeg:
      case UnaryOp::kAbs:
      case UnaryOp::kSign:
        if (d == DType::kBool) return bad("does not take bool");
        break;
      case UnaryOp::kIsNan:
      case UnaryOp::kIsInf:
        if (!is_float(d)) return bad("takes floats");
        return TensorType{DType::kBool, type(0).shape};
      default:
        if (!is_float(d)) return bad("takes floats");
    }
    return TensorType{d, type(0).shape};
  }

  Result<TensorType> binary() const {
    const auto* a = attribute<BinaryAttr>();
    if (!a || node_.operands.size() != 2) return bad("takes two operands");
    DType d = type(0).dtype;
    if (d != type(1).dtype) {
      return bad(cat("dtypes differ: ", dtype_name(d), " and ", dtype_name(type(1).dtype)));
    }
    if (type(0).shape != type(1).shape) {
      return bad(
          cat("shapes differ: ", shape_text(type(0).shape), " and ", shape_text(type(1).shape)));
    }
    if (!is_arithmetic(d)) return bad("half and complex types are for storage only");
    bool bitwise = a->op >= BinaryOp::kAnd && a->op <= BinaryOp::kShr;
    bool float_only = a->op == BinaryOp::kAtan2 || a->op == BinaryOp::kCopysign ||
                      a->op == BinaryOp::kHypot || a->op == BinaryOp::kNextafter;
    if (bitwise && is_float(d)) return bad("bitwise operations take bool and integers");
    if (float_only && !is_float(d)) return bad("takes floats");
    if (d == DType::kBool && !bitwise && !is_comparison(a->op) && a->op != BinaryOp::kMin &&
        a->op != BinaryOp::kMax) {
      return bad("arithmetic does not take bool");
    }
    return TensorType{is_comparison(a->op) ? DType::kBool : d, type(0).shape};
  }

  Result<TensorType> select() const {
    if (node_.operands.size() != 3) return bad("takes three operands");
    if (type(0).dtype != DType::kBool) return bad("the condition is bool");
    if (type(1).dtype != type(2).dtype) return bad("the branches' dtypes differ");
    if (type(0).shape != type(1).shape || type(1).shape != type(2).shape) {
      return bad("shapes differ");
    }
    return TensorType{type(1).dtype, type(1).shape};
  }

  Result<TensorType> philox() const {
    if (node_.operands.size() != 4) return bad("takes seed, offset, subsequence and word");
    for (size_t k = 0; k < 4; ++k) {
      if (type(k).dtype != DType::kInt64) return bad("the operands are i64");
      if (type(k).shape != type(0).shape) return bad("shapes differ");
    }
    if (node_.dtype != DType::kInt64 && node_.dtype != DType::kFloat32) {
      return bad("the result is i64 or f32");
    }
    return TensorType{node_.dtype, type(0).shape};
  }

  Result<TensorType> reduce() const {
    const auto* a = attribute<ReduceAttr>();
    if (!a || node_.operands.size() != 1) return bad("takes one operand");
    DType d = type(0).dtype;
    if (!is_arithmetic(d)) return bad("half and complex types are for storage only");
    bool logical = a->op == ReduceOp::kAny || a->op == ReduceOp::kAll;
    bool position = a->op == ReduceOp::kArgmax || a->op == ReduceOp::kArgmin;
    if (logical != (d == DType::kBool) && !position)
      return bad("any/all are for bool, and only they");
    if (position && a->axes.size() != 1) return bad("takes one axis");
    TensorType result{position ? DType::kInt64 : d, {}};
    int previous = -1;
    for (int axis : a->axes) {
      if (axis <= previous || at(axis) >= type(0).shape.size()) return bad("axes must be sorted");
      previous = axis;
    }
    for (size_t k = 0; k < type(0).shape.size(); ++k) {
      if (!contains(a->axes, static_cast<int>(k))) {
        result.shape.push_back(type(0).shape[k]);
      }
    }
    return result;
  }

  bool axis_ok(int axis, size_t operand) const {
    return axis >= 0 && at(axis) < type(operand).shape.size();
  }

  Result<TensorType> scan() const {
    const auto* a = attribute<ScanAttr>();
    if (!a || node_.operands.size() != 1 || !axis_ok(a->axis, 0)) return bad("no such axis");
    if (!is_arithmetic(type(0).dtype) || type(0).dtype == DType::kBool) return bad("bad dtype");
    return TensorType{type(0).dtype, type(0).shape};
  }

  Result<TensorType> sort() const {
    const auto* a = attribute<SortAttr>();
    if (!a || node_.operands.size() != 1 || !axis_ok(a->axis, 0)) return bad("no such axis");
    if (type(0).dtype == DType::kComplex64) return bad("complex numbers have no order");
    Shape shape = type(0).shape;
    Expr& length = shape[at(a->axis)];
    if (a->count < 0 || a->count > Bounds(graph_.symbols, {}).lower(length)) {
      return bad("a line has fewer elements");
    }
    if (a->count > 0) length = a->count;
    return TensorType{DType::kInt64, shape};
  }

  Status check_coordinates(const std::vector<Coordinate>& coordinates, size_t data_rank,
                           const Shape& positions, size_t first_index) const {
    if (coordinates.size() != data_rank) return bad("one coordinate per data axis");
    for (const Coordinate& c : coordinates) {
      if (c.slot >= 0 ? first_index + at(c.slot) >= node_.operands.size()
                      : !in_scope(c.expr, positions.size())) {
        return bad("a coordinate names an unknown index");
      }
    }
    for (size_t k = first_index; k < node_.operands.size(); ++k) {
      if (!is_integer(type(k).dtype)) return bad("indices are integers");
      if (type(k).shape != positions) return bad("indices have another shape");
    }
    return {};
  }

  Result<TensorType> gather() const {
    const auto* a = attribute<GatherAttr>();
    if (!a || node_.operands.empty()) return bad("takes data and indices");
    if (node_.operands.size() == 1 && !node_.shape.empty()) {
      return bad("without indices a gather is a view");
    }
    Shape shape = node_.operands.size() > 1 ? type(1).shape : node_.shape;
    LFARM_RETURN_IF_ERROR(check_coordinates(a->coordinates, type(0).shape.size(), shape, 1));
    return TensorType{type(0).dtype, shape};
  }

  Result<TensorType> scatter() const {
    const auto* a = attribute<ScatterAttr>();
    if (!a || node_.operands.size() < 2) return bad("takes base, updates and indices");
    if (type(0).dtype != type(1).dtype) return bad("base and updates differ in dtype");
    if (a->mode != ScatterMode::kAssign && !is_arithmetic(type(0).dtype)) {
      return bad("half types can only be assigned");
    }
    LFARM_RETURN_IF_ERROR(
        check_coordinates(a->coordinates, type(0).shape.size(), type(1).shape, 2));
    return TensorType{type(0).dtype, type(0).shape};
  }

  Result<TensorType> loop() const {
    const auto* a = attribute<LoopAttr>();
    if (!a || !a->body || a->trip_count < 1 || a->carried < 0 || a->invariant < 0 ||
        a->per_iteration < 0 || a->outputs < 0 || a->trip_count > 1'000'000) {
      return bad("malformed attributes");
    }
    auto inputs = at(a->carried + a->invariant + a->per_iteration);
    if (a->body->inputs.size() != inputs ||
        a->body->outputs.size() != at(a->carried + a->outputs) ||
        a->body->symbols != graph_.symbols) {
      return bad("the body's signature does not match");
    }
    auto fixed = at(a->carried + a->invariant);
    if (node_.operands.size() !=
        fixed + at(a->per_iteration) * at(static_cast<int>(a->trip_count))) {
      return bad("wrong number of operands");
    }
    for (size_t k = 0; k < node_.operands.size(); ++k) {
      size_t slot = k < fixed ? k : fixed + (k - fixed) / static_cast<size_t>(a->trip_count);
      const GraphInput& wanted = a->body->inputs[slot];
      if (type(k).dtype != wanted.dtype || type(k).shape != wanted.shape) {
        return bad(cat("operand ", k, " does not fit the body's input ", slot));
      }
    }
    for (size_t k = 0; k < at(a->carried); ++k) {
      const Node& next = a->body->node(a->body->outputs[k].node);
      if (next.dtype != a->body->inputs[k].dtype || next.shape != a->body->inputs[k].shape) {
        return bad("a carried value changes its type");
      }
    }
    return TensorType{node_.dtype, {}};
  }

  Result<TensorType> loop_result() const {
    const auto* a = attribute<LoopResultAttr>();
    if (!a || node_.operands.size() != 1 || type(0).op != Op::kLoop) return bad("takes a loop");
    const auto& l = attr<LoopAttr>(type(0));
    if (a->result < 0 || a->result >= l.carried + l.outputs * l.trip_count) {
      return bad("no such result");
    }
    return loop_result_type(type(0), a->result);
  }

  Result<TensorType> contract() const {
    const auto* a = attribute<ContractAttr>();
    if (!a || (node_.operands.size() != 2 && node_.operands.size() != 3)) {
      return bad("takes two operands, and the order of a label or none");
    }
    if (a->a.size() != type(0).shape.size() || a->b.size() != type(1).shape.size()) {
      return bad("one label per operand axis");
    }
    DType wide = type(0).dtype == DType::kFloat64 || type(1).dtype == DType::kFloat64
                     ? DType::kFloat64
                     : DType::kFloat32;
    if (!is_float(type(0).dtype) || !is_float(type(1).dtype) || node_.dtype != wide) {
      return bad("takes floats, and gives f32 or f64");
    }
    for (const auto* labels : {&a->a, &a->b, &a->out}) {
      if (std::set<int>(labels->begin(), labels->end()).size() != labels->size()) {
        return bad("a label repeats within an operand");
      }
    }
    auto size_of = [&](int label) -> std::optional<Expr> {
      std::optional<Expr> size;
      for (size_t o = 0; o < 2; ++o) {
        const auto& labels = o == 0 ? a->a : a->b;
        for (size_t k = 0; k < labels.size(); ++k) {
          if (labels[k] != label) continue;
          if (size && *size != type(o).shape[k]) return std::nullopt;
          size = type(o).shape[k];
        }
      }
      return size;
    };
    for (const auto* labels : {&a->a, &a->b}) {
      for (int label : *labels) {
        if (!size_of(label)) return bad("a label has two sizes");
      }
    }
    TensorType result{wide, {}};
    for (int label : a->out) {
      auto size = size_of(label);
      if (!size) return bad("an output label occurs in no operand");
      result.shape.push_back(*size);
    }
    if (node_.operands.size() == 3 && !orders_shared_label(*a, result.shape)) {
      return bad("an order is i64 along the one label that both operands and the output have");
    }
    return result;
  }
  bool orders_shared_label(const ContractAttr& a, const Shape& out) const {
    Shape shared;
    for (size_t k = 0; k < a.out.size(); ++k) {
      if (contains(a.a, a.out[k]) && contains(a.b, a.out[k])) shared.push_back(out[k]);
    }
    return type(2).dtype == DType::kInt64 && shared.size() == 1 && type(2).shape == shared;
  }

  bool is_compute_float(DType d) const { return d == DType::kFloat32 || d == DType::kFloat64; }

  Result<TensorType> softmax() const {
    const auto* a = attribute<SoftmaxAttr>();
    if (!a || node_.operands.size() != 1 || !axis_ok(a->axis, 0)) return bad("no such axis");
    if (!is_compute_float(type(0).dtype)) return bad("takes f32 or f64");
    return TensorType{type(0).dtype, type(0).shape};
  }

  Result<TensorType> norm() const {
    const auto* a = attribute<NormAttr>();
    if (!a || node_.operands.size() != 1 || a->axes < 1 || at(a->axes) > type(0).shape.size()) {
      return bad("no such axes");
    }
    if (!is_compute_float(type(0).dtype)) return bad("takes f32 or f64");
    return TensorType{type(0).dtype, type(0).shape};
  }

  Result<TensorType> fourier() const {
    const auto* a = attribute<FourierAttr>();
    size_t operands = node_.operands.size();
    if (!a || operands < 1 || operands > 2) return bad("takes one operand or two");
    const Node& real = type(0);
    if (!is_compute_float(real.dtype)) return bad("takes f32 or f64");
    if (operands == 2 && (type(1).dtype != real.dtype || type(1).shape != real.shape)) {
      return bad("both parts are of one shape and dtype");
    }
    if (real.shape.empty() || !real.shape.back().is_constant()) {
      return bad("the last axis has a constant size");
    }
    int64_t points = real.shape.back().constant();
    if (points < 1 || points > kMaxFourierPoints || a->count < 1 || a->count > points) {
      return bad("points and frequencies are positive and bounded");
    }
    TensorType result{real.dtype, real.shape};
    result.shape.back() = a->count;
    return result;
  }

  const Graph& graph_;
  const Node& node_;
};

Status verify_signature(const Graph& graph) {
  for (const SymbolRange& s : graph.symbols) {
    if (s.min < 0 || s.min > s.max) return invalid_input("a symbol's range is empty or negative");
  }
  auto sizes_ok = [&](const Shape& shape) {
    bool ok = true;
    for (const Expr& size : shape) {
      size.visit_vars([&](Var v) {
        ok = ok && v.kind == Var::Kind::kSymbol && at(v.id) < graph.symbols.size();
      });
      ok = ok && !(size.is_constant() && size.constant() < 0);
    }
    return ok;
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (!sizes_ok(graph.inputs[i].shape)) return invalid_input(cat("input ", i, ": bad sizes"));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!sizes_ok(graph.nodes[i].shape)) return invalid_input(cat("node %", i, ": bad sizes"));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const GraphOutput& o = graph.outputs[i];
    if (o.node < 0 || at(o.node) >= graph.nodes.size() || graph.node(o.node).op == Op::kLoop) {
      return invalid_input(cat("output ", i, ": no such node"));
    }
    if (o.kind == OutputKind::kCheck) {
      const Node& value = graph.node(o.node);
      Status fits = verify_check(o, graph.inputs, graph.symbols.size(), value.dtype, value.shape);
      if (!fits.ok()) return invalid_input(cat("output ", i, ": ", fits.error().message));
    }
    if (o.kind != OutputKind::kMutate) continue;
    if (o.input < 0 || at(o.input) >= graph.inputs.size()) {
      return invalid_input(cat("output ", i, ": mutates no input"));
    }
    const GraphInput& target = graph.inputs[at(o.input)];
    if (target.kind == InputKind::kWeight || target.dtype != graph.node(o.node).dtype ||
        target.shape != graph.node(o.node).shape) {
      return invalid_input(cat("output ", i, ": does not fit the input it mutates"));
    }
  }
  return {};
}

Status verify_nested(const Graph& graph, int depth) {
  if (depth > 8) return invalid_input("loops are nested too deeply");
  LFARM_RETURN_IF_ERROR(verify_signature(graph));
  for (const GraphOutput& output : graph.outputs) {
    if (depth != 0 && output.kind == OutputKind::kCheck) {
      return invalid_input("a loop's body holds a check");
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (NodeId operand : node.operands) {
      if (operand < 0 || at(operand) >= i) {
        return invalid_input(cat("node %", i, ": operand %", operand, " does not come before it"));
      }
      if (graph.node(operand).op == Op::kLoop && node.op != Op::kLoopResult) {
        return invalid_input(cat("node %", i, ": reads a loop directly"));
      }
    }
    if (node.op == Op::kLoop) {
      const auto* a = std::get_if<LoopAttr>(&node.attr);
      if (!a || !a->body) return invalid_input(cat("node %", i, ": loop without a body"));
      LFARM_RETURN_IF_ERROR(verify_nested(*a->body, depth + 1));
    }
    auto type = infer_type(graph, node);
    if (!type.ok()) return invalid_input(cat("node %", i, ": ", type.error().message));
    if (type->dtype != node.dtype || type->shape != node.shape) {
      return invalid_input(cat("node %", i, ": ", op_name(node.op), " should be ",
                               dtype_name(type->dtype), shape_text(type->shape), " but says ",
                               dtype_name(node.dtype), shape_text(node.shape)));
    }
  }
  return {};
}

}  // namespace

Result<TensorType> infer_type(const Graph& graph, const Node& node) {
  return Inference(graph, node).run();
}

Status verify(const Graph& graph) { return verify_nested(graph, 0); }

Status verify_check(const GraphOutput& output, const std::vector<GraphInput>& inputs,
                    size_t symbols, DType dtype, const Shape& shape) {
  if (dtype != DType::kInt64 || !shape.empty()) {
    return invalid_input("the value of a check is no int64 scalar");
  }
  bool names_input = output.input >= 0 && at(output.input) < inputs.size() &&
                     inputs[at(output.input)].kind == InputKind::kUser;
  if (output.input != -1 && !names_input) return invalid_input("a check of no user input");
  bool in_scope = true;
  output.limit.visit_vars(
      [&](Var v) { in_scope = in_scope && v.kind == Var::Kind::kSymbol && at(v.id) < symbols; });
  bool is_negative = output.limit.is_constant() && output.limit.constant() < 0;
  if (!in_scope || is_negative) return invalid_input("the limit of a check is no size");
  return {};
}

}  // namespace common
