// The block sizes of a tiled contraction: what the schedule says, else what suits sizes and target.
#pragma once

#include "common/ir/hlir/tile_form.h"
#include "common/ir/llir/llir.h"

namespace worker {

// Rows and columns of a sum that one register of a unit with tiles holds, and the pairs along k
// that one instruction adds.
constexpr int64_t kMatrixSide = 16;
// Its registers: of sums, of rows and at least one of columns.
constexpr int64_t kMatrixRegisters = 8;

struct TileParams {
  int64_t lanes = 16;         // elements of a vector
  int64_t mr = 8, nr = 48;    // register tile, nr a multiple of lanes
  int64_t kc = 256;           // steps of the summed axis per packed block
  int64_t mc = 64, nc = 256;  // rows and columns per packed block, multiples of mr and nr
  int64_t group = 512;        // rows of one unit, a multiple of mc
};

// Operands that can be read where they lie: of those nothing is packed.
struct TileReads {
  static constexpr int64_t kWhole = INT64_MAX;
  int64_t row_run = 0;  // steps along k for which a row of the left one lies in place; 0: none
  bool columns = false;
  int64_t copied_run = 1;                // steps of a packed row that lie side by side
  bool rows(const TileParams& t) const;  // whether blocks of kc steps never leave a run
};

TileParams choose_tile(const common::TileProblem& problem, const common::Schedule& schedule,
                       int vector_bytes, const TileReads& in_place = {});
// The same for a unit that multiplies tiles, and rows that are packed: k counts pairs.
TileParams choose_matrix_tile(const common::TileProblem& problem, const common::Schedule& schedule,
                              const TileReads& in_place);

}  // namespace worker
