// Finds the operand of a product that is made of sliding windows of images, as convolutions read
// them: which pixels its rows are, and which ones a step of the sum takes of all windows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/lowering/body/contraction.h"

namespace common {

// An input of images, channels last. Row (image, ..., y, x) of the operand reads, at the step of k
// with these taps and this channel, pixel first + step * row + dilation * tap along each axis, or
// zero where that is beyond the image.
struct WindowOperand {
  struct Axis {
    Expr size, stride;  // of the image, in elements
    Expr count = 1;     // of rows along it
    int64_t first = 0, step = 1, dilation = 0;
    int tap = -1;      // the place of its label among those of k; -1: windows have no such axis
    int64_t taps = 1;  // their number
  };
  int input = 0;
  Expr offset;             // of the first image's first channel
  int64_t channels = 1;    // that are summed
  int channel = -1;        // the place of their label among those of k
  std::vector<Axis> axes;  // the fastest first
  Expr images = 1, image_stride;
};

// The left operand as windows, whose rows are numbered in the order of memory; none where it is
// computed or gathered, has a border other than zeros, or where a batch's elements differ in it.
std::optional<WindowOperand> window_operand(const Contraction& contraction);

}  // namespace common
