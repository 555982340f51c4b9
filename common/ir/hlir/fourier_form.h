// Which Fourier transforms one kernel computes by itself, for the search and the generator alike.
#pragma once

#include <optional>

#include "common/ir/hlir/graph.h"

namespace common {

// Factors of 2, 3, 5 and 7 alone, and few enough points for tables of twiddles in a kernel's text
// and for rows that stay in a core's cache.
inline constexpr int64_t kMostKernelPoints = 4096;
bool is_kernel_length(int64_t points);

// The parts of one transform that a kernel computes; -1 where a part is not wanted.
struct FourierForm {
  NodeId real = -1;
  NodeId imaginary = -1;
  // Either of the two.
  NodeId any() const { return real >= 0 ? real : imaginary; }
  friend bool operator==(const FourierForm&, const FourierForm&) = default;
};

// Whether both nodes are parts of one transform.
bool is_same_transform(const Node& a, const Node& b);

// For a body whose kFourier nodes all are parts of one transform of a length as above; empty
// otherwise.
std::optional<FourierForm> fourier_form(const Graph& body);

}  // namespace common
