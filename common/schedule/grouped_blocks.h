// How blocks of a GPU's threads share a product whose rows multiply matrices of their own
// (common/ir/llir/grouped_form.h), and what that takes on tensor cores: for the generator, which
// cuts rows and columns, and for the search, which predicts the time.
#pragma once

#include <cstdint>
#include <vector>

#include "common/cost/gpu_time.h"
#include "common/ir/expr/expr.h"

namespace common {

// None is 0.
struct GroupedShape {
  int64_t rows = 1, groups = 1, columns = 1, depth = 1;
  int64_t element_bytes = 2;  // of 16 bits tensor cores multiply
  double row_operations = 0;  // that compute an element of a row; 0: it is copied
};

struct GroupedBlocks {
  int64_t rows = 128, columns = 128;
  bool has_warpgroups = false;  // multiply, not single warps

  bool operator==(const GroupedBlocks&) const = default;
};

// Of the `rows` rows in all, those that a block of at most `block_rows` has: fewer where there are
// few, because a block computes its groups one after the other.
Expr grouped_span(const Expr& rows, int64_t block_rows);

// Of one launch with those blocks, where each group has as many rows as any other.
GpuKernelFacts grouped_facts(const GroupedShape& shape, const GroupedBlocks& blocks);

// The blocks that take least on a GPU with that many multiprocessors, by gpu_kernel_time(), over
// all shapes. `may_group`: warpgroups may multiply.
struct WeightedGroups {
  GroupedShape shape;
  double weight = 1;
};
GroupedBlocks grouped_blocks(const std::vector<WeightedGroups>& shapes, int64_t processors,
                             bool may_group);

}  // namespace common
