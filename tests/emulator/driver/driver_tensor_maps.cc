// The driver API of the emulated device: tensor maps. Refuses what cuda.h says of
// cuTensorMapEncodeTiled, and kinds of maps that nothing here uses.
#include <cstring>

#include "tests/emulator/driver/driver_state.h"
#include "tests/emulator/tensor_map.h"

namespace emulator {
namespace {

constexpr uint64_t kAddressAlignment = 16, kMapAlignment = 64, kBoxMax = 256;
constexpr uint64_t kSizeMax = uint64_t{1} << 32, kStrideMax = uint64_t{1} << 40;

// Of CUtensorMapDataType; 0: not emulated.
uint32_t element_bytes(int type) {
  constexpr int kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9;
  return type == kFloat16 || type == kBfloat16 ? 2 : type == kFloat32 ? 4 : 0;
}

bool is_allowed(const EncodedMap& map) {
  const uint64_t row_bytes = uint64_t{map.box[0]} * map.element_bytes;
  if (map.address % kAddressAlignment != 0 || row_bytes % kAddressAlignment != 0 ||
      (map.swizzle_bytes != 0 && row_bytes > map.swizzle_bytes)) {
    return false;
  }
  for (uint32_t k = 0; k < map.rank; ++k) {
    if (map.sizes[k] == 0 || map.sizes[k] > kSizeMax || map.box[k] == 0 || map.box[k] > kBoxMax) {
      return false;
    }
    if (k > 0 && (map.strides[k - 1] == 0 || map.strides[k - 1] % kAddressAlignment != 0 ||
                  map.strides[k - 1] >= kStrideMax)) {
      return false;
    }
  }
  return true;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): names of a public interface.

LF_API cuTensorMapEncodeTiled(void* encoded, int type, uint32_t rank, void* address,
                              const uint64_t* sizes, const uint64_t* strides, const uint32_t* box,
                              const uint32_t* steps, int interleave, int swizzle, int l2_promotion,
                              int fill) {
  Call call;
  if (call.error != 0) return call.error;
  constexpr int kSwizzle128 = 3, kPromotionMax = 3;
  if (reinterpret_cast<uintptr_t>(encoded) % kMapAlignment != 0 || rank == 0 ||
      rank > EncodedMap::kRankMax || element_bytes(type) == 0 || interleave != 0 || fill != 0 ||
      swizzle < 0 || swizzle > kSwizzle128 || l2_promotion < 0 || l2_promotion > kPromotionMax) {
    return kInvalidValue;
  }
  EncodedMap map;
  map.magic = EncodedMap::kMagic;
  map.address = reinterpret_cast<uintptr_t>(address);
  map.rank = rank;
  map.element_bytes = element_bytes(type);
  map.swizzle_bytes = swizzle == 0 ? 0 : 16u << swizzle;
  for (uint32_t k = 0; k < rank; ++k) {
    if (box[k] > kBoxMax || steps[k] != 1) return kInvalidValue;
    map.sizes[k] = sizes[k];
    map.box[k] = static_cast<uint16_t>(box[k]);
    if (k > 0) map.strides[k - 1] = strides[k - 1];
  }
  if (!is_allowed(map)) return kInvalidValue;
  std::memcpy(encoded, &map, sizeof map);
  return counted("cuTensorMapEncodeTiled");
}

// NOLINTEND(readability-identifier-naming)

}  // namespace emulator
