#include "clients/pt2/foreach_nodes.h"

#include <algorithm>

#include "common/base/cat.h"

namespace clients {
namespace {

constexpr std::string_view kPrefix = "aten._foreach_";

// "add_" and "List" of "aten._foreach_add_.List".
struct ForeachName {
  std::string_view plain;
  std::string_view overload;
};

ForeachName split(std::string_view target) {
  target.remove_prefix(kPrefix.size());
  size_t dot = std::min(target.find('.'), target.size());
  return {target.substr(0, dot), target.substr(std::min(dot + 1, target.size()))};
}

// The operator that a list's items are given to.
std::string plain_target(const ForeachName& name) {
  bool in_place = name.plain.ends_with('_');
  std::string_view plain = name.plain.substr(0, name.plain.size() - (in_place ? 1 : 0));
  bool with_number = name.overload.starts_with("Scalar");
  if (plain == "norm") plain = "linalg_vector_norm";
  if (plain == "maximum" && with_number) plain = "clamp_min";
  if (plain == "minimum" && with_number) plain = "clamp_max";
  std::string_view overload = plain == "max" ? "default" : name.overload;
  return common::cat("torch.ops.aten.", plain, in_place ? "_" : "", ".",
                     overload.empty() ? "default" : overload);
}

// What the plain operator calls an argument.
std::string plain_argument(const std::string& name, std::string_view target) {
  if (name == "tensors1") return "end";
  if (name == "weights") return "weight";
  if (name != "scalar" && name != "scalars") return name;
  if (target.find(".addc") != std::string_view::npos) return "value";
  if (target.find(".clamp_min") != std::string_view::npos) return "min";
  if (target.find(".clamp_max") != std::string_view::npos) return "max";
  return target.find(".pow") != std::string_view::npos ? "exponent" : "other";
}

// Item k of an argument that is a list, else the argument.
Argument item(const Argument& argument, size_t k) {
  if (auto* tensors = std::get_if<TensorListArgument>(&argument)) {
    if (k < tensors->names.size()) return TensorArgument{tensors->names[k]};
    return UnknownArgument{"a shorter list"};
  }
  auto number = [k](const auto& list) -> Argument {
    return k < list.size() ? Argument(list[k]) : Argument(UnknownArgument{"a shorter list"});
  };
  if (auto* list = std::get_if<std::vector<double>>(&argument)) return number(*list);
  if (auto* list = std::get_if<std::vector<int64_t>>(&argument)) return number(*list);
  return argument;
}

}  // namespace

std::optional<std::vector<ExportNode>> foreach_nodes(const ExportNode& node) {
  std::string_view target = short_target(node);
  if (!target.starts_with(kPrefix)) return std::nullopt;
  ForeachName name = split(target);
  size_t count = 0;
  for (const NamedArgument& input : node.inputs) {
    auto* list = std::get_if<TensorListArgument>(&input.value);
    if (list != nullptr) count = std::max(count, list->names.size());
  }
  std::vector<ExportNode> out;
  for (size_t k = 0; k < count; ++k) {
    ExportNode one = node;
    one.target = plain_target(name);
    for (NamedArgument& input : one.inputs) {
      input.name = plain_argument(input.name, one.target);
      input.value = item(input.value, k);
    }
    if (name.plain.ends_with('_')) {
      one.outputs = {one.inputs[0].value};
    } else if (!node.outputs.empty()) {
      one.outputs = {item(node.outputs[0], k)};
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace clients
