// Models without their exported program: what a plan says of its graph, and weights from elsewhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/weights.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/plan/plan.h"

namespace clients {

// The names of a model's tensors and how its call goes, as JSON: what a plan, which belongs to
// every model of the same graph, does not know.
std::string signature_text(const Model& model, const common::Digest& graph_hash);

// The model that a plan computes. `signature`: text of signature_text(), or empty; then tensors are
// named by their positions among the graph's inputs, and the call takes and returns what the graph
// does. kInvalidInput when the signature is not one, or is another graph's.
common::Result<Model> model_of(const common::Plan& plan, const std::string& signature);

// A tensor of a safetensors file.
struct NamedTensor {
  std::string name;
  common::DType dtype{};
  std::vector<int64_t> sizes;
  common::ByteView bytes;  // row-major, inside the mapped file
};
// The tensors in a safetensors file's bytes (huggingface.co/docs/safetensors: the header's length
// in 8 bytes, the header in JSON, the data). kCorrupt when an offset, a size or the header is not
// in order, kUnsupported for a type that lfarm does not have.
common::Result<std::vector<NamedTensor>> read_safetensors(common::ByteView file);

// Binds all tensors of the model that a .safetensors or .pt2 file has. kInvalidInput when a type
// differs, or a tensor without content is not there.
common::Status bind_file(const Model& model, const std::string& path, Weights* weights);

}  // namespace clients
