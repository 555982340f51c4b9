// Finds the factors of sums of products that lie side by side in a kernel's inputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/lowering/body/body_emitter.h"
#include "common/lowering/body/plain_read.h"

namespace common {

// One of the inputs that a factor may come from: matrices that follow one another, such as those of
// projections that are computed together, are one factor.
struct DotRead {
  // In C, empty for the last: the factor is the first read whose condition holds.
  std::string condition;
  PlainRead read;
};

struct DotOperand {
  DType stored = DType::kFloat32;  // or a half type
  std::vector<DotRead> reads;      // one at least
};

// A sum of products whose factors' neighbours along the sum are neighbours in memory. Halves are
// the second of two types; else the second is the larger, which comes from memory while the other
// stays in a cache.
struct DotProduct {
  DType first_stored = DType::kFloat32;
  PlainRead first;
  DotOperand second;
};

// What a sum of `product` along the index `step` is, at indices `at` of the product; empty when it
// is no dot product of rows.
std::optional<DotProduct> dot_product(const Node& product, const Indices& at, int step,
                                      BodyEmitter& emitter);

}  // namespace common
