#include "common/runtime/interpreter/interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/cat.h"
#include "common/base/hash64.h"
#include "common/runtime/interpreter/interpreter_math.h"
#include "common/runtime/interpreter/interpreter_ops.h"

namespace common {
namespace interp {
namespace {

size_t at(int64_t id) { return static_cast<size_t>(id); }

// A sum whose operand is a product that nothing else reads: the product is never computed.
struct ProductSum {
  NodeId product = -1;
  std::vector<NodeId> views;  // between product and sum, outermost first
};

// Whether machines may round the node's results in more than one way: sums in any order, functions
// by any approximation.
bool is_rounded_freely(const Node& node) {
  switch (node.op) {
    case Op::kUnary: {
      UnaryOp op = attr<UnaryAttr>(node).op;
      bool is_exact = op <= UnaryOp::kNot || op == UnaryOp::kFloor || op == UnaryOp::kCeil ||
                      op == UnaryOp::kTrunc || op == UnaryOp::kRound;
      return !is_exact;
    }
    case Op::kBinary: {
      BinaryOp op = attr<BinaryAttr>(node).op;
      return op == BinaryOp::kDiv || op == BinaryOp::kPow || op == BinaryOp::kAtan2 ||
             op == BinaryOp::kHypot;
    }
    case Op::kReduce: {
      ReduceOp op = attr<ReduceAttr>(node).op;
      return op == ReduceOp::kSum || op == ReduceOp::kProd;
    }
    case Op::kScan: {
      ScanOp op = attr<ScanAttr>(node).op;
      return op != ScanOp::kMax && op != ScanOp::kMin;
    }
    case Op::kScatter:
      return attr<ScatterAttr>(node).mode == ScatterMode::kAdd;
    case Op::kContract:
    case Op::kSoftmax:
    case Op::kNorm:
    case Op::kFourier:
      return true;
    default:
      return false;
  }
}

// Elements of float32 and float64 a unit in the last place up or down, or as they are.
Status round_otherwise(uint64_t seed, Value& value) {
  if (value.dtype() != DType::kFloat32 && value.dtype() != DType::kFloat64) return {};
  LFARM_ASSIGN_OR_RETURN(value.storage, value.storage.clone());
  dispatch_float(value.dtype(), [&](auto unit) {
    using T = decltype(unit);
    T* x = reinterpret_cast<T*>(value.storage.mutable_bytes().data());
    for (int64_t i = 0; i < value.storage.elements(); ++i) {
      if (x[i] == 0 || !std::isfinite(x[i])) continue;
      const uint64_t hash = combine64(seed, static_cast<uint64_t>(i));
      if (hash % 3 == 0) continue;
      x[i] = std::nextafter(x[i], hash % 3 == 1 ? std::numeric_limits<T>::infinity()
                                                : -std::numeric_limits<T>::infinity());
    }
  });
  return {};
}

// Runs one graph, any number of times; what depends on the graph alone is worked out once.
class Runner {
 public:
  Runner(const Context& context, const Graph& graph) : context_(context), graph_(graph) {
    uses_ = use_counts(graph);
    fused_.resize(graph.nodes.size());
    skipped_.assign(graph.nodes.size(), 0);
    for (size_t i = 0; i < graph.nodes.size(); ++i) find_product_sum(i);
    find_stored_casts();
  }

  // One value per graph input to one value per graph output.
  Result<std::vector<Value>> run(std::span<const Value> inputs) {
    inputs_ = inputs;
    values_.assign(graph_.nodes.size(), {});
    loops_.assign(graph_.nodes.size(), {});
    left_ = uses_;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (skipped_[i] || uses_[i] == 0) continue;
      auto value = evaluate(i);
      if (!value.ok()) {
        Error error = value.error();
        error.message = cat("node %", i, " (", op_name(graph_.nodes[i].op), "): ", error.message);
        return error;
      }
      values_[i] = std::move(*value);
      if (context_.rounding != 0 && is_rounded_freely(graph_.nodes[i])) {
        LFARM_RETURN_IF_ERROR(round_otherwise(context_.rounding + i, values_[i]));
      }
      release_operands(i);
    }
    std::vector<Value> outputs;
    for (const GraphOutput& output : graph_.outputs) outputs.push_back(values_[at(output.node)]);
    values_.clear();
    return outputs;
  }

 private:
  using Attempt = Result<Value>;

  void find_product_sum(size_t i) {
    const Node& node = graph_.nodes[i];
    if (node.op != Op::kReduce || attr<ReduceAttr>(node).op != ReduceOp::kSum) return;
    if (!is_float(node.dtype)) return;
    ProductSum found;
    NodeId id = node.operands[0];
    for (;;) {
      if (uses_[at(id)] != 1) return;
      const Node& inner = graph_.node(id);
      if (inner.op == Op::kBinary && attr<BinaryAttr>(inner).op == BinaryOp::kMul) break;
      // A filled element is no product.
      if (inner.op != Op::kView || !attr<ViewAttr>(inner).view.valid.empty()) return;
      found.views.push_back(id);
      id = inner.operands[0];
    }
    found.product = id;
    skipped_[at(id)] = 1;
    for (NodeId view : found.views) skipped_[at(view)] = 1;
    fused_[i] = std::move(found);
  }

  // Casts from a half type to float32, as of weights, that only products read: they read the
  // halves.
  void find_stored_casts() {
    const size_t count = graph_.nodes.size();
    std::vector<char> read_stored(count, 1);  // by all that reads the node
    for (const GraphOutput& output : graph_.outputs) read_stored[at(output.node)] = 0;
    stays_stored_.assign(count, 0);
    for (size_t i = count; i-- > 0;) {
      const Node& node = graph_.nodes[i];
      const bool is_plain_view =
          node.op == Op::kView && attr<ViewAttr>(node).view.valid.empty() && !skipped_[i];
      const bool reads_stored =
          is_plain_view ? read_stored[i] != 0
                        : node.op == Op::kContract || (node.op == Op::kBinary && skipped_[i] != 0);
      for (NodeId id : node.operands) read_stored[at(id)] &= reads_stored ? 1 : 0;
      if (node.op != Op::kCast || node.dtype != DType::kFloat32 || read_stored[i] == 0) continue;
      DType from = graph_.node(node.operands[0]).dtype;
      stays_stored_[i] = from == DType::kFloat16 || from == DType::kBfloat16;
    }
  }

  const Value& operand(size_t i, size_t k) const {
    return values_[at(graph_.nodes[i].operands[k])];
  }
  void release(NodeId id) {
    if (--left_[at(id)] > 0) return;
    values_[at(id)] = {};
    loops_[at(id)] = {};
  }
  // The last reader of a value frees it; a skipped product is read by its sum.
  void release_operands(size_t i) {
    if (fused_[i].product >= 0) i = at(fused_[i].product);
    for (NodeId id : graph_.nodes[i].operands) release(id);
  }

  // Whether a node takes floats in any dtype that holds them exactly.
  bool takes_stored(size_t i) const {
    const Node& node = graph_.nodes[i];
    switch (node.op) {
      case Op::kView:
        return attr<ViewAttr>(node).view.valid.empty();  // else it adds values of its own
      case Op::kReduce:
        return fused_[i].product >= 0;
      case Op::kCast:
      case Op::kGather:
      case Op::kSort:
      case Op::kLoop:
      case Op::kLoopResult:
      case Op::kContract:
        return true;
      default:
        return false;
    }
  }
  // Weights stay as they are stored until something computes on them; products read them directly.
  Status widen_operands(size_t i) {
    if (!context_.wide || takes_stored(i)) return {};
    for (NodeId id : graph_.nodes[i].operands) {
      Value& value = values_[at(id)];
      LFARM_ASSIGN_OR_RETURN(value, eval_cast(context_, value, context_.carried(value.dtype())));
    }
    return {};
  }

  Attempt evaluate(size_t i) {
    const Node& node = graph_.nodes[i];
    LFARM_RETURN_IF_ERROR(widen_operands(i));
    switch (node.op) {
      case Op::kInput:
        return inputs_[at(attr<InputAttr>(node).position)];
      case Op::kConstant:
        return constant(node);
      case Op::kIota:
        return iota(node);
      case Op::kView:
        return apply_view(context_, operand(i, 0), attr<ViewAttr>(node).view);
      case Op::kCast:
        if (context_.wide && is_float(node.dtype) && is_float(operand(i, 0).dtype())) {
          return operand(i, 0);
        }
        if (stays_stored_[i] != 0) return operand(i, 0);
        return eval_cast(context_, operand(i, 0), context_.carried(node.dtype));
      case Op::kUnary:
        return eval_unary(context_, attr<UnaryAttr>(node).op, operand(i, 0));
      case Op::kBinary:
        return eval_binary(context_, attr<BinaryAttr>(node).op, operand(i, 0), operand(i, 1));
      case Op::kSelect:
        return eval_select(context_, operand(i, 0), operand(i, 1), operand(i, 2));
      case Op::kPhilox: {
        DType to = is_float(node.dtype) ? context_.carried(node.dtype) : node.dtype;
        return eval_philox(context_, to,
                           {&operand(i, 0), &operand(i, 1), &operand(i, 2), &operand(i, 3)});
      }
      case Op::kReduce:
        if (fused_[i].product >= 0) return product_sum(i);
        return eval_reduce(context_, attr<ReduceAttr>(node), operand(i, 0));
      case Op::kScan:
        return eval_scan(context_, attr<ScanAttr>(node), operand(i, 0));
      case Op::kGather:
        return eval_gather(context_, attr<GatherAttr>(node),
                           evaluate_shape(node.shape, context_.symbols), operands(node));
      case Op::kScatter:
        return eval_scatter(context_, attr<ScatterAttr>(node), operands(node));
      case Op::kSort:
        return eval_sort(context_, attr<SortAttr>(node), operand(i, 0));
      case Op::kLoop:
        return loop(i);
      case Op::kLoopResult:
        return loops_[at(node.operands[0])][at(attr<LoopResultAttr>(node).result)];
      case Op::kContract:
        return eval_contract(context_, attr<ContractAttr>(node), operand(i, 0), operand(i, 1),
                             context_.carried(node.dtype));
      case Op::kSoftmax:
        return eval_softmax(context_, attr<SoftmaxAttr>(node), operand(i, 0));
      case Op::kNorm:
        return eval_norm(context_, attr<NormAttr>(node), operand(i, 0));
      case Op::kFourier:
        return eval_fourier(context_, attr<FourierAttr>(node), operands(node));
    }
    return invalid_input("unknown operation");
  }

  std::vector<Value> operands(const Node& node) const {
    std::vector<Value> values;
    for (NodeId id : node.operands) values.push_back(values_[at(id)]);
    return values;
  }

  Attempt constant(const Node& node) const {
    LFARM_ASSIGN_OR_RETURN(
        HostTensor tensor,
        HostTensor::copy_of(node.dtype, evaluate_shape(node.shape, context_.symbols),
                            *attr<ConstantAttr>(node).data));
    return whole(std::move(tensor));
  }

  Attempt iota(const Node& node) const {
    LFARM_ASSIGN_OR_RETURN(Value value, allocate(context_, context_.carried(node.dtype),
                                                 evaluate_shape(node.shape, context_.symbols)));
    dispatch_number(value.dtype(), [&](auto unit) {
      using T = decltype(unit);
      T* to = value.mutable_data<T>();
      for (int64_t k = 0; k < value.sizes[0]; ++k) to[k] = static_cast<T>(k);
    });
    return value;
  }

  Attempt product_sum(size_t i) {
    const ProductSum& fused = fused_[i];
    const Node& node = graph_.nodes[i];
    Value a = operand(at(fused.product), 0);
    Value b = operand(at(fused.product), 1);
    for (size_t v = fused.views.size(); v-- > 0;) {
      const View& view = attr<ViewAttr>(graph_.node(fused.views[v])).view;
      LFARM_ASSIGN_OR_RETURN(a, apply_view(context_, a, view));
      LFARM_ASSIGN_OR_RETURN(b, apply_view(context_, b, view));
    }
    return eval_product_sum(context_, a, b, attr<ReduceAttr>(node).axes,
                            context_.carried(node.dtype));
  }

  Attempt loop(size_t i) {
    const Node& node = graph_.nodes[i];
    const auto& l = attr<LoopAttr>(node);
    Runner body(context_, *l.body);
    std::vector<Value> given = operands(node);
    std::vector<Value> in(given.begin(), given.begin() + l.carried + l.invariant);
    size_t fixed = in.size();
    in.resize(fixed + at(l.per_iteration));
    auto trips = at(l.trip_count);
    std::vector<Value> results(at(l.carried) + at(l.outputs) * trips);
    for (size_t t = 0; t < trips; ++t) {
      for (size_t p = 0; p < at(l.per_iteration); ++p) in[fixed + p] = given[fixed + p * trips + t];
      LFARM_ASSIGN_OR_RETURN(std::vector<Value> out, body.run(in));
      for (size_t c = 0; c < at(l.carried); ++c) in[c] = std::move(out[c]);
      for (size_t q = 0; q < at(l.outputs); ++q) {
        results[at(l.carried) + q * trips + t] = std::move(out[at(l.carried) + q]);
      }
    }
    std::move(in.begin(), in.begin() + l.carried, results.begin());
    loops_[i] = std::move(results);
    return Value{};
  }

  const Context& context_;
  const Graph& graph_;
  std::vector<int> uses_;
  std::vector<ProductSum> fused_;  // by the sum's node
  std::vector<char> skipped_;
  std::vector<char> stays_stored_;  // see find_stored_casts()
  std::span<const Value> inputs_;
  std::vector<Value> values_;
  std::vector<std::vector<Value>> loops_;  // results of loop nodes
  std::vector<int> left_;                  // readers still to come
};

// Memory that is not aligned for its elements is copied.
Result<Value> aligned(const HostTensor& tensor) {
  auto address = reinterpret_cast<uintptr_t>(tensor.data());
  if (address % at(dtype_size(tensor.dtype())) == 0) return whole(tensor);
  LFARM_ASSIGN_OR_RETURN(HostTensor copy, tensor.clone());
  return whole(std::move(copy));
}

// Outputs as row-major tensors that share memory neither with an input nor with one another.
Result<std::vector<HostTensor>> finish(const Context& context, std::span<const HostTensor> inputs,
                                       std::span<const Value> results) {
  std::vector<HostTensor> outputs;
  auto same_memory = [](const HostTensor& tensor) {
    return [&tensor](const HostTensor& other) { return other.data() == tensor.data(); };
  };
  for (const Value& result : results) {
    LFARM_ASSIGN_OR_RETURN(Value value,
                           eval_cast(context, result, context.carried(result.dtype())));
    LFARM_ASSIGN_OR_RETURN(value, contiguous(context, value));
    LFARM_ASSIGN_OR_RETURN(HostTensor tensor, value.storage.reshaped(value.sizes));
    if (std::any_of(inputs.begin(), inputs.end(), same_memory(tensor)) ||
        std::any_of(outputs.begin(), outputs.end(), same_memory(tensor))) {
      LFARM_ASSIGN_OR_RETURN(tensor, tensor.clone());
    }
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

}  // namespace
}  // namespace interp

Result<std::vector<HostTensor>> interpret(const Graph& graph, std::span<const HostTensor> inputs,
                                          const InterpretOptions& options) {
  std::vector<std::vector<int64_t>> sizes;
  for (const HostTensor& input : inputs) sizes.push_back(input.sizes());
  LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> symbols, bind_symbols(graph, sizes));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != graph.inputs[i].dtype) {
      return invalid_input(cat("input ", i, " '", graph.inputs[i].name, "' is ",
                               inputs[i].type_text(), " but the model takes ",
                               dtype_name(graph.inputs[i].dtype)));
    }
  }
  interp::Context context{symbols, options.precision == Precision::kWide,
                          options.precision == Precision::kPlain, options.max_tensor_bytes,
                          options.rounding};
  std::vector<interp::Value> values;
  for (const HostTensor& input : inputs) {
    LFARM_ASSIGN_OR_RETURN(interp::Value value, interp::aligned(input));
    values.push_back(std::move(value));
  }
  interp::Runner runner(context, graph);
  LFARM_ASSIGN_OR_RETURN(std::vector<interp::Value> results, runner.run(values));
  return interp::finish(context, inputs, results);
}

}  // namespace common
