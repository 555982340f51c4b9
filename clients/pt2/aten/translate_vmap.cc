// torch.vmap in graphs that still hold it: levels are leading axes of their own.
#include <algorithm>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// Operators that work element by element, and so do not mind further axes in front, and those that
// only give their axes another shape.
// clang-format off: a list reads better filled.
constexpr std::string_view kElementwise[] = {"add",
                                             "sub",
                                             "mul",
                                             "div",
                                             "neg",
                                             "abs",
                                             "exp",
                                             "log",
                                             "sqrt",
                                             "rsqrt",
                                             "sin",
                                             "cos",
                                             "tanh",
                                             "sigmoid",
                                             "relu",
                                             "silu",
                                             "gelu",
                                             "pow",
                                             "square",
                                             "reciprocal",
                                             "maximum",
                                             "minimum",
                                             "clamp",
                                             "floor",
                                             "ceil",
                                             "round",
                                             "trunc",
                                             "sign",
                                             "where",
                                             "masked_fill",
                                             "lt",
                                             "le",
                                             "gt",
                                             "ge",
                                             "eq",
                                             "ne",
                                             "logical_and",
                                             "logical_or",
                                             "logical_xor",
                                             "logical_not",
                                             "bitwise_and",
                                             "bitwise_or",
                                             "bitwise_xor",
                                             "bitwise_not",
                                             "__and__",
                                             "__or__",
                                             "__xor__",
                                             "floor_divide",
                                             "remainder",
                                             "fmod",
                                             "isnan",
                                             "isinf",
                                             "to",
                                             "_to_copy",
                                             "clone",
                                             "detach",
                                             "unsqueeze",
                                             "squeeze",
                                             "view",
                                             "reshape",
                                             "flatten",
                                             "detach_",
                                             "alias",
                                             "contiguous",
                                             "new_ones",
                                             "new_zeros",
                                             "new_full",
                                             "zeros_like",
                                             "ones_like",
                                             "full_like",
                                             "lerp",
                                             "addcmul",
                                             "addcdiv",
                                             "softplus",
                                             "expm1",
                                             "log1p",
                                             "erf",
                                             "rsub",
                                             "fmax",
                                             "fmin",
                                             "_assert_tensor_metadata",
                                             "lift_fresh",
                                             "lift_fresh_copy",
                                             "scalar_tensor",
                                             "full",
                                             "arange",
                                             "zeros",
                                             "ones"};
// clang-format on

// Arguments of these functions have no names in the archive.
template <class T>
const T& argument_at(Context& c, size_t k) {
  const T* value = k < c.node->inputs.size() ? std::get_if<T>(&c.node->inputs[k].value) : nullptr;
  if (value == nullptr) c.refuse("an argument is missing");
  return *value;
}
const std::string& tensor_at(Context& c, size_t k) {
  return argument_at<TensorArgument>(c, k).name;
}
int64_t integer_at(Context& c, size_t k) { return argument_at<int64_t>(c, k); }

}  // namespace

bool works_in_vmap(std::string_view target) {
  if (target.starts_with("torch._functorch")) return true;
  if (!target.starts_with("aten.")) return false;
  target.remove_prefix(5);
  std::string_view name = target.substr(0, target.rfind('.'));
  if (name == "index") return true;
  return std::find(std::begin(kElementwise), std::end(kElementwise), name) !=
         std::end(kElementwise);
}

void Context::leave_vmap() {
  if (vmap_.levels.empty()) refuse("there is no vmap to leave");
  vmap_.levels.pop_back();
}

// The value with one leading axis for each of `levels`, of size 1 where it has none of its own.
NodeId Context::with_levels(const std::string& value, size_t levels) {
  Tensor tensor = tensor_value(value);
  if (tensor.complex) refuse("complex numbers are not supported inside of torch.vmap");
  auto own = static_cast<size_t>(tensor.levels);
  if (own > levels) refuse("a value of an inner vmap is used outside of it");
  NodeId x = read(value);
  for (size_t k = own; k < levels; ++k) x = b.unsqueeze(x, static_cast<int>(k));
  return x;
}

NodeId Context::read_in_vmap(const std::string& value) {
  size_t levels = vmap_.levels.size();
  NodeId x = with_levels(value, levels);
  if (vmap_.unaligned) return x;
  size_t rank = wants_output(0) ? out_shape().size() : 0;
  while (static_cast<size_t>(b.rank(x)) < rank) x = b.unsqueeze(x, static_cast<int>(levels));
  return x;
}

void Context::set_in_vmap(NodeId value, size_t k) {
  Shape shape = out_shape(k);
  if (b.dtype(value) != out_dtype(k) || !b.can_expand(value, shape)) {
    refuse("this operator is not supported inside of torch.vmap; call run_decompositions()");
  }
  NodeId full = b.expand(value, shape);
  Tensor out{add_storage(full, -1), {}, full, 0, false, static_cast<int>(vmap_.levels.size())};
  values_[outputs_[k]] = std::move(out);
}

void Context::add_level(const std::string& value, int64_t dim) {
  if (vmap_.levels.empty() || !wants_output(0)) refuse("there is no vmap around it");
  size_t outer = vmap_.levels.size() - 1;
  NodeId x = with_levels(value, outer);
  int64_t rank = b.rank(x) - static_cast<int64_t>(outer);
  int64_t axis = dim < 0 ? dim + rank : dim;
  if (axis < 0 || axis >= rank) refuse("no such axis");
  std::vector<int> order;
  for (int k = 0; k < b.rank(x); ++k) order.push_back(k);
  auto at = order.begin() + static_cast<ptrdiff_t>(outer) + axis;
  std::rotate(order.begin() + static_cast<ptrdiff_t>(outer), at, at + 1);
  NodeId moved = b.permute(x, order);
  Tensor out{add_storage(moved, -1), {}, moved, 0, false, static_cast<int>(vmap_.levels.size())};
  values_[outputs_[0]] = std::move(out);
}

void Context::remove_level(const std::string& value, int64_t dim) {
  if (vmap_.levels.empty() || !wants_output(0)) refuse("there is no vmap around it");
  size_t outer = vmap_.levels.size() - 1;
  NodeId x = with_levels(value, vmap_.levels.size());
  Shape shape = b.shape(x);
  shape[outer] = vmap_.levels.back();
  x = b.expand(x, shape);
  int64_t rank = b.rank(x) - static_cast<int64_t>(outer);
  int64_t axis = dim < 0 ? dim + rank : dim;
  if (axis < 0 || axis >= rank) refuse("no such axis");
  std::vector<int> order;
  for (int k = 0; k < b.rank(x); ++k) order.push_back(k);
  auto first = order.begin() + static_cast<ptrdiff_t>(outer);
  std::rotate(first, first + 1, first + 1 + axis);
  NodeId moved = b.permute(x, order);
  Tensor out{add_storage(moved, -1), {}, moved, 0, false, static_cast<int>(outer)};
  values_[outputs_[0]] = std::move(out);
}

NodeId Context::every_level(std::string_view name) {
  NodeId x = with_levels(tensor_name(name), vmap_.levels.size());
  Shape shape = b.shape(x);
  std::copy(vmap_.levels.begin(), vmap_.levels.end(), shape.begin());
  return b.expand(x, shape);
}

NodeId Context::without_levels(std::string_view name) {
  if (tensor_value(tensor_name(name)).levels != 0) {
    refuse("data that torch.vmap runs over cannot be indexed; call run_decompositions()");
  }
  vmap_.unaligned = true;
  return read(tensor_name(name));
}

void add_vmap_operators(OperatorTable* t) {
  t->add("torch._functorch.predispatch.lazy_load_decompositions", [](Context&) {});
  t->add("torch._functorch.predispatch._vmap_increment_nesting",
         [](Context& c) { c.enter_vmap(c.size("")); });
  t->add("torch._functorch.predispatch._vmap_decrement_nesting",
         [](Context& c) { c.leave_vmap(); });
  t->add("torch._functorch.predispatch._add_batch_dim",
         [](Context& c) { c.add_level(tensor_at(c, 0), integer_at(c, 1)); });
  t->add("torch._functorch.predispatch._remove_batch_dim",
         [](Context& c) { c.remove_level(tensor_at(c, 0), integer_at(c, 3)); });
}

}  // namespace clients
