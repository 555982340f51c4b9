#include "clients/runtime/model/instance.h"

#include <algorithm>
#include <cstring>

#include "clients/runtime/model/binding.h"
#include "clients/runtime/model/index_error.h"
#include "clients/runtime/model/plan_instance.h"
#include "clients/runtime/model/weights.h"
#include "common/base/cat.h"
#include "common/ir/expr/index.h"
#include "common/process/processors.h"
#include "common/runtime/interpreter/interpreter.h"

namespace clients {
namespace {

using common::at;
using common::cat;
using common::Graph;
using common::GraphInput;
using common::HostTensor;
using common::OutputKind;
using common::Result;
using common::Status;
using common::TensorRef;

class ReferenceInstance final : public Instance {
 public:
  ReferenceInstance(std::shared_ptr<const Model> model, std::shared_ptr<Weights> weights)
      : model_(std::move(model)), weights_(std::move(weights)), binding_(*model_) {}

  Result<CallResult> call(std::span<const HostTensor> user_inputs) override {
    LFARM_RETURN_IF_ERROR(bind_stored());
    std::vector<common::TensorRef> refs;
    for (const HostTensor& input : user_inputs) refs.push_back(common::ref_of(input));
    LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> symbols, symbols_of(*model_, refs));
    const Graph& graph = model_->graph;
    std::vector<HostTensor> inputs = stored_;
    for (size_t i = 0; i < inputs.size(); ++i) {
      int user = binding_.user_of(static_cast<int>(i));
      if (user >= 0) inputs[i] = user_inputs[at(user)];
    }
    LFARM_ASSIGN_OR_RETURN(std::vector<HostTensor> results, common::interpret(graph, inputs, {}));
    for (size_t i = 0; i < results.size(); ++i) {
      if (graph.outputs[i].kind != OutputKind::kCheck) continue;
      int64_t position = 0;
      std::memcpy(&position, results[i].bytes().data(), sizeof position);
      if (position == common::kNoPosition) continue;
      common::FailedCheck failed{static_cast<int>(i), position,
                                 graph.outputs[i].limit.evaluate(symbols)};
      return index_error(*model_, failed, refs);
    }
    CallResult out;
    std::vector<HostTensor> user_outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      const common::GraphOutput& output = graph.outputs[i];
      if (output.kind == OutputKind::kCheck) continue;
      if (output.kind == OutputKind::kUser) {
        user_outputs.push_back(results[i]);
      } else if (int user = binding_.user_of(output.input); user >= 0) {
        out.mutated.emplace_back(user, results[i]);
      } else {
        stored_[at(output.input)] = results[i];
      }
    }
    binding_.take_outputs(user_outputs, &out);
    return out;
  }

  Result<HostTensor> state(int input) override {
    LFARM_RETURN_IF_ERROR(bind_stored());
    return stored_[at(input)];
  }
  Status set_state(int input, const HostTensor& content) override {
    LFARM_RETURN_IF_ERROR(bind_stored());
    LFARM_ASSIGN_OR_RETURN(stored_[at(input)], content.clone());
    return {};
  }

 private:
  Status bind_stored() {
    if (!stored_.empty()) return {};
    const Graph& graph = model_->graph;
    std::vector<HostTensor> stored(graph.inputs.size());
    for (size_t i = 0; i < stored.size(); ++i) {
      if (graph.inputs[i].kind == common::InputKind::kUser) continue;
      LFARM_ASSIGN_OR_RETURN(stored[i], weights_->on_host(static_cast<int>(i)));
    }
    stored_ = std::move(stored);
    return {};
  }

  std::shared_ptr<const Model> model_;
  std::shared_ptr<Weights> weights_;
  Binding binding_;
  // Per graph input: weights, and states as the last call left them.
  std::vector<HostTensor> stored_;
};

// Weights and states bind symbols too, and always fit: their own shapes stand in for them.
std::vector<int64_t> stored_sizes(const Model& model, size_t input) {
  if (model.weights[input]) return model.weights[input]->sizes;
  const common::Shape& shape = model.graph.inputs[input].shape;
  bool is_known = std::all_of(shape.begin(), shape.end(),
                              [](const common::Expr& size) { return size.is_constant(); });
  return is_known ? common::evaluate_shape(shape, {}) : std::vector<int64_t>();
}

}  // namespace

Status check_user_inputs(const Model& model, std::span<const HostTensor> inputs) {
  std::vector<TensorRef> refs;
  for (const HostTensor& input : inputs) refs.push_back(common::ref_of(input));
  return check_user_inputs(model, refs);
}

Status check_user_inputs(const Model& model, std::span<const TensorRef> inputs) {
  auto symbols = symbols_of(model, inputs);
  return symbols.ok() ? Status() : symbols.error();
}

Result<std::vector<int64_t>> symbols_of(const Model& model, std::span<const TensorRef> inputs) {
  if (inputs.size() != model.user_inputs.size()) {
    return common::invalid_input(
        cat("the model takes ", model.user_inputs.size(), " inputs, not ", inputs.size()));
  }
  const Graph& graph = model.graph;
  std::vector<std::vector<int64_t>> sizes(graph.inputs.size());
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = stored_sizes(model, i);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (model.user_inputs[i] < 0) continue;
    const GraphInput& input = graph.inputs[at(model.user_inputs[i])];
    std::span<const int64_t> given = inputs[i].sizes;
    bool fits = inputs[i].dtype == input.dtype && given.size() == input.shape.size();
    for (size_t k = 0; fits && k < input.shape.size(); ++k) {
      fits = !input.shape[k].is_constant() || input.shape[k].is_constant(given[k]);
    }
    if (!fits) {
      return common::invalid_input(cat("input ", i, " is ",
                                       common::tensor_type_text(inputs[i].dtype, given),
                                       ", but the model takes ", common::dtype_name(input.dtype),
                                       common::shape_text(input.shape)));
    }
    sizes[at(model.user_inputs[i])].assign(given.begin(), given.end());
  }
  return common::bind_symbols(graph, sizes);
}

int default_threads() { return common::usable_processors(); }

std::unique_ptr<Instance> make_reference_instance(std::shared_ptr<const Model> model) {
  auto weights = std::make_shared<Weights>(model, nullptr);
  return make_reference_instance(std::move(model), std::move(weights));
}

std::unique_ptr<Instance> make_reference_instance(std::shared_ptr<const Model> model,
                                                  std::shared_ptr<Weights> weights) {
  return std::make_unique<ReferenceInstance>(std::move(model), std::move(weights));
}

Result<std::unique_ptr<Instance>> make_plan_instance(std::shared_ptr<const Model> model,
                                                     const common::Plan& plan,
                                                     const common::ObjectSource& objects,
                                                     common::Device& device) {
  auto weights = std::make_shared<Weights>(model, &device);
  LFARM_ASSIGN_OR_RETURN(auto instance, PlanInstance::make(std::move(model), std::move(weights),
                                                           plan, objects, device, nullptr));
  return std::unique_ptr<Instance>(std::move(instance));
}

}  // namespace clients
