// What the reference interpreter's operations share: strided values, loop nests over them, and
// dispatch from dtypes to C++ types.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/ir/hlir/half.h"
#include "common/runtime/interpreter/interpreter.h"

namespace common::interp {

using Sizes = std::vector<int64_t>;

// Storage types that C++ has no arithmetic for.
struct Bool {
  uint8_t value;
};
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};
struct Complex {
  float re, im;
};

// What every operation needs to know about the run.
struct Context {
  std::span<const int64_t> symbols;
  bool wide = false;
  bool narrow = false;  // sums of float32 accumulate in float32
  int64_t max_tensor_bytes = 0;
  uint64_t rounding = 0;  // see InterpretOptions

  // The dtype that a value of this declared dtype is carried in.
  DType carried(DType dtype) const { return wide && is_float(dtype) ? DType::kFloat64 : dtype; }
};

// Element [i0, i1, ...] is element offset + sum of i<k> * strides[k] of the storage. Strides of 0
// broadcast: operations compute such axes once.
struct Value {
  HostTensor storage;
  Sizes sizes;
  Sizes strides;
  int64_t offset = 0;

  DType dtype() const { return storage.dtype(); }
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(storage.data()) + offset;
  }
  template <class T>
  T* mutable_data() {
    return reinterpret_cast<T*>(storage.mutable_bytes().data()) + offset;
  }
};

Sizes row_major_strides(std::span<const int64_t> sizes);
Value whole(HostTensor tensor);
int64_t count_of(std::span<const int64_t> sizes);
bool is_contiguous(const Value& value);
// An uninitialised value; axes where `broadcast` is set are stored once (stride 0).
Result<Value> allocate(const Context& context, DType dtype, Sizes sizes,
                       std::span<const char> broadcast = {});
// Copies element by element; equal sizes and dtypes.
void copy_elements(const Value& from, Value& to);
// Row-major storage from element 0, without strides of 0; the value itself when it is that.
Result<Value> contiguous(const Context& context, const Value& value);
// Axes along which all values repeat; `values` have equal sizes.
std::vector<char> repeated_axes(std::span<const Value* const> values);
// The sizes of the stored part: 1 where `broadcast` is set.
Sizes stored_sizes(std::span<const int64_t> sizes, std::span<const char> broadcast);

// Visits the positions of `sizes` in row-major order with N offsets: f(const array<int64_t, N>&).
template <size_t N, class F>
void for_each_position(std::span<const int64_t> sizes, const std::array<Sizes, N>& strides,
                       std::array<int64_t, N> offsets, F&& f) {
  for (int64_t size : sizes) {
    if (size == 0) return;
  }
  Sizes index(sizes.size(), 0);
  for (;;) {
    f(const_cast<const std::array<int64_t, N>&>(offsets));
    size_t k = sizes.size();
    while (k > 0 && ++index[k - 1] == sizes[k - 1]) {
      for (size_t n = 0; n < N; ++n) offsets[n] -= strides[n][k - 1] * (sizes[k - 1] - 1);
      index[--k] = 0;
    }
    if (k == 0) return;
    for (size_t n = 0; n < N; ++n) offsets[n] += strides[n][k - 1];
  }
}

// A loop nest over N operands: axes of size 1 are dropped, axes that are one run for every operand
// are merged, and the last axis becomes the row.
template <size_t N>
struct Nest {
  Sizes sizes;
  std::array<Sizes, N> strides;
  int64_t length = 1;              // of a row
  std::array<int64_t, N> steps{};  // within a row

  Nest(std::span<const int64_t> full, const std::array<Sizes, N>& full_strides) {
    for (size_t k = 0; k < full.size(); ++k) {
      if (full[k] == 1) continue;
      bool merge = !sizes.empty();
      for (size_t n = 0; n < N && merge; ++n) {
        merge = strides[n].back() == full_strides[n][k] * full[k];
      }
      if (merge) {
        sizes.back() *= full[k];
      } else {
        sizes.push_back(full[k]);
      }
      for (size_t n = 0; n < N; ++n) {
        if (merge) strides[n].pop_back();
        strides[n].push_back(full_strides[n][k]);
      }
    }
    if (sizes.empty()) return;
    length = sizes.back();
    sizes.pop_back();
    for (size_t n = 0; n < N; ++n) {
      steps[n] = strides[n].back();
      strides[n].pop_back();
    }
  }
  // f(offsets) for every row, `length` elements of `steps` each.
  template <class F>
  void rows(std::array<int64_t, N> offsets, F&& f) const {
    if (length == 0) return;
    for_each_position<N>(sizes, strides, offsets, f);
  }
};

// f(T{}) for integers, and floats when they are carried; verified graphs do arithmetic on no other.
template <class F>
auto dispatch_integer(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kUint8:
      return f(uint8_t{});
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kInt32:
      return f(int32_t{});
    default:
      LFARM_CHECK(dtype == DType::kInt64, "not an integer dtype");
      return f(int64_t{});
  }
}
template <class F>
auto dispatch_number(DType dtype, F&& f) {
  if (dtype == DType::kFloat32) return f(float{});
  if (dtype == DType::kFloat64) return f(double{});
  return dispatch_integer(dtype, f);
}
// f(T{}) with the storage type of `dtype`.
template <class F>
auto dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kBool:
      return f(Bool{});
    case DType::kFloat16:
      return f(Half{});
    case DType::kBfloat16:
      return f(Bfloat{});
    case DType::kComplex64:
      return f(Complex{});
    default:
      return dispatch_number(dtype, f);
  }
}

// f(T{}) with an unsigned integer of `bytes` bytes: for moving elements whatever they are.
template <class F>
auto dispatch_bytes(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

// f32 and f64.
template <class F>
auto dispatch_float(DType dtype, F&& f) {
  if (dtype == DType::kFloat32) return f(float{});
  LFARM_CHECK(dtype == DType::kFloat64, "not a float dtype that computes");
  return f(double{});
}

// Any float storage type as a double.
inline double widen(Half x) { return static_cast<double>(float_from_half(x.bits)); }
inline double widen(Bfloat x) { return static_cast<double>(float_from_bfloat16(x.bits)); }
inline double widen(float x) { return static_cast<double>(x); }
inline double widen(double x) { return x; }

}  // namespace common::interp
