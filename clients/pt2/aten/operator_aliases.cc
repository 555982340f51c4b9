// Operators that PyTorch has under several names. Exports keep the name that the model was written
// with; tests/fixtures/schemas/aliases.txt is PyTorch's own list, against which this one is tested.
#include <algorithm>

#include "clients/pt2/aten/operators.h"
#include "common/base/cat.h"

namespace clients {
namespace {

// Sorted by the first. Both take the same arguments; those that an alias names otherwise are in
// other_name (translate_arguments.cc).
constexpr OperatorAlias kAliases[] = {
    {"absolute", "abs"},
    {"arccos", "acos"},
    {"arccosh", "acosh"},
    {"arcsin", "asin"},
    {"arcsinh", "asinh"},
    {"arctan", "atan"},
    {"arctan2", "atan2"},
    {"arctanh", "atanh"},
    {"clip", "clamp"},
    {"concat", "cat"},
    {"concatenate", "cat"},
    {"divide", "div"},
    {"fix", "trunc"},
    {"ger", "outer"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"linalg_matmul", "matmul"},
    {"matrix_power", "linalg_matrix_power"},
    {"moveaxis", "movedim"},
    {"multiply", "mul"},
    {"negative", "neg"},
    {"not_equal", "ne"},
    {"row_stack", "vstack"},
    {"special_digamma", "digamma"},
    {"special_erf", "erf"},
    {"special_erfc", "erfc"},
    {"special_erfinv", "erfinv"},
    {"special_exp2", "exp2"},
    {"special_expit", "sigmoid"},
    {"special_expm1", "expm1"},
    {"special_gammainc", "igamma"},
    {"special_gammaincc", "igammac"},
    {"special_gammaln", "lgamma"},
    {"special_i0", "i0"},
    {"special_log1p", "log1p"},
    {"special_log_softmax", "log_softmax"},
    {"special_logit", "logit"},
    {"special_logsumexp", "logsumexp"},
    {"special_multigammaln", "mvlgamma"},
    {"special_polygamma", "polygamma"},
    {"special_psi", "digamma"},
    {"special_sinc", "sinc"},
    {"special_softmax", "softmax"},
    {"special_xlogy", "xlogy"},
    {"subtract", "sub"},
    {"swapaxes", "transpose"},
    {"swapdims", "transpose"},
    {"trapz", "trapezoid"},
    {"true_divide", "div"},
};
// Operators of Python's augmented assignments, as `mask &= other`.
constexpr OperatorAlias kAugmented[] = {
    {"__iand__", "bitwise_and_"}, {"__ilshift__", "bitwise_left_shift_"},
    {"__ior__", "bitwise_or_"},   {"__irshift__", "bitwise_right_shift_"},
    {"__ixor__", "bitwise_xor_"},
};
constexpr std::string_view kNamespace = "aten.";

// Overloads with out= of operators whose overloads have rows of their own.
constexpr OperatorAlias kOutForms[] = {
    {"aten.max.dim_max", "aten.max.dim"},
    {"aten.max.out", "aten.max.other"},
    {"aten.max.unary_out", "aten.max.default"},
    {"aten.min.dim_min", "aten.min.dim"},
    {"aten.min.out", "aten.min.other"},
    {"aten.min.unary_out", "aten.min.default"},
    {"aten.repeat_interleave.Tensor_out", "aten.repeat_interleave.Tensor"},
    {"aten.round.decimals_out", "aten.round.decimals"},
};

}  // namespace

std::span<const OperatorAlias> operator_aliases() { return kAliases; }

std::string canonical_target(std::string_view target) {
  for (const OperatorAlias& form : kOutForms) {
    if (form.name == target) return std::string(form.operator_name);
  }
  size_t dot = target.rfind('.');
  if (!target.starts_with(kNamespace) || dot < kNamespace.size()) return std::string(target);
  std::string_view name = target.substr(kNamespace.size(), dot - kNamespace.size());
  for (const OperatorAlias& form : kAugmented) {
    if (form.name == name) return common::cat(kNamespace, form.operator_name, target.substr(dot));
  }
  bool in_place = name.ends_with('_') && !name.ends_with("__");
  if (in_place) name.remove_suffix(1);
  auto found = std::lower_bound(
      std::begin(kAliases), std::end(kAliases), name,
      [](const OperatorAlias& alias, std::string_view wanted) { return alias.name < wanted; });
  if (found == std::end(kAliases) || found->name != name) return std::string(target);
  return common::cat(kNamespace, found->operator_name, in_place ? "_" : "", target.substr(dot));
}

}  // namespace clients
