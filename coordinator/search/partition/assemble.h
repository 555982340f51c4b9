// The whole graph's program from its regions' programs.
#pragma once

#include <vector>

#include "common/ir/llir/llir.h"
#include "coordinator/search/partition/regions.h"

namespace coordinator {

// programs[r] computes regions[r]. Loops are written out as calls; equal kernels are shared.
common::Program assemble(const Cut& cut, const std::vector<const common::Program*>& programs);

}  // namespace coordinator
