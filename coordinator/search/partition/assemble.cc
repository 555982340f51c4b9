#include "coordinator/search/partition/assemble.h"

#include <map>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"

namespace coordinator {
namespace {

using common::at;
using common::Buffer;
using common::BufferKind;
using common::Graph;
using common::Node;
using common::NodeId;
using common::Op;
using common::Program;

class Assembler {
 public:
  Assembler(const Cut& cut, const std::vector<const Program*>& programs)
      : cut_(cut), programs_(programs) {}

  Program run() {
    const Graph& graph = cut_.whole.graph;
    program_.symbols = graph.symbols;
    program_.inputs = graph.inputs;
    for (auto& input : program_.inputs) input.name.clear();
    Values values;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (node.op != Op::kInput) continue;
      values[static_cast<NodeId>(i)] =
          add_buffer(BufferKind::kInput, common::attr<common::InputAttr>(node).position, node.dtype,
                     node.shape);
    }
    // The first output that a value is goes straight to its place.
    Values wanted;
    for (size_t k = 0; k < graph.outputs.size(); ++k) {
      common::GraphOutput output = graph.outputs[k];
      const Node& node = graph.node(output.node);
      int position = static_cast<int>(k);
      output_buffers_.push_back(add_buffer(BufferKind::kOutput, position, node.dtype, node.shape));
      wanted.emplace(output.node, output_buffers_.back());
      output.node = -1;
      program_.outputs.push_back(output);
    }
    emit(cut_.whole, values, wanted);
    for (size_t k = 0; k < graph.outputs.size(); ++k) {
      int written = same(values.at(graph.outputs[k].node));
      if (written != output_buffers_[k]) copy(written, output_buffers_[k]);
    }
    return std::move(program_);
  }

 private:
  using Values = std::map<NodeId, int>;  // value -> buffer

  int add_buffer(BufferKind kind, int position, common::DType dtype, const common::Shape& shape) {
    program_.buffers.push_back({kind, position, dtype, shape});
    return static_cast<int>(program_.buffers.size()) - 1;
  }

  // The buffer that a value about to be written goes to.
  int place(const Graph& graph, NodeId id, const Values& wanted) {
    if (auto it = wanted.find(id); it != wanted.end()) return it->second;
    const Node& node = graph.node(id);
    return add_buffer(BufferKind::kTemporary, 0, node.dtype, node.shape);
  }

  void emit(const CutGraph& scope, Values& values, const Values& wanted) {
    for (const auto& step : scope.steps) {
      if (const auto* segment = std::get_if<SegmentStep>(&step)) {
        emit_segment(scope.graph, *segment, values, wanted);
      } else {
        emit_loop(scope.graph, std::get<LoopStep>(step), values, wanted);
      }
    }
  }

  void emit_segment(const Graph& graph, const SegmentStep& step, Values& values,
                    const Values& wanted) {
    const Program& part = *programs_[at(step.region)];
    std::vector<int> outputs;
    for (NodeId id : step.outputs) {
      outputs.push_back(place(graph, id, wanted));
      values[id] = outputs.back();
    }
    std::vector<int> buffers;
    for (const Buffer& buffer : part.buffers) {
      switch (buffer.kind) {
        case BufferKind::kInput:
          buffers.push_back(values.at(step.inputs[at(buffer.position)]));
          break;
        case BufferKind::kOutput:
          buffers.push_back(outputs[at(buffer.position)]);
          break;
        case BufferKind::kTemporary:
          buffers.push_back(add_buffer(BufferKind::kTemporary, 0, buffer.dtype, buffer.shape));
          break;
      }
    }
    std::vector<int> kernels;
    for (const common::Kernel& kernel : part.kernels) kernels.push_back(intern(kernel));
    for (common::Call call : part.calls) {
      call.kernel = kernels[at(call.kernel)];
      for (int& id : call.inputs) id = same(buffers[at(id)]);
      for (int& id : call.outputs) id = buffers[at(id)];
      if (!is_repeated(call)) program_.calls.push_back(std::move(call));
    }
  }

  // The buffer that holds the same value, written by an earlier call.
  int same(int buffer) const {
    auto it = same_.find(buffer);
    return it == same_.end() ? buffer : it->second;
  }

  // Iterations compute again what they have in common; once is enough.
  bool is_repeated(const common::Call& call) {
    for (int id : call.outputs) {
      if (program_.buffers[at(id)].kind != BufferKind::kTemporary) return false;
    }
    std::string key = common::cat(call.kernel, ":", common::shape_text(call.symbols));
    for (int id : call.inputs) key += common::cat(" ", id);
    auto [it, is_new] = calls_.emplace(std::move(key), call.outputs);
    if (is_new) return false;
    for (size_t k = 0; k < call.outputs.size(); ++k) same_[call.outputs[k]] = it->second[k];
    return true;
  }

  void emit_loop(const Graph& graph, const LoopStep& step, Values& values, const Values& wanted) {
    const Node& node = graph.node(step.loop);
    const auto& loop = common::attr<common::LoopAttr>(node);
    const Graph& body = step.body->graph;
    std::map<int64_t, NodeId> result_nodes;  // result number -> its kLoopResult
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& n = graph.nodes[i];
      if (n.op == Op::kLoopResult && n.operands[0] == step.loop) {
        result_nodes[common::attr<common::LoopResultAttr>(n).result] = static_cast<NodeId>(i);
      }
    }
    int fixed = loop.carried + loop.invariant;
    std::vector<int> inputs(at(fixed + loop.per_iteration));
    for (int k = 0; k < fixed; ++k) inputs[at(k)] = values.at(node.operands[at(k)]);
    for (int64_t t = 0; t < loop.trip_count; ++t) {
      for (int p = 0; p < loop.per_iteration; ++p) {
        auto operand = static_cast<size_t>(fixed + p * loop.trip_count + t);
        inputs[at(fixed + p)] = values.at(node.operands[operand]);
      }
      run_iteration(body, *step.body, loop, t, inputs, result_nodes, values, wanted);
    }
  }

  void run_iteration(const Graph& body, const CutGraph& cut, const common::LoopAttr& loop,
                     int64_t t, std::vector<int>& inputs,
                     const std::map<int64_t, NodeId>& result_nodes, Values& values,
                     const Values& wanted) {
    Values inner;
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      if (body.nodes[i].op != Op::kInput) continue;
      inner[static_cast<NodeId>(i)] =
          inputs[at(common::attr<common::InputAttr>(body.nodes[i]).position)];
    }
    // Result numbers that this iteration's outputs are, if any: carried values only at the end.
    auto result_of = [&](int output) -> int64_t {
      if (output >= loop.carried) {
        return loop.carried + (output - loop.carried) * loop.trip_count + t;
      }
      return t + 1 == loop.trip_count ? output : -1;
    };
    Values inner_wanted;
    for (int k = 0; k < loop.carried + loop.outputs; ++k) {
      auto name = result_nodes.find(result_of(k));
      if (name == result_nodes.end()) continue;
      if (auto it = wanted.find(name->second); it != wanted.end()) {
        inner_wanted.emplace(body.outputs[at(k)].node, it->second);
      }
    }
    emit(cut, inner, inner_wanted);
    for (int k = 0; k < loop.carried + loop.outputs; ++k) {
      int buffer = inner.at(body.outputs[at(k)].node);
      if (k < loop.carried) inputs[at(k)] = buffer;
      auto name = result_nodes.find(result_of(k));
      if (name != result_nodes.end()) values[name->second] = buffer;
    }
  }

  void copy(int from, int to) {
    const Buffer& buffer = program_.buffers[at(from)];
    common::GraphBuilder builder(program_.symbols);
    builder.output(builder.input(common::InputKind::kUser, buffer.dtype, buffer.shape, ""));
    common::Canonical body = common::canonical_without_unused_symbols(builder.finish());
    common::Call call;
    for (int symbol : body.symbols) call.symbols.push_back(common::Expr::symbol(symbol));
    call.kernel = intern({common::Template::kLoops, {}, std::move(body.graph)});
    call.inputs = {from};
    call.outputs = {to};
    program_.calls.push_back(std::move(call));
  }

  int intern(const common::Kernel& kernel) {
    auto [it, is_new] = known_.emplace(common::kernel_fingerprint(kernel),
                                       static_cast<int>(program_.kernels.size()));
    if (is_new) program_.kernels.push_back(kernel);
    return it->second;
  }

  const Cut& cut_;
  const std::vector<const Program*>& programs_;
  Program program_;
  std::vector<int> output_buffers_;
  std::map<common::Digest, int> known_;
  std::map<std::string, std::vector<int>> calls_;  // what was computed, and where it is
  std::map<int, int> same_;
};

}  // namespace

Program assemble(const Cut& cut, const std::vector<const Program*>& programs) {
  return Assembler(cut, programs).run();
}

}  // namespace coordinator
