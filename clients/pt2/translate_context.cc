#include "clients/pt2/translate_context.h"

#include <algorithm>
#include <set>

#include "clients/pt2/sympy_parser.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;

double Scalar::value() const {
  if (kind == Kind::kFloat) return number;
  if (!integer.is_constant()) {
    throw Refusal{common::Code::kUnsupported, "a size is used where a constant number is needed"};
  }
  return static_cast<double>(integer.constant());
}

Context::Context(Builder* builder, std::unordered_map<std::string, Expr>* symbols)
    : b(*builder), symbols_(symbols) {}

void Context::refuse(std::string_view why) const {
  throw Refusal{common::Code::kUnsupported, std::string(why)};
}

// ---- Arguments -------------------------------------------------------------------------------

const Argument* Context::find(std::string_view name) const {
  for (const NamedArgument& input : node->inputs) {
    if (input.name == name) {
      return std::holds_alternative<NoneArgument>(input.value) ? nullptr : &input.value;
    }
  }
  return nullptr;
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
  for (const auto& [argument, part] : parts_) {
    bool item = name.size() > argument.size() && name[argument.size()] == '[';
    if (!argument.empty() && name.starts_with(argument) && (name.size() == argument.size() || item))
      return part;
  }
  return others_;
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
  others_ = others;
  parts_ = std::move(parts);
  std::vector<std::optional<NodeId>> out = std::move(collected_);
  collected_.assign(others == Part::kWhole ? 0 : outputs_.size(), std::nullopt);
  return out;
}

NodeId Context::tensor(std::string_view name) {
  return read_part(tensor_name(name), part_of(name));
}

NodeId Context::any_tensor(std::string_view name) {
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

namespace {

// The name of a symbolic number, or nothing for other arguments and for constants.
const std::string* number_name(const Argument& argument) {
  const std::string* name = nullptr;
  if (auto* value = std::get_if<SymIntArgument>(&argument)) name = &value->name;
  if (auto* value = std::get_if<SymFloatArgument>(&argument)) name = &value->name;
  if (auto* value = std::get_if<SymBoolArgument>(&argument)) name = &value->name;
  return name == nullptr || name->empty() ? nullptr : name;
}

}  // namespace

std::optional<NodeId> Context::data_number(std::string_view name) {
  const Argument* argument = find(name);
  const std::string* value = argument == nullptr ? nullptr : number_name(*argument);
  if (value == nullptr || !values_.contains(*value)) return std::nullopt;
  if (!std::holds_alternative<Tensor>(values_.at(*value))) return std::nullopt;
  return read(*value);
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

// ---- Types -----------------------------------------------------------------------------------

DType Context::ir_dtype(ScalarType type) const {
  switch (type) {
    case ScalarType::kBool:
      return DType::kBool;
    case ScalarType::kUint8:
      return DType::kUint8;
    case ScalarType::kInt8:
      return DType::kInt8;
    case ScalarType::kInt16:
      return DType::kInt16;
    case ScalarType::kInt32:
      return DType::kInt32;
    case ScalarType::kInt64:
      return DType::kInt64;
    case ScalarType::kFloat16:
      return DType::kFloat16;
    case ScalarType::kBfloat16:
      return DType::kBfloat16;
    case ScalarType::kFloat32:
    case ScalarType::kComplex64:
      return DType::kFloat32;
    case ScalarType::kFloat64:
    case ScalarType::kComplex128:
      return DType::kFloat64;
    default:
      refuse(cat("the dtype ", scalar_type_name(type), " is not supported"));
  }
}

Expr Context::expr_of(const Extent& extent) const {
  if (!extent.is_symbolic()) return extent.value;
  auto known = expressions_.find(extent.expression);
  if (known != expressions_.end()) return known->second;
  auto value = parse_sympy(extent.expression, [this](std::string_view name) {
    auto found = symbols_->find(std::string(name));
    return found == symbols_->end() ? std::nullopt : std::optional<Expr>(found->second);
  });
  if (!value.ok()) throw Refusal{value.error().code, value.error().message};
  expressions_.emplace(extent.expression, *value);
  return *value;
}

Shape Context::shape_of(const TensorMeta& meta) const {
  Shape shape;
  for (const Extent& size : meta.sizes) shape.push_back(b.simplify(expr_of(size)));
  bool complex = meta.dtype == ScalarType::kComplex64 || meta.dtype == ScalarType::kComplex128;
  if (complex && others_ == Part::kWhole) shape.push_back(2);
  return shape;
}

const TensorMeta& Context::meta(size_t k) const {
  if (!wants_output(k)) refuse(cat("it has no result ", k));
  return graph_->tensor_values.at(outputs_[k]);
}
DType Context::out_dtype(size_t k) const { return ir_dtype(meta(k).dtype); }
Sizes Context::out_shape(size_t k) const { return shape_of(meta(k)); }
Expr Context::out_size(int axis, size_t k) const {
  Shape shape = out_shape(k);
  if (axis < 0 || axis >= static_cast<int>(shape.size())) refuse("the result has another rank");
  return shape[static_cast<size_t>(axis)];
}
bool Context::out_is_complex(size_t k) const {
  ScalarType type = meta(k).dtype;
  if (others_ != Part::kWhole) return false;
  return type == ScalarType::kComplex64 || type == ScalarType::kComplex128;
}

// ---- Values ----------------------------------------------------------------------------------

void Context::begin(const ExportGraph& graph, const ExportNode& current) {
  graph_ = &graph;
  node = &current;
  outputs_.clear();
  for (const Argument& output : current.outputs) {
    if (auto* tensor = std::get_if<TensorArgument>(&output)) {
      outputs_.push_back(tensor->name);
    } else if (auto* list = std::get_if<TensorListArgument>(&output)) {
      outputs_.insert(outputs_.end(), list->names.begin(), list->names.end());
    } else {
      outputs_.emplace_back();
    }
  }
}

int Context::add_storage(NodeId value, int input) {
  storages_.push_back({value, 0, input});
  return static_cast<int>(storages_.size()) - 1;
}

void Context::define_tensor(const std::string& name, NodeId value, bool complex, int input) {
  values_[name] = Tensor{add_storage(value, input), {}, value, 0, complex};
}
void Context::define_size(const std::string& name, const Expr& value) { values_[name] = value; }

const Context::Value& Context::value(const std::string& name) const {
  auto found = values_.find(name);
  if (found == values_.end()) refuse(cat("'", name, "' is a value that lfarm does not follow"));
  return found->second;
}

const Context::Tensor& Context::tensor_value(const std::string& name) const {
  auto* tensor = std::get_if<Tensor>(&value(name));
  if (tensor == nullptr) refuse(cat("'", name, "' is no tensor"));
  return *tensor;
}

NodeId Context::read(Tensor* tensor) {
  const Storage& storage = storages_[static_cast<size_t>(tensor->storage)];
  if (tensor->version != storage.version) {
    tensor->node = storage.current;
    for (const View& step : tensor->chain) tensor->node = b.view(tensor->node, step);
    tensor->version = storage.version;
  }
  return tensor->node;
}

NodeId Context::read(const std::string& name) {
  auto* tensor = std::get_if<Tensor>(&const_cast<Value&>(value(name)));
  if (tensor == nullptr) refuse(cat("'", name, "' is no tensor"));
  return read(tensor);
}

bool Context::name_is_complex(const std::string& name) const {
  auto* tensor = std::get_if<Tensor>(&value(name));
  return tensor != nullptr && tensor->complex;
}

Expr Context::read_size(const std::string& name) const {
  auto* size = std::get_if<Expr>(&value(name));
  if (size == nullptr) refuse(cat("'", name, "' is known only at run time"));
  return *size;
}

std::optional<NodeId> Context::mutated_input(int input) const {
  for (const Storage& storage : storages_) {
    if (storage.input == input && storage.version > 0) return storage.current;
  }
  return std::nullopt;
}

// ---- Results ---------------------------------------------------------------------------------

// The value in exactly the shape the archive gives, when it is that shape in other words.
NodeId Context::fit(NodeId value, size_t k, bool complex) const {
  const TensorMeta& wanted = meta(k);
  if (b.dtype(value) != ir_dtype(wanted.dtype) || complex != out_is_complex(k)) {
    refuse(cat("lfarm derives the dtype ", common::dtype_name(b.dtype(value)), ", the model says ",
               scalar_type_name(wanted.dtype)));
  }
  Sizes shape = shape_of(wanted);
  if (b.shape(value) == shape) return value;
  bool same = shape.size() == b.shape(value).size();
  for (size_t i = 0; same && i < shape.size(); ++i) {
    same = b.simplify(shape[i] - b.shape(value)[i]).is_constant(0);
  }
  if (!same) {
    refuse(cat("lfarm derives the shape ", common::shape_text(b.shape(value)), ", the model says ",
               common::shape_text(shape)));
  }
  View view = common::view_identity(b.shape(value));
  view.shape = shape;
  return b.view(value, view);
}

void Context::set(NodeId value, size_t k) {
  if (!wants_output(k)) return;
  NodeId fitted = fit(value, k, false);
  if (others_ != Part::kWhole) {
    collected_[k] = fitted;
    return;
  }
  values_[outputs_[k]] = Tensor{add_storage(fitted, -1), {}, fitted, 0, false};
}

void Context::result(NodeId value, size_t k) {
  if (wants_output(k)) set(b.cast(value, out_dtype(k)), k);
}

void Context::set_complex(NodeId value, size_t k) {
  if (!wants_output(k)) return;
  NodeId fitted = fit(value, k, true);
  values_[outputs_[k]] = Tensor{add_storage(fitted, -1), {}, fitted, 0, true};
}

void Context::set_size(const Expr& value) {
  for (const Argument& output : node->outputs) {
    if (auto* symbol = std::get_if<SymIntArgument>(&output)) {
      values_[symbol->name] = b.simplify(value);
    }
  }
}

bool Context::set_size_as_exported() {
  for (const Argument& output : node->outputs) {
    auto* symbol = std::get_if<SymIntArgument>(&output);
    if (symbol == nullptr) continue;
    auto extent = graph_->sym_int_values.find(symbol->name);
    if (extent == graph_->sym_int_values.end()) return false;
    try {
      set_size(expr_of(extent->second));
      return true;
    } catch (const Refusal&) {
      return false;  // an expression without sizes: a number of the data
    }
  }
  return false;
}

void Context::set_data_number(NodeId value) {
  for (const Argument& output : node->outputs) {
    if (const std::string* name = number_name(output)) define_tensor(*name, value, false, -1);
  }
}

void Context::alias(std::string_view name, const View& view, size_t k) {
  if (!wants_output(k)) return;
  if (others_ != Part::kWhole) return set(b.view(tensor(name), view), k);
  Tensor out = tensor_value(tensor_name(name));
  NodeId before = read(&out);
  View exact = view;
  NodeId moved = b.view(before, view);
  NodeId fitted = fit(moved, k, out.complex);
  exact.shape = b.shape(fitted);
  out.node = fitted;
  if (!common::view_is_identity(exact, b.shape(before))) out.chain.push_back(std::move(exact));
  values_[outputs_[k]] = std::move(out);
}

void Context::alias(std::string_view name, size_t k) {
  if (others_ != Part::kWhole) return set(this->tensor(name), k);
  Tensor tensor = tensor_value(tensor_name(name));
  alias(name, common::view_identity(b.shape(read(&tensor))), k);
}

void Context::unshare(size_t k) {
  if (!wants_output(k) || others_ != Part::kWhole) return;
  Tensor tensor = tensor_value(outputs_[k]);
  values_[outputs_[k]] = Tensor{add_storage(tensor.node, -1), {}, tensor.node, 0, tensor.complex};
}

void Context::mutate(std::string_view name, NodeId content) {
  if (others_ != Part::kWhole) refuse("writing into complex tensors is not supported here");
  Tensor target = tensor_value(tensor_name(name));
  NodeId before = read(&target);
  NodeId cast = b.cast(content, b.dtype(before));
  if (!b.can_expand(cast, b.shape(before))) refuse("the written value has another shape");
  NodeId updates = b.expand(cast, b.shape(before));
  Storage& storage = storages_[static_cast<size_t>(target.storage)];
  if (target.chain.empty()) {
    storage.current = updates;
  } else {
    View whole = target.chain[0];
    for (size_t i = 1; i < target.chain.size(); ++i) {
      auto composed = common::view_compose(target.chain[i], whole, b.symbols());
      if (!composed) refuse("it writes into padding");
      whole = std::move(*composed);
    }
    if (!whole.valid.empty()) refuse("it writes into padding");
    std::vector<common::Coordinate> coordinates;
    for (const Expr& index : whole.index) coordinates.push_back({-1, index});
    storage.current = b.scatter(ScatterMode::kAssign, storage.current, updates, {}, coordinates);
  }
  ++storage.version;
}

}  // namespace clients
