#include "clients/pt2/archive/scalar_type.h"

namespace clients {
namespace {

struct Row {
  ScalarType type;
  const char* name;
  const char* alias;
  size_t bytes;
};

constexpr Row kRows[] = {
    {ScalarType::kUint8, "uint8", "", 1},
    {ScalarType::kInt8, "int8", "", 1},
    {ScalarType::kInt16, "int16", "short", 2},
    {ScalarType::kInt32, "int32", "int", 4},
    {ScalarType::kInt64, "int64", "long", 8},
    {ScalarType::kFloat16, "float16", "half", 2},
    {ScalarType::kFloat32, "float32", "float", 4},
    {ScalarType::kFloat64, "float64", "double", 8},
    {ScalarType::kComplex32, "complex32", "chalf", 4},
    {ScalarType::kComplex64, "complex64", "cfloat", 8},
    {ScalarType::kComplex128, "complex128", "cdouble", 16},
    {ScalarType::kBool, "bool", "", 1},
    {ScalarType::kBfloat16, "bfloat16", "", 2},
    {ScalarType::kUint16, "uint16", "", 2},
    {ScalarType::kFloat8E4m3fn, "float8_e4m3fn", "", 1},
    {ScalarType::kFloat8E5m2, "float8_e5m2", "", 1},
    {ScalarType::kFloat8E4m3fnuz, "float8_e4m3fnuz", "", 1},
    {ScalarType::kFloat8E5m2fnuz, "float8_e5m2fnuz", "", 1},
};

const Row* row_of(ScalarType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

std::optional<ScalarType> scalar_type_of_schema(int64_t number) {
  for (const Row& row : kRows) {
    if (static_cast<int64_t>(row.type) == number) return row.type;
  }
  return std::nullopt;
}

const char* scalar_type_name(ScalarType type) {
  const Row* row = row_of(type);
  return row == nullptr ? "unknown" : row->name;
}

std::optional<ScalarType> scalar_type_of_name(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name || (*row.alias != '\0' && name == row.alias)) return row.type;
  }
  return std::nullopt;
}

size_t scalar_type_bytes(ScalarType type) {
  const Row* row = row_of(type);
  return row == nullptr ? 0 : row->bytes;
}

}  // namespace clients
