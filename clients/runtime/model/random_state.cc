#include "clients/runtime/model/random_state.h"

#include <array>

#include "clients/runtime/model/tensor_named.h"

namespace clients {

common::Result<int> random_state_of(const Model& model) {
  if (auto found = tensor_named(model, kRandomStateName)) return *found;
  return common::invalid_input("the model draws no random numbers, and so takes no seed");
}

common::Result<common::HostTensor> random_state_from(uint64_t seed) {
  std::array<uint64_t, 2> content = {seed, 0};
  return common::HostTensor::copy_of(common::DType::kInt64, {2}, std::as_bytes(std::span(content)));
}

}  // namespace clients
