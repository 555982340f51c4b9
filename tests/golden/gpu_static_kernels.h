// Kernels at the sizes of large models, whose machine code is held against golden figures.
#pragma once

#include <string>
#include <vector>

#include "common/ir/llir/llir.h"

namespace golden {

struct NamedKernel {
  std::string name;
  common::Kernel kernel;  // without its nest
};

std::vector<NamedKernel> gpu_kernels();

}  // namespace golden
