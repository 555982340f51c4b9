// What one run of a program moves and waits for, counted from its calls and buffers alone: the part
// of its cost that no kernel's code can change.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ir/llir/llir.h"

namespace common {

struct IoProfile {
  int64_t launches = 0;           // kernels and library calls
  int64_t synchronisations = 0;   // points at which the host waits for the device
  int64_t host_output_bytes = 0;  // of user outputs and checks; state stays on the device
  int64_t device_bytes = 0;       // read and written by all calls, each buffer once a call
  friend bool operator==(const IoProfile&, const IoProfile&) = default;
};

// sizes[k] is the value of symbol s<k>. The buffers, calls and outputs are a program's or a plan's.
IoProfile io_profile(const std::vector<Buffer>& buffers, const std::vector<Call>& calls,
                     const std::vector<GraphOutput>& outputs, const std::vector<int64_t>& sizes);

}  // namespace common
