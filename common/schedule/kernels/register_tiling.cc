#include "common/schedule/kernels/register_tiling.h"

#include <algorithm>
#include <numeric>

#include "common/base/cat.h"
#include "common/ir/llir/wrong_tiling.h"
#include "common/schedule/cpu_tile.h"
#include "common/schedule/kernels/tile_reads.h"

namespace common {

namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Where columns are packed, further units pack rows again, and narrow ones cost more for it.
constexpr int64_t kPackedUnits = 4, kPackedColumnsMin = 64;

constexpr int64_t kMatrixColumnsMax = 4;

// Bodies up to this size are written out for every row of a tile that is stored.
constexpr size_t kNodesAtOnceMax = 24;

// Steps along k that are read one after the other lie no further apart: a page.
constexpr int64_t kNearBytes = 4096;

// Beside columns that are packed, rows with shorter runs are, too: every run that is read in place
// is a pass over the sums.
constexpr int64_t kRowRunMin = 64;

// Elements of a vector; of a register of a matrix, its rows.
int64_t lanes_of(const RegisterTiling& t, DType dtype, const VectorUnit& unit) {
  return t.matrices ? kMatrixSide : unit.bytes / dtype_size(dtype);
}

// How rows of the left operand lie in place.
struct RowRuns {
  int64_t length = 0;      // steps along k; 0: they do not
  bool are_alike = false;  // see runs_lie_alike()

  bool is_part() const { return length != 0 && length != kWholeRow; }  // of a row
  // Whether blocks of kc steps never leave a run, or hold whole ones.
  bool suit(int64_t kc) const {
    if (!is_part()) return length == kWholeRow;
    return length % kc == 0 || (are_alike && kc % length == 0);
  }
};

RowRuns row_runs(const Contraction& product, const TileSteps& steps) {
  RowRuns runs;
  runs.length = rows_lie_in_place(product, steps);
  runs.are_alike = runs.is_part() && runs_lie_alike(product, steps);
  return runs;
}

// What may be read where it lies.
struct TileReads {
  RowRuns rows;
  bool columns = false;
  int64_t copied_run = 1;  // steps of a packed row that lie side by side
};

TileReads tile_reads(const Contraction& product, const TileSteps& steps, bool has_matrices,
                     const VectorUnit& unit) {
  TileReads reads;
  int64_t size = dtype_size(product.node().dtype);
  // Columns whose steps lie further apart are packed.
  auto column_step = columns_lie_in_place(product, steps, unit.bytes / size);
  reads.columns = column_step && *column_step * size <= kNearBytes;
  const RowRuns runs = has_matrices ? RowRuns() : row_runs(product, steps);
  if (runs.length >= kRowRunMin || reads.columns || steps.has_pairs()) {
    reads.rows = runs;
  } else if (runs.length != 0) {
    reads.copied_run = runs.length;
  }
  return reads;
}

bool may_store_rows_at_once(const RegisterTiling& t, const Contraction& product) {
  return !t.matrices && !output_divides_columns(product);
}

// 0: not known when the kernel is made.
int64_t known(const Expr& size) { return size.is_constant() ? size.constant() : 0; }

// Products that are independent of each other; 1 where their number is not known.
int64_t products_of(const TileProblem& problem) {
  int64_t count = 1;
  for (int label : problem.batch) {
    count *= std::max<int64_t>(1, known(problem.label_size[static_cast<size_t>(label)]));
  }
  return count;
}

// How often `part` goes into a size, rounded up; 1 where the size is not known.
int64_t share_of(const Expr& size, int64_t part) {
  return size.is_constant() ? std::max<int64_t>(1, (size.constant() + part - 1) / part) : 1;
}

// The blocks around t's register tile. Blocks of the summed axis are multiples of `step`, unless
// the schedule, runs or the axis itself say how long they are.
RegisterTiling with_blocks(RegisterTiling t, const TileProblem& problem, const Schedule& schedule,
                           const TileReads& in_place, int64_t step,
                           const std::vector<SymbolRange>& symbols) {
  auto given = [&](std::string_view name) {
    return schedule_value(schedule, Template::kTile, name);
  };
  // Blocks of what is packed stay in the first cache; panels in memory are read as fast from the
  // second, and every further block costs a pass over the sums.
  int64_t depth = in_place.columns ? 1024 : 384;
  t.kc = given("kc") != 0 ? given("kc") : 256;
  if (problem.k_size.is_constant()) {
    int64_t k = std::max<int64_t>(problem.k_size.constant(), 1);
    // Equal blocks, so that the last one is not a sliver, that end where runs do.
    const RowRuns& runs = in_place.rows;
    const bool holds_runs = runs.is_part() && runs.are_alike && runs.length <= depth;
    const bool is_within_run = runs.is_part() && !holds_runs;
    int64_t length = is_within_run ? runs.length : k;
    int64_t blocks = (length + depth - 1) / depth;
    if (is_within_run) {
      while (length % blocks != 0) ++blocks;
    }
    if (given("kc") == 0) {
      const int64_t multiple = holds_runs ? runs.length : std::lcm(step, in_place.copied_run);
      t.kc = is_within_run ? length / blocks : round_up((k + blocks - 1) / blocks, multiple);
    }
    t.kc = std::min(t.kc, k);
  }
  // Small units where they cost nothing, so that they are shared out evenly.
  bool packs_nothing = in_place.columns && in_place.rows.suit(t.kc);
  int64_t columns = packs_nothing ? 2 * t.nr : kTileBlockColumns;
  int64_t rows = packs_nothing ? kTileBlockRows : 512;
  int64_t block_rows = kTileBlockRows;
  if (in_place.columns && !packs_nothing) {
    // Rows are packed for many columns at once, and shared out where those make few units.
    bool by_rows = shares_rows(problem.m_size, symbols);
    columns = columns_beside_packed_rows(known(problem.n_size), by_rows);
    int64_t parts = share_of(problem.n_size, columns);
    if (by_rows && parts < kFewUnits) {
      int64_t least = std::max<int64_t>(Bounds(symbols, {}).lower(problem.m_size), 1);
      int64_t part = share_of(Expr(least), (kFewUnits + parts - 1) / parts);
      rows = block_rows = std::min(block_rows, part);
    }
  }
  if (!in_place.columns && problem.n_size.is_constant()) {
    int64_t parts = products_of(problem) * share_of(problem.m_size, rows);
    int64_t needed = (kPackedUnits + parts - 1) / parts;
    columns = std::min(columns, std::max(kPackedColumnsMin, share_of(problem.n_size, needed)));
    if (parts * share_of(problem.n_size, round_up(columns, t.nr)) == 1) {
      rows = std::max(block_rows, share_of(problem.m_size, 2));
    }
  }
  t.mc = round_up(given("mc") != 0 ? given("mc") : block_rows, t.mr);
  t.nc = round_up(given("nc") != 0 ? given("nc") : columns, t.nr);
  // Parts of about the same size, none of them a sliver.
  auto even = [](const Expr& size, int64_t most, int64_t step) {
    if (!size.is_constant()) return most;
    int64_t n = std::max<int64_t>(size.constant(), 1);
    int64_t parts = (n + most - 1) / most;
    return std::min(most, round_up((n + parts - 1) / parts, step));
  };
  t.nc = even(problem.n_size, t.nc, t.nr);
  t.mc = even(problem.m_size, t.mc, t.mr);
  t.group = even(problem.m_size, t.mc * std::max<int64_t>(1, rows / t.mc), t.mc);
  return t;
}

RegisterTiling vector_tile(const TileProblem& problem, const Schedule& schedule,
                           const VectorUnit& unit) {
  auto given = [&](std::string_view name) {
    return schedule_value(schedule, Template::kTile, name);
  };
  RegisterTiling t;
  int64_t lanes = unit.bytes / dtype_size(problem.dtype);
  RegisterTile registers =
      choose_register_tile(known(problem.m_size), known(problem.n_size), lanes, unit.bytes >= 64);
  t.mr = given("mr") != 0 ? given("mr") : registers.rows;
  t.nr = round_up(given("nr") != 0 ? given("nr") : registers.vectors * lanes, lanes);
  return t;
}

RegisterTiling matrix_tile(const TileProblem& problem, const Schedule& schedule) {
  auto registers = [](int64_t size) { return (size + kMatrixSide - 1) / kMatrixSide; };
  int64_t most_rows = known(problem.m_size) != 0 ? registers(known(problem.m_size)) : 2;
  int64_t most_columns = known(problem.n_size) != 0 ? registers(known(problem.n_size)) : 2;
  int64_t given = schedule_value(schedule, Template::kTile, "nr");
  // Squares of registers are loaded least for what they multiply.
  int64_t columns = given != 0 ? registers(given) : most_rows == 1 ? kMatrixColumnsMax : 2;
  columns = std::clamp<int64_t>(columns, 1, std::min(most_columns, kMatrixColumnsMax));
  int64_t rows = (kMatrixRegisters - 1) / (columns + 1);
  RegisterTiling t;
  t.matrices = true;
  t.mr = kMatrixSide * std::clamp<int64_t>(rows, 1, most_rows);
  t.nr = kMatrixSide * columns;
  return t;
}

}  // namespace

RegisterTiling choose_register_tiling(const Contraction& product, const Schedule& schedule,
                                      const VectorUnit& unit) {
  TileSteps steps = tile_steps(product, unit);
  TileProblem problem = steps.problem(product);
  bool has_matrices = unit.has_tiles && steps.has_pairs();
  TileReads reads = tile_reads(product, steps, has_matrices, unit);
  RegisterTiling t =
      has_matrices ? matrix_tile(problem, schedule) : vector_tile(problem, schedule, unit);
  t = with_blocks(t, problem, schedule, reads, has_matrices ? kMatrixSide : 8,
                  product.body().symbols);
  t.rows_in_place = reads.rows.suit(t.kc);
  t.columns_in_place = reads.columns;
  const int64_t asked = schedule_value(schedule, Template::kTile, "stores");
  const bool is_short = product.body().nodes.size() <= kNodesAtOnceMax;
  t.stores_rows_at_once =
      (asked == 0 ? is_short : asked == kStoresRowsAtOnce) && may_store_rows_at_once(t, product);
  t.rows_outermost = products_lie_side_by_side(product, steps);
  return t;
}

RegisterTiling choose_register_tiling(const TileProblem& problem, const VectorUnit& unit) {
  return vector_tile(problem, {}, unit);
}

Status verify(const RegisterTiling& t, const Contraction& product, const VectorUnit& unit) {
  auto wrong = [&](std::string_view what) { return wrong_tiling(t, what); };
  // Sums that are written out: far more than registers hold.
  constexpr int64_t kVectorsMax = 128;
  TileSteps steps = tile_steps(product, unit);
  if (t.matrices && !(unit.has_tiles && steps.has_pairs())) {
    return wrong("the unit multiplies no such matrices");
  }
  int64_t lanes = lanes_of(t, product.node().dtype, unit);
  if (t.mr < 1 || t.nr < 1 || t.kc < 1) return wrong("a size is 0");
  if (t.nr % lanes != 0) return wrong(cat("nr is no multiple of ", lanes));
  if (t.mc < 1 || t.mc % t.mr != 0) return wrong("mc is no multiple of mr");
  if (t.nc < 1 || t.nc % t.nr != 0) return wrong("nc is no multiple of nr");
  if (t.group < 1 || t.group % t.mc != 0) return wrong("group is no multiple of mc");
  if (t.mr * (t.nr / lanes) > kVectorsMax) return wrong("the register tile is too large");
  if (t.matrices) {
    int64_t rows = t.mr / kMatrixSide, columns = t.nr / kMatrixSide;
    if (t.mr % kMatrixSide != 0 || rows * columns + rows + 1 > kMatrixRegisters) {
      return wrong("the sums take too many registers");
    }
  }
  if (t.rows_in_place && (t.matrices || !row_runs(product, steps).suit(t.kc))) {
    return wrong("rows do not lie as they are read");
  }
  if (t.columns_in_place &&
      !columns_lie_in_place(product, steps, unit.bytes / dtype_size(product.node().dtype))) {
    return wrong("columns do not lie as they are read");
  }
  if (t.stores_rows_at_once && !may_store_rows_at_once(t, product)) {
    return wrong("rows are stored one by one");
  }
  if (t.rows_outermost && product.problem().batch.empty()) return wrong("there is no batch");
  return {};
}

}  // namespace common
