#include "common/runtime/whole_run.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/base/cat.h"
#include "common/runtime/interpreter/interpreter.h"

namespace common {
namespace {

constexpr size_t kDrawsMax = 3;

// Every element one unit in the last place up or down, in turn by a hash of its position.
void perturb(HostTensor& tensor, uint64_t seed) {
  bool wide = tensor.dtype() == DType::kFloat64;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    uint64_t hash = (static_cast<uint64_t>(i) ^ seed << 40) * 0x9E3779B97F4A7C15U;
    double to = hash >> 63 != 0 ? HUGE_VAL : -HUGE_VAL;
    double x = tensor.get(i);
    if (x == 0 || !std::isfinite(x)) continue;
    tensor.set(i, wide ? std::nextafter(x, to)
                       : std::nextafterf(static_cast<float>(x), static_cast<float>(to)));
  }
}

// Whether cases can share the weight. One whose shape has a symbol is drawn for each case.
bool has_constant_sizes(const GraphInput& input) {
  return std::all_of(input.shape.begin(), input.shape.end(),
                     [](const Expr& size) { return size.is_constant(); });
}

}  // namespace

Result<std::vector<HostTensor>> bind_inputs(Executor& executor, std::span<const HostTensor> inputs,
                                            bool kept, ResidentWeights* resident) {
  std::vector<HostTensor> user;
  for (size_t i = 0; i < inputs.size(); ++i) {
    int position = static_cast<int>(i);
    switch (executor.plan().inputs[i].kind) {
      case InputKind::kUser:
        user.push_back(inputs[i]);
        break;
      case InputKind::kWeight:
        if (kept) break;
        if (resident == nullptr || executor.device().uses_host_memory() ||
            !has_constant_sizes(executor.plan().inputs[i])) {
          LFARM_RETURN_IF_ERROR(executor.bind_weight(position, inputs[i]));
        } else {
          LFARM_ASSIGN_OR_RETURN(TensorRef weight, resident->find(executor.device(), inputs[i]));
          LFARM_RETURN_IF_ERROR(executor.bind_weight(position, weight));
        }
        break;
      case InputKind::kState:
        LFARM_RETURN_IF_ERROR(executor.set_state(position, inputs[i]));
        break;
    }
  }
  return user;
}

Result<std::vector<HostTensor>> outputs_in_order(Executor& executor, RunOutputs& run) {
  std::vector<HostTensor> outputs;
  size_t user = 0, mutated = 0, checks = 0;
  for (const GraphOutput& output : executor.plan().outputs) {
    if (output.kind == OutputKind::kUser) {
      outputs.push_back(run.user[user++]);
    } else if (output.kind == OutputKind::kCheck) {
      LFARM_ASSIGN_OR_RETURN(HostTensor value, HostTensor::uninitialized(DType::kInt64, {}));
      std::memcpy(value.mutable_bytes().data(), &run.checks[checks++], sizeof(int64_t));
      outputs.push_back(std::move(value));
    } else if (executor.plan().inputs[static_cast<size_t>(output.input)].kind ==
               InputKind::kState) {
      LFARM_ASSIGN_OR_RETURN(HostTensor state, executor.state(output.input));
      outputs.push_back(std::move(state));
    } else {
      outputs.push_back(run.mutated[mutated++].value);
    }
  }
  return outputs;
}

namespace {

Result<std::vector<HostTensor>> interpreted(const Graph& graph, std::span<const HostTensor> inputs,
                                            Precision precision, uint64_t rounding = 0) {
  InterpretOptions options;
  options.precision = precision;
  options.rounding = rounding;
  auto computed = interpret(graph, inputs, options);
  if (computed.ok()) return computed;
  return internal_error(cat("cannot compute the reference: ", computed.error().message));
}

}  // namespace

Result<std::vector<HostTensor>> outputs_for_perturbed(const Graph& graph,
                                                      std::span<const HostTensor> inputs,
                                                      uint64_t seed) {
  std::vector<HostTensor> perturbed;
  for (const HostTensor& input : inputs) {
    LFARM_ASSIGN_OR_RETURN(HostTensor copy, input.clone());
    bool real = copy.dtype() == DType::kFloat32 || copy.dtype() == DType::kFloat64;
    if (real) perturb(copy, seed);
    perturbed.push_back(std::move(copy));
  }
  return interpreted(graph, perturbed, Precision::kPlain, seed + 1);
}

namespace {

// The float64 oracle of an output of type `dtype` as it is kept. Half types are judged in steps of
// which float32 has 2^13 and more for each, in half the memory. float64 stays where float32
// overflows.
Result<HostTensor> kept_oracle(const HostTensor& oracle, DType dtype) {
  const bool is_half = dtype == DType::kBfloat16 || dtype == DType::kFloat16;
  if (!is_half || oracle.dtype() != DType::kFloat64) return oracle;
  LFARM_ASSIGN_OR_RETURN(HostTensor kept,
                         HostTensor::uninitialized(DType::kFloat32, oracle.sizes()));
  const auto* from = reinterpret_cast<const double*>(oracle.data());
  auto* to = reinterpret_cast<float*>(kept.mutable_bytes().data());
  for (int64_t i = 0; i < oracle.elements(); ++i) {
    to[i] = static_cast<float>(from[i]);
    if (std::isfinite(from[i]) && !std::isfinite(to[i])) return oracle;
  }
  return kept;
}

}  // namespace

Result<ReferenceOutputs> reference_outputs(const Graph& graph, std::span<const HostTensor> inputs) {
  ReferenceOutputs reference;
  LFARM_ASSIGN_OR_RETURN(reference.oracle, interpreted(graph, inputs, Precision::kWide));
  for (size_t i = 0; i < reference.oracle.size(); ++i) {
    LFARM_ASSIGN_OR_RETURN(
        reference.oracle[i],
        kept_oracle(reference.oracle[i], graph.node(graph.outputs[i].node).dtype));
  }
  LFARM_ASSIGN_OR_RETURN(reference.plain, interpreted(graph, inputs, Precision::kPlain));
  for (size_t i = 0; i < reference.plain.size(); ++i) {
    reference.errors.push_back(reference_error(reference.oracle[i], reference.plain[i]));
  }
  return reference;
}

Result<OutputError> judge_outputs(const Graph& graph, std::span<const HostTensor> inputs,
                                  std::span<const HostTensor> outputs, bool is_usual,
                                  ReferenceOutputs& reference) {
  auto judged = verify_outputs(outputs, reference.oracle, reference.plain, reference.errors);
  if (judged.ok() || judged.error().code != Code::kVerification) return judged;
  auto again = [&](size_t draws) {
    return verify_again(outputs, reference.oracle, reference.plain,
                        std::span(reference.draws).first(draws), is_usual);
  };
  for (size_t draws = 1; draws <= kDrawsMax; ++draws) {
    if (reference.draws.size() < draws) {
      LFARM_ASSIGN_OR_RETURN(reference.draws.emplace_back(),
                             outputs_for_perturbed(graph, inputs, draws - 1));
    }
    auto error = again(draws);
    if (error.ok()) return error;
  }
  return judged;
}

Status plan_fits(const Plan& plan, const Graph& graph) {
  bool fits = plan.symbols == graph.symbols && plan.inputs.size() == graph.inputs.size() &&
              plan.outputs.size() == graph.outputs.size();
  for (size_t i = 0; fits && i < graph.inputs.size(); ++i) {
    const GraphInput &a = plan.inputs[i], &b = graph.inputs[i];
    fits = a.kind == b.kind && a.dtype == b.dtype && a.shape == b.shape;
  }
  for (size_t o = 0; fits && o < graph.outputs.size(); ++o) {
    fits = plan.outputs[o].kind == graph.outputs[o].kind &&
           plan.outputs[o].input == graph.outputs[o].input;
  }
  if (fits) return {};
  return invalid_input("the program does not have its graph's inputs and outputs");
}

}  // namespace common
