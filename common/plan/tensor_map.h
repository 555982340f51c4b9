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

// What the copy engine can address (cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col in cuda.h).
inline constexpr size_t kTensorMapDimensionsMax = 5;
inline constexpr int64_t kTensorMapStepMax = 8;  // of windows
inline constexpr int64_t kTensorMapBoxMax = 256;
inline constexpr int64_t kTensorMapAlignment = 16;  // of addresses and strides, in bytes
inline constexpr size_t kTensorMapsMax = 8;         // of a kernel

// A box of elements is copied at once; elements beyond a dimension's size are zeros.
//
// A map of windows (im2col) is over the channels, columns, rows, ... of images and over the images.
// Its box is a number of pixels, one for each window, in the order of memory: windows that begin at
// `first`, `first + step`, ... of a row, then those of the next row and of the next image. A copy
// names the first window and which of a window's pixels it takes. For example
// {64, 1, 64}, {s0, 64, 1, window -1 1 s0}, {s1, 64 * s0, 1, window -1 1 s1}, {n, 64 * s0 * s1,
// 128} has the pixels of 128 windows of 3 x 3 with a border of one.
struct TensorMap {
  struct Window {
    int64_t first = 0, step = 1;
    Expr count;  // of windows along the dimension
    friend bool operator==(const Window&, const Window&) = default;
  };
  struct Dimension {
    Expr size, stride;  // in elements, over the kernel's symbols, as `offset`
    int64_t box = 1;
    std::optional<Window> window = {};  // of all dimensions but the first and the last, or of none
    friend bool operator==(const Dimension&, const Dimension&) = default;
  };
  bool has_windows() const { return dimensions.size() > 2 && dimensions[1].window.has_value(); }
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
// "0|bf16|128|8*s0|4096:64:1|s0:128:4096", dimensions as size:box:stride, or
// size:box:stride:first:step:count where they have windows.
std::string print(const TensorMap& map);
std::optional<TensorMap> parse_tensor_map(std::string_view text);

// A map at concrete sizes, in elements.
struct TensorMapSizes {
  struct Dimension {
    int64_t size = 1, stride = 1, box = 1;
    // Of windows: from one to the next, 0 where there are none; the first and the last one's
    // distance from the dimension's first and last element.
    int64_t step = 0, lower = 0, upper = 0;
    friend bool operator==(const Dimension&, const Dimension&) = default;
  };
  int input = 0;
  DType dtype = DType::kBfloat16;
  int swizzle_bytes = 0;
  int64_t offset = 0;
  size_t rank = 0;
  std::array<Dimension, kTensorMapDimensionsMax> dimensions{};
  bool has_windows() const { return dimensions[1].step > 0; }
  friend bool operator==(const TensorMapSizes&, const TensorMapSizes&) = default;
};

// Dimensions without elements get one, which nothing reads. kCorrupt where the view leaves its
// input of `elements` elements, or cannot be encoded.
Result<TensorMapSizes> evaluate(const TensorMap& map, std::span<const int64_t> symbols,
                                int64_t elements);

}  // namespace common
