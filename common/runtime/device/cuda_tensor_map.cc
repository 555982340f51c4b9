#include "common/runtime/device/cuda_tensor_map.h"

#include <cstring>

namespace common {
namespace {

// Of CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion.
constexpr int kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9;
constexpr int kFetch256Bytes = 3;

int data_type(DType dtype) {
  return dtype == DType::kFloat16 ? kFloat16 : dtype == DType::kBfloat16 ? kBfloat16 : kFloat32;
}
int swizzle(int bytes) { return bytes == 32 ? 1 : bytes == 64 ? 2 : bytes == 128 ? 3 : 0; }

}  // namespace

Result<CudaTensorMap> cuda_tensor_map(const CudaDriver& driver, BoundTensorMap& bound,
                                      std::span<void* const> buffers) {
  static_assert(sizeof(CudaTensorMap) == sizeof(bound.encoded));
  const TensorMapSizes& sizes = bound.sizes;
  const void* buffer = buffers[static_cast<size_t>(sizes.input)];
  CudaTensorMap map;
  if (bound.buffer != buffer) {
    const int64_t width = dtype_size(sizes.dtype);
    std::array<uint64_t, kTensorMapDimensionsMax> elements{}, strides{};
    std::array<uint32_t, kTensorMapDimensionsMax> box{}, steps{};
    for (size_t k = 0; k < sizes.rank; ++k) {
      elements[k] = static_cast<uint64_t>(sizes.dimensions[k].size);
      box[k] = static_cast<uint32_t>(sizes.dimensions[k].box);
      steps[k] = 1;
      // The fastest dimension's stride is left out.
      if (k > 0) strides[k - 1] = static_cast<uint64_t>(sizes.dimensions[k].stride * width);
    }
    void* first = static_cast<std::byte*>(const_cast<void*>(buffer)) + sizes.offset * width;
    CudaResult result = driver.calls().encode_tensor_map(
        &map, data_type(sizes.dtype), static_cast<uint32_t>(sizes.rank), first, elements.data(),
        strides.data(), box.data(), steps.data(), 0, swizzle(sizes.swizzle_bytes), kFetch256Bytes,
        0);
    LFARM_RETURN_IF_ERROR(driver.check(result, "cuTensorMapEncodeTiled"));
    bound.encoded = map.words;
    bound.buffer = buffer;
  }
  map.words = bound.encoded;
  return map;
}

}  // namespace common
