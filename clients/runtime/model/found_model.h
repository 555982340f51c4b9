// Models without their exported program: what a plan says of its graph, and weights from elsewhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/model/weights.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/plan/plan.h"

namespace clients {

// The model that a plan computes. `signature`: text of signature_text(), or empty; then tensors are
// named by their positions among the graph's inputs, and the call takes and returns what the graph
// does. kInvalidInput when the signature is not one, or is another graph's.
common::Result<Model> model_of(const common::Plan& plan, const std::string& signature);

// Binds all tensors of the model that a .safetensors or .pt2 file has. kInvalidInput when a type
// differs, or a tensor without content is not there.
common::Status bind_file(const Model& model, const std::string& path, Weights* weights);

}  // namespace clients
