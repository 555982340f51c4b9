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

// From C expression `from` up to `to`, of `extent` in all. With `runs`, for an index that divides
// badly, the loop runs through the last axis in turn, so that nothing inside divides.
TileColumns open_columns(common::CodeWriter& writer, const std::vector<common::Expr>& sizes,
                         const std::string& name, const std::string& from, const std::string& to,
                         const common::Expr& extent, bool runs);
void close_columns(common::CodeWriter& writer, const TileColumns& columns);

}  // namespace worker
