#include "clients/runtime/c_tensor.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::DType;
using common::HostTensor;
using common::Result;
using common::TensorRef;

namespace {

// DLPack's kDLCPU, kDLCUDA and kDLCUDAHost.
constexpr int32_t kHostMemory = 1, kGpuMemory = 2, kPinnedMemory = 3;
enum Kind : uint8_t { kInt = 0, kUnsigned = 1, kFloat = 2, kBrain = 4, kComplex = 5, kTruth = 6 };

struct TypeRow {
  DType dtype;
  Kind kind;
  uint8_t bits;
};
constexpr TypeRow kTypes[] = {
    {DType::kBool, kTruth, 8},     {DType::kUint8, kUnsigned, 8},  {DType::kInt8, kInt, 8},
    {DType::kInt16, kInt, 16},     {DType::kInt32, kInt, 32},      {DType::kInt64, kInt, 64},
    {DType::kFloat16, kFloat, 16}, {DType::kBfloat16, kBrain, 16}, {DType::kFloat32, kFloat, 32},
    {DType::kFloat64, kFloat, 64},
};

std::optional<DType> dtype_of(lfarm_dtype type) {
  // A complex number is two of its parts.
  if (type.code == kComplex) type = {kFloat, static_cast<uint8_t>(type.bits / 2), type.lanes};
  for (const TypeRow& row : kTypes) {
    if (row.kind == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  }
  return std::nullopt;
}

size_t rank_of(const lfarm_tensor& tensor) { return static_cast<size_t>(tensor.ndim); }

// Where an element lies, in elements of the tensor's own type from its first one.
struct Layout {
  std::vector<int64_t> sizes, strides;
  bool has_gaps = false;
};

Layout layout_of(const lfarm_tensor& tensor) {
  Layout out;
  int64_t expected = 1;
  out.sizes.assign(tensor.shape, tensor.shape + tensor.ndim);
  out.strides.resize(rank_of(tensor));
  for (size_t k = rank_of(tensor); k-- > 0;) {
    out.strides[k] = tensor.strides == nullptr ? expected : tensor.strides[k];
    out.has_gaps = out.has_gaps || (out.strides[k] != expected && out.sizes[k] != 1);
    expected *= std::max<int64_t>(out.sizes[k], 1);
  }
  return out;
}

bool is_row_major(const lfarm_tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  bool is_empty = false, has_gaps = false;
  for (int32_t k = tensor.ndim; k-- > 0;) {
    has_gaps = has_gaps || (tensor.strides[k] != expected && tensor.shape[k] != 1);
    is_empty = is_empty || tensor.shape[k] == 0;
    expected *= tensor.shape[k];
  }
  return is_empty || !has_gaps;
}

common::Status check_host(const lfarm_tensor& tensor) {
  int32_t type = tensor.device.type;
  if (type == kHostMemory || type == kPinnedMemory) return {};
  return common::invalid_input(
      cat("lies on a device of type ", type, "; copy it to host memory first"));
}

// The element type of the graph's input; kInvalidInput also for a tensor without shape.
Result<DType> check_head(const lfarm_tensor& tensor, bool complex) {
  auto dtype = dtype_of(tensor.dtype);
  if (!dtype || complex != (tensor.dtype.code == kComplex)) {
    return common::invalid_input(cat("has type code ", int{tensor.dtype.code}, " of ",
                                     int{tensor.dtype.bits}, " bits, which the model cannot take"));
  }
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    return common::invalid_input("has no shape");
  }
  return *dtype;
}

std::byte* first_element(const lfarm_tensor& tensor) {
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

}  // namespace

Result<HostTensor> from_c(const lfarm_tensor& tensor, bool complex) {
  LFARM_RETURN_IF_ERROR(check_host(tensor));
  LFARM_ASSIGN_OR_RETURN(DType dtype, check_head(tensor, complex));
  Layout layout = layout_of(tensor);
  if (complex) {
    for (int64_t& stride : layout.strides) stride *= 2;
    layout.sizes.push_back(2);
    layout.strides.push_back(1);
  }
  LFARM_ASSIGN_OR_RETURN(int64_t elements, common::checked_element_count(dtype, layout.sizes));
  if (tensor.data == nullptr && elements > 0) return common::invalid_input("has no data");
  int64_t size = common::dtype_size(dtype);
  if (!layout.has_gaps || elements == 0) {
    std::span<std::byte> bytes{first_element(tensor), static_cast<size_t>(elements * size)};
    return HostTensor::wrap_mutable(dtype, std::move(layout.sizes), bytes);
  }
  // Strides may be negative: the storage is what lies between the outermost elements.
  int64_t low = 0, high = 0;
  for (size_t k = 0; k < layout.sizes.size(); ++k) {
    int64_t reach = (layout.sizes[k] - 1) * layout.strides[k];
    (reach < 0 ? low : high) += reach;
  }
  common::ByteView storage{first_element(tensor) + low * size,
                           static_cast<size_t>((high - low + 1) * size)};
  return common::contiguous_copy(dtype, std::move(layout.sizes), layout.strides, -low, storage);
}

void write_back(const HostTensor& content, const lfarm_tensor& tensor) {
  Layout layout = layout_of(tensor);
  common::ByteView bytes = content.bytes();
  if (bytes.empty()) return;
  if (!layout.has_gaps) {
    std::memmove(first_element(tensor), bytes.data(), bytes.size());
    return;
  }
  size_t size = tensor.dtype.bits / 8;
  std::vector<int64_t> index(layout.sizes.size(), 0);
  for (size_t at = 0; at < bytes.size(); at += size) {
    int64_t place = 0;
    for (size_t k = 0; k < index.size(); ++k) place += index[k] * layout.strides[k];
    std::memcpy(first_element(tensor) + place * static_cast<int64_t>(size), bytes.data() + at,
                size);
    for (size_t k = index.size(); k-- > 0;) {
      if (++index[k] < layout.sizes[k]) break;
      index[k] = 0;
    }
  }
}

Result<TensorRef> take_c(const lfarm_tensor& tensor, bool complex, std::optional<int> gpu,
                         TakenTensor* keep) {
  keep->is_copied = false;
  bool on_device = tensor.device.type == kGpuMemory;
  if (on_device && !gpu) {
    return common::invalid_input(
        "lies on a GPU, but the session's device is the CPU: copy it to host memory first");
  }
  if (on_device && tensor.device.id != *gpu) {
    return common::invalid_input(
        cat("lies on GPU ", tensor.device.id, ", but the session runs on GPU ", *gpu));
  }
  LFARM_ASSIGN_OR_RETURN(DType dtype, check_head(tensor, complex));
  if (!is_row_major(tensor)) {
    if (on_device) return common::invalid_input("is not row-major: copy it on the GPU first");
    LFARM_ASSIGN_OR_RETURN(keep->copy, from_c(tensor, complex));
    keep->is_copied = true;
    return common::ref_of(keep->copy);
  }
  if (!on_device) LFARM_RETURN_IF_ERROR(check_host(tensor));
  TensorRef out;
  out.dtype = dtype;
  out.sizes = {tensor.shape, rank_of(tensor)};
  if (complex) {
    keep->sizes.assign(out.sizes.begin(), out.sizes.end());
    keep->sizes.push_back(2);
    out.sizes = keep->sizes;
  }
  LFARM_ASSIGN_OR_RETURN(int64_t elements, common::checked_element_count(dtype, out.sizes));
  if (tensor.data == nullptr && elements > 0) return common::invalid_input("has no data");
  out.data = first_element(tensor);
  out.bytes = static_cast<size_t>(elements * common::dtype_size(dtype));
  out.on_device = on_device;
  return out;
}

lfarm_tensor to_c(const HostTensor& tensor, bool complex, std::vector<int64_t>* shape) {
  return to_c(common::ref_of(tensor), complex, 0, shape);
}

lfarm_tensor to_c(const TensorRef& tensor, bool complex, int gpu, std::vector<int64_t>* shape) {
  shape->assign(tensor.sizes.begin(), tensor.sizes.end());
  if (complex) shape->pop_back();
  lfarm_tensor out{};
  out.data = tensor.data;
  out.device = tensor.on_device ? lfarm_device{kGpuMemory, gpu} : lfarm_device{kHostMemory, 0};
  out.ndim = static_cast<int32_t>(shape->size());
  for (const TypeRow& row : kTypes) {
    if (row.dtype != tensor.dtype) continue;
    auto bits = static_cast<uint8_t>(complex ? 2 * row.bits : row.bits);
    out.dtype = {complex ? kComplex : row.kind, bits, 1};
  }
  out.shape = shape->data();
  return out;
}

}  // namespace clients
