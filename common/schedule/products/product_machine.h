// What blocks of a GPU's products depend on beside the product.
#pragma once

#include <cstdint>

#include "common/ir/llir/llir.h"

namespace common {

struct ProductMachine {
  bool warpgroups = false;  // multiply
  int64_t processors = 1;   // multiprocessors, which blocks are to fill; any number is right
};

inline int64_t tile_parameter(const Schedule& schedule, std::string_view name) {
  return schedule_value(schedule, Template::kTile, name);
}

}  // namespace common
