#include "clients/pt2/archive/exported_program.h"

#include <algorithm>
#include <unordered_set>

#include "clients/pt2/archive/node_source.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::corrupt;
using common::Status;

// The names defined so far while walking one graph.
using Names = std::unordered_set<std::string_view>;

Status check_name(const std::string& name, const Names& defined, std::string_view user) {
  if (defined.contains(name)) return {};
  return corrupt(cat("model graph: ", user, " uses '", name, "' before it is defined"));
}

Status check_graph(const ExportGraph& graph, int depth);

template <class Item>
Status check_named_items(const std::vector<Item>& items, const Names& defined,
                         std::string_view user) {
  for (const Item& item : items) {
    if (!item.name.empty()) LFARM_RETURN_IF_ERROR(check_name(item.name, defined, user));
  }
  return {};
}

Status check_uses(const Argument& argument, const Names& defined, std::string_view user,
                  int depth) {
  if (auto* tensor = std::get_if<TensorArgument>(&argument)) {
    return check_name(tensor->name, defined, user);
  }
  if (auto* list = std::get_if<TensorListArgument>(&argument)) {
    for (const std::string& name : list->names) {
      if (!name.empty()) LFARM_RETURN_IF_ERROR(check_name(name, defined, user));
    }
    return {};
  }
  if (auto* value = std::get_if<SymIntArgument>(&argument)) {
    return value->name.empty() ? Status() : check_name(value->name, defined, user);
  }
  if (auto* value = std::get_if<SymFloatArgument>(&argument)) {
    return value->name.empty() ? Status() : check_name(value->name, defined, user);
  }
  if (auto* value = std::get_if<SymBoolArgument>(&argument)) {
    return value->name.empty() ? Status() : check_name(value->name, defined, user);
  }
  if (auto* values = std::get_if<std::vector<SymIntArgument>>(&argument)) {
    return check_named_items(*values, defined, user);
  }
  if (auto* values = std::get_if<std::vector<SymFloatArgument>>(&argument)) {
    return check_named_items(*values, defined, user);
  }
  if (auto* values = std::get_if<std::vector<SymBoolArgument>>(&argument)) {
    return check_named_items(*values, defined, user);
  }
  if (auto* nested = std::get_if<GraphArgument>(&argument)) {
    return check_graph(*nested->graph, depth + 1);
  }
  return {};
}

Status define_tensor(const std::string& name, const ExportGraph& graph, Names* defined) {
  if (!graph.tensor_values.contains(name)) {
    return corrupt(cat("model graph: tensor '", name, "' has no shape and dtype"));
  }
  if (!defined->insert(name).second) {
    return corrupt(cat("model graph: '", name, "' is defined twice"));
  }
  return {};
}

Status define(const Argument& argument, const ExportGraph& graph, Names* defined) {
  if (auto* tensor = std::get_if<TensorArgument>(&argument)) {
    return define_tensor(tensor->name, graph, defined);
  }
  if (auto* list = std::get_if<TensorListArgument>(&argument)) {
    for (const std::string& name : list->names) {
      if (!name.empty()) LFARM_RETURN_IF_ERROR(define_tensor(name, graph, defined));
    }
    return {};
  }
  const std::string* name = nullptr;
  if (auto* value = std::get_if<SymIntArgument>(&argument)) name = &value->name;
  if (auto* value = std::get_if<SymFloatArgument>(&argument)) name = &value->name;
  if (auto* value = std::get_if<SymBoolArgument>(&argument)) name = &value->name;
  if (name != nullptr && !name->empty() && !defined->insert(*name).second) {
    return corrupt(cat("model graph: '", *name, "' is defined twice"));
  }
  return {};
}

Status check_meta(const std::string& name, const TensorMeta& meta) {
  if (meta.sizes.size() > kMaxRank || meta.sizes.size() != meta.strides.size()) {
    return corrupt(cat("model graph: tensor '", name, "' has ", meta.sizes.size(), " sizes and ",
                       meta.strides.size(), " strides"));
  }
  for (const Extent& size : meta.sizes) {
    if (!size.is_symbolic() && size.value < 0) {
      return corrupt(cat("model graph: tensor '", name, "' has the size ", size.value));
    }
  }
  return {};
}

Status check_graph(const ExportGraph& graph, int depth) {
  if (depth > kMaxGraphDepth) {
    return common::invalid_input(cat("model graph: graphs nest deeper than ", kMaxGraphDepth));
  }
  for (const auto& [name, meta] : graph.tensor_values) {
    LFARM_RETURN_IF_ERROR(check_meta(name, meta));
  }
  Names defined;
  for (const Argument& input : graph.inputs) {
    LFARM_RETURN_IF_ERROR(define(input, graph, &defined));
  }
  for (const ExportNode& node : graph.nodes) {
    for (const NamedArgument& input : node.inputs) {
      LFARM_RETURN_IF_ERROR(check_uses(input.value, defined, node.target, depth));
    }
    for (const Argument& output : node.outputs) {
      LFARM_RETURN_IF_ERROR(define(output, graph, &defined));
    }
  }
  for (const Argument& output : graph.outputs) {
    LFARM_RETURN_IF_ERROR(check_uses(output, defined, "the graph's output", depth));
  }
  return {};
}

const std::string* tensor_name(const Argument& argument) {
  auto* tensor = std::get_if<TensorArgument>(&argument);
  return tensor == nullptr ? nullptr : &tensor->name;
}

// Tensors of the signature and of the graph must be the same, in the same order.
template <class Spec>
Status check_signature(const std::vector<Spec>& specs, const std::vector<Argument>& arguments,
                       std::string_view what) {
  if (specs.size() != arguments.size()) {
    return corrupt(cat("model signature: ", specs.size(), ' ', what, "s, but the graph has ",
                       arguments.size()));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string* in_signature = tensor_name(specs[i].argument);
    const std::string* in_graph = tensor_name(arguments[i]);
    bool same = in_signature == nullptr || in_graph == nullptr ? in_signature == in_graph
                                                               : *in_signature == *in_graph;
    if (!same) return corrupt(cat("model signature: ", what, ' ', i, " is not the graph's"));
  }
  return {};
}

// The body of the line that starts at `at`, without its indentation.
std::string_view line_at(std::string_view text, size_t at) {
  std::string_view line = text.substr(at, text.find('\n', at) - at);
  size_t start = line.find_first_not_of(' ');
  return start == std::string_view::npos ? std::string_view() : line.substr(start);
}

}  // namespace

Status check_stored_tensor(const StoredTensor& tensor, std::string_view name) {
  size_t rank = tensor.sizes.size();
  size_t bytes = scalar_type_bytes(tensor.dtype);
  if (bytes == 0 || rank > kMaxRank || rank != tensor.strides.size() || tensor.storage_offset < 0) {
    return corrupt(cat("weight '", name, "' has no valid dtype, sizes and strides"));
  }
  int64_t elements = 1;
  for (int64_t size : tensor.sizes) {
    if (size < 0 || (size > 0 && (__builtin_mul_overflow(elements, size, &elements) ||
                                  elements > kMaxWeightElements))) {
      return corrupt(cat("weight '", name, "' has an impossible size"));
    }
  }
  int64_t capacity = static_cast<int64_t>(tensor.storage.size() / bytes);
  int64_t last = tensor.storage_offset;
  bool empty = false;
  for (size_t i = 0; i < rank; ++i) {
    int64_t size = tensor.sizes[i];
    int64_t stride = tensor.strides[i];
    int64_t reach = 0;
    if (size < 0 || stride < 0) {
      return corrupt(cat("weight '", name, "' has a negative size or stride"));
    }
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(size - 1, stride, &reach) ||
               __builtin_add_overflow(last, reach, &last)) {
      return corrupt(cat("weight '", name, "' has sizes and strides beyond 64 bits"));
    }
  }
  if (!empty && last >= capacity) {
    return corrupt(cat("weight '", name, "' reaches element ", last, " of a storage of ", capacity,
                       ": the archive is damaged"));
  }
  return {};
}

Status check_program(const ExportedProgram& program) {
  LFARM_RETURN_IF_ERROR(check_graph(program.graph, 0));
  LFARM_RETURN_IF_ERROR(check_signature(program.inputs, program.graph.inputs, "input"));
  return check_signature(program.outputs, program.graph.outputs, "output");
}

void append_names(const Argument& argument, std::vector<std::string>* names) {
  if (auto* tensor = std::get_if<TensorArgument>(&argument)) names->push_back(tensor->name);
  if (auto* size = std::get_if<SymIntArgument>(&argument)) names->push_back(size->name);
  if (auto* list = std::get_if<TensorListArgument>(&argument)) {
    names->insert(names->end(), list->names.begin(), list->names.end());
  }
}

std::string source_line(const ExportNode& node) {
  // Frames of installed packages say little.
  std::string_view chosen = frame_outside(node.stack_trace, "-packages/");
  std::string out = place_of(chosen);
  if (out.empty()) return out;
  std::string_view rest = chosen.substr(chosen.find(", line ") + 7);
  size_t code = rest.find('\n');
  if (code != std::string_view::npos) out += cat(": ", line_at(rest, code + 1));
  return out;
}

std::string_view short_target(const ExportNode& node) {
  constexpr std::string_view kPrefix = "torch.ops.";
  std::string_view target = node.target;
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  return target;
}

std::string operator_text(const ExportNode& node) {
  std::string text(short_target(node));
  if (!node.name.empty()) text += cat(" (node '", node.name, "')");
  std::string line = source_line(node);
  if (!line.empty()) text += cat(" at ", line);
  return text;
}

}  // namespace clients
