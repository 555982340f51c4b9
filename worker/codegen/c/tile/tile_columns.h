// Loops of a tiled contraction over a part of the flat index of some axes.
#pragma once

#include <string>
#include <vector>

#include "common/ir/expr/expr.h"
#include "common/lowering/text/code_writer.h"
#include "common/lowering/text/indices.h"

namespace worker {

// An open loop.
struct TileColumns {
  common::Indices values;  // one of each axis
  std::string position;    // C: the flat index
  std::string header;
  std::string run_header;  // of the loop over runs; empty without
};

// The positions that a loop visits: C expressions `from` up to `to`, of `extent` in all. Both are
// multiples of `step`, or `to` is the extent.
struct ColumnRange {
  std::string name;
  std::string from, to;
  common::Expr extent;
  int64_t step = 1;
};

// With `runs`, for an index that divides badly, the loop runs through the last axis in turn, so
// that nothing inside divides. Where that axis divides the step, its length is a constant there.
TileColumns open_columns(common::CodeWriter& writer, const std::vector<common::Expr>& sizes,
                         const ColumnRange& range, bool runs);
void close_columns(common::CodeWriter& writer, const TileColumns& columns);

}  // namespace worker
