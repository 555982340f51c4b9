// How a translator reads its node's arguments.
#include <algorithm>
#include <set>

#include "clients/pt2/aten/translate_context.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;

namespace {

// PyTorch names an operator's first argument "self" in one overload and "input" in the next
// (dropout and dropout_), so either word means the first argument, whatever its schema calls it.
bool names_the_first(std::string_view name) { return name == "self" || name == "input"; }

// Argument names of aliases (operator_aliases.cc) beside those of the operators they stand for.
std::string_view other_name(std::string_view name) {
  if (name == "dim0") return "axis0";
  if (name == "dim1") return "axis1";
  return "";
}

}  // namespace

const NamedArgument* Context::find_given(std::string_view name) const {
  const std::vector<NamedArgument>& given = node->inputs;
  auto named = [&given](std::string_view wanted) {
    return std::find_if(given.begin(), given.end(),
                        [wanted](const NamedArgument& one) { return one.name == wanted; });
  };
  auto found = named(name);
  if (found == given.end() && names_the_first(name)) found = given.begin();
  if (found == given.end() && !other_name(name).empty()) found = named(other_name(name));
  return found == given.end() ? nullptr : &*found;
}

const Argument* Context::find(std::string_view name) const {
  const NamedArgument* given = find_given(name);
  if (given == nullptr || std::holds_alternative<NoneArgument>(given->value)) return nullptr;
  return &given->value;
}

const Argument& Context::need(std::string_view name) const {
  const Argument* argument = find(name);
  if (argument == nullptr) refuse(cat("argument '", name, "' is missing"));
  return *argument;
}

bool Context::has(std::string_view name) const { return find(name) != nullptr; }

bool Context::is_tensor(std::string_view name) const {
  const Argument* argument = find(name);
  return argument != nullptr && std::holds_alternative<TensorArgument>(*argument);
}

bool Context::is_tensor_list(std::string_view name) const {
  const Argument* argument = find(name);
  return argument != nullptr && std::holds_alternative<TensorListArgument>(*argument);
}

const std::string& Context::tensor_name(std::string_view name) const {
  auto* tensor = std::get_if<TensorArgument>(&need(name));
  if (tensor == nullptr) refuse(cat("argument '", name, "' is no tensor"));
  return tensor->name;
}

Part Context::part_of(std::string_view name) const {
  for (const auto& [argument, part] : reading_.parts) {
    bool item = name.size() > argument.size() && name[argument.size()] == '[';
    if (!argument.empty() && name.starts_with(argument) && (name.size() == argument.size() || item))
      return part;
  }
  return reading_.others;
}

NodeId Context::read_part(const std::string& value, Part part) {
  NodeId x = read(value);
  bool complex = name_is_complex(value);
  if (part == Part::kWhole) {
    if (complex) refuse("complex numbers are not supported here");
    return x;
  }
  if (complex) {
    int last = b.rank(x) - 1;
    x = b.squeeze(b.slice(x, last, part == Part::kImaginary ? 1 : 0, 1), last);
  } else if (!common::is_float(b.dtype(x)) || part == Part::kReal) {
    return x;
  }
  bool zero = part == Part::kZero || (part == Part::kImaginary && !complex);
  return zero ? b.full(b.dtype(x), b.shape(x), 0) : x;
}

std::vector<std::optional<NodeId>> Context::read_parts(Part others, Parts parts) {
  reading_.others = others;
  reading_.parts = std::move(parts);
  std::vector<std::optional<NodeId>> out = std::move(reading_.results);
  reading_.results.assign(others == Part::kWhole ? 0 : outputs_.size(), std::nullopt);
  return out;
}

NodeId Context::tensor(std::string_view name) {
  if (!vmap_.levels.empty()) return read_in_vmap(tensor_name(name));
  return read_part(tensor_name(name), part_of(name));
}

NodeId Context::any_tensor(std::string_view name) {
  if (!vmap_.levels.empty()) return read_in_vmap(tensor_name(name));
  Part part = part_of(name);
  return part == Part::kWhole ? read(tensor_name(name)) : read_part(tensor_name(name), part);
}

std::optional<NodeId> Context::optional_tensor(std::string_view name) {
  if (!has(name)) return std::nullopt;
  return tensor(name);
}

bool Context::is_complex(std::string_view name) const {
  return part_of(name) == Part::kWhole && is_tensor(name) && name_is_complex(tensor_name(name));
}

std::vector<std::optional<NodeId>> Context::optional_tensors(std::string_view name) {
  auto* list = std::get_if<TensorListArgument>(&need(name));
  if (list == nullptr) refuse(cat("argument '", name, "' is no list of tensors"));
  std::vector<std::optional<NodeId>> out;
  for (const std::string& item : list->names) {
    Part part = part_of(cat(name, "[", out.size(), "]"));
    if (!vmap_.levels.empty() && !item.empty()) {
      out.push_back(read_in_vmap(item));
      continue;
    }
    out.push_back(item.empty() ? std::nullopt : std::optional<NodeId>(read_part(item, part)));
  }
  return out;
}

std::vector<NodeId> Context::tensors(std::string_view name) {
  std::vector<NodeId> out;
  for (const auto& item : optional_tensors(name)) {
    if (!item) refuse(cat("argument '", name, "' has an empty place"));
    out.push_back(*item);
  }
  return out;
}

Expr Context::size(std::string_view name) {
  const Argument& argument = need(name);
  if (auto* value = std::get_if<int64_t>(&argument)) return *value;
  if (auto* value = std::get_if<bool>(&argument)) return *value ? 1 : 0;
  if (auto* value = std::get_if<SymIntArgument>(&argument)) {
    return value->name.empty() ? Expr(value->value) : read_size(value->name);
  }
  refuse(cat("argument '", name, "' is no integer"));
}
Expr Context::size(std::string_view name, const Expr& fallback) {
  return has(name) ? size(name) : fallback;
}

int64_t Context::integer(std::string_view name) {
  Expr value = size(name);
  if (!value.is_constant()) refuse(cat("argument '", name, "' is a size, not a constant"));
  return value.constant();
}
int64_t Context::integer(std::string_view name, int64_t fallback) {
  return has(name) ? integer(name) : fallback;
}

std::vector<Expr> Context::sizes(std::string_view name) {
  const Argument& argument = need(name);
  std::vector<Expr> out;
  if (auto* list = std::get_if<std::vector<int64_t>>(&argument)) {
    out.assign(list->begin(), list->end());
  } else if (auto* symbolic = std::get_if<std::vector<SymIntArgument>>(&argument)) {
    for (const SymIntArgument& item : *symbolic) {
      out.push_back(item.name.empty() ? Expr(item.value) : read_size(item.name));
    }
  } else {
    out.push_back(size(name));
  }
  return out;
}

std::vector<int64_t> Context::integers(std::string_view name) {
  std::vector<int64_t> out;
  for (const Expr& item : sizes(name)) {
    if (!item.is_constant()) refuse(cat("argument '", name, "' holds a size, not a constant"));
    out.push_back(item.constant());
  }
  return out;
}
std::vector<int64_t> Context::integers(std::string_view name, std::vector<int64_t> fallback) {
  return has(name) ? integers(name) : std::move(fallback);
}

namespace {

// Numbers that stand for an element, not for a factor of one.
bool is_element(std::string_view name) {
  return name == "value" || name == "fill_value" || name == "other" || name == "self" ||
         name == "s" || name == "start" || name == "end";
}

}  // namespace

Scalar Context::scalar(std::string_view name) {
  const Argument& argument = need(name);
  Scalar out;
  Part part = part_of(name);
  if (auto* number = std::get_if<ComplexArgument>(&argument)) {
    if (part == Part::kWhole) refuse("complex numbers are not supported here");
    if (!is_element(name) && number->imaginary != 0) refuse("complex factors are not supported");
    out.kind = Scalar::Kind::kFloat;
    if (part == Part::kReal || !is_element(name)) out.number = number->real;
    if (part == Part::kImaginary && is_element(name)) out.number = number->imaginary;
    return out;
  }
  if (is_element(name) && (part == Part::kImaginary || part == Part::kZero)) return out;
  if (auto* real = std::get_if<double>(&argument)) {
    out.kind = Scalar::Kind::kFloat;
    out.number = *real;
  } else if (auto* symbolic = std::get_if<SymFloatArgument>(&argument)) {
    if (!symbolic->name.empty()) refuse(cat("argument '", name, "' is known only at run time"));
    out.kind = Scalar::Kind::kFloat;
    out.number = symbolic->value;
  } else {
    bool truth = std::holds_alternative<bool>(argument);
    out.kind = truth ? Scalar::Kind::kBool : Scalar::Kind::kInt;
    out.integer = size(name);
  }
  return out;
}

std::optional<ComplexArgument> Context::complex_number(std::string_view name) const {
  const Argument* argument = find(name);
  auto* number = argument == nullptr ? nullptr : std::get_if<ComplexArgument>(argument);
  return number == nullptr ? std::nullopt : std::optional<ComplexArgument>(*number);
}

const std::vector<double>* Context::floats(std::string_view name) const {
  const Argument* argument = find(name);
  return argument == nullptr ? nullptr : std::get_if<std::vector<double>>(argument);
}

std::vector<double> Context::numbers(std::string_view name) {
  const Argument& argument = need(name);
  if (const auto* list = floats(name)) return *list;
  if (std::holds_alternative<double>(argument)) return {number(name, 0)};
  std::vector<double> out;
  for (int64_t value : integers(name)) out.push_back(static_cast<double>(value));
  return out;
}

double Context::number(std::string_view name, double fallback) {
  return has(name) ? scalar(name).value() : fallback;
}

bool Context::flag(std::string_view name, bool fallback) {
  return has(name) ? scalar(name).value() != 0 : fallback;
}

bool Context::is_text(std::string_view name) const {
  const Argument* argument = find(name);
  return argument != nullptr && std::holds_alternative<std::string>(*argument);
}

std::string Context::text(std::string_view name, std::string_view fallback) {
  const Argument* argument = find(name);
  if (argument == nullptr) return std::string(fallback);
  auto* value = std::get_if<std::string>(argument);
  if (value == nullptr) refuse(cat("argument '", name, "' is no string"));
  return *value;
}

const std::string* number_name(const Argument& argument) {
  const std::string* name = nullptr;
  if (auto* value = std::get_if<SymIntArgument>(&argument)) name = &value->name;
  if (auto* value = std::get_if<SymFloatArgument>(&argument)) name = &value->name;
  if (auto* value = std::get_if<SymBoolArgument>(&argument)) name = &value->name;
  return name == nullptr || name->empty() ? nullptr : name;
}

std::optional<NodeId> Context::data_number(std::string_view name) {
  const Argument* argument = find(name);
  const std::string* value = argument == nullptr ? nullptr : number_name(*argument);
  if (value == nullptr || !values_.contains(*value)) return std::nullopt;
  if (!std::holds_alternative<Tensor>(values_.at(*value))) return std::nullopt;
  return read(*value);
}

const TensorMeta& Context::layout(std::string_view name) const {
  return graph_->tensor_values.at(tensor_name(name));
}

std::optional<DType> Context::dtype(std::string_view name) {
  const Argument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  auto* type = std::get_if<ScalarType>(argument);
  if (type == nullptr) refuse(cat("argument '", name, "' is no dtype"));
  return ir_dtype(*type);
}

namespace {

int wrap_axis(const Context& c, int64_t axis, int rank) {
  int64_t limit = std::max(rank, 1);
  if (axis < -limit || axis >= limit) c.refuse(cat("axis ", axis, " of ", rank, " axes"));
  return static_cast<int>(axis < 0 ? axis + limit : axis);
}

}  // namespace

int Context::axis(std::string_view name, int rank) { return wrap_axis(*this, integer(name), rank); }
int Context::axis(std::string_view name, int rank, int64_t fallback) {
  return wrap_axis(*this, integer(name, fallback), rank);
}

std::vector<int> Context::ordered_axes(std::string_view name, int rank) {
  std::vector<int> out;
  for (int64_t axis : integers(name, {})) out.push_back(wrap_axis(*this, axis, rank));
  return out;
}

std::vector<int> Context::axes(std::string_view name, int rank) {
  std::set<int> chosen;
  for (int64_t axis : integers(name, {})) {
    int wrapped = wrap_axis(*this, axis, rank);
    if (wrapped < rank) chosen.insert(wrapped);
  }
  if (chosen.empty()) {
    for (int k = 0; k < rank; ++k) chosen.insert(k);
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace clients
