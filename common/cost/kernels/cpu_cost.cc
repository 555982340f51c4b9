#include "common/cost/kernels/cpu_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/cost/loop_time.h"
#include "common/ir/hlir/attention_form.h"
#include "common/ir/hlir/tile_form.h"
#include "common/schedule/cpu_tile.h"

namespace common {
namespace {

// Whether values of rows of that length are kept which were chosen one by one: what was written by
// steps is read by steps.
bool are_kept_by_steps(const KernelProfile& profile, double extent, const ScheduleValues& values) {
  if (values.stage == 0) return false;
  return std::any_of(profile.loops.begin(), profile.loops.end(), [&](const WalkedLoop& work) {
    return work.extent == extent && work.is_repeated && work.choices > 0;
  });
}

double walked_ns(const KernelProfile& profile, const ScheduleValues& values,
                 const VectorTerms& terms) {
  double sum =
      profile.row_sums * terms.loop.row_sum_ns + profile.lane_blocks * terms.loop.lane_block_ns;
  for (const WalkedLoop& walked : profile.loops) {
    bool is_saved =
        walked.is_by_columns ? !values.is_default : walked.is_repeated && values.stage != 0;
    if (is_saved) continue;
    LoopWork work = walked;
    if (work.vectors.is_asked) work.vectors = {true, values.vector, values.unroll};
    work.reads_steps = are_kept_by_steps(profile, work.extent, values);
    sum += loop_ns(work, terms);
  }
  return sum;
}

double number(int64_t value) { return static_cast<double>(value); }

double up(double size, double step) { return std::ceil(size / step) * step; }

// Rows and columns of the register tile: as given, or as a generator chooses.
std::pair<double, double> register_tile(const ContractionSize& size, const ScheduleValues& values,
                                        const TileTerms& terms, double lanes) {
  RegisterTile chosen =
      choose_register_tile(static_cast<int64_t>(size.rows), static_cast<int64_t>(size.columns),
                           static_cast<int64_t>(lanes), terms.registers > 16);
  auto rows = static_cast<double>(values.tile.mr != 0 ? values.tile.mr : chosen.rows);
  double columns = values.tile.nr != 0 ? up(static_cast<double>(values.tile.nr), lanes)
                                       : static_cast<double>(chosen.vectors) * lanes;
  return {rows, columns};
}

// How much longer a few threads take for the units that given blocks make than for as much work in
// many units. Blocks that are the generator's choice make enough of them.
double few_units(const ContractionSize& size, const ScheduleValues& values) {
  constexpr double kThreads = 4;
  if (values.tile.mc == 0 && values.tile.nc == 0) return 1;
  double rows = number(values.tile.mc != 0 ? values.tile.mc : kTileBlockRows);
  double columns = number(values.tile.nc != 0 ? values.tile.nc : kTileBlockColumns);
  double units = size.batch * std::ceil(size.rows / rows) * std::ceil(size.columns / columns);
  return up(units, kThreads) / units;
}

double tile_ns(const KernelProfile& profile, const ScheduleValues& values,
               const DeviceTerms& terms) {
  const ContractionSize& size = profile.contraction;
  double lanes = size.is_wide ? terms.vector.lanes / 2 : terms.vector.lanes;
  auto [rows, columns] = register_tile(size, values, terms.tile, lanes);
  const double step = terms.tile.step_ns(rows, columns / lanes);
  double panel = up(number(values.tile.nc != 0 ? values.tile.nc : kTileBlockColumns), columns);
  double panels = std::ceil(size.columns / panel);
  double tiles = std::ceil(size.rows / rows) * std::ceil(size.columns / columns);
  double steps = size.is_short ? std::ceil(size.steps / terms.tile.short_steps) : size.steps;
  double pack_row_ns = terms.tile.pack_row_ns * (size.has_border ? terms.tile.pack_border : 1);
  double each = tiles * steps * step + size.columns * steps * terms.tile.pack_column_ns +
                panels * size.rows * steps * pack_row_ns;
  return size.batch * (terms.tile.batch_ns + each) * few_units(size, values);
}

// Both products of attention, as the C generator blocks them: a unit has some rows, for which it
// packs all keys and values that they see, a block of keys at a time.
double attention_ns(const AttentionSize& size, const ScheduleValues& values,
                    const DeviceTerms& terms) {
  const double lanes = terms.vector.lanes;
  auto given = [](int64_t value, int64_t usual) { return number(value != 0 ? value : usual); };
  const double block = std::min(size.rows, given(values.attention.rows, kAttentionRows));
  const double keys = std::min(size.keys, given(values.attention.keys, kAttentionKeys));
  auto product = [&](double columns, double steps) {
    RegisterTile tile =
        choose_register_tile(static_cast<int64_t>(block), static_cast<int64_t>(columns),
                             static_cast<int64_t>(lanes), terms.tile.registers > 16);
    double tiles =
        std::ceil(block / number(tile.rows)) * std::ceil(columns / (number(tile.vectors) * lanes));
    return tiles * steps * terms.tile.step_ns(number(tile.rows), number(tile.vectors));
  };
  double each = product(keys, size.depth) + product(size.width, keys);
  if (size.rows > number(kAttentionSkinnyRows)) {
    // Keys are transposed on their way, values are copied.
    each += keys * (size.depth * terms.tile.pack_column_ns +
                    size.width * 2 * terms.vector.step.simple_ns[1] / lanes);
  }
  double blocks = std::ceil(size.rows / block) * size.keys * size.seen / keys;
  return size.batch * (terms.tile.batch_ns + blocks * each);
}

// By rates alone, whatever the loops.
double flat_ns(Template form, const KernelProfile& p, const DeviceTerms& terms) {
  double multiply_ns = terms.products.in_place_ns, packing_ns = 0;
  if (form == Template::kGemm) {
    multiply_ns = terms.products.library_ns;
    // A library's tiles, 12 rows by a vector of columns; one row it multiplies by itself.
    const ContractionSize& size = p.contraction;
    if (size.rows > 1 && size.columns > 1) {
      multiply_ns *= up(size.rows, 12) / size.rows;
      multiply_ns *= up(size.columns, terms.vector.lanes) / size.columns;
      packing_ns = size.batch * size.columns * size.steps * terms.products.library_pack_ns;
    }
  }
  const OperationTerms& each = terms.operations;
  return p.simple_ops * each.simple_ns + p.row_ops * each.row_ns + p.hard_ops * each.hard_ns +
         p.random_reads * each.random_ns + p.folded_reads * each.folded_ns +
         p.sort_steps * each.sort_step_ns + p.sort_turns * each.sort_turn_ns +
         p.contraction_ops * multiply_ns + packing_ns;
}

}  // namespace

double cpu_predict_ns(Template form, const KernelProfile& profile, const ScheduleValues& values,
                      const DeviceTerms& terms) {
  double launch_ns = form == Template::kTile   ? terms.launch.tile_ns
                     : form == Template::kGemm ? terms.launch.library_ns
                                               : terms.launch.kernel_ns;
  bool by_loops = form == Template::kLoops || form == Template::kHorizontal ||
                  form == Template::kTile || form == Template::kAttention ||
                  form == Template::kFourier;
  double work = 0;
  if (by_loops) {
    work = walked_ns(profile, values, terms.vector) +
           profile.random_reads * terms.operations.random_ns +
           profile.folded_reads * terms.operations.folded_ns;
    if (form == Template::kTile) {
      work += tile_ns(profile, values, terms);
    } else if (form == Template::kAttention && profile.attention.keys > 0) {
      work += attention_ns(profile.attention, values, terms);
    } else {
      work += profile.contraction_ops * (form == Template::kAttention ? terms.products.attention_ns
                                                                      : terms.products.in_place_ns);
    }
  } else {
    work = flat_ns(form, profile, terms);
  }
  bool is_split = form == Template::kFourier;
  work += is_split ? profile.transform_steps * terms.operations.transform_ns
                   : profile.transform_products *
                         (terms.products.in_place_ns + terms.operations.hard_ns);
  return launch_ns + std::max(work, terms.memory.traffic_ns(profile.bytes));
}

}  // namespace common
