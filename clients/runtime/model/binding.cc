#include "clients/runtime/model/binding.h"

#include "common/ir/expr/index.h"

namespace clients {

using common::at;
using common::OutputKind;

Binding::Binding(const Model& model) {
  user_of_.assign(model.graph.inputs.size(), -1);
  for (size_t i = 0; i < model.user_inputs.size(); ++i) {
    if (model.user_inputs[i] >= 0) user_of_[at(model.user_inputs[i])] = static_cast<int>(i);
  }
  for (int user : user_of_) {
    if (user >= 0) users_.push_back(user);
  }
  int users = 0;
  std::vector<int> place;
  for (const common::GraphOutput& output : model.graph.outputs) {
    place.push_back(output.kind == OutputKind::kUser ? users++ : -1);
  }
  for (const UserOutput& output : model.user_outputs) {
    outputs_.push_back(output.graph_output < 0 ? -1 : place[at(output.graph_output)]);
  }
}

void Binding::take_outputs(std::span<const common::HostTensor> user, CallResult* result) const {
  for (int place : outputs_) {
    if (place < 0) {
      result->outputs.emplace_back();
    } else {
      result->outputs.emplace_back(user[at(place)]);
    }
  }
}

}  // namespace clients
