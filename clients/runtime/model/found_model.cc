#include "clients/runtime/model/found_model.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "clients/pt2/archive/safetensors.h"
#include "clients/pt2/signature.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/runtime/tensor/tensor.h"

namespace clients {

using common::cat;
using common::DType;
using common::InputKind;
using common::OutputKind;
using common::Result;
using common::Status;

namespace {

common::Error no_signature(const std::string& what) {
  return common::invalid_input(
      cat("the signature ", what, ": write it by lfarm print --stage signature"));
}

// What the signature says beyond the graph.
Status apply(const Signature& signature, const common::Digest& graph_hash, Model* model) {
  if (signature.graph_hash != graph_hash.hex()) {
    return no_signature(cat("is not of graph ", graph_hash.short_hex()));
  }
  if (signature.tensors.size() != model->graph.inputs.size()) {
    return no_signature("lists other tensors than the plan has");
  }
  model->weight_names = signature.tensors;
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    model->graph.inputs[i].name = signature.tensors[i];
  }
  model->user_inputs.clear();
  model->user_input_is_complex.clear();
  model->user_outputs.clear();
  auto is_below = [](int place, size_t end) {
    return place >= -1 && place < static_cast<int>(end);
  };
  for (const Signature::Place& input : signature.inputs) {
    if (!is_below(input.graph, model->graph.inputs.size())) {
      return no_signature("has an input that the plan does not take");
    }
    model->user_inputs.push_back(input.graph);
    model->user_input_is_complex.push_back(input.complex);
  }
  for (const Signature::Place& output : signature.outputs) {
    if (!is_below(output.graph, model->graph.outputs.size())) {
      return no_signature("has an output that the plan does not give");
    }
    model->user_outputs.push_back({output.graph, output.complex, {}, output.gradient_of});
  }
  return {};
}

// Whether every user input of the graph is given once and the outputs are ones that it returns.
bool is_consistent(const Model& model) {
  std::vector<int> given(model.graph.inputs.size(), 0);
  for (int input : model.user_inputs) {
    if (input >= 0) ++given[static_cast<size_t>(input)];
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != (model.graph.inputs[i].kind == InputKind::kUser ? 1 : 0)) return false;
  }
  return std::all_of(model.user_outputs.begin(), model.user_outputs.end(),
                     [&](const UserOutput& output) {
                       return output.graph_output < 0 ||
                              model.graph.outputs[static_cast<size_t>(output.graph_output)].kind ==
                                  OutputKind::kUser;
                     });
}

// A file's tensors by name, and what keeps them alive.
struct OpenFile {
  std::vector<NamedTensor> tensors;
  std::vector<common::HostTensor> copies;  // of those that do not lie row-major
  std::shared_ptr<const void> owner;
};

Result<std::shared_ptr<OpenFile>> open_file(const Model& model, const std::string& path) {
  auto out = std::make_shared<OpenFile>();
  if (path.size() < 4 || path.compare(path.size() - 4, 4, ".pt2") != 0) {
    LFARM_ASSIGN_OR_RETURN(auto file, common::MappedFile::open(path));
    LFARM_ASSIGN_OR_RETURN(out->tensors, read_safetensors(file->bytes()));
    out->owner = std::move(file);
    return out;
  }
  LFARM_ASSIGN_OR_RETURN(Model other, load_model(path));
  // Of the same graph: its tensors are the model's, whatever they are called.
  bool is_same = model.graph_hash && common::graph_hash(other.graph) == *model.graph_hash;
  for (size_t i = 0; i < other.weights.size(); ++i) {
    if (!other.weights[i]) continue;
    const StoredTensor& stored = *other.weights[i];
    DType dtype = other.graph.inputs[i].dtype;
    common::ByteView bytes;
    if (is_contiguous(stored)) {
      bytes = contiguous_view(stored);
    } else {
      LFARM_ASSIGN_OR_RETURN(common::HostTensor copy,
                             common::contiguous_copy(dtype, stored.sizes, stored.strides,
                                                     stored.storage_offset, stored.storage));
      out->copies.push_back(copy);
      bytes = out->copies.back().bytes();
    }
    const std::string& name = is_same ? model.weight_names[i] : other.weight_names[i];
    out->tensors.push_back({name, dtype, stored.sizes, bytes});
  }
  out->owner = std::make_shared<Model>(std::move(other));
  return out;
}

}  // namespace

Result<Model> model_of(const common::Plan& plan, const std::string& signature) {
  Model model;
  model.graph.symbols = plan.symbols;
  model.graph.inputs = plan.inputs;
  model.graph.outputs = plan.outputs;
  model.graph_hash = plan.key.graph_hash;
  model.weights.resize(plan.inputs.size());
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    bool is_user = plan.inputs[i].kind == InputKind::kUser;
    model.weight_names.push_back(is_user ? "" : std::to_string(i));
    if (!is_user) continue;
    model.user_inputs.push_back(static_cast<int>(i));
    model.user_input_is_complex.push_back(false);
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    if (plan.outputs[i].kind != OutputKind::kUser) continue;
    model.user_outputs.push_back({static_cast<int>(i), false, {}});
  }
  if (signature.empty()) return model;
  auto parsed = parse_signature(signature);
  if (!parsed) return no_signature("is none");
  LFARM_RETURN_IF_ERROR(apply(*parsed, plan.key.graph_hash, &model));
  if (!is_consistent(model)) return no_signature("does not fit the plan's inputs and outputs");
  return model;
}

Status bind_file(const Model& model, const std::string& path, Weights* weights) {
  LFARM_ASSIGN_OR_RETURN(auto file, open_file(model, path));
  for (size_t i = 0; i < model.weight_names.size(); ++i) {
    if (model.graph.inputs[i].kind == InputKind::kUser) continue;
    auto found = std::find_if(
        file->tensors.begin(), file->tensors.end(),
        [&](const NamedTensor& tensor) { return tensor.name == model.weight_names[i]; });
    if (found == file->tensors.end()) continue;
    common::TensorRef content{found->dtype, found->sizes,
                              const_cast<std::byte*>(found->bytes.data()), found->bytes.size(),
                              false};
    LFARM_RETURN_IF_ERROR(weights->bind(static_cast<int>(i), content, file));
  }
  Status complete = weights->check_complete();
  if (complete.ok()) return {};
  return common::invalid_input(cat(path, " does not have all tensors: ", complete.error().message));
}

}  // namespace clients
