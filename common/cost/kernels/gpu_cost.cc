#include "common/cost/kernels/gpu_cost.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "common/schedule/attention/decode_blocks.h"
#include "common/schedule/attention/flash_blocks.h"
#include "common/schedule/grouped_blocks.h"
#include "common/schedule/product_blocks.h"

namespace common {
namespace {

// Thread instructions of a profile's operations; a transcendental function takes some twenty.
constexpr double kSimple = 1.2, kHard = 20, kTransform = 6;
// Of a multiply-add whose operands are loaded and widened for it alone.
constexpr double kInPlace = 2.5;
// Of what generated code and libraries multiply on tensor cores or beside them, the share of the
// machine's rate.
constexpr double kTileTensor = 0.4, kTileSingle = 0.5;
constexpr double kLibraryTensor = 0.75, kLibrarySingle = 0.8, kLibraryBytes = 0.85;
// Of attention of many rows, in half precision and in others, which threads multiply. What is
// multiplied where probabilities are in two parts, over where they are rounded.
constexpr double kAttentionTensor = 0.4, kAttentionByThreads = 0.08, kSplit = 1.5;
// An attention of at most kDecodeRows rows whose blocks decode_blocks() does not choose: in each
// pass a block walks the keys of a group of heads, kStepKeys of them in kKeyStepClocks. Thread
// instructions are kOnePass for each byte of keys and values where one pass is enough, else
// kByThreads for each multiply-add and pass.
constexpr double kDecodeRows = 8, kStepKeys = 64, kKeyStepClocks = 1500, kOnePass = 6,
                 kByThreads = 6;
// At most so many rows are multiplied by reading the matrix once, at memory's speed.
constexpr double kFewRows = 4;
constexpr double kFewRowsByte = 1.1;  // instructions, where tensor cores multiply them
// Bytes that a thread has under way in generated code.
constexpr double kInFlight = 64;
constexpr double kThreadBytes = 64;  // that one thread moves, about
constexpr double kBlock = 256;
constexpr double kSector = 32;
constexpr double kSerialLoads = 4;
// Of what is read again, the share that the first cache does not have.
constexpr double kNearShare = 0.25;

int64_t whole(double value) { return static_cast<int64_t>(value); }

bool has_few_rows(const ContractionSize& size) {
  return std::min(size.rows, size.columns) <= kFewRows;
}

// Each multiply-add loads an operand again, but for what a row's neighbours in a warp share.
double repeated_bytes(const KernelProfile& profile) {
  const ContractionSize& size = profile.contraction;
  double width = size.is_wide ? 8 : size.is_half ? 2 : 4;
  double few = std::min(size.rows, size.columns);
  return has_few_rows(size) ? profile.contraction_ops / std::max(1.0, few) * width * (few - 1)
                            : profile.contraction_ops * width;
}

// Whether one pass computes it, whose blocks are known.
bool is_decode(const AttentionSize& size) {
  return size.rows <= kDecodeRows && size.is_half && !size.normalises_first &&
         std::min({size.batch, size.rows, size.keys, size.depth, size.width}) >= 1;
}

DecodeShape decode_shape(const AttentionSize& size) {
  return {whole(size.batch), whole(size.rows), whole(size.keys), whole(size.depth),
          whole(size.width)};
}

// Whether all of them are computed in one pass, with the same blocks.
bool is_decode(Template form, std::span<const WeightedProfile> profiles) {
  return form == Template::kAttention &&
         std::all_of(profiles.begin(), profiles.end(),
                     [](const WeightedProfile& each) { return is_decode(each.profile.attention); });
}

DecodeBlocks blocks_of(std::span<const WeightedProfile> profiles, const GpuMachine& machine,
                       const BlockSchedule& schedule) {
  std::vector<WeightedShape> shapes;
  for (const WeightedProfile& each : profiles) {
    shapes.push_back({decode_shape(each.profile.attention), each.weight});
  }
  return decode_blocks(shapes, given_decode_blocks(schedule.block_keys, schedule.splits),
                       static_cast<int64_t>(machine.processors));
}

GpuKernelFacts attention_facts(const KernelProfile& profile, const DecodeBlocks& blocks) {
  GpuKernelFacts f = decode_facts(decode_shape(profile.attention), blocks);
  f.dram_bytes = std::max(f.dram_bytes, profile.moved_bytes);
  return f;
}

// A sort beside what its keys are made of.
GpuKernelFacts with_sort(GpuKernelFacts f, const SortSize& size) {
  GpuKernelFacts sort = sort_facts(size.blocks, size.lines, size.length);
  f.thread_instructions += sort.thread_instructions;
  f.shared_bytes_moved = sort.shared_bytes_moved;
  f.sector_bytes += sort.sector_bytes;
  f.wait_clocks += sort.wait_clocks;
  f.blocks = sort.blocks;
  f.block_threads = sort.block_threads;
  f.block_shared_bytes = sort.block_shared_bytes;
  return f;
}

// Of rows that multiply matrices of their own, beside what follows from the product.
GpuKernelFacts with_groups(const GpuKernelFacts& f, const ContractionSize& size,
                           const GpuMachine& machine) {
  auto least = [](double value) { return std::max<int64_t>(1, whole(value)); };
  GroupedShape shape{least(size.rows),  least(size.groups),   least(size.columns),
                     least(size.steps), size.is_half ? 2 : 4, size.row_operations};
  const bool may_group = warpgroups_multiply(machine.target) && size.is_half && size.is_copied;
  GpuKernelFacts grouped =
      grouped_facts(shape, grouped_blocks({{shape, 1}}, whole(machine.processors), may_group));
  grouped.single_operations /= kTileSingle;
  // What is moved beside the operands are results.
  const double results = std::max(0.0, f.dram_bytes - grouped.dram_bytes);
  grouped.sector_bytes += f.sector_bytes - f.dram_bytes + results;
  grouped.dram_bytes = f.dram_bytes;
  grouped.thread_instructions += f.thread_instructions;
  return grouped;
}

// What an attention of many rows takes on tensor cores; empty where no such block is known.
std::optional<GpuKernelFacts> flash_facts(const KernelProfile& profile, const GpuMachine& machine,
                                          const BlockSchedule& schedule) {
  const AttentionSize& size = profile.attention;
  if (size.rows <= kDecodeRows || !size.is_half ||
      std::min({size.batch, size.keys, size.depth, size.width}) < 1) {
    return std::nullopt;
  }
  FlashShape shape{whole(size.batch), whole(size.rows), whole(size.keys), whole(size.depth),
                   whole(size.width)};
  shape.seen = size.seen;
  shape.query_operations = size.query_operations;
  shape.key_operations = size.key_operations;
  shape.value_operations = size.value_operations;
  shape.two_parts = !size.normalises_first;
  shape.two_passes = size.normalises_first && !size.rounds;
  shape.warpgroups = warpgroups_multiply(machine.target) && !shape.two_passes &&
                     size.key_operations == 0 && size.value_operations == 0;
  auto blocks =
      flash_blocks(shape, {schedule.block_rows, schedule.block_keys}, whole(machine.processors));
  if (!blocks) return std::nullopt;
  GpuKernelFacts f = flash_facts(shape, *blocks);
  f.dram_bytes = std::max(f.dram_bytes, profile.moved_bytes);
  // What is done to scores beside the softmax, and for operands that are computed.
  f.thread_instructions += profile.simple_ops * kSimple;
  return f;
}

// A product whose operands the copy engine may bring, as a tile.
TileShape copied_tile(const KernelProfile& profile) {
  if (profile.tile) return *profile.tile;
  const ContractionSize& size = profile.contraction;
  TileShape shape;
  shape.batch = whole(size.batch);
  shape.rows = whole(size.rows);
  shape.columns = whole(size.columns);
  shape.steps = whole(size.steps);
  return shape;
}

bool is_pair(const KernelProfile& profile) { return profile.tile && profile.tile->is_pair; }

// The blocks of warpgroups that multiply all of them; empty where none do.
std::optional<ProductBlock> product_block_of(Template form,
                                             std::span<const WeightedProfile> profiles,
                                             const GpuMachine& machine,
                                             const BlockSchedule& schedule) {
  if (form != Template::kTile || !warpgroups_multiply(machine.target)) return std::nullopt;
  std::vector<WeightedTile> shapes;
  for (const WeightedProfile& each : profiles) {
    if (schedule.units == TileUnits::kWarps && !is_pair(each.profile)) return std::nullopt;
    const ContractionSize& size = each.profile.contraction;
    bool is_copied = size.is_half && size.is_copied && size.groups == 0 && !has_few_rows(size);
    if (!is_copied) return std::nullopt;
    shapes.push_back({copied_tile(each.profile), each.weight});
  }
  return product_block(shapes, schedule.product, static_cast<int64_t>(machine.processors));
}

// `other` is the kernel without its product.
GpuKernelFacts product_facts(const KernelProfile& profile, const GpuKernelFacts& other,
                             const ProductBlock& block, const GpuMachine& machine) {
  GpuKernelFacts f =
      product_facts(copied_tile(profile), block, static_cast<int64_t>(machine.processors));
  f.dram_bytes = other.dram_bytes;
  f.thread_instructions += other.thread_instructions;
  return f;
}

// Of a tile that tensor cores multiply, whose sizes are known, its blocks; empty for others.
std::optional<TileBlocks> tile_blocks_of(Template form, std::span<const WeightedProfile> profiles,
                                         const GpuMachine& machine, const BlockSchedule& schedule) {
  if (form != Template::kTile || machine.half_tensor_per_ns == 0) return std::nullopt;
  std::vector<WeightedTile> shapes;
  for (const WeightedProfile& each : profiles) {
    if (!each.profile.tile || is_pair(each.profile)) return std::nullopt;
    shapes.push_back({*each.profile.tile, each.weight});
  }
  return tile_blocks(shapes, {schedule.block_rows, schedule.block_columns, schedule.splits},
                     static_cast<int64_t>(machine.processors));
}

}  // namespace

GpuKernelFacts gpu_facts(Template form, const KernelProfile& profile) {
  GpuKernelFacts f;
  f.dram_bytes = profile.moved_bytes;
  f.sector_bytes = profile.moved_bytes + profile.random_reads * kSector;
  f.thread_instructions = profile.simple_ops * kSimple + profile.row_ops * kSimple +
                          profile.hard_ops * kHard + profile.folded_reads * kHard;
  f.thread_instructions += (form == Template::kFourier ? profile.transform_steps * kTransform
                                                       : profile.transform_products * kHard);
  double operations = 2 * profile.contraction_ops;
  bool is_half = profile.contraction.is_half;
  const AttentionSize& attention = profile.attention;
  bool rounds_first = attention.rounds && attention.is_half;
  double passes = attention.normalises_first && !rounds_first ? 2 : 1;
  bool is_skinny = form == Template::kTile && has_few_rows(profile.contraction) &&
                   profile.contraction.groups == 0;
  switch (form) {
    case Template::kTile:
      if (is_skinny) {
        // Tensor cores multiply two rows and more from memory.
        bool is_tensor =
            is_half && std::min(profile.contraction.rows, profile.contraction.columns) >= 2;
        f.thread_instructions +=
            is_tensor ? profile.moved_bytes * kFewRowsByte : profile.contraction_ops * kInPlace;
        break;
      }
      (is_half ? f.tensor_operations : f.single_operations) =
          operations / (is_half ? kTileTensor : kTileSingle);
      break;
    case Template::kAttention:
      if (profile.attention.rows > kDecodeRows) {
        // Probabilities that are not rounded are multiplied in two parts.
        bool splits = attention.is_half && !attention.normalises_first;
        f.tensor_operations = operations /
                              (attention.is_half ? kAttentionTensor : kAttentionByThreads) *
                              (splits ? kSplit : passes);
        break;
      }
      f.thread_instructions = profile.attention.is_half && !profile.attention.normalises_first
                                  ? profile.moved_bytes * kOnePass
                                  : profile.contraction_ops * kByThreads * passes;
      f.wait_clocks += passes * std::ceil(profile.attention.keys / kStepKeys) * kKeyStepClocks;
      break;
    case Template::kGemm:
      f.dram_bytes /= kLibraryBytes;
      (is_half ? f.warpgroup_operations : f.single_operations) =
          operations / (is_half ? kLibraryTensor : kLibrarySingle);
      break;
    default:
      f.thread_instructions += profile.contraction_ops * kInPlace;
      f.sector_bytes += repeated_bytes(profile) * kNearShare;
  }
  double threads =
      std::max(profile.moved_bytes / kThreadBytes, (f.thread_instructions + operations) / 512);
  f.block_threads = kBlock;
  f.blocks = std::max(1.0, std::ceil(threads / kBlock));
  f.in_flight_bytes = kInFlight;
  if (form == Template::kScan || form == Template::kScatter || form == Template::kSort) {
    // Each thread computes all of what its element is summed from, four loads at a time.
    double sums = std::max(1.0, profile.random_reads);
    f.wait_clocks += std::max(profile.longest_sum, profile.contraction_ops / sums) / kSerialLoads *
                     kGpuMemoryClocks;
  }
  return form == Template::kSort ? with_sort(f, profile.sort) : f;
}

double gpu_predict_ns(Template form, std::span<const WeightedProfile> profiles,
                      const GpuMachine& machine, const BlockSchedule& schedule) {
  bool decodes = is_decode(form, profiles);
  DecodeBlocks blocks;
  if (decodes) blocks = blocks_of(profiles, machine, schedule);
  const auto tiles = tile_blocks_of(form, profiles, machine, schedule);
  const auto products = product_block_of(form, profiles, machine, schedule);
  double sum = 0, by_warpgroups = 0;
  for (const WeightedProfile& each : profiles) {
    GpuKernelFacts base = gpu_facts(form, each.profile);
    if (form == Template::kTile && each.profile.contraction.groups > 0) {
      base = with_groups(base, each.profile.contraction, machine);
    }
    GpuKernelFacts facts = base;
    if (decodes) {
      facts = attention_facts(each.profile, blocks);
    } else if (tiles) {
      facts = tile_facts(*each.profile.tile, *tiles, static_cast<int64_t>(machine.processors));
      facts.dram_bytes = each.profile.moved_bytes;
    } else if (form == Template::kAttention) {
      facts = flash_facts(each.profile, machine, schedule).value_or(facts);
    }
    if (!launches_overlap(machine.target)) facts.block_prefetch_bytes = 0;
    GpuKernelTime time = gpu_kernel_time(facts, machine);
    sum += each.weight * (time.launch_ns + time.total_ns);
    if (!products) continue;
    time = gpu_kernel_time(product_facts(each.profile, base, *products, machine), machine);
    by_warpgroups += each.weight * (time.launch_ns + time.total_ns);
  }
  if (!products) return sum;
  const bool is_by_them = schedule.units == TileUnits::kWarpgroups || is_pair(profiles[0].profile);
  return is_by_them ? by_warpgroups : std::min(sum, by_warpgroups);
}

}  // namespace common
