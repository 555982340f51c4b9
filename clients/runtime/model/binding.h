// Where the values of one call go: from user inputs to graph inputs and back.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/model/instance.h"
#include "common/runtime/tensor/tensor.h"

namespace clients {

class Binding {
 public:
  explicit Binding(const Model& model);
  // The user input that graph input `position` is; -1 for weights and states.
  int user_of(int position) const { return user_of_[static_cast<size_t>(position)]; }
  // The user inputs that the graph takes, in the graph's order.
  const std::vector<int>& users() const { return users_; }
  // For each output of the model: its place among the graph's kUser outputs; -1: None.
  const std::vector<int>& outputs() const { return outputs_; }
  // Fills `outputs` from the graph's kUser outputs.
  void take_outputs(std::span<const common::HostTensor> user, CallResult* result) const;

 private:
  std::vector<int> user_of_;
  std::vector<int> users_;
  std::vector<int> outputs_;
};

}  // namespace clients
