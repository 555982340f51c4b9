// What a product on tensor cores has to do beside multiplying: how its operands come to be and what
// becomes of its results, counted in a kernel's body.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/lowering/body/contraction.h"
#include "common/lowering/body/window_operand.h"
#include "common/schedule/template_fit.h"

namespace common {

// What one element takes of a thread.
struct ElementWork {
  double instructions = 0;
  double loads = 0;        // of single elements
  double load_bytes = 0;   // of these
  bool has_calls = false;  // functions with rare cases, between which a compiler moves no loads
};

struct TileOperand {
  bool is_copied = true;  // 16 bytes at a time, as it lies in memory
  ElementWork element;    // else
};

// `rows` by `columns` results of `steps` products in each of `batch` elements. None is 0.
struct TileShape {
  int64_t batch = 1, rows = 1, columns = 1, steps = 1;
  int64_t taps = 1;  // of windows: the copy engine reads the channels of one at a time
  // Of windows whose channels fill whole steps and of which several taps read a pixel.
  std::optional<WindowGrid> grid;
  // Whether rows are windows of images that do not lie side by side, so that boxes of them go to
  // one block alone.
  bool has_windows = false;
  // Whether `steps` are those of two products, the first one's sums being kept until the second
  // one's are there.
  bool is_pair = false;
  TileOperand left, right;
  ElementWork result;  // beside the sum itself
  double result_bytes = 4;
  int64_t sum_bytes = 4;  // of a sum that threads of warpgroups exchange
};

// Whether the side has 2 to 16 rows or columns and both lie in memory as tensor cores read them:
// runs of 16 bytes along k, of one half type. Those multiply eight rows as fast as one.
bool suits_tensor_cores(const Contraction& contraction, Side few);
// Whether the side has few rows or columns (a constant): reading the other side is what counts.
bool is_few(const Contraction& contraction, Side side);

// Of a contraction whose operands are of one half type, neither of them of few rows; else empty.
std::optional<TileShape> tile_shape(const Contraction& contraction,
                                    const std::vector<int64_t>& symbols);
std::optional<TileShape> tile_shape(const PairedProducts& pair,
                                    const std::vector<int64_t>& symbols);
// Of a kernel's body as it is before it is lowered, with one contraction or a pair.
std::optional<TileShape> tile_shape(const Graph& body, const std::vector<int64_t>& symbols);

}  // namespace common
