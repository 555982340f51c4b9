// Values of inputs that decide how often a kernel's loops turn, where zeros would be no example.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/bytes.h"
#include "common/ir/llir/llir.h"

namespace bench {

// By the body's input. Of a product whose rows multiply matrices of their own: the matrices'
// numbers, drawn evenly, and the order of the rows that follows. No other kernel has such values.
std::map<size_t, common::Bytes> steering_values(const common::Graph& body,
                                                const std::vector<int64_t>& symbols);

}  // namespace bench
