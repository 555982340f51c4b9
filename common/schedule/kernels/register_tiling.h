// How register tiles of a processor compute a contraction: the sizes of tiles and of the blocks
// around them, and what is packed.
#pragma once

#include "common/base/result.h"
#include "common/ir/hlir/tile_form.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/body/contraction.h"
#include "common/schedule/kernels/tile_steps.h"
#include "common/schedule/kernels/vector_unit.h"

namespace common {

// Rows and columns of a sum that one register of a unit with tiles holds, and the pairs along k
// that one instruction adds.
constexpr int64_t kMatrixSide = 16;
// Its registers: of sums, of rows and at least one of columns.
constexpr int64_t kMatrixRegisters = 8;

// The names of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
// Steps of k are pairs where the unit multiplies pairs (see tile_steps.h).
struct RegisterTiling {
  static constexpr std::string_view kForm = "register_tile";
  int64_t mr = 8, nr = 48;        // register tile, nr a multiple of a vector's elements
  int64_t kc = 256;               // steps of the summed axis in a packed block
  int64_t mc = 64, nc = 256;      // rows and columns of a packed block, multiples of mr and nr
  int64_t group = 512;            // rows of one unit, a multiple of mc
  bool rows_in_place = false;     // nothing is packed of the left operand,
  bool columns_in_place = false;  // or of the right one
  bool matrices = false;          // registers hold matrices, not vectors
  // A whole tile's rows are stored together, so that what belongs to a column is read once for all.
  bool stores_rows_at_once = false;
  // Units go through the products of the batch within the rows of one unit, as suits groups of
  // channels, whose rows lie side by side.
  bool rows_outermost = false;

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("mr", t.mr);
    visit("nr", t.nr);
    visit("kc", t.kc);
    visit("mc", t.mc);
    visit("nc", t.nc);
    visit("group", t.group);
    visit("rows_in_place", t.rows_in_place);
    visit("columns_in_place", t.columns_in_place);
    visit("matrices", t.matrices);
    visit("stores_rows_at_once", t.stores_rows_at_once);
    visit("rows_outermost", t.rows_outermost);
  }
};

// What the schedule asks for, else what suits sizes, operands and unit.
RegisterTiling choose_register_tiling(const Contraction& product, const Schedule& schedule,
                                      const VectorUnit& unit);
// The tile of a product that is part of another template: its mr and nr count.
RegisterTiling choose_register_tiling(const TileProblem& problem, const VectorUnit& unit);

// kInvalidInput says which size such a unit or the contraction's operands do not allow.
Status verify(const RegisterTiling& tiling, const Contraction& product, const VectorUnit& unit);

}  // namespace common
