#include "common/lowering/maps/window_map.h"

#include "common/base/divide_up.h"

namespace common {

namespace {

constexpr int64_t kChunk = 8;   // channels of 16 bytes
constexpr int64_t kDepth = 64;  // channels of 128 bytes, which are permuted as one

TensorMap pixel_map(const WindowOperand& windows, DType dtype, int64_t rows) {
  TensorMap map;
  map.input = windows.input;
  map.dtype = dtype;
  map.swizzle_bytes = kDepth * 2;
  map.offset = windows.offset;
  map.dimensions.push_back({windows.channels, 1, kDepth});
  for (const WindowOperand::Axis& axis : windows.axes) {
    map.dimensions.push_back(
        {axis.size, axis.stride, 1, TensorMap::Window{axis.first, axis.step, axis.count}});
  }
  map.dimensions.push_back({windows.images, windows.image_stride, rows});
  return map;
}

}  // namespace

int64_t WindowMaps::channel_steps() const { return divide_up(windows.channels, kDepth); }

int64_t WindowMaps::steps() const {
  int64_t steps = channel_steps();
  for (const WindowOperand::Axis& axis : windows.axes) steps *= axis.taps;
  return steps;
}

std::optional<WindowMaps> window_maps(const Contraction& c, int64_t rows, int64_t columns,
                                      int64_t depth, int64_t parts) {
  auto windows = window_operand(c);
  if (!windows || windows->channels % kChunk != 0) return std::nullopt;
  auto weights = weight_map(c, windows->channel, columns, depth, parts);
  if (!weights) return std::nullopt;
  WindowMaps maps{
      *windows, pixel_map(*windows, c.operand_dtype(Side::kLeft), rows), *std::move(weights), {}};
  // Whether a device takes it is known but for sizes, which are checked when they are.
  if (!verify(maps.pixels, c.body().inputs.size(), c.body().symbols.size()).ok()) {
    return std::nullopt;
  }
  const auto labels = static_cast<int>(c.problem().k.size());
  for (int label = 0; label < labels; ++label) {
    if (label == windows->channel) continue;
    maps.taps.push_back(-1);
    for (size_t a = 0; a < windows->axes.size(); ++a) {
      if (windows->axes[a].tap == label) maps.taps.back() = static_cast<int>(a);
    }
  }
  return maps;
}

TensorMap patch_map(const WindowMaps& maps, const WindowGrid& grid, int64_t pixels) {
  TensorMap map = maps.pixels;
  for (size_t a = 0; a < grid.axes.size(); ++a) {
    map.dimensions[a + 1].window->step = 1;
    map.dimensions[a + 1].window->count = grid.axes[a].padded;
  }
  map.dimensions.back().box = pixels;
  return map;
}

}  // namespace common
