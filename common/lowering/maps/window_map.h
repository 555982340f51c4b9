// Operands of convolutions as the copy engine reads them: pixels of windows, and weights tap by
// tap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/lowering/body/window_operand.h"
#include "common/lowering/maps/operand_map.h"

namespace common {

struct WindowMaps {
  WindowOperand windows;
  TensorMap pixels;
  // k's axes but the channels are dimensions of their own, behind the side's own; `taps` has the
  // axis of the windows that each of them goes along, or -1.
  OperandMap weights;
  std::vector<int> taps;
  // Steps of the sum for each tap, of which the last is filled up with zeros; and for all taps.
  int64_t channel_steps() const;
  int64_t steps() const;
};

// For blocks of `rows` by `columns` and steps of `depth` channels, where the left operand is
// windows and the right one lies in memory by one stride for each axis. `parts` blocks share the
// right operand.
std::optional<WindowMaps> window_maps(const Contraction& contraction, int64_t rows, int64_t columns,
                                      int64_t depth, int64_t parts = 1);

// The pixels of the same windows and of their borders in the order of memory, in boxes of at most
// `pixels` of them, for blocks that keep patches (WindowGrid).
TensorMap patch_map(const WindowMaps& maps, const WindowGrid& grid, int64_t pixels);

}  // namespace common
