// What a kernel must read and write of its buffers, whatever its code.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

// By input, in bytes, each element at most once: of what is gathered from, through views and
// elementwise operations, the gathered elements; of what is scattered into nothing, for that
// happens in place. symbols[k] is the value of the body's s<k>, here and below.
std::vector<double> bytes_read(const Graph& body, const std::vector<int64_t>& symbols);
// By output, in bytes: all of it once, of a scatter's result what is scattered.
std::vector<double> bytes_written(const Graph& body, const std::vector<int64_t>& symbols);

}  // namespace common
