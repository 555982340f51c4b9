// HostTensor: a row-major tensor in host memory, for binding, verifying and reference execution.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/ir/hlir/dtype.h"

namespace common {

inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 40;
inline constexpr size_t kTensorAlignment = 64;
// What the bands around a tensor hold, see HostTensor::banded().
inline constexpr std::byte kBandPattern{0x5c};

// sizes multiplied; kInvalidInput when a size is negative or the tensor exceeds kMaxTensorBytes.
Result<int64_t> checked_element_count(DType dtype, std::span<const int64_t> sizes);
// "f32[2, 64]"
std::string tensor_type_text(DType dtype, std::span<const int64_t> sizes);

// One element between storage and numbers. Floats round to nearest even, integers keep their low
// bits, and a complex number is its real part.
double load_element(DType dtype, const std::byte* at);
int64_t load_element_int(DType dtype, const std::byte* at);
void store_element(DType dtype, std::byte* at, double value);
void store_element_int(DType dtype, std::byte* at, int64_t value);

// Row-major and contiguous. A copy shares the elements with the original; clone() does not.
// Owned memory is aligned to kTensorAlignment bytes; wrapped memory belongs to the caller, who
// keeps it alive and sees what is written to it.
class HostTensor {
 public:
  HostTensor() = default;  // f32[0]

  // kInvalidInput for sizes that checked_element_count refuses, kInternal without memory.
  static Result<HostTensor> zeros(DType dtype, std::vector<int64_t> sizes);
  // Contents are undefined.
  static Result<HostTensor> uninitialized(DType dtype, std::vector<int64_t> sizes);
  // The same with `band` bytes of kBandPattern on each side, a multiple of kTensorAlignment, so
  // that writes beyond the ends are seen.
  static Result<HostTensor> banded(DType dtype, std::vector<int64_t> sizes, size_t band);
  // An owned copy of `bytes`; kInvalidInput when their number does not fit.
  static Result<HostTensor> copy_of(DType dtype, std::vector<int64_t> sizes, ByteView bytes);
  // Not owned; kInvalidInput when the number of bytes does not fit. `wrap` gives a tensor that
  // mutable_bytes() refuses.
  static Result<HostTensor> wrap(DType dtype, std::vector<int64_t> sizes, ByteView bytes);
  static Result<HostTensor> wrap_mutable(DType dtype, std::vector<int64_t> sizes,
                                         std::span<std::byte> bytes);
  // The same memory under other sizes; kInvalidInput when the number of elements differs.
  Result<HostTensor> reshaped(std::vector<int64_t> sizes) const;
  Result<HostTensor> clone() const { return copy_of(dtype_, sizes_, bytes()); }

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t elements() const { return elements_; }
  ByteView bytes() const { return {data_, static_cast<size_t>(elements_ * dtype_size(dtype_))}; }
  std::span<std::byte> mutable_bytes();
  const std::byte* data() const { return data_; }
  bool owns_memory() const { return owner_ != nullptr || elements_ == 0; }
  size_t band() const { return band_; }  // 0: none

  // Element `i` in row-major order, 0 <= i < elements().
  double get(int64_t i) const { return load_element(dtype_, address(i)); }
  int64_t get_int(int64_t i) const { return load_element_int(dtype_, address(i)); }
  void set(int64_t i, double value);
  void set_int(int64_t i, int64_t value);
  std::string type_text() const { return tensor_type_text(dtype_, sizes_); }

 private:
  const std::byte* address(int64_t i) const;
  DType dtype_ = DType::kFloat32;
  std::vector<int64_t> sizes_ = {0};
  int64_t elements_ = 0;
  std::shared_ptr<std::byte> owner_;
  std::byte* data_ = nullptr;
  size_t band_ = 0;
  bool read_only_ = false;
};

// The row-major copy of a strided tensor in `storage`: element [i0, i1, ...] lies at element
// offset + sum of i<k> * strides[k] (all in elements; strides may be zero or negative).
// kInvalidInput when any element lies outside the storage.
Result<HostTensor> contiguous_copy(DType dtype, std::vector<int64_t> sizes,
                                   std::span<const int64_t> strides, int64_t offset,
                                   ByteView storage);

}  // namespace common
