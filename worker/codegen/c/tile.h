// The kTile template: a contraction in cache blocks and register tiles, with everything before it
// computed while blocks are packed and everything after it while tiles are stored.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "worker/codegen/body/function_body.h"
#include "worker/codegen/text/vector_unit.h"

namespace worker {

// `body` holds exactly one kContract and otherwise primitives. Outputs that are elementwise
// functions of the contraction, or permutations and reshapes of such, are stored tile by tile;
// other bodies compute the whole contraction into scratch first. `unit` is the target's.
// kUnsupported for a body without exactly one contraction.
common::Result<FunctionBody> emit_tile(const common::Graph& body, const common::Schedule& schedule,
                                       const VectorUnit& unit);

// Whether the body's contraction has so few rows (a constant, at most 4) that its matrix is best
// read once, in place, by plain loops; `inner_axis` receives the output axis of those rows, or -1.
bool tile_is_skinny(const common::Graph& body, int* inner_axis);

}  // namespace worker
