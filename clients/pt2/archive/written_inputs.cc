#include "clients/pt2/archive/written_inputs.h"

#include <algorithm>

#include "common/base/contains.h"

namespace clients {
namespace {

constexpr std::string_view kViewOnly[] = {"as_strided_", "detach_",   "resize_",   "resize_as_",
                                          "squeeze_",    "swapaxes_", "swapdims_", "t_",
                                          "transpose_",  "unsqueeze_"};

// What Python's augmented assignments call: `mask &= other`.
constexpr std::string_view kAugmented[] = {"__iand__", "__ilshift__", "__ior__", "__irshift__",
                                           "__ixor__"};

// Overloads with out= whose names do not say so.
constexpr std::string_view kOutOverloads[] = {
    "L",       "U",          "X",          "a",
    "dim_max", "dim_min",    "dim_values", "eigenvalues",
    "eigvals", "grad_input", "inverse",    "output",
    "result",  "sign",       "values",     "values_stable"};

struct Target {
  std::string_view name;      // "add_"
  std::string_view overload;  // "Tensor"
};

Target split(std::string_view target) {
  size_t dot = target.rfind('.');
  if (dot == std::string_view::npos || !target.starts_with("aten.")) return {};
  std::string_view name = target.substr(0, dot);
  return {name.substr(name.rfind('.') + 1), target.substr(dot + 1)};
}

}  // namespace

bool is_in_place(std::string_view target) {
  size_t dot = target.rfind('.');
  if (dot == std::string_view::npos || dot < 2) return false;
  std::string_view name = target.substr(0, dot);
  if (name.ends_with("__")) return common::contains(kAugmented, split(target).name);
  return name.ends_with('_');
}

bool has_out_arguments(std::string_view target) {
  std::string_view overload = split(target).overload;
  bool says_so = overload == "out" || overload.ends_with("_out") || overload.starts_with("out_") ||
                 overload.starts_with("Out");
  return says_so || common::contains(kOutOverloads, overload);
}

bool changes_only_the_view(std::string_view target) {
  return common::contains(kViewOnly, split(target).name);
}

std::vector<size_t> written_inputs(const ExportNode& node, std::string_view target) {
  if (node.inputs.empty() || node.outputs.empty()) return {};
  if (is_in_place(target)) return {0};
  size_t count = node.outputs.size();
  if (!has_out_arguments(target) || node.inputs.size() < count) return {};
  std::vector<size_t> out;
  for (size_t k = node.inputs.size() - count; k < node.inputs.size(); ++k) out.push_back(k);
  return out;
}

}  // namespace clients
