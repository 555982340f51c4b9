#include "clients/runtime/model/plan_instance.h"

#include "clients/runtime/model/index_error.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::DeviceTensor;
using common::Graph;
using common::HostTensor;
using common::InputKind;
using common::Result;
using common::RunOutputs;
using common::Status;
using common::TensorRef;

PlanInstance::PlanInstance(std::shared_ptr<const Model> model, std::shared_ptr<Weights> weights,
                           std::unique_ptr<common::Executor> executor)
    : model_(std::move(model)),
      weights_(std::move(weights)),
      binding_(*model_),
      executor_(std::move(executor)) {}

Result<std::unique_ptr<PlanInstance>> PlanInstance::make(
    std::shared_ptr<const Model> model, std::shared_ptr<Weights> weights, const common::Plan& plan,
    const common::ObjectSource& objects, common::Device& device, const PreparedStore* prepared,
    const common::ExecutorOptions& options) {
  if (plan.inputs.size() != model->graph.inputs.size() ||
      plan.outputs.size() != model->graph.outputs.size()) {
    return common::invalid_input("the plan was made for a model with other inputs and outputs");
  }
  LFARM_ASSIGN_OR_RETURN(auto executor, common::Executor::load(plan, objects, device, options));
  std::unique_ptr<PlanInstance> instance(
      new PlanInstance(std::move(model), std::move(weights), std::move(executor)));
  LFARM_RETURN_IF_ERROR(instance->bind_stored(prepared));
  return instance;
}

void PlanInstance::finish_keeping() {
  if (writer_) writer_->finish();
}

Status PlanInstance::bind_stored(const PreparedStore* prepared) {
  const Graph& graph = model_->graph;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.inputs[i].kind == InputKind::kUser) continue;
    int position = static_cast<int>(i);
    if (graph.inputs[i].kind == InputKind::kWeight) {
      LFARM_ASSIGN_OR_RETURN(TensorRef content, weights_->on_device(position));
      LFARM_RETURN_IF_ERROR(executor_->bind_weight(position, content));
    } else {
      LFARM_ASSIGN_OR_RETURN(HostTensor content, weights_->on_host(position));
      LFARM_RETURN_IF_ERROR(executor_->set_state(position, content));
    }
  }
  const std::optional<FileIdentity> file = weights_->file();
  if (prepared == nullptr || !file) return executor_->prepare();
  LFARM_ASSIGN_OR_RETURN(writer_, prepared->prepare(*executor_, *file));
  return {};
}

bool PlanInstance::is_like_last(std::span<const TensorRef> user_inputs) const {
  size_t k = 0;
  auto is_next = [&](int64_t value) { return k < checked_.size() && checked_[k++] == value; };
  for (const TensorRef& input : user_inputs) {
    if (!is_next(static_cast<int64_t>(input.sizes.size()))) return false;
    if (!is_next(static_cast<int64_t>(input.dtype))) return false;
    for (int64_t size : input.sizes) {
      if (!is_next(size)) return false;
    }
  }
  return k == checked_.size() && user_inputs.size() == model_->user_inputs.size();
}

Result<std::span<const TensorRef>> PlanInstance::inputs_of(std::span<const TensorRef> user_inputs) {
  if (!is_like_last(user_inputs)) {
    LFARM_RETURN_IF_ERROR(check_user_inputs(*model_, user_inputs));
    checked_.clear();
    for (const TensorRef& input : user_inputs) {
      checked_.push_back(static_cast<int64_t>(input.sizes.size()));
      checked_.push_back(static_cast<int64_t>(input.dtype));
      checked_.insert(checked_.end(), input.sizes.begin(), input.sizes.end());
    }
  }
  inputs_.clear();
  for (int user : binding_.users()) inputs_.push_back(user_inputs[static_cast<size_t>(user)]);
  return std::span<const TensorRef>(inputs_);
}

Result<CallResult> PlanInstance::call(std::span<const HostTensor> user_inputs) {
  std::vector<TensorRef> refs;
  for (const HostTensor& input : user_inputs) refs.push_back(common::ref_of(input));
  RunOutputs results;
  LFARM_RETURN_IF_ERROR(run(refs, results, nullptr));
  CallResult out;
  for (common::MutatedInput& mutated : results.mutated) {
    out.mutated.emplace_back(binding_.user_of(mutated.input), std::move(mutated.value));
  }
  binding_.take_outputs(results.user, &out);
  return out;
}

Status PlanInstance::run(std::span<const TensorRef> user_inputs, RunOutputs& outputs,
                         std::vector<int64_t>* calls_ns) {
  LFARM_ASSIGN_OR_RETURN(auto inputs, inputs_of(user_inputs));
  LFARM_RETURN_IF_ERROR(executor_->run(inputs, outputs, calls_ns));
  return report_index(user_inputs);
}

Status PlanInstance::donate(int user_input) {
  int position = model_->user_inputs[static_cast<size_t>(user_input)];
  return position < 0 ? Status() : executor_->donate(position);
}

Status PlanInstance::report_index(std::span<const TensorRef> user_inputs) {
  auto failed = executor_->take_failed_check();
  if (!failed) return {};
  if (!failed->is_last) return report_earlier(*failed);
  return index_error(*model_, *failed, user_inputs);
}

Status PlanInstance::report_earlier(const common::FailedCheck& failed) const {
  common::Error error = index_error(*model_, failed, {});
  error.message = cat("an earlier call: ", error.message);
  return error;
}

Status PlanInstance::report_earlier() {
  auto failed = executor_->take_failed_check();
  return failed ? report_earlier(*failed) : Status();
}

Status PlanInstance::run_on(void* stream, std::span<const TensorRef> user_inputs,
                            std::vector<DeviceTensor>& outputs, std::vector<int64_t>* calls_ns) {
  LFARM_ASSIGN_OR_RETURN(auto inputs, inputs_of(user_inputs));
  LFARM_RETURN_IF_ERROR(executor_->run_on(stream, inputs, outputs, calls_ns));
  return report_index(user_inputs);
}

}  // namespace clients
