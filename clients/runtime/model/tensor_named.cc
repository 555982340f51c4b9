#include "clients/runtime/model/tensor_named.h"

#include <algorithm>

namespace clients {

std::optional<int> tensor_named(const Model& model, std::string_view name) {
  auto found = std::find(model.weight_names.begin(), model.weight_names.end(), name);
  if (name.empty() || found == model.weight_names.end()) return std::nullopt;
  return static_cast<int>(found - model.weight_names.begin());
}

}  // namespace clients
