// A model's stored tensors by the names that they have in the module.
#pragma once

#include <optional>
#include <string_view>

#include "clients/pt2/translate.h"

namespace clients {

// The graph input that is the weight or state "layers.0.weight"; empty when there is none, and for
// an empty name, which user inputs have.
std::optional<int> tensor_named(const Model& model, std::string_view name);

}  // namespace clients
