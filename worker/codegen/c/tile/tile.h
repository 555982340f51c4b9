// The kTile template: a contraction in cache blocks and register tiles, with everything before it
// computed while blocks are packed and everything after it while tiles are stored.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/body/function_body.h"
#include "common/schedule/kernels/vector_unit.h"

namespace worker {

// `body` holds exactly one kContract and otherwise primitives. Outputs that are elementwise
// functions of the contraction, or permutations and reshapes of such, are stored tile by tile. With
// an `epilogue` the whole contraction goes into scratch, and its loops compute the outputs. `unit`
// is the target's, and `tiling` a RegisterTiling. kUnsupported for a body without exactly one
// contraction.
common::Result<common::FunctionBody> emit_tile(const common::Graph& body,
                                               const common::Tiling& tiling,
                                               const common::VectorUnit& unit,
                                               const std::optional<common::LoopNest>& epilogue);

}  // namespace worker
