// Executes loop nests, and the loops of tilings, by the reference interpreter, without a compiler.
#pragma once

#include <span>
#include <vector>

#include "common/ir/nest/loop_nest.h"
#include "common/ir/tiled/looped_nodes.h"
#include "common/runtime/interpreter/interpreter.h"

namespace common {

// What interpret() gives of looped_body(body), computed as the nest says: in its loops' order, with
// sums of what threads share in parts. `body` is the nest_body, and verify() takes the nest for it.
// kInvalidInput as interpret(), and where loops visit an element twice, or leave one out.
Result<std::vector<HostTensor>> interpret_nest(const Graph& body, const LoopNest& nest,
                                               std::span<const HostTensor> inputs,
                                               const InterpretOptions& options);

// What interpret() gives of looped.body, where the nodes are computed in the loops' order. Errors
// as above.
Result<std::vector<HostTensor>> interpret_loops(const LoopedNodes& looped,
                                                std::span<const HostTensor> inputs,
                                                const InterpretOptions& options);

}  // namespace common
