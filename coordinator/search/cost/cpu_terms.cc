#include "coordinator/search/cost/cpu_terms.h"

namespace coordinator {
namespace {

// One core with wide vectors (AVX-512), by least squares of the logarithm of measured to predicted
// time: those of loops over 4,500 kernels of eight small models, those of tiles over 670 of six;
// see docs/measurements/2026-11-21-search-quality.md for how they do on models that were not
// fitted. The library's rate and padding are from a dozen of its products; attention's rate is the
// tiles', from which its kernels are made. What scans, sorts and scatters take still goes by rates.
constexpr DeviceTerms kCpuAvx512 = {.machine = common::Machine::kCpu,
                                    .gpu = nullptr,
                                    .launch_ns = 27.3,
                                    .tile_launch_ns = 30,
                                    .library_call_ns = 207,
                                    .near_byte_ns = 0.0051,
                                    .far_byte_ns = 0.024,
                                    .near_bytes = 1 << 20,
                                    .simple_ns = 0.053,
                                    .row_ns = 0.11,
                                    .hard_ns = 0.5,
                                    .random_ns = 0.15,
                                    .folded_ns = 0.13,
                                    .sort_step_ns = 0.15,
                                    .sort_turn_ns = 2.2,
                                    .in_place_multiply_ns = 0.5,
                                    .attention_multiply_ns = 0.0106,
                                    .library_multiply_ns = 0.018,
                                    .transform_ns = 0.04,
                                    .synchronise_ns = 0,
                                    .host_byte_ns = 0,
                                    .vector = {.lanes = 16,
                                               .run_ns = 1.15,
                                               .row_sum_ns = 1.97,
                                               .lane_block_ns = 4,
                                               .first_ns = 4.5,
                                               .simple_ns = {0.057, 0.07},
                                               .choice_ns = {0.13, 0.05},
                                               .division_ns = {0.32, 0.66},
                                               .function_ns = {1.94, 1.92},
                                               .chosen_function_ns = {1, 3},
                                               .call_ns = 7.1,
                                               .turn_ns = 0.045,
                                               .jump_ns = 0.23,
                                               .tile_multiply_ns = 0.169,
                                               .tile_load_ns = 0.217,
                                               .tile_spill = 1.36,
                                               .tile_registers = 28,
                                               .pack_row_ns = 0.135,
                                               .pack_column_ns = 0.108,
                                               .batch_ns = 6.7}};

// A multiply-add of pairs takes as long as one of float32, and so does a pair on its way into its
// place: 536 GFLOP/s in registers, against 245.
constexpr DeviceTerms kCpuPairs = [] {
  DeviceTerms terms = kCpuAvx512;
  terms.machine = common::Machine::kCpuPairs;
  terms.vector.short_steps = 2;
  return terms;
}();

constexpr void set(double (&values)[2], double by_itself, double at_once) {
  values[0] = by_itself;
  values[1] = at_once;
}

// One core with vectors of 32 bytes and 16 registers of them (AVX2), measured on an EPYC of the
// first generation: products with tiles of 14 shapes, whose rate is 16 operations in 0.46 ns and a
// third less where sums do not fit into registers; loops of copies, sums, polynomials, divisions
// and functions over what a cache holds; reads of caches and memory as rooflines measure them; rows
// of windows of 3 x 3 with a border, 8 ns an element. What is not a loop or a tile is that of
// AVX-512 times what functions take more.
constexpr DeviceTerms kCpuAvx2 = [] {
  DeviceTerms terms = kCpuAvx512;
  terms.launch_ns = 40;
  terms.tile_launch_ns = 45;
  terms.library_call_ns = 300;
  terms.near_byte_ns = 0.02;
  terms.far_byte_ns = 0.06;
  terms.near_bytes = 1 << 19;
  terms.simple_ns = 0.12;
  terms.row_ns = 0.25;
  terms.hard_ns = 1.8;
  terms.random_ns = 0.3;
  terms.folded_ns = 0.26;
  terms.sort_step_ns = 0.3;
  terms.sort_turn_ns = 4.4;
  terms.in_place_multiply_ns = 0.8;
  terms.attention_multiply_ns = 0.064;
  terms.library_multiply_ns = 0.062;
  terms.transform_ns = 0.14;
  terms.vector.lanes = 8;
  terms.vector.run_ns = 2;
  terms.vector.row_sum_ns = 3.5;
  terms.vector.lane_block_ns = 7;
  terms.vector.first_ns = 10;
  set(terms.vector.simple_ns, 0.12, 0.35);
  set(terms.vector.choice_ns, 0.25, 0.35);
  set(terms.vector.division_ns, 1.3, 3.2);
  set(terms.vector.function_ns, 6, 11.5);
  set(terms.vector.chosen_function_ns, 2.5, 7);
  terms.vector.call_ns = 14;
  terms.vector.turn_ns = 0.1;
  terms.vector.jump_ns = 0.5;
  terms.vector.tile_multiply_ns = 0.46;
  terms.vector.tile_load_ns = 0.5;
  terms.vector.tile_spill = 1.5;
  terms.vector.tile_registers = 12;
  terms.vector.pack_row_ns = 0.3;
  terms.vector.pack_column_ns = 0.25;
  terms.vector.pack_border = 25;
  terms.vector.batch_ns = 14;
  return terms;
}();

// Half as wide, with a multiplication and an addition in place of one instruction for both. Not
// measured.
constexpr DeviceTerms kCpuSse = [] {
  DeviceTerms terms = kCpuAvx2;
  terms.attention_multiply_ns *= 2;
  terms.library_multiply_ns *= 2;
  terms.transform_ns *= 2;
  terms.vector.lanes = 4;
  return terms;
}();

}  // namespace

const DeviceTerms& cpu_terms(const common::Target& target) {
  if (common::machine_of(target) == common::Machine::kCpuPairs) return kCpuPairs;
  if (target.name == "cpu-x86_64-avx2") return kCpuAvx2;
  if (target.name == "cpu-x86_64" || target.name == "cpu-aarch64") return kCpuSse;
  return kCpuAvx512;
}

}  // namespace coordinator
