// The blocks of a product that register tiles of a processor compute, where its schedule names
// none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/divide_up.h"
#include "common/ir/expr/bounds.h"

namespace common {

// Rows and columns of a packed block. Where sizes are known a generator makes them smaller, so that
// blocks are equal, and wider where panels are read where they lie.
inline constexpr int64_t kTileBlockRows = 96, kTileBlockColumns = 256;

// With fewer units, threads of a processor wait for each other.
inline constexpr int64_t kFewUnits = 8;

// Whether units beside columns that lie in place are parts of the rows: of rows whose number is not
// known, where the least number suffices for enough units.
inline bool shares_rows(const Expr& rows, const std::vector<SymbolRange>& symbols) {
  constexpr int64_t kUnitRowsMin = 16;
  return rows.is_constant() || Bounds(symbols, {}).lower(rows) >= kFewUnits * kUnitRowsMin;
}

// Columns of a unit, of `columns`, that are read where they lie beside rows that are packed for
// them. Packing a row that is computed takes as long as multiplying it by some 40 columns, casting
// one as long as by five. Columns are shared out unless rows are (by_rows).
inline int64_t columns_beside_packed_rows(int64_t columns, bool by_rows) {
  constexpr int64_t kMost = 1024, kSharedLeast = 96;
  if (by_rows || columns > kMost * (kFewUnits - 1)) return kMost;
  return std::clamp(divide_up(columns, kFewUnits), kSharedLeast, kMost);
}

}  // namespace common
