#include "common/cost/kernels/cost_model.h"

#include <string_view>

#include "common/cost/kernels/cpu_cost.h"
#include "common/cost/kernels/gpu_cost.h"
#include "common/cost/kernels/gpu_nest_times.h"
#include "common/schedule/tile_blocks.h"

namespace common {

double predict_ns(Template form, std::span<const WeightedProfile> profiles,
                  const ScheduleValues& values, const DeviceTerms& terms) {
  if (terms.gpu == nullptr) {
    double sum = 0;
    for (const WeightedProfile& each : profiles) {
      sum += each.weight * cpu_predict_ns(form, each.profile, values, terms);
    }
    return sum;
  }
  if (form != Template::kAttention || values.online != 0) {
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
void as_generated(const Kernel& kernel, const GpuMachine& machine, bool is_copied,
                  ScheduleValues& values) {
  const auto processors = static_cast<int64_t>(machine.processors);
  const auto shapes = priced_tiles(kernel.body);
  if (!shapes) return;
  const bool may_group = warpgroups_multiply(machine.target) && is_copied;
  std::optional<ProductBlock> block;
  if (may_group && values.units == TileUnits::kQuicker) {
    block = quicker_product_block(*shapes, values.product, processors);
  } else if (may_group &&
             (values.units == TileUnits::kWarpgroups || shapes->front().shape.is_pair)) {
    block = product_block(*shapes, values.product, processors);
  }
  values.units = block ? TileUnits::kWarpgroups : TileUnits::kWarps;
  if (block) {
    values.product = {block->rows, block->columns, block->cluster, block->splits};
    values.product.is_beside = block->is_beside;
  }
  TileBlocks blocks =
      tile_blocks(*shapes, {values.block_rows, values.block_columns, values.splits}, processors);
  values.block_rows = blocks.rows;
  values.block_columns = blocks.columns;
  values.splits = blocks.splits;
}

}  // namespace

double predict_ns(const Kernel& kernel, const std::vector<int64_t>& symbols,
                  const DeviceTerms& terms) {
  if (terms.gpu != nullptr && has_nest_times(kernel)) {
    return GpuNestTimes(kernel.form, kernel.body, *terms.gpu).predict_ns(kernel.schedule);
  }
  const WeightedProfile profile{profile_kernel(kernel, symbols), 1};
  ScheduleValues values;
  values.is_default = kernel.schedule.empty();
  auto value = [&](std::string_view name) {
    return schedule_value(kernel.schedule, kernel.form, name);
  };
  if (kernel.form == Template::kLoops) {
    values.vector = value("vector");
    values.unroll = value("unroll");
    values.stage = value("stage");
  }
  if (kernel.form == Template::kTile) {
    values.tile.mr = value("mr");
    values.tile.nr = value("nr");
    values.tile.mc = value("mc");
    values.tile.nc = value("nc");
    values.block_rows = value("block_rows");
    values.block_columns = value("block_columns");
    values.splits = value("splits");
    values.units = tile_units(value("warpgroups"), values.block_rows, values.block_columns);
    values.product = product_wish(value("warpgroups"), value("clusters"), value("splits"));
    const ContractionSize& size = profile.profile.contraction;
    if (terms.gpu != nullptr) {
      as_generated(kernel, *terms.gpu, size.is_half && size.is_copied, values);
    }
  }
  if (kernel.form == Template::kAttention) {
    values.attention.rows = value("rows");
    values.attention.keys = value("keys");
    values.block_keys = value("block_keys");
    values.block_rows = value("block_rows");
    values.splits = value("splits");
    values.online = value("online");
  }
  return predict_ns(kernel.form, {&profile, 1}, values, terms);
}

double program_overhead_ns(const Program& program, const std::vector<int64_t>& sizes,
                           const DeviceTerms& terms) {
  IoProfile io = io_profile(program.buffers, program.calls, program.outputs, sizes);
  return static_cast<double>(io.synchronisations) * terms.host.synchronise_ns +
         static_cast<double>(io.host_output_bytes) * terms.host.output_byte_ns;
}

std::vector<int64_t> call_symbols(const Call& call, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> values;
  for (const Expr& e : call.symbols) values.push_back(e.evaluate(sizes));
  return values;
}

}  // namespace common
