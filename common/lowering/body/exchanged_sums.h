// In which type threads of a GPU exchange a product's sums through shared memory, before they
// compute and store what becomes of them.
#pragma once

#include <optional>

#include "common/ir/hlir/dtype.h"
#include "common/lowering/body/contraction.h"

namespace common {

// The half type to which all readers round the sums, where rows of results are stored eight
// elements, 16 bytes, at a time: rounded before the exchange, sums take half the shared memory and
// the results are the same. None where sums are exchanged as they are. For example bfloat16 of
//   cast(bf16, contract(f32, x, w)) + residual
std::optional<DType> exchanged_sums(const Contraction& contraction);

}  // namespace common
