// Convolutions along one axis of images by minimal filters (Winograd, 1980): m neighbouring results
// of a filter of r taps take m + r - 1 products instead of m r. A tile of m + r - 1 pixels is
// multiplied by one matrix and the filter by another, their products element by element are summed
// over channels and other axes' taps, and a third matrix makes results of the sums.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace coordinator {

// Filters of `taps` taps, `outputs` results a tile. Row-major matrices.
struct MinimalFilter {
  int64_t taps = 0, outputs = 0;
  int64_t points() const { return taps + outputs - 1; }
  std::vector<float> of_pixels() const;   // [points, points]
  std::vector<float> of_filters() const;  // [points, taps]
  std::vector<float> of_results() const;  // [outputs, points]
};

struct WinogradForm {
  size_t image = 0;  // the contraction's operand that is the windows
  // By axis of the image, of indices of the windows' view; the last one is the channels.
  std::vector<common::WindowAxis> axes;
  size_t along = 0;  // of these, the one whose places make up tiles
  MinimalFilter filter;
  // Along that axis, of each place between two taps.
  int64_t tiles(const common::View& windows) const;
  // Products that are left, of those that the sums take.
  double share(const common::View& windows) const;
};

// A convolution with a border of zeros at most, whose channels lie side by side and are all summed,
// by a filter of 2 to 5 taps, for neighbouring places of a constant number. `windows` is the view
// of an image that the contraction's operand `image` is, `filter_shape` the other operand's.
std::optional<WinogradForm> winograd_form(const common::ContractAttr& contraction, size_t image,
                                          const common::View& windows,
                                          const common::Shape& filter_shape);

}  // namespace coordinator
