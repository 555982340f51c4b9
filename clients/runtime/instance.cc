#include "clients/runtime/instance.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/processors.h"
#include "common/runtime/interpreter.h"

namespace clients {
namespace {

using common::cat;
using common::Graph;
using common::GraphInput;
using common::HostTensor;
using common::InputKind;
using common::OutputKind;
using common::Result;
using common::Status;

size_t at(int position) { return static_cast<size_t>(position); }

// A stored tensor's elements in row-major order, in the archive's own memory where they lie so.
Result<HostTensor> stored_content(const GraphInput& input, const StoredTensor& stored) {
  if (is_contiguous(stored)) {
    return HostTensor::wrap(input.dtype, stored.sizes, contiguous_view(stored));
  }
  return common::contiguous_copy(input.dtype, stored.sizes, stored.strides, stored.storage_offset,
                                 stored.storage);
}

// Where the values of one call go: from user inputs to graph inputs and back.
class Binding {
 public:
  explicit Binding(const Model& model) {
    user_of_.assign(model.graph.inputs.size(), -1);
    for (size_t i = 0; i < model.user_inputs.size(); ++i) {
      if (model.user_inputs[i] >= 0) user_of_[at(model.user_inputs[i])] = static_cast<int>(i);
    }
    int users = 0;
    for (const common::GraphOutput& output : model.graph.outputs) {
      user_output_of_.push_back(output.kind == OutputKind::kUser ? users++ : -1);
    }
  }
  // The user input that graph input `position` is; -1 for weights and states.
  int user_of(int position) const { return user_of_[at(position)]; }
  // Fills `outputs` from the graph's kUser outputs.
  void take_outputs(const Model& model, std::span<const HostTensor> user,
                    CallResult* result) const {
    for (const UserOutput& output : model.user_outputs) {
      if (output.graph_output < 0) {
        result->outputs.emplace_back();
      } else {
        result->outputs.emplace_back(user[at(user_output_of_[at(output.graph_output)])]);
      }
    }
  }

 private:
  std::vector<int> user_of_;
  std::vector<int> user_output_of_;
};

class ReferenceInstance final : public Instance {
 public:
  explicit ReferenceInstance(std::shared_ptr<const Model> model)
      : model_(std::move(model)), binding_(*model_) {}

  Result<CallResult> call(std::span<const HostTensor> user_inputs) override {
    LFARM_RETURN_IF_ERROR(bind_stored());
    LFARM_RETURN_IF_ERROR(check_user_inputs(*model_, user_inputs));
    const Graph& graph = model_->graph;
    std::vector<HostTensor> inputs = stored_;
    for (size_t i = 0; i < inputs.size(); ++i) {
      int user = binding_.user_of(static_cast<int>(i));
      if (user >= 0) inputs[i] = user_inputs[at(user)];
    }
    LFARM_ASSIGN_OR_RETURN(std::vector<HostTensor> results, common::interpret(graph, inputs, {}));
    CallResult out;
    std::vector<HostTensor> user_outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      const common::GraphOutput& output = graph.outputs[i];
      if (output.kind == OutputKind::kUser) {
        user_outputs.push_back(results[i]);
      } else if (int user = binding_.user_of(output.input); user >= 0) {
        out.mutated.emplace_back(user, results[i]);
      } else {
        stored_[at(output.input)] = results[i];
      }
    }
    binding_.take_outputs(*model_, user_outputs, &out);
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
      if (!model_->weights[i]) continue;
      LFARM_ASSIGN_OR_RETURN(stored[i], stored_content(graph.inputs[i], *model_->weights[i]));
    }
    stored_ = std::move(stored);
    return {};
  }

  std::shared_ptr<const Model> model_;
  Binding binding_;
  std::vector<HostTensor>
      stored_;  // per graph input: weights, and states as the last call left them
};

class PlanInstance final : public Instance {
 public:
  PlanInstance(std::shared_ptr<const Model> model, std::unique_ptr<common::Executor> executor)
      : model_(std::move(model)), binding_(*model_), executor_(std::move(executor)) {}

  Status bind_stored() {
    const Graph& graph = model_->graph;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      if (graph.inputs[i].kind == InputKind::kUser) continue;
      if (!model_->weights[i]) {
        return common::internal_error(cat("the model has no content for its input ", i));
      }
      LFARM_ASSIGN_OR_RETURN(HostTensor content,
                             stored_content(graph.inputs[i], *model_->weights[i]));
      int position = static_cast<int>(i);
      LFARM_RETURN_IF_ERROR(graph.inputs[i].kind == InputKind::kWeight
                                ? executor_->bind_weight(position, content)
                                : executor_->set_state(position, content));
    }
    return executor_->prepare();
  }

  Result<CallResult> call(std::span<const HostTensor> user_inputs) override {
    LFARM_RETURN_IF_ERROR(check_user_inputs(*model_, user_inputs));
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < model_->graph.inputs.size(); ++i) {
      int user = binding_.user_of(static_cast<int>(i));
      if (user >= 0) inputs.push_back(user_inputs[at(user)]);
    }
    LFARM_ASSIGN_OR_RETURN(common::RunOutputs results, executor_->run(inputs));
    CallResult out;
    for (common::MutatedInput& mutated : results.mutated) {
      out.mutated.emplace_back(binding_.user_of(mutated.input), std::move(mutated.value));
    }
    binding_.take_outputs(*model_, results.user, &out);
    return out;
  }

  Result<HostTensor> state(int input) override { return executor_->state(input); }
  Status set_state(int input, const HostTensor& content) override {
    return executor_->set_state(input, content);
  }

 private:
  std::shared_ptr<const Model> model_;  // owns the memory that the executor's weights lie in
  Binding binding_;
  std::unique_ptr<common::Executor> executor_;
};

}  // namespace

Status check_user_inputs(const Model& model, std::span<const HostTensor> inputs) {
  if (inputs.size() != model.user_inputs.size()) {
    return common::invalid_input(
        cat("the model takes ", model.user_inputs.size(), " inputs, not ", inputs.size()));
  }
  const Graph& graph = model.graph;
  // Weights and states bind symbols too, and always fit: their own shapes stand in for them.
  std::vector<std::vector<int64_t>> sizes(graph.inputs.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (model.weights[i]) sizes[i] = model.weights[i]->sizes;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (model.user_inputs[i] < 0) continue;
    const GraphInput& input = graph.inputs[at(model.user_inputs[i])];
    bool fits = inputs[i].dtype() == input.dtype && inputs[i].sizes().size() == input.shape.size();
    for (size_t k = 0; fits && k < input.shape.size(); ++k) {
      fits = !input.shape[k].is_constant() || input.shape[k].is_constant(inputs[i].sizes()[k]);
    }
    if (!fits) {
      return common::invalid_input(cat("input ", i, " is ", inputs[i].type_text(),
                                       ", but the model takes ", common::dtype_name(input.dtype),
                                       common::shape_text(input.shape)));
    }
    sizes[at(model.user_inputs[i])] = inputs[i].sizes();
  }
  auto symbols = common::bind_symbols(graph, sizes);
  return symbols.ok() ? Status() : symbols.error();
}

int default_threads() { return common::usable_processors(); }

std::unique_ptr<Instance> make_reference_instance(std::shared_ptr<const Model> model) {
  return std::make_unique<ReferenceInstance>(std::move(model));
}

Result<std::unique_ptr<Instance>> make_plan_instance(std::shared_ptr<const Model> model,
                                                     const common::Plan& plan,
                                                     const common::ObjectSource& objects,
                                                     common::Device& device) {
  if (plan.inputs.size() != model->graph.inputs.size() ||
      plan.outputs.size() != model->graph.outputs.size()) {
    return common::invalid_input("the plan was made for a model with other inputs and outputs");
  }
  LFARM_ASSIGN_OR_RETURN(auto executor, common::Executor::load(plan, objects, device));
  auto instance = std::make_unique<PlanInstance>(std::move(model), std::move(executor));
  LFARM_RETURN_IF_ERROR(instance->bind_stored());
  return std::unique_ptr<Instance>(std::move(instance));
}

}  // namespace clients
