#include "common/runtime/tensor/tensor.h"

#include <cstring>

#include "common/base/cat.h"
#include "common/ir/hlir/half.h"
#include "common/process/kept_memory.h"

namespace common {
namespace {

template <class T>
T load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void store_as(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Out-of-range values have no defined conversion in C++; take the low bits of what fits.
int64_t to_int(double value) {
  if (!(value > -0x1p63 && value < 0x1p63)) return INT64_MIN;
  return static_cast<int64_t>(value);
}

}  // namespace

Result<int64_t> checked_element_count(DType dtype, std::span<const int64_t> sizes) {
  int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (int64_t size : sizes) {
    if (size < 0) {
      return invalid_input(
          cat("a tensor of sizes ", tensor_type_text(dtype, sizes), " has a negative size"));
    }
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(count, size, &count);
  }
  if (empty) return int64_t{0};
  if (overflow || count > kMaxTensorBytes / dtype_size(dtype)) {
    return invalid_input(cat("a tensor ", tensor_type_text(dtype, sizes), " is larger than ",
                             kMaxTensorBytes, " bytes"));
  }
  return count;
}

std::string tensor_type_text(DType dtype, std::span<const int64_t> sizes) {
  std::string text = cat(dtype_name(dtype), "[");
  for (size_t k = 0; k < sizes.size(); ++k) text += cat(k ? ", " : "", sizes[k]);
  return text + "]";
}

double load_element(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kFloat16:
      return static_cast<double>(float_from_half(load_as<uint16_t>(at)));
    case DType::kBfloat16:
      return static_cast<double>(float_from_bfloat16(load_as<uint16_t>(at)));
    case DType::kFloat32:
    case DType::kComplex64:
      return static_cast<double>(load_as<float>(at));
    case DType::kFloat64:
      return load_as<double>(at);
    default:
      return static_cast<double>(load_element_int(dtype, at));
  }
}

int64_t load_element_int(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kBool:
      return load_as<uint8_t>(at) != 0;
    case DType::kUint8:
      return load_as<uint8_t>(at);
    case DType::kInt8:
      return load_as<int8_t>(at);
    case DType::kInt16:
      return load_as<int16_t>(at);
    case DType::kInt32:
      return load_as<int32_t>(at);
    case DType::kInt64:
      return load_as<int64_t>(at);
    default:
      return to_int(load_element(dtype, at));
  }
}

void store_element(DType dtype, std::byte* at, double value) {
  switch (dtype) {
    case DType::kFloat16:
      return store_as(at, half_from_float(static_cast<float>(value)));
    case DType::kBfloat16:
      return store_as(at, bfloat16_from_float(static_cast<float>(value)));
    case DType::kFloat32:
      return store_as(at, static_cast<float>(value));
    case DType::kFloat64:
      return store_as(at, value);
    case DType::kComplex64:
      store_as(at, static_cast<float>(value));
      return store_as(at + sizeof(float), 0.0f);
    case DType::kBool:
      return store_as(at, static_cast<uint8_t>(value != 0));
    default:
      return store_element_int(dtype, at, to_int(value));
  }
}

void store_element_int(DType dtype, std::byte* at, int64_t value) {
  switch (dtype) {
    case DType::kBool:
      return store_as(at, static_cast<uint8_t>(value != 0));
    case DType::kUint8:
      return store_as(at, static_cast<uint8_t>(value));
    case DType::kInt8:
      return store_as(at, static_cast<int8_t>(value));
    case DType::kInt16:
      return store_as(at, static_cast<int16_t>(value));
    case DType::kInt32:
      return store_as(at, static_cast<int32_t>(value));
    case DType::kInt64:
      return store_as(at, value);
    default:
      return store_element(dtype, at, static_cast<double>(value));
  }
}

Result<HostTensor> HostTensor::uninitialized(DType dtype, std::vector<int64_t> sizes) {
  return banded(dtype, std::move(sizes), 0);
}

Result<HostTensor> HostTensor::banded(DType dtype, std::vector<int64_t> sizes, size_t band) {
  HostTensor tensor;
  LFARM_ASSIGN_OR_RETURN(tensor.elements_, checked_element_count(dtype, sizes));
  tensor.dtype_ = dtype;
  tensor.sizes_ = std::move(sizes);
  auto bytes = static_cast<size_t>(tensor.elements_ * dtype_size(dtype));
  if (bytes == 0) return tensor;
  tensor.owner_ = shared_memory(bytes + 2 * band, kTensorAlignment);
  std::byte* memory = tensor.owner_.get();
  if (memory == nullptr) {
    return internal_error(cat("no memory for a tensor ", tensor.type_text()));
  }
  tensor.data_ = memory + band;
  tensor.band_ = band;
  std::fill_n(memory, band, kBandPattern);
  std::fill_n(tensor.data_ + bytes, band, kBandPattern);
  return tensor;
}

Result<HostTensor> HostTensor::zeros(DType dtype, std::vector<int64_t> sizes) {
  LFARM_ASSIGN_OR_RETURN(HostTensor tensor, uninitialized(dtype, std::move(sizes)));
  if (tensor.elements_ != 0) std::memset(tensor.data_, 0, tensor.bytes().size());
  return tensor;
}

Result<HostTensor> HostTensor::wrap_mutable(DType dtype, std::vector<int64_t> sizes,
                                            std::span<std::byte> bytes) {
  HostTensor tensor;
  LFARM_ASSIGN_OR_RETURN(tensor.elements_, checked_element_count(dtype, sizes));
  if (static_cast<size_t>(tensor.elements_ * dtype_size(dtype)) != bytes.size()) {
    return invalid_input(cat("a tensor ", tensor_type_text(dtype, sizes), " takes ",
                             tensor.elements_ * dtype_size(dtype), " bytes, ", bytes.size(),
                             " were given"));
  }
  tensor.dtype_ = dtype;
  tensor.sizes_ = std::move(sizes);
  tensor.data_ = bytes.data();
  return tensor;
}

Result<HostTensor> HostTensor::wrap(DType dtype, std::vector<int64_t> sizes, ByteView bytes) {
  auto* memory = const_cast<std::byte*>(bytes.data());  // NOLINT: read_only_ guards it
  LFARM_ASSIGN_OR_RETURN(HostTensor tensor,
                         wrap_mutable(dtype, std::move(sizes), {memory, bytes.size()}));
  tensor.read_only_ = true;
  return tensor;
}

Result<HostTensor> HostTensor::copy_of(DType dtype, std::vector<int64_t> sizes, ByteView bytes) {
  LFARM_ASSIGN_OR_RETURN(HostTensor source, wrap(dtype, sizes, bytes));
  LFARM_ASSIGN_OR_RETURN(HostTensor tensor, uninitialized(dtype, std::move(sizes)));
  if (!bytes.empty()) std::memcpy(tensor.data_, source.data_, bytes.size());
  return tensor;
}

Result<HostTensor> HostTensor::reshaped(std::vector<int64_t> sizes) const {
  LFARM_ASSIGN_OR_RETURN(int64_t elements, checked_element_count(dtype_, sizes));
  if (elements != elements_) {
    return invalid_input(cat("a tensor ", type_text(), " does not have the elements of ",
                             tensor_type_text(dtype_, sizes)));
  }
  HostTensor tensor = *this;
  tensor.sizes_ = std::move(sizes);
  return tensor;
}

std::span<std::byte> HostTensor::mutable_bytes() {
  LFARM_CHECK(!read_only_, "this tensor wraps memory that must not be written");
  return {data_, bytes().size()};
}

const std::byte* HostTensor::address(int64_t i) const {
  LFARM_CHECK(i >= 0 && i < elements_, "element out of range");
  return data_ + i * dtype_size(dtype_);
}

void HostTensor::set(int64_t i, double value) {
  LFARM_CHECK(!read_only_, "this tensor wraps memory that must not be written");
  store_element(dtype_, data_ + (address(i) - data_), value);
}

void HostTensor::set_int(int64_t i, int64_t value) {
  LFARM_CHECK(!read_only_, "this tensor wraps memory that must not be written");
  store_element_int(dtype_, data_ + (address(i) - data_), value);
}

namespace {

// `Size` bytes an element; the storage may be less aligned than its elements are.
template <size_t Size>
void copy_rows(std::span<const int64_t> sizes, std::span<const int64_t> strides,
               const std::byte* from, std::byte* to) {
  size_t rank = sizes.size();
  int64_t length = rank == 0 ? 1 : sizes[rank - 1];
  int64_t stride = rank == 0 ? 1 : strides[rank - 1];
  constexpr auto kSize = static_cast<int64_t>(Size);
  std::vector<int64_t> index(rank, 0);
  for (;;) {
    if (stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(length) * Size);
    } else {
      for (int64_t i = 0; i < length; ++i) {
        std::memcpy(to + i * kSize, from + i * stride * kSize, Size);
      }
    }
    to += length * kSize;
    size_t k = rank == 0 ? 0 : rank - 1;
    while (k > 0 && ++index[k - 1] == sizes[k - 1]) {
      from -= strides[k - 1] * (sizes[k - 1] - 1) * kSize;
      index[k - 1] = 0;
      --k;
    }
    if (k == 0) return;
    from += strides[k - 1] * kSize;
  }
}

}  // namespace

Result<HostTensor> contiguous_copy(DType dtype, std::vector<int64_t> sizes,
                                   std::span<const int64_t> strides, int64_t offset,
                                   ByteView storage) {
  if (strides.size() != sizes.size()) {
    return invalid_input(
        cat("a tensor ", tensor_type_text(dtype, sizes), " has ", strides.size(), " strides"));
  }
  LFARM_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::uninitialized(dtype, std::move(sizes)));
  if (tensor.elements() == 0) return tensor;
  int64_t lowest = offset;
  int64_t highest = offset;
  bool overflow = offset < 0;
  for (size_t k = 0; k < strides.size(); ++k) {
    int64_t reach = 0;
    overflow = overflow || __builtin_mul_overflow(strides[k], tensor.sizes()[k] - 1, &reach);
    int64_t& end = reach < 0 ? lowest : highest;
    overflow = overflow || __builtin_add_overflow(end, reach, &end);
  }
  auto available = static_cast<int64_t>(storage.size()) / dtype_size(dtype);
  if (overflow || lowest < 0 || highest >= available) {
    return invalid_input(cat("a tensor ", tensor.type_text(), " reaches outside its storage of ",
                             available, " elements"));
  }
  const std::byte* from = storage.data() + offset * dtype_size(dtype);
  std::byte* to = tensor.mutable_bytes().data();
  switch (dtype_size(dtype)) {
    case 1:
      copy_rows<1>(tensor.sizes(), strides, from, to);
      break;
    case 2:
      copy_rows<2>(tensor.sizes(), strides, from, to);
      break;
    case 4:
      copy_rows<4>(tensor.sizes(), strides, from, to);
      break;
    default:
      copy_rows<8>(tensor.sizes(), strides, from, to);
      break;
  }
  return tensor;
}

}  // namespace common
