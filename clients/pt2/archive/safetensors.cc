#include "clients/pt2/archive/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::DType;
using common::Result;
namespace dom = simdjson::dom;

namespace {

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr TypeName kSafetensorsTypes[] = {
    {"BOOL", DType::kBool},   {"U8", DType::kUint8},      {"I8", DType::kInt8},
    {"I16", DType::kInt16},   {"I32", DType::kInt32},     {"I64", DType::kInt64},
    {"F16", DType::kFloat16}, {"BF16", DType::kBfloat16}, {"F32", DType::kFloat32},
    {"F64", DType::kFloat64},
};

bool is_as_long(const NamedTensor& tensor, uint64_t bytes) {
  int64_t product = common::dtype_size(tensor.dtype);
  for (int64_t size : tensor.sizes) {
    if (size < 0 || __builtin_mul_overflow(product, size, &product)) return false;
  }
  return static_cast<uint64_t>(product) == bytes;
}

Result<NamedTensor> read_entry(std::string_view name, dom::element entry, common::ByteView data) {
  auto damaged = [&](const char* what) {
    return common::corrupt(cat("tensor \"", name, "\" ", what, ": fetch the file again"));
  };
  NamedTensor tensor;
  tensor.name = name;
  std::string_view type;
  dom::array shape, offsets;
  if (entry["dtype"].get(type) != simdjson::SUCCESS ||
      entry["shape"].get(shape) != simdjson::SUCCESS ||
      entry["data_offsets"].get(offsets) != simdjson::SUCCESS || offsets.size() != 2) {
    return damaged("lacks a type, a shape or its place");
  }
  const auto* row = std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                                 [&](const TypeName& known) { return known.name == type; });
  if (row == std::end(kSafetensorsTypes)) {
    return common::unsupported(cat("tensor \"", name, "\" is of type ", type));
  }
  tensor.dtype = row->dtype;
  for (dom::element size : shape) {
    int64_t value = 0;
    if (size.get(value) != simdjson::SUCCESS) return damaged("has no sizes");
    tensor.sizes.push_back(value);
  }
  uint64_t begin = 0, end = 0;
  if (offsets.at(0).get(begin) != simdjson::SUCCESS ||
      offsets.at(1).get(end) != simdjson::SUCCESS || begin > end || end > data.size()) {
    return damaged("lies outside the file");
  }
  if (!is_as_long(tensor, end - begin)) return damaged("is not as long as its sizes say");
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

}  // namespace

Result<std::vector<NamedTensor>> read_safetensors(common::ByteView file) {
  uint64_t length = 0;
  if (file.size() < sizeof length) return common::corrupt("a safetensors file is cut off");
  std::memcpy(&length, file.data(), sizeof length);
  if (length > file.size() - sizeof length) {
    return common::corrupt("the header of a safetensors file is cut off");
  }
  std::string header(reinterpret_cast<const char*>(file.data()) + sizeof length, length);
  dom::parser parser;
  dom::object entries;
  if (parser.parse(header).get(entries) != simdjson::SUCCESS) {
    return common::corrupt("the header of a safetensors file is no JSON");
  }
  std::vector<NamedTensor> tensors;
  for (dom::key_value_pair entry : entries) {
    if (entry.key == "__metadata__") continue;
    LFARM_ASSIGN_OR_RETURN(NamedTensor tensor, read_entry(entry.key, entry.value,
                                                          file.subspan(sizeof length + length)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace clients
