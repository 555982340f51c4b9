#include "coordinator/search/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "common/ir/hlir/attention_form.h"
#include "common/ir/hlir/tile_form.h"
#include "common/schedule/tile_blocks.h"
#include "coordinator/search/cost/cpu_terms.h"
#include "coordinator/search/cost/gpu_cost.h"
#include "coordinator/search/cost/gpu_nest_times.h"

namespace coordinator {
namespace {

// PCIe 5 to the host; kernels by common/cost. Never calibrated.
DeviceTerms gpu_terms(common::Machine kind, const common::GpuMachine& machine) {
  DeviceTerms terms{};
  terms.machine = kind;
  terms.gpu = &machine;
  terms.launch_ns = common::kGpuLaunchNs;
  terms.synchronise_ns = 8'000;
  terms.host_byte_ns = 0.02;
  return terms;
}

// Vectors and single steps that a loop of `extent` steps takes.
struct Steps {
  double vectors = 0;
  double single = 0;
};

// Of a short loop that nothing was asked for, a compiler makes vectors when none is left over. Else
// it writes all steps out and packs them by fours, if it finds the same in each: what a step
// chooses by a byte it does not.
Steps short_steps(double extent, bool chooses, const VectorTerms& terms) {
  double width = terms.lanes / 2;
  while (width > 1 && std::fmod(extent, width) != 0) width /= 2;
  if (width >= 4) return {extent / width, 0};
  constexpr double kPacked = 4;
  double packed = chooses ? 0 : std::floor(extent / kPacked);
  return {packed, extent - packed * kPacked};
}

// Nothing but what is written out in as many instructions as there are vectors.
bool is_copy(const LoopWork& work) {
  return work.choices + work.divisions + work.functions + work.calls + work.turns + work.jumps == 0;
}

// A loop shorter than one round of its vectors is computed step by step, and so is what a round
// leaves over: a compiler that is told how many vectors a round has makes no smaller ones.
Steps steps_of(const LoopWork& work, bool kept_by_steps, const ScheduleValues& values,
               const VectorTerms& terms) {
  if (work.extent <= 1) return {0, work.extent};
  double width = work.is_scheduled ? static_cast<double>(values.vector) : 0;
  double unroll = work.is_scheduled ? static_cast<double>(values.unroll) : 1;
  bool is_short = work.extent < terms.lanes;
  if (is_short && (!work.is_scheduled || (kept_by_steps && width == 0) || is_copy(work))) {
    return short_steps(work.extent, kept_by_steps || work.choices > 0, terms);
  }
  if (width == 0) {
    width = terms.lanes;
    while (width > 1 && width * unroll > work.extent) width /= 2;
  }
  double rounds = std::floor(work.extent / (width * unroll));
  return {rounds * unroll, work.extent - rounds * width * unroll};
}

// Whether values of rows of that length are kept which were chosen one by one: what was written by
// steps is read by steps.
bool are_kept_by_steps(const KernelProfile& profile, double extent, const ScheduleValues& values) {
  if (values.stage == 0) return false;
  return std::any_of(profile.loops.begin(), profile.loops.end(), [&](const LoopWork& work) {
    return work.extent == extent && work.is_repeated && work.choices > 0;
  });
}

double loops_ns(const KernelProfile& profile, const ScheduleValues& values,
                const VectorTerms& terms) {
  double sum = profile.row_sums * terms.row_sum_ns + profile.lane_blocks * terms.lane_block_ns;
  for (const LoopWork& work : profile.loops) {
    bool is_saved = work.is_by_columns ? !values.is_default : work.is_repeated && values.stage != 0;
    if (is_saved) continue;
    Steps steps = steps_of(work, are_kept_by_steps(profile, work.extent, values), values, terms);
    bool is_written_out =
        work.extent <= kWrittenOut || (work.extent < terms.lanes && is_copy(work));
    double run = is_written_out ? 0 : terms.run_ns;
    if (work.functions > 0) run += terms.first_ns;
    for (size_t at_once : {0, 1}) {
      double step =
          work.simple * terms.simple_ns[at_once] + work.choices * terms.choice_ns[at_once] +
          work.divisions * terms.division_ns[at_once] + work.functions * terms.function_ns[at_once];
      run += step * (at_once != 0 ? steps.vectors : steps.single);
    }
    if (work.choices > 0) {
      double wait = terms.chosen_function_ns[work.is_scheduled ? 1 : 0];
      run += steps.single * work.functions * wait;
    }
    run += work.extent *
           (work.calls * terms.call_ns + work.jumps * terms.jump_ns + work.turns * terms.turn_ns);
    sum += work.runs * run;
  }
  return sum;
}

double number(int64_t value) { return static_cast<double>(value); }

double up(double size, double step) { return std::ceil(size / step) * step; }

// Rows and columns of the register tile: as given, or as a generator chooses.
std::pair<double, double> register_tile(const ContractionSize& size, const ScheduleValues& values,
                                        const VectorTerms& terms, double lanes) {
  common::RegisterTile chosen = common::choose_register_tile(
      static_cast<int64_t>(size.rows), static_cast<int64_t>(size.columns),
      static_cast<int64_t>(lanes), terms.tile_registers > 16);
  auto rows = static_cast<double>(values.tile.mr != 0 ? values.tile.mr : chosen.rows);
  double columns = values.tile.nr != 0 ? up(static_cast<double>(values.tile.nr), lanes)
                                       : static_cast<double>(chosen.vectors) * lanes;
  return {rows, columns};
}

// One step of the sums of a register tile.
double register_step_ns(double rows, double vectors, const VectorTerms& terms) {
  double step =
      std::max(rows * vectors * terms.tile_multiply_ns, (rows + vectors) * terms.tile_load_ns);
  return rows * vectors > terms.tile_registers ? step * terms.tile_spill : step;
}

// How much longer a few threads take for the units that given blocks make than for as much work in
// many units. Blocks that are the generator's choice make enough of them.
double few_units(const ContractionSize& size, const ScheduleValues& values) {
  constexpr double kThreads = 4, kRows = 96, kColumns = 256;
  if (values.tile.mc == 0 && values.tile.nc == 0) return 1;
  double rows = values.tile.mc != 0 ? number(values.tile.mc) : kRows;
  double columns = values.tile.nc != 0 ? number(values.tile.nc) : kColumns;
  double units = size.batch * std::ceil(size.rows / rows) * std::ceil(size.columns / columns);
  return up(units, kThreads) / units;
}

double tile_ns(const KernelProfile& profile, const ScheduleValues& values,
               const VectorTerms& terms) {
  const ContractionSize& size = profile.contraction;
  double lanes = size.is_wide ? terms.lanes / 2 : terms.lanes;
  auto [rows, columns] = register_tile(size, values, terms, lanes);
  const double step = register_step_ns(rows, columns / lanes, terms);
  constexpr double kColumns = 256;  // of a panel, unless the schedule says otherwise
  double panel = up(values.tile.nc != 0 ? static_cast<double>(values.tile.nc) : kColumns, columns);
  double panels = std::ceil(size.columns / panel);
  double tiles = std::ceil(size.rows / rows) * std::ceil(size.columns / columns);
  double steps = size.is_short ? std::ceil(size.steps / terms.short_steps) : size.steps;
  double pack_row_ns = terms.pack_row_ns * (size.has_border ? terms.pack_border : 1);
  double each = tiles * steps * step + size.columns * steps * terms.pack_column_ns +
                panels * size.rows * steps * pack_row_ns;
  return size.batch * (terms.batch_ns + each) * few_units(size, values);
}

// Both products of attention, as the C generator blocks them: a unit has some rows, for which it
// packs all keys and values that they see, a block of keys at a time.
double attention_ns(const AttentionSize& size, const ScheduleValues& values,
                    const VectorTerms& terms) {
  auto given = [](int64_t value, int64_t usual) { return number(value != 0 ? value : usual); };
  const double block = std::min(size.rows, given(values.attention.rows, common::kAttentionRows));
  const double keys = std::min(size.keys, given(values.attention.keys, common::kAttentionKeys));
  auto product = [&](double columns, double steps) {
    common::RegisterTile tile =
        common::choose_register_tile(static_cast<int64_t>(block), static_cast<int64_t>(columns),
                                     static_cast<int64_t>(terms.lanes), terms.tile_registers > 16);
    double tiles = std::ceil(block / number(tile.rows)) *
                   std::ceil(columns / (number(tile.vectors) * terms.lanes));
    return tiles * steps * register_step_ns(number(tile.rows), number(tile.vectors), terms);
  };
  double each = product(keys, size.depth) + product(size.width, keys);
  if (size.rows > number(common::kAttentionSkinnyRows)) {
    // Keys are transposed on their way, values are copied.
    each += keys *
            (size.depth * terms.pack_column_ns + size.width * 2 * terms.simple_ns[1] / terms.lanes);
  }
  double blocks = std::ceil(size.rows / block) * size.keys * size.seen / keys;
  return size.batch * (terms.batch_ns + blocks * each);
}

// By rates alone, whatever the loops.
double flat_ns(common::Template form, const KernelProfile& p, const ScheduleValues& values,
               const DeviceTerms& terms) {
  double multiply_ns = terms.in_place_multiply_ns;
  if (form == common::Template::kAttention) multiply_ns = terms.attention_multiply_ns;
  if (form == common::Template::kGemm) {
    multiply_ns = terms.library_multiply_ns;
    // A library's tiles, 12 rows by a vector of columns; one row it multiplies by itself.
    const ContractionSize& size = p.contraction;
    if (terms.vector.lanes > 0 && size.rows > 1 && size.columns > 1) {
      multiply_ns *= up(size.rows, 12) / size.rows;
      multiply_ns *= up(size.columns, terms.vector.lanes) / size.columns;
    }
  }
  if (form == common::Template::kTile) {
    // Only multiplications are wasted at the edges of tiles; launching and packing are not.
    auto waste = [](int64_t step, double size) {
      return step == 0 ? 1 : up(size, static_cast<double>(step)) / size;
    };
    multiply_ns = terms.tile_multiply_ns * waste(values.tile.mr, p.contraction.rows) *
                  waste(values.tile.nr, p.contraction.columns);
  }
  return p.simple_ops * terms.simple_ns + p.row_ops * terms.row_ns + p.hard_ops * terms.hard_ns +
         p.random_reads * terms.random_ns + p.folded_reads * terms.folded_ns +
         p.sort_steps * terms.sort_step_ns + p.sort_turns * terms.sort_turn_ns +
         p.contraction_ops * multiply_ns;
}

}  // namespace

const char* calibration_name(Calibration calibration) {
  static constexpr const char* kNames[] = {"none", "default", "measured"};
  return kNames[static_cast<size_t>(calibration)];
}

namespace {

// One for each row of the table of GPUs, by the kind of machine.
const DeviceTerms& gpu_terms_of(const common::Target& target) {
  static const std::map<std::pair<common::Machine, const common::GpuMachine*>, DeviceTerms> kTerms =
      [] {
        std::map<std::pair<common::Machine, const common::GpuMachine*>, DeviceTerms> terms;
        for (const common::GpuMachine& machine : common::gpu_machines()) {
          for (auto kind : {common::Machine::kGpu, common::Machine::kGpuWarpgroups}) {
            terms[{kind, &machine}] = gpu_terms(kind, machine);
          }
        }
        return terms;
      }();
  return kTerms.at({common::machine_of(target), &common::gpu_machine_of_target(target.name)});
}

}  // namespace

const DeviceTerms& device_terms(const common::Target& target) {
  return common::is_gpu(common::machine_of(target)) ? gpu_terms_of(target) : cpu_terms(target);
}

namespace {

double cpu_predict_ns(common::Template form, const KernelProfile& profile,
                      const ScheduleValues& values, const DeviceTerms& terms) {
  using common::Template;
  double launch_ns = form == Template::kTile   ? terms.tile_launch_ns
                     : form == Template::kGemm ? terms.library_call_ns
                                               : terms.launch_ns;
  bool by_loops =
      terms.vector.lanes > 0 &&
      (form == Template::kLoops || form == Template::kHorizontal || form == Template::kTile ||
       form == Template::kAttention || form == Template::kFourier);
  double work = 0;
  if (by_loops) {
    work = loops_ns(profile, values, terms.vector) + profile.random_reads * terms.random_ns +
           profile.folded_reads * terms.folded_ns;
    if (form == Template::kTile) {
      work += tile_ns(profile, values, terms.vector);
    } else if (form == Template::kAttention && profile.attention.keys > 0) {
      work += attention_ns(profile.attention, values, terms.vector);
    } else {
      work += profile.contraction_ops * (form == Template::kAttention ? terms.attention_multiply_ns
                                                                      : terms.in_place_multiply_ns);
    }
  } else {
    work = flat_ns(form, profile, values, terms);
  }
  bool is_split = form == Template::kFourier && terms.transform_ns > 0;
  work += is_split ? profile.transform_steps * terms.transform_ns
                   : profile.transform_products * (terms.in_place_multiply_ns + terms.hard_ns);
  double near = std::min(profile.bytes, terms.near_bytes);
  double traffic = near * terms.near_byte_ns + (profile.bytes - near) * terms.far_byte_ns;
  return launch_ns + std::max(work, traffic);
}

}  // namespace

double predict_ns(common::Template form, std::span<const WeightedProfile> profiles,
                  const ScheduleValues& values, const DeviceTerms& terms) {
  if (terms.gpu == nullptr) {
    double sum = 0;
    for (const WeightedProfile& each : profiles) {
      sum += each.weight * cpu_predict_ns(form, each.profile, values, terms);
    }
    return sum;
  }
  if (form != common::Template::kAttention || values.online != 0) {
    return gpu_predict_ns(form, profiles, *terms.gpu,
                          {values.block_keys, values.block_rows, values.block_columns,
                           values.splits, values.units, values.product});
  }
  std::vector<WeightedProfile> twice(profiles.begin(), profiles.end());
  for (WeightedProfile& each : twice) {
    each.profile.attention.normalises_first = true;
    each.profile.attention.rounds = false;
  }
  return gpu_predict_ns(form, twice, *terms.gpu, {values.block_keys, values.block_rows});
}

namespace {

// A tile has the same blocks whatever its symbols are.
void as_generated(const common::Kernel& kernel, const common::GpuMachine& machine, bool is_copied,
                  ScheduleValues& values) {
  const auto processors = static_cast<int64_t>(machine.processors);
  const auto shapes = common::priced_tiles(kernel.body);
  if (!shapes) return;
  const bool may_group = common::warpgroups_multiply(machine.target) && is_copied;
  std::optional<common::ProductBlock> block;
  if (may_group && values.units == common::TileUnits::kQuicker) {
    block = common::quicker_product_block(*shapes, values.product, processors);
  } else if (may_group && values.units == common::TileUnits::kWarpgroups) {
    block = common::product_block(*shapes, values.product, processors);
  }
  values.units = block ? common::TileUnits::kWarpgroups : common::TileUnits::kWarps;
  if (block) values.product = {block->rows, block->columns, block->cluster, block->splits};
  common::TileBlocks blocks = common::tile_blocks(
      *shapes, {values.block_rows, values.block_columns, values.splits}, processors);
  values.block_rows = blocks.rows;
  values.block_columns = blocks.columns;
  values.splits = blocks.splits;
}

}  // namespace

double predict_ns(const common::Kernel& kernel, const std::vector<int64_t>& symbols,
                  const DeviceTerms& terms) {
  if (terms.gpu != nullptr && has_nest_times(kernel)) {
    return GpuNestTimes(kernel.form, kernel.body, *terms.gpu).predict_ns(kernel.schedule);
  }
  const WeightedProfile profile{profile_kernel(kernel, symbols), 1};
  ScheduleValues values;
  values.is_default = kernel.schedule.empty();
  auto value = [&](std::string_view name) {
    return common::schedule_value(kernel.schedule, kernel.form, name);
  };
  if (kernel.form == common::Template::kLoops) {
    values.vector = value("vector");
    values.unroll = value("unroll");
    values.stage = value("stage");
  }
  if (kernel.form == common::Template::kTile) {
    values.tile.mr = value("mr");
    values.tile.nr = value("nr");
    values.tile.mc = value("mc");
    values.tile.nc = value("nc");
    values.block_rows = value("block_rows");
    values.block_columns = value("block_columns");
    values.splits = value("splits");
    values.units = common::tile_units(value("warpgroups"), values.block_rows, values.block_columns);
    values.product = common::product_wish(value("warpgroups"), value("clusters"), value("splits"));
    const ContractionSize& size = profile.profile.contraction;
    if (terms.gpu != nullptr) {
      as_generated(kernel, *terms.gpu, size.is_half && size.is_copied, values);
    }
  }
  if (kernel.form == common::Template::kAttention) {
    values.attention.rows = value("rows");
    values.attention.keys = value("keys");
    values.block_keys = value("block_keys");
    values.block_rows = value("block_rows");
    values.splits = value("splits");
    values.online = value("online");
  }
  return predict_ns(kernel.form, {&profile, 1}, values, terms);
}

double program_overhead_ns(const common::Program& program, const std::vector<int64_t>& sizes,
                           const DeviceTerms& terms) {
  common::IoProfile io = common::io_profile(program.buffers, program.calls, program.outputs, sizes);
  return static_cast<double>(io.synchronisations) * terms.synchronise_ns +
         static_cast<double>(io.host_output_bytes) * terms.host_byte_ns;
}

std::vector<int64_t> call_symbols(const common::Call& call, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> values;
  for (const common::Expr& e : call.symbols) values.push_back(e.evaluate(sizes));
  return values;
}

}  // namespace coordinator
