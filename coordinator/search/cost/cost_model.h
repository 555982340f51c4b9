// What a kernel should cost before it was ever measured: bytes, operations, launches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/cost/gpu_machine.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/llir.h"
#include "common/plan/io_profile.h"
#include "common/plan/plan.h"
#include "coordinator/search/cost/gpu_cost.h"
#include "coordinator/search/cost/kernel_profile.h"

namespace coordinator {

// What a device's predictions rest on.
enum class Calibration : uint8_t {
  kNone,      // the constants are of another kind of device: predictions rank, if that
  kDefault,   // a typical CPU core's constants
  kMeasured,  // corrected by measurements on devices of this target
};
const char* calibration_name(Calibration calibration);  // "none", "default", "measured"

// What a byte that a plan computes from weights and keeps is charged in a run's time, so that among
// equally fast plans the one that holds less wins: far less than reading it.
inline constexpr double kHeldByteNs = 1e-5;

// What innermost loops take on a processor whose vector units a compiler fills, in nanoseconds.
struct VectorTerms {
  double lanes;          // float32 values in a vector; 0: there are no such loops on the device
  double run_ns;         // a loop begins and ends, unless it is so short that it is written out,
  double row_sum_ns;     // and, where it sums, the lanes' sums become one
  double lane_block_ns;  // sums side by side begin in one loop and end in another
  double first_ns;       // of a loop with functions: until the first is done
  double simple_ns[2];   // one step by itself, one vector's worth of steps at once;
  double choice_ns[2];   // the second value likewise
  double division_ns[2];
  double function_ns[2];
  // And where a step by itself chooses: the byte it chooses by goes through a register that the
  // function before it ends in, so that a step waits for the one before. First of steps that are
  // written out, among which a few registers take turns.
  double chosen_function_ns[2];
  double call_ns;
  double turn_ns;
  double jump_ns;
  // A tile of rows by vectors, one step of the sum: multiply-adds of the tile's vectors, or what
  // they read, whichever takes longer; times `spill` when the tile is more than the registers hold.
  double tile_multiply_ns;
  double tile_load_ns;
  double tile_spill;
  double tile_registers;
  double pack_row_ns;     // an element of the rows into its place, again for each panel of columns,
  double pack_column_ns;  // and of the columns
  double pack_border = 1;  // times a row's, where a condition says whether there is an element
  double batch_ns;
  double short_steps = 1;  // of the sum that a multiply-add of bfloat16 takes
};

// What a unit of each kind of work takes on a kind of device, in nanoseconds.
struct DeviceTerms {
  common::Machine machine;
  const common::GpuMachine* gpu;  // null: a processor; else only what a run takes is said below
  double launch_ns;               // of a generated kernel,
  double tile_launch_ns;          // of one that packs its operands,
  double library_call_ns;         // and of a library's
  double near_byte_ns;            // while all that a kernel touches stays in a cache of near_bytes
  double far_byte_ns;
  double near_bytes;
  double simple_ns;
  double row_ns;
  double hard_ns;
  double random_ns;
  double folded_ns;
  double sort_step_ns;
  double sort_turn_ns;
  double in_place_multiply_ns;
  double tile_multiply_ns;
  double attention_multiply_ns;
  double library_multiply_ns;
  double transform_ns;    // a point of a Fourier transform and a bit of its length; 0: by products
  double synchronise_ns;  // the host waits for the device once
  double host_byte_ns;    // an output on its way to the host
  VectorTerms vector;
};
// Those of the target's kind: a typical CPU core, or a GPU.
const DeviceTerms& device_terms(const common::Target& target);

// Of a tile on a processor: its registers, and what a unit computes.
struct CpuTileBlocks {
  int64_t mr = 0, nr = 0, mc = 0, nc = 0;
};
// Of attention on a processor: rows of a unit, and keys that it packs at once.
struct CpuAttentionBlocks {
  int64_t rows = 0, keys = 0;
};

// The schedule parameters that predictions look at; 0 is the generator's choice.
struct ScheduleValues {
  int64_t vector = 0, unroll = 1, stage = 1;
  CpuTileBlocks tile;
  CpuAttentionBlocks attention;
  // Of attention and tiles on GPUs: `online` 0 computes scores twice.
  int64_t block_keys = 0, block_rows = 0, block_columns = 0, splits = 0, online = 1;
  common::TileUnits units = common::TileUnits::kQuicker;
  common::ProductWish product;
  bool is_default = true;  // every parameter, those of no field here too
};
// Nanoseconds of one launch of a kernel over its profiles, one at least, whose weights sum to 1.
double predict_ns(common::Template form, std::span<const WeightedProfile> profiles,
                  const ScheduleValues& values, const DeviceTerms& terms);

// Nanoseconds of one launch. Only the ranking matters: a search scales predictions by what it has
// measured, and a measurement always outranks a prediction. Loops on a GPU are predicted over the
// priced_sizes() of the body's symbols, as their nests are chosen, and not at `symbols`.
double predict_ns(const common::Kernel& kernel, const std::vector<int64_t>& symbols,
                  const DeviceTerms& terms);

// What one run of the whole program takes beside its launches (see common::IoProfile, whose
// launches and device traffic are parts of the kernels' predictions).
double program_overhead_ns(const common::Program& program, const std::vector<int64_t>& sizes,
                           const DeviceTerms& terms);

// The sizes of a call's kernel symbols.
std::vector<int64_t> call_symbols(const common::Call& call, const std::vector<int64_t>& sizes);

}  // namespace coordinator
