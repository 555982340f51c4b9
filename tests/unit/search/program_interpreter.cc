#include "program_interpreter.h"

#include <cmath>
#include <limits>

#include "common/base/random.h"

namespace common::testing {

Result<std::vector<HostTensor>> interpret_program(const Program& program,
                                                  const std::vector<HostTensor>& inputs,
                                                  const std::vector<int64_t>& symbols,
                                                  Precision precision) {
  std::vector<HostTensor> buffers(program.buffers.size());
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (program.buffers[b].kind == BufferKind::kInput) {
      buffers[b] = inputs[static_cast<size_t>(program.buffers[b].position)];
    }
  }
  for (const Call& call : program.calls) {
    std::vector<HostTensor> arguments;
    for (int id : call.inputs) arguments.push_back(buffers[static_cast<size_t>(id)]);
    const Kernel& kernel = program.kernels[static_cast<size_t>(call.kernel)];
    // A kernel is told its symbols; the interpreter reads them off inputs, so give it some.
    Graph body = kernel.body;
    for (size_t k = 0; k < arguments.size(); ++k) body.inputs[k].dtype = arguments[k].dtype();
    for (size_t s = 0; s < body.symbols.size(); ++s) {
      body.inputs.push_back(
          {InputKind::kUser, DType::kBool, {Expr::symbol(static_cast<int>(s))}, ""});
      LFARM_ASSIGN_OR_RETURN(HostTensor witness,
                             HostTensor::zeros(DType::kBool, {call.symbols[s].evaluate(symbols)}));
      arguments.push_back(std::move(witness));
    }
    LFARM_ASSIGN_OR_RETURN(std::vector<HostTensor> results,
                           interpret(body, arguments, {precision}));
    for (size_t k = 0; k < call.outputs.size(); ++k) {
      buffers[static_cast<size_t>(call.outputs[k])] = std::move(results[k]);
    }
  }
  std::vector<HostTensor> outputs(program.outputs.size());
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (program.buffers[b].kind == BufferKind::kOutput) {
      outputs[static_cast<size_t>(program.buffers[b].position)] = buffers[b];
    }
  }
  return outputs;
}

std::vector<HostTensor> sample_inputs(const Graph& graph, const std::vector<int64_t>& symbols,
                                      uint64_t seed) {
  Random random(seed);
  std::vector<HostTensor> inputs;
  for (const GraphInput& input : graph.inputs) {
    auto tensor = HostTensor::zeros(input.dtype, evaluate_shape(input.shape, symbols));
    LFARM_CHECK(tensor.ok(), tensor.ok() ? "" : tensor.error().message);
    for (int64_t i = 0; i < tensor->elements(); ++i) {
      if (is_float(input.dtype)) {
        tensor->set(i, (random.unit() - 0.5) * 2);
      } else {
        tensor->set_int(i, static_cast<int64_t>(random.below(input.dtype == DType::kBool ? 2 : 4)));
      }
    }
    inputs.push_back(*std::move(tensor));
  }
  return inputs;
}

double largest_difference(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return kInfinity;
  double worst = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].dtype() != b[k].dtype() || a[k].sizes() != b[k].sizes()) return kInfinity;
    for (int64_t i = 0; i < a[k].elements(); ++i) {
      double x = a[k].get(i);
      double y = b[k].get(i);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (!std::isfinite(x) || !std::isfinite(y)) return kInfinity;
      worst = std::max(worst, std::abs(x - y) / (1 + std::abs(y)));
    }
  }
  return worst;
}

}  // namespace common::testing
