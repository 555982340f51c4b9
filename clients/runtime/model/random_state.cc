#include "clients/runtime/model/random_state.h"

#include <algorithm>
#include <array>

namespace clients {

common::Result<int> random_state_of(const Model& model) {
  auto found = std::find(model.weight_names.begin(), model.weight_names.end(), kRandomStateName);
  if (found == model.weight_names.end()) {
    return common::invalid_input("the model draws no random numbers, and so takes no seed");
  }
  return static_cast<int>(found - model.weight_names.begin());
}

common::Result<common::HostTensor> random_state_from(uint64_t seed) {
  std::array<uint64_t, 2> content = {seed, 0};
  return common::HostTensor::copy_of(common::DType::kInt64, {2}, std::as_bytes(std::span(content)));
}

}  // namespace clients
