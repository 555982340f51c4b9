// Splits axes that were merged in another order than memory has.
//
//   %1 = view f32[8, 4096] index=[(i1 // 32) % 32, i1 % 32, 4*i0 + i1 // 1024] (%0)
//   %2 = reduce.sum f32[8] axes=[1] (%1)
//     =>
//   %1 = view f32[32, 32, 8, 4] index=[i0, i1, 4*i2 + i3] (%0)
//   %2 = reduce.sum f32[8, 4] axes=[0, 1] (%1),  %3 = reduce.sum f32[8] axes=[1] (%2)
//
// A norm of groups of channels sums over an image's places and some of its channels, which are one
// axis where channels come first. Once layout_assignment.h has put them last, that axis jumps
// through memory. Split and in the order of memory, the values between the two views are read and
// written side by side, and fuse with what lies before and behind.
#pragma once

#include "common/ir/hlir/graph.h"

namespace coordinator {

// The same graph, in which such axes of elementwise values and reductions are split. Inputs,
// outputs and symbols stay as they are; bodies of loops, too. Sums may round differently.
common::Graph split_merged_axes(const common::Graph& graph);

}  // namespace coordinator
