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

// Where windows begin among the pixels of images and of their borders, both in the order of memory:
// the pixels that follow one another from the first one of a window to the last one of another are
// a patch, which holds all taps of the windows between them.
struct WindowGrid {
  struct Axis {
    int64_t count = 1, step = 1;  // of windows
    int64_t padded = 1;           // pixels with the borders that windows reach
    int64_t pixels = 1;           // of these, those of the image
    int64_t taps = 1, dilation = 0;
  };
  std::vector<Axis> axes;  // the fastest first

  // Pixels from a place along the axis to the next, and, behind the last axis, between images.
  int64_t stride(size_t axis) const;
  // The first pixel of a window, counted from that of window 0 of image 0.
  int64_t place(int64_t window) const;
  // From a window's first pixel to its last one.
  int64_t reach() const;
  // Of the largest patch of `rows` windows from a multiple of `rows` on.
  int64_t patch(int64_t rows) const;
  // The share of pixels that are no border.
  double inside() const;
};

// None where sizes of images are no constants, or where no tensor map holds the borders.
std::optional<WindowGrid> window_grid(const WindowOperand& windows);

// The left operand as windows, whose rows are numbered in the order of memory; none where it is
// computed or gathered, has a border other than zeros, or where a batch's elements differ in it.
std::optional<WindowOperand> window_operand(const Contraction& contraction);

}  // namespace common
