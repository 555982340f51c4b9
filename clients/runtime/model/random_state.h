// The seed of a model's random numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "clients/pt2/translate.h"
#include "common/base/result.h"
#include "common/runtime/tensor/tensor.h"

namespace clients {

// The graph input that is the state of the model's random numbers (kRandomStateName). kInvalidInput
// when the model draws none.
common::Result<int> random_state_of(const Model& model);

// The state's content, int64 [2], before the first number of a seed's stream.
common::Result<common::HostTensor> random_state_from(uint64_t seed);

}  // namespace clients
