// Executes loop nests by the reference interpreter, without a compiler.
#pragma once

#include <span>
#include <vector>

#include "common/ir/nest/loop_nest.h"
#include "common/ir/nest/product_loops.h"
#include "common/runtime/interpreter/interpreter.h"

namespace common {

// What interpret() gives of looped_body(body), computed as the nest says: in its loops' order, with
// sums of what threads share in parts. `body` is the nest_body, and verify() takes the nest for it.
// kInvalidInput as interpret(), and where loops visit an element twice, or leave one out.
Result<std::vector<HostTensor>> interpret_nest(const Graph& body, const LoopNest& nest,
                                               std::span<const HostTensor> inputs,
                                               const InterpretOptions& options);

// What interpret() gives of `body`, where the contraction is computed in the loops' order. See
// product_graph() for what it may be. Errors as above.
Result<std::vector<HostTensor>> interpret_product(const Graph& body, NodeId contraction,
                                                  const ProductLoops& loops,
                                                  std::span<const HostTensor> inputs,
                                                  const InterpretOptions& options);

}  // namespace common
