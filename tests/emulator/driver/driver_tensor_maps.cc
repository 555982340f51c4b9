// The driver API of the emulated device: tensor maps. Refuses what cuda.h says of
// cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, and kinds of maps that nothing here uses.
#include <cstring>

#include "tests/emulator/driver/driver_state.h"
#include "tests/emulator/tensor_map.h"

namespace emulator {
namespace {

constexpr uint64_t kAddressAlignment = 16, kMapAlignment = 64, kBoxMax = 256, kPixelsMax = 1024;
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
    const uint64_t box_max = map.has_windows() && k + 1 == map.rank ? kPixelsMax : kBoxMax;
    if (map.sizes[k] == 0 || map.sizes[k] > kSizeMax || map.box[k] == 0 || map.box[k] > box_max) {
      return false;
    }
    if (k > 0 && (map.strides[k - 1] == 0 || map.strides[k - 1] % kAddressAlignment != 0 ||
                  map.strides[k - 1] >= kStrideMax)) {
      return false;
    }
  }
  return true;
}

// The arguments that both encodings have.
struct Request {
  void* encoded;
  int type;
  uint32_t rank;
  void* address;
  const uint64_t *sizes, *strides;
  int interleave, swizzle, l2_promotion, fill;
};

// The map but for its box; without a magic number where it is refused.
EncodedMap begin_map(const Request& r) {
  constexpr int kSwizzle128 = 3, kPromotionMax = 3;
  EncodedMap map;
  if (reinterpret_cast<uintptr_t>(r.encoded) % kMapAlignment != 0 || r.rank == 0 ||
      r.rank > EncodedMap::kRankMax || element_bytes(r.type) == 0 || r.interleave != 0 ||
      r.fill != 0 || r.swizzle < 0 || r.swizzle > kSwizzle128 || r.l2_promotion < 0 ||
      r.l2_promotion > kPromotionMax) {
    return map;
  }
  map.magic = EncodedMap::kMagic;
  map.address = reinterpret_cast<uintptr_t>(r.address);
  map.rank = r.rank;
  map.element_bytes = element_bytes(r.type);
  map.swizzle_bytes = r.swizzle == 0 ? 0 : 16u << r.swizzle;
  for (uint32_t k = 0; k < r.rank; ++k) {
    map.sizes[k] = r.sizes[k];
    map.box[k] = 1;
    if (k > 0) map.strides[k - 1] = r.strides[k - 1];
  }
  return map;
}

// Sets the windows of a dimension. The range of their corners follows from the number of dimensions
// that have windows: kReach, of 1, 2 and 3 of them.
bool set_windows(EncodedMap& map, uint32_t k, int lower, int upper, uint32_t step) {
  constexpr int kReach[] = {32768, 128, 16};
  constexpr uint32_t kStepMax = 8;
  const int reach = kReach[map.rank - 3];
  const bool is_reached = lower >= -reach && lower < reach && upper >= -reach && upper < reach;
  // The first window begins no later than the last.
  const bool has_any = lower < static_cast<int64_t>(map.sizes[k + 1]) + upper;
  if (!is_reached || !has_any || step == 0 || step > kStepMax) return false;
  map.lower[k] = static_cast<int16_t>(lower);
  map.upper[k] = static_cast<int16_t>(upper);
  map.steps[k] = static_cast<uint8_t>(step);
  return true;
}

// What the call returns; the map is the caller's where it is allowed.
int end_map(const EncodedMap& map, void* encoded, const char* call) {
  if (!is_allowed(map)) return kInvalidValue;
  std::memcpy(encoded, &map, sizeof map);
  return counted(call);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): names of a public interface.

LF_API cuTensorMapEncodeTiled(void* encoded, int type, uint32_t rank, void* address,
                              const uint64_t* sizes, const uint64_t* strides, const uint32_t* box,
                              const uint32_t* steps, int interleave, int swizzle, int l2_promotion,
                              int fill) {
  Call call;
  if (call.error != 0) return call.error;
  EncodedMap map = begin_map(
      {encoded, type, rank, address, sizes, strides, interleave, swizzle, l2_promotion, fill});
  if (map.magic == 0) return kInvalidValue;
  for (uint32_t k = 0; k < rank; ++k) {
    if (box[k] > kBoxMax || steps[k] != 1) return kInvalidValue;
    map.box[k] = static_cast<uint16_t>(box[k]);
  }
  return end_map(map, encoded, "cuTensorMapEncodeTiled");
}

LF_API cuTensorMapEncodeIm2col(void* encoded, int type, uint32_t rank, void* address,
                               const uint64_t* sizes, const uint64_t* strides, const int* lower,
                               const int* upper, uint32_t channels, uint32_t pixels,
                               const uint32_t* steps, int interleave, int swizzle, int l2_promotion,
                               int fill) {
  Call call;
  if (call.error != 0) return call.error;
  EncodedMap map = begin_map(
      {encoded, type, rank, address, sizes, strides, interleave, swizzle, l2_promotion, fill});
  if (map.magic == 0 || rank < 3 || channels > kBoxMax || pixels > kPixelsMax) return kInvalidValue;
  for (uint32_t k = 0; k + 2 < rank; ++k) {
    if (!set_windows(map, k, lower[k], upper[k], steps[k + 1])) return kInvalidValue;
  }
  map.box[0] = static_cast<uint16_t>(channels);
  map.box[rank - 1] = static_cast<uint16_t>(pixels);
  return end_map(map, encoded, "cuTensorMapEncodeIm2col");
}

// NOLINTEND(readability-identifier-naming)

}  // namespace emulator
