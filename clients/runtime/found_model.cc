#include "clients/runtime/found_model.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/ir/graph_hash.h"

namespace clients {

using common::cat;
using common::DType;
using common::InputKind;
using common::OutputKind;
using common::Result;
using common::Status;
namespace dom = simdjson::dom;

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  }
  return out + '"';
}

template <class Items, class Text>
std::string list(const Items& items, Text&& text) {
  std::string out;
  for (const auto& item : items) out += cat(out.empty() ? "" : ",", text(item));
  return "[" + out + "]";
}

common::Error no_signature(const std::string& what) {
  return common::invalid_input(
      cat("the signature ", what, ": write it by lfarm print --stage signature"));
}

// What the signature says beyond the graph.
Status read_signature(const std::string& text, const std::string& graph_hash, Model* model) {
  dom::parser parser;
  dom::element root;
  std::string_view hash;
  if (parser.parse(text).get(root) != simdjson::SUCCESS) return no_signature("is no JSON");
  if (root["graph_hash"].get(hash) != simdjson::SUCCESS || hash != graph_hash) {
    return no_signature(cat("is not of graph ", graph_hash.substr(0, 12)));
  }
  dom::array tensors, inputs, outputs;
  if (root["tensors"].get(tensors) != simdjson::SUCCESS ||
      root["inputs"].get(inputs) != simdjson::SUCCESS ||
      root["outputs"].get(outputs) != simdjson::SUCCESS ||
      tensors.size() != model->graph.inputs.size()) {
    return no_signature("lists other tensors than the plan has");
  }
  size_t position = 0;
  for (dom::element tensor : tensors) {
    std::string_view name;
    if (tensor.get(name) != simdjson::SUCCESS) return no_signature("names no tensors");
    model->weight_names[position++] = name;
  }
  auto place = [](dom::element item, size_t end, int* at, bool* complex) {
    int64_t value = 0;
    if (item["graph"].get(value) != simdjson::SUCCESS || value < -1) return false;
    if (value >= static_cast<int64_t>(end)) return false;
    *at = static_cast<int>(value);
    return item["complex"].get(*complex) == simdjson::SUCCESS;
  };
  model->user_inputs.clear();
  model->user_input_is_complex.clear();
  model->user_outputs.clear();
  for (dom::element item : inputs) {
    int at = -1;
    bool complex = false;
    if (!place(item, model->graph.inputs.size(), &at, &complex)) {
      return no_signature("has an input that the plan does not take");
    }
    model->user_inputs.push_back(at);
    model->user_input_is_complex.push_back(complex);
  }
  for (dom::element item : outputs) {
    UserOutput output;
    if (!place(item, model->graph.outputs.size(), &output.graph_output, &output.complex)) {
      return no_signature("has an output that the plan does not give");
    }
    model->user_outputs.push_back(output);
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

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr TypeName kSafetensorsTypes[] = {
    {"BOOL", DType::kBool},   {"U8", DType::kUint8},      {"I8", DType::kInt8},
    {"I16", DType::kInt16},   {"I32", DType::kInt32},     {"I64", DType::kInt64},
    {"F16", DType::kFloat16}, {"BF16", DType::kBfloat16}, {"F32", DType::kFloat32},
    {"F64", DType::kFloat64},
};

Result<NamedTensor> read_entry(std::string_view name, dom::element entry, common::ByteView data) {
  auto damaged = [&](const char* what) {
    return common::corrupt(cat("tensor \"", name, "\" ", what, ": fetch the file again"));
  };
  NamedTensor tensor;
  tensor.name = name;
  std::string_view type;
  dom::array shape, offsets;
  if (entry["dtype"].get(type) != simdjson::SUCCESS ||
      entry["shape"].get(shape) != simdjson::SUCCESS ||
      entry["data_offsets"].get(offsets) != simdjson::SUCCESS || offsets.size() != 2) {
    return damaged("lacks a type, a shape or its place");
  }
  const auto* row = std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                                 [&](const TypeName& known) { return known.name == type; });
  if (row == std::end(kSafetensorsTypes)) {
    return common::unsupported(cat("tensor \"", name, "\" is of type ", type));
  }
  tensor.dtype = row->dtype;
  for (dom::element size : shape) {
    int64_t value = 0;
    if (size.get(value) != simdjson::SUCCESS) return damaged("has no sizes");
    tensor.sizes.push_back(value);
  }
  uint64_t begin = 0, end = 0;
  if (offsets.at(0).get(begin) != simdjson::SUCCESS ||
      offsets.at(1).get(end) != simdjson::SUCCESS || begin > end || end > data.size()) {
    return damaged("lies outside the file");
  }
  auto elements = common::checked_element_count(tensor.dtype, tensor.sizes);
  if (!elements.ok() ||
      static_cast<uint64_t>(*elements * common::dtype_size(tensor.dtype)) != end - begin) {
    return damaged("is not as long as its sizes say");
  }
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
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

std::string signature_text(const Model& model, const common::Digest& graph_hash) {
  auto place = [](int at, bool complex) {
    return cat("{\"graph\":", at, ",\"complex\":", complex ? "true" : "false", "}");
  };
  std::string inputs;
  for (size_t i = 0; i < model.user_inputs.size(); ++i) {
    inputs += cat(i == 0 ? "" : ",", place(model.user_inputs[i], model.user_input_is_complex[i]));
  }
  auto output = [&](const UserOutput& o) { return place(o.graph_output, o.complex); };
  return cat("{\"graph_hash\":\"", graph_hash.hex(),
             "\",\n \"tensors\":", list(model.weight_names, quoted), ",\n \"inputs\":[", inputs,
             "],\n \"outputs\":", list(model.user_outputs, output), "}\n");
}

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
  LFARM_RETURN_IF_ERROR(read_signature(signature, plan.key.graph_hash.hex(), &model));
  if (!is_consistent(model)) return no_signature("does not fit the plan's inputs and outputs");
  return model;
}

Result<std::vector<NamedTensor>> read_safetensors(common::ByteView file) {
  uint64_t length = 0;
  if (file.size() < sizeof length) return common::corrupt("a safetensors file is cut off");
  std::memcpy(&length, file.data(), sizeof length);
  if (length > file.size() - sizeof length) {
    return common::corrupt("the header of a safetensors file is cut off");
  }
  std::string header(reinterpret_cast<const char*>(file.data()) + sizeof length, length);
  dom::parser parser;
  dom::object entries;
  if (parser.parse(header).get(entries) != simdjson::SUCCESS) {
    return common::corrupt("the header of a safetensors file is no JSON");
  }
  std::vector<NamedTensor> tensors;
  for (dom::key_value_pair entry : entries) {
    if (entry.key == "__metadata__") continue;
    LFARM_ASSIGN_OR_RETURN(NamedTensor tensor, read_entry(entry.key, entry.value,
                                                          file.subspan(sizeof length + length)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
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
