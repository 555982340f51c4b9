// The passes by which a kernel transforms rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/fourier_form.h"
#include "common/ir/tiled/looped_nodes.h"

namespace common {

struct FourierLoops {
  int64_t rows = 1;  // at once
  // Passes in their order, after Stockham: a pass of radix r over n points that lie `stride` apart
  // takes r of them n / r apart, transforms them, and leaves n / r points r * stride apart.
  std::vector<int64_t> radices;
  // Of a real signal, whose even and odd points are the real and imaginary parts of half as many
  // complex ones: their transform is taken apart at the end.
  bool is_halved = false;
};

// One line, such as
//   16 rows at once; 96 points by passes of 8, 4, 3
std::string print(const FourierLoops& loops, int64_t points);

// The parts of `body` that `form` says. kInvalidInput for radices that do not divide the points
// that are left.
Result<LoopedNodes> looped_fourier(Graph body, const FourierForm& form, const FourierLoops& loops);

}  // namespace common
