#include "tests/bench/gpu_verify/kernel_programs.h"

#include <algorithm>

namespace bench {
namespace {

using common::Buffer;
using common::BufferKind;

size_t at(int index) { return static_cast<size_t>(index); }

// What the kernel's first call reads: weights, or else what users give.
std::vector<common::InputKind> input_kinds(const common::Program& program, int kernel) {
  auto call = std::ranges::find(program.calls, kernel, &common::Call::kernel);
  std::vector<common::InputKind> kinds;
  for (size_t k = 0; call != program.calls.end() && k < call->inputs.size(); ++k) {
    const Buffer& buffer = program.buffers[at(call->inputs[k])];
    bool is_weight = buffer.kind == BufferKind::kInput &&
                     program.inputs[at(buffer.position)].kind == common::InputKind::kWeight;
    kinds.push_back(is_weight ? common::InputKind::kWeight : common::InputKind::kUser);
  }
  return kinds;
}

common::Program one_call(const common::Graph& graph, const common::Kernel& kernel) {
  common::Program program;
  program.symbols = graph.symbols;
  program.inputs = graph.inputs;
  program.kernels = {kernel};
  common::Call call;
  for (size_t k = 0; k < graph.inputs.size(); ++k) {
    const common::GraphInput& input = graph.inputs[k];
    call.inputs.push_back(static_cast<int>(program.buffers.size()));
    program.buffers.push_back({BufferKind::kInput, static_cast<int>(k), input.dtype, input.shape});
  }
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    const common::Node& node = graph.node(graph.outputs[k].node);
    program.outputs.push_back(graph.outputs[k]);
    program.outputs.back().node = -1;
    call.outputs.push_back(static_cast<int>(program.buffers.size()));
    program.buffers.push_back({BufferKind::kOutput, static_cast<int>(k), node.dtype, node.shape});
  }
  for (size_t k = 0; k < graph.symbols.size(); ++k) {
    call.symbols.push_back(common::Expr::symbol(static_cast<int>(k)));
  }
  program.calls = {std::move(call)};
  return program;
}

}  // namespace

std::vector<KernelProgram> kernel_programs(const common::Program& program) {
  std::vector<KernelProgram> made;
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const common::Kernel& kernel = program.kernels[k];
    common::Graph graph = kernel.body;
    std::vector<common::InputKind> kinds = input_kinds(program, static_cast<int>(k));
    for (size_t i = 0; i < kinds.size(); ++i) graph.inputs[i].kind = kinds[i];
    common::Program alone = one_call(graph, kernel);
    made.push_back({std::move(graph), std::move(alone)});
  }
  return made;
}

}  // namespace bench
