// The error of a tiling by which a kernel cannot be computed.
#pragma once

#include <string_view>

#include "common/ir/llir/tiling.h"

namespace common {

// kInvalidInput. `t` as to_tiling() takes it.
template <class T>
Error wrong_tiling(const T& t, std::string_view why) {
  return invalid_input(cat("the tiling '", print(to_tiling(t)), "': ", why));
}

}  // namespace common
