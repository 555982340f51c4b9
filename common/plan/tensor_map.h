// Views of a kernel's inputs that a GPU's copy engine reads in boxes: what the tensor maps that a
// launch passes to the kernel are encoded from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/ir/expr/expr.h"
#include "common/ir/hlir/dtype.h"

namespace common {

// What the copy engine can address (cuTensorMapEncodeTiled in cuda.h).
inline constexpr size_t kTensorMapDimensionsMax = 5;
inline constexpr int64_t kTensorMapBoxMax = 256;
inline constexpr int64_t kTensorMapAlignment = 16;  // of addresses and strides, in bytes
inline constexpr size_t kTensorMapsMax = 8;         // of a kernel

// A box of elements is copied at once; elements beyond a dimension's size are zeros.
struct TensorMap {
  struct Dimension {
    Expr size, stride;  // in elements, over the kernel's symbols, as `offset`
    int64_t box = 1;
    friend bool operator==(const Dimension&, const Dimension&) = default;
  };
  int input = 0;  // of the kernel's inputs
  DType dtype = DType::kBfloat16;
  int swizzle_bytes = 0;  // rows of boxes whose 16-byte chunks are permuted: 32, 64 or 128; 0: none
  Expr offset;
  std::vector<Dimension> dimensions;  // the fastest first, whose stride is 1
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

// kCorrupt for a map that no device can encode, or that is over more than `symbols` symbols or
// another input than the first `inputs`.
Status verify(const TensorMap& map, size_t inputs, size_t symbols);

// One line, which parse_tensor_map reads back:
// "0|bf16|128|8*s0|4096:64:1|s0:128:4096", dimensions as size:box:stride.
std::string print(const TensorMap& map);
std::optional<TensorMap> parse_tensor_map(std::string_view text);

// A map at concrete sizes, in elements.
struct TensorMapSizes {
  struct Dimension {
    int64_t size = 1, stride = 1, box = 1;
    friend bool operator==(const Dimension&, const Dimension&) = default;
  };
  int input = 0;
  DType dtype = DType::kBfloat16;
  int swizzle_bytes = 0;
  int64_t offset = 0;
  size_t rank = 0;
  std::array<Dimension, kTensorMapDimensionsMax> dimensions{};
  friend bool operator==(const TensorMapSizes&, const TensorMapSizes&) = default;
};

// Dimensions without elements get one, which nothing reads. kCorrupt where the view leaves its
// input of `elements` elements, or cannot be encoded.
Result<TensorMapSizes> evaluate(const TensorMap& map, std::span<const int64_t> symbols,
                                int64_t elements);

}  // namespace common
