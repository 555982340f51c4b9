#include "common/runtime/interpreter/interpreter_value.h"

#include <cstring>

#include "common/base/cat.h"

namespace common::interp {

Sizes row_major_strides(std::span<const int64_t> sizes) {
  Sizes strides(sizes.size(), 1);
  int64_t below = 1;
  for (size_t k = sizes.size(); k-- > 0;) {
    strides[k] = below;
    below *= sizes[k];
  }
  return strides;
}

int64_t count_of(std::span<const int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

Value whole(HostTensor tensor) {
  Value value;
  value.sizes = tensor.sizes();
  value.strides = row_major_strides(value.sizes);
  value.storage = std::move(tensor);
  return value;
}

bool is_contiguous(const Value& value) {
  int64_t below = 1;
  for (size_t k = value.sizes.size(); k-- > 0;) {
    if (value.sizes[k] != 1 && value.strides[k] != below) return false;
    below *= value.sizes[k];
  }
  return value.offset == 0 && value.storage.elements() == below;
}

Sizes stored_sizes(std::span<const int64_t> sizes, std::span<const char> broadcast) {
  Sizes stored(sizes.begin(), sizes.end());
  for (size_t k = 0; k < broadcast.size(); ++k) {
    if (broadcast[k] && stored[k] > 1) stored[k] = 1;
  }
  return stored;
}

Result<Value> allocate(const Context& context, DType dtype, Sizes sizes,
                       std::span<const char> broadcast) {
  Sizes stored = stored_sizes(sizes, broadcast);
  LFARM_ASSIGN_OR_RETURN(int64_t elements, checked_element_count(dtype, stored));
  if (elements > context.max_tensor_bytes / dtype_size(dtype)) {
    return invalid_input(cat("a tensor ", tensor_type_text(dtype, stored), " is larger than ",
                             context.max_tensor_bytes, " bytes, the limit of this run"));
  }
  LFARM_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::uninitialized(dtype, std::move(stored)));
  Value value = whole(std::move(tensor));
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (value.sizes[k] != sizes[k]) value.strides[k] = 0;
  }
  value.sizes = std::move(sizes);
  return value;
}

void copy_elements(const Value& from, Value& to) {
  Nest<2> nest(from.sizes, {from.strides, to.strides});
  dispatch_bytes(dtype_size(from.dtype()), [&](auto unit) {
    using T = decltype(unit);
    const T* sources = from.data<T>();
    T* targets = to.mutable_data<T>();
    nest.rows({0, 0}, [&](const std::array<int64_t, 2>& at) {
      const T* source = sources + at[0];
      T* target = targets + at[1];
      if (nest.steps[0] == 1 && nest.steps[1] == 1) {
        std::memcpy(target, source, static_cast<size_t>(nest.length) * sizeof(T));
        return;
      }
      for (int64_t i = 0; i < nest.length; ++i) {
        target[i * nest.steps[1]] = source[i * nest.steps[0]];
      }
    });
  });
}

Result<Value> contiguous(const Context& context, const Value& value) {
  if (is_contiguous(value)) return value;
  LFARM_ASSIGN_OR_RETURN(Value result, allocate(context, value.dtype(), value.sizes));
  copy_elements(value, result);
  return result;
}

std::vector<char> repeated_axes(std::span<const Value* const> values) {
  std::vector<char> repeated(values[0]->sizes.size(), 1);
  for (const Value* value : values) {
    for (size_t k = 0; k < repeated.size(); ++k) {
      if (value->sizes[k] != 1 && value->strides[k] != 0) repeated[k] = 0;
    }
  }
  return repeated;
}

}  // namespace common::interp
