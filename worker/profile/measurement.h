// What was measured of a program by itself.
#pragma once

#include <cstdint>
#include <vector>

namespace worker {

struct Measurement {
  uint64_t total_ns = 0;   // mean of the middle half
  uint64_t spread_ns = 0;  // from the first to the third quartile
  uint32_t runs = 0;
  std::vector<uint64_t> call_ns;  // the same of each call; empty unless asked for
  double disturbed = 0;           // share of samples in which something else ran
};

}  // namespace worker
