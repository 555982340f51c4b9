// Places in containers of what the IR counts by signed numbers: nodes, axes, operands, symbols.
#pragma once

#include <cstddef>
#include <cstdint>

namespace common {

// `index` is not negative.
constexpr size_t at(int64_t index) { return static_cast<size_t>(index); }

}  // namespace common
