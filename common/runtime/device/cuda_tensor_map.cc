#include "common/runtime/device/cuda_tensor_map.h"

#include <algorithm>
#include <array>
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

// The arguments of an encoding.
struct Encoding {
  std::array<uint64_t, kTensorMapDimensionsMax> sizes{}, strides{};
  std::array<uint32_t, kTensorMapDimensionsMax> box{}, steps{};
  std::array<int, kTensorMapDimensionsMax> lower{}, upper{};

  explicit Encoding(const TensorMapSizes& map) {
    for (size_t k = 0; k < map.rank; ++k) {
      const TensorMapSizes::Dimension& d = map.dimensions[k];
      sizes[k] = static_cast<uint64_t>(d.size);
      box[k] = static_cast<uint32_t>(d.box);
      steps[k] = static_cast<uint32_t>(std::max<int64_t>(d.step, 1));
      if (k == 0) continue;
      // The fastest dimension's stride is left out.
      strides[k - 1] = static_cast<uint64_t>(d.stride * dtype_size(map.dtype));
      lower[k - 1] = static_cast<int>(d.lower);
      upper[k - 1] = static_cast<int>(d.upper);
    }
  }
};

Status encode(const CudaDriver& driver, const TensorMapSizes& sizes, void* first,
              CudaTensorMap* map) {
  const Encoding e(sizes);
  const auto rank = static_cast<uint32_t>(sizes.rank);
  const int type = data_type(sizes.dtype), permuted = swizzle(sizes.swizzle_bytes);
  if (sizes.has_windows()) {
    CudaResult result = driver.calls().encode_window_map(
        map, type, rank, first, e.sizes.data(), e.strides.data(), e.lower.data(), e.upper.data(),
        e.box[0], e.box[rank - 1], e.steps.data(), 0, permuted, kFetch256Bytes, 0);
    return driver.check(result, "cuTensorMapEncodeIm2col");
  }
  CudaResult result = driver.calls().encode_tensor_map(
      map, type, rank, first, e.sizes.data(), e.strides.data(), e.box.data(), e.steps.data(), 0,
      permuted, kFetch256Bytes, 0);
  return driver.check(result, "cuTensorMapEncodeTiled");
}

}  // namespace

Result<CudaTensorMap> cuda_tensor_map(const CudaDriver& driver, BoundTensorMap& bound,
                                      std::span<void* const> buffers) {
  static_assert(sizeof(CudaTensorMap) == sizeof(bound.encoded));
  const TensorMapSizes& sizes = bound.sizes;
  const void* buffer = buffers[static_cast<size_t>(sizes.input)];
  CudaTensorMap map;
  if (bound.buffer != buffer) {
    void* first =
        static_cast<std::byte*>(const_cast<void*>(buffer)) + sizes.offset * dtype_size(sizes.dtype);
    LFARM_RETURN_IF_ERROR(encode(driver, sizes, first, &map));
    bound.encoded = map.words;
    bound.buffer = buffer;
  }
  map.words = bound.encoded;
  return map;
}

}  // namespace common
