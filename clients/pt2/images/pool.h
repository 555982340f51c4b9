// What pools and their gradients share: where windows lie and how many elements each has.
#pragma once

#include <vector>

#include "clients/pt2/images/window.h"

namespace clients {

struct Pooling {
  Window window;
  NodeId x = 0;  // with a batch and a channel axis
  Shape out;     // the number of windows along each spatial axis
  int spatial = 0;
};

// The node's arguments; the last axes of `out` count the windows.
Pooling pooling(Context& c, int spatial, const Sizes& out);

// Sums of windows, or what they pass back, divided by how many elements an average takes of each
// window; `sizes` are the input's spatial ones.
NodeId averaged(Context& c, const Pooling& p, NodeId total, const Shape& sizes);

// Adaptive pooling: output o covers floor(o * size / out) up to ceil((o + 1) * size / out).
struct Adaptive {
  NodeId windowed = 0;          // (..., *out, *widest)
  std::vector<int64_t> widest;  // of any window, along each axis
  std::vector<int64_t> sizes, outs;
};
Adaptive adaptive(Context& c, NodeId x, const Sizes& to, int spatial, double fill);
// Each of `outs` outputs divided by the width of its window over `sizes` elements.
NodeId divided_by_widths(Context& c, NodeId total, const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& outs);

}  // namespace clients
