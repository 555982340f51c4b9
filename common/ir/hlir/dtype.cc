#include "common/ir/hlir/dtype.h"

#include <array>

#include "common/base/check.h"

namespace common {
namespace {
struct Info {
  std::string_view name;
  int64_t size;
};
constexpr std::array<Info, kDTypeCount> kInfo = {{{"bool", 1},
                                                  {"u8", 1},
                                                  {"i8", 1},
                                                  {"i16", 2},
                                                  {"i32", 4},
                                                  {"i64", 8},
                                                  {"f16", 2},
                                                  {"bf16", 2},
                                                  {"f32", 4},
                                                  {"f64", 8},
                                                  {"c64", 8}}};
const Info& info(DType dtype) {
  auto index = static_cast<size_t>(dtype);
  LFARM_CHECK(index < kInfo.size(), "dtype out of range");
  return kInfo[index];
}
}  // namespace

int64_t dtype_size(DType dtype) { return info(dtype).size; }
std::string_view dtype_name(DType dtype) { return info(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kInfo.size(); ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }
bool is_float(DType dtype) {
  return is_half(dtype) || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}
bool is_integer(DType dtype) { return dtype >= DType::kUint8 && dtype <= DType::kInt64; }

}  // namespace common
