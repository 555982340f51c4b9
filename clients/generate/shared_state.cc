#include "clients/generate/shared_state.h"

#include "clients/runtime/model/tensor_named.h"

namespace clients {

size_t SharedState::add(std::unique_ptr<PlanInstance> instance, std::shared_ptr<const Model> model,
                        size_t family) {
  entries_.push_back({std::move(instance), std::move(model), family});
  return entries_.size() - 1;
}

common::Status SharedState::move(Entry& from, Entry& to) {
  if (from.family == to.family) return to.instance->take_states(*from.instance);
  const std::vector<common::GraphInput>& inputs = to.model->graph.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].kind != common::InputKind::kState) continue;
    auto source = tensor_named(*from.model, to.model->weight_names[i]);
    if (!source) continue;
    const common::GraphInput& held = from.model->graph.inputs[static_cast<size_t>(*source)];
    bool is_same = held.kind == common::InputKind::kState && held.dtype == inputs[i].dtype &&
                   held.shape == inputs[i].shape;
    if (!is_same) continue;
    LFARM_RETURN_IF_ERROR(
        to.instance->take_state(static_cast<int>(i), *from.instance, static_cast<int>(*source)));
  }
  return {};
}

common::Result<PlanInstance*> SharedState::use(size_t number) {
  if (number != holder_) {
    LFARM_RETURN_IF_ERROR(move(entries_[holder_], entries_[number]));
    holder_ = number;
  }
  return entries_[number].instance.get();
}

void SharedState::finish_keeping() {
  for (Entry& entry : entries_) entry.instance->finish_keeping();
}

}  // namespace clients
