// The element types of torch tensors as archives number them, so that readers agree on sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace clients {

// The values are those of torch's export schema (torch/_export/serde/schema.py, ScalarType).
enum class ScalarType : uint8_t {
  kUnknown = 0,
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kComplex32 = 9,
  kComplex64 = 10,
  kComplex128 = 11,
  kBool = 12,
  kBfloat16 = 13,
  kUint16 = 28,
  kFloat8E4m3fn = 29,
  kFloat8E5m2 = 30,
  kFloat8E4m3fnuz = 31,
  kFloat8E5m2fnuz = 32,
};

// Empty for a number that names no type lfarm can hold.
std::optional<ScalarType> scalar_type_of_schema(int64_t number);
// "float32" and so on, as torch spells it after "torch.".
const char* scalar_type_name(ScalarType type);
// Inverse of scalar_type_name; also takes torch's aliases ("half", "long", ...).
std::optional<ScalarType> scalar_type_of_name(std::string_view name);
// Bytes of one element; 0 for kUnknown.
size_t scalar_type_bytes(ScalarType type);

}  // namespace clients
