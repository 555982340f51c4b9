#include "clients/pt2/aten/translate_context.h"

#include <algorithm>
#include <set>

#include "clients/pt2/aten/sympy_parser.h"
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
    : b(*builder), symbols_(symbols), checks_(builder) {}

void Context::refuse(std::string_view why) const {
  throw Refusal{common::Code::kUnsupported, std::string(why)};
}

void Context::check_index(NodeId index, const IndexRange& range) {
  if (branches_ == 0) checks_.add(index, range, operator_text(*node));
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
  shape = vmap_.levels;
  for (const Extent& size : meta.sizes) shape.push_back(b.simplify(expr_of(size)));
  bool complex = meta.dtype == ScalarType::kComplex64 || meta.dtype == ScalarType::kComplex128;
  if (complex && reading_.others == Part::kWhole) shape.push_back(2);
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
  if (reading_.others != Part::kWhole) return false;
  return type == ScalarType::kComplex64 || type == ScalarType::kComplex128;
}

// ---- Values ----------------------------------------------------------------------------------

void Context::begin(const ExportGraph& graph, const ExportNode& current) {
  graph_ = &graph;
  node = &current;
  vmap_.unaligned = false;
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

NodeId Context::read_value(Value value) {
  auto* tensor = std::get_if<Tensor>(&value);
  if (tensor == nullptr) refuse("a size is used where a tensor is needed");
  return read(tensor);
}

bool Context::name_is_complex(const std::string& name) const {
  auto* tensor = std::get_if<Tensor>(&value(name));
  return tensor != nullptr && tensor->complex;
}

void Context::choose(std::string_view condition, const std::string& name, Value yes, Value no) {
  auto* a = std::get_if<Tensor>(&yes);
  auto* b_side = std::get_if<Tensor>(&no);
  if (a == nullptr || b_side == nullptr || a->complex != b_side->complex) {
    refuse("its branches give something that is no tensor");
  }
  auto known = data_number(condition);
  NodeId test = b.cast(known ? *known : tensor(condition), DType::kBool);
  NodeId first = read(a);
  NodeId second = read(b_side);
  if (b.dtype(first) != b.dtype(second) || b.shape(first) != b.shape(second)) {
    refuse("its branches give other types");
  }
  define_tensor(name, b.select(b.reshape(test, {}), first, second), a->complex, -1);
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
  if (!vmap_.levels.empty()) return set_in_vmap(value, k);
  NodeId fitted = fit(value, k, false);
  if (reading_.others != Part::kWhole) {
    reading_.results[k] = fitted;
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
  if (!vmap_.levels.empty()) refuse("this view is not supported inside of torch.vmap");
  if (reading_.others != Part::kWhole) return set(b.view(tensor(name), view), k);
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
  if (reading_.others != Part::kWhole) return set(this->tensor(name), k);
  if (!vmap_.levels.empty() && wants_output(k)) {
    Tensor same = tensor_value(tensor_name(name));
    values_[outputs_[k]] = std::move(same);
    return;
  }
  Tensor tensor = tensor_value(tensor_name(name));
  alias(name, common::view_identity(b.shape(read(&tensor))), k);
}

void Context::unshare(size_t k) {
  if (!wants_output(k) || reading_.others != Part::kWhole || !vmap_.levels.empty()) return;
  Tensor tensor = tensor_value(outputs_[k]);
  values_[outputs_[k]] = Tensor{add_storage(tensor.node, -1), {}, tensor.node, 0, tensor.complex};
}

void Context::mutate(std::string_view name, NodeId content) {
  write_into(tensor_name(name), content);
}

void Context::mutate_item(std::string_view name, size_t k, NodeId content) {
  auto* list = std::get_if<TensorListArgument>(&need(name));
  if (list == nullptr || k >= list->names.size() || list->names[k].empty()) {
    refuse(cat("argument '", name, "' has no tensor ", k));
  }
  write_into(list->names[k], content);
}

void Context::write_into(const std::string& value, NodeId content) {
  if (!vmap_.levels.empty()) refuse("writing inside of torch.vmap is not supported");
  if (reading_.others != Part::kWhole) refuse("writing into complex tensors is not supported here");
  Tensor target = tensor_value(value);
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
