// Element types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace common {

// Storage types. float16 and bfloat16 are stored, moved, selected and cast, but never computed
// on: arithmetic is on float32, float64, integers and booleans (see verify.h). kBool is one byte
// that holds 0 or 1. kComplex64 is two float32, real part first.
enum class DType : uint8_t {
  kBool,
  kUint8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kComplex64,
};
inline constexpr int kDTypeCount = 11;

// Bytes an element takes.
int64_t dtype_size(DType dtype);
// "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64".
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

// f16, bf16, f32 or f64.
bool is_float(DType dtype);
// Integers without bool.
bool is_integer(DType dtype);
// f16 or bf16: storage only.
bool is_half(DType dtype);

}  // namespace common
