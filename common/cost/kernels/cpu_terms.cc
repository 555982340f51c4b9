#include "common/cost/kernels/cpu_terms.h"

namespace common {
namespace {

// One core with wide vectors (AVX-512): tiles by least squares of the logarithm of measured to
// predicted time over 670 of six models. The library's rate and padding are from a dozen of its
// products; attention's rate is the tiles', from which its kernels are made. What scans, sorts and
// scatters take still goes by rates. Rows of windows of 3 x 3 with a border take 3.4 ns an element
// (EPYC of the fifth generation).
constexpr DeviceTerms kCpuAvx512 = {
    .machine = Machine::kCpu,
    .gpu = nullptr,
    .launch = {.kernel_ns = 27.3, .tile_ns = 30, .library_ns = 207},
    .memory = {.near_byte_ns = 0.0051, .far_byte_ns = 0.024, .near_bytes = 1 << 20},
    .operations = {.simple_ns = 0.053,
                   .row_ns = 0.11,
                   .hard_ns = 0.5,
                   .random_ns = 0.15,
                   .folded_ns = 0.13,
                   .sort_step_ns = 0.15,
                   .sort_turn_ns = 2.2,
                   .transform_ns = 0.04},
    .products = {.in_place_ns = 0.5, .attention_ns = 0.0106, .library_ns = 0.018},
    .host = {.synchronise_ns = 0, .output_byte_ns = 0},
    .vector = kAvx512Vectors,
    .tile = {.multiply_ns = 0.169,
             .load_ns = 0.217,
             .spill = 1.36,
             .registers = 28,
             .pack_row_ns = 0.135,
             .pack_column_ns = 0.108,
             .pack_border = 25,
             .batch_ns = 6.7}};

// A multiply-add of pairs takes as long as one of float32, and so does a pair on its way into its
// place: 536 GFLOP/s in registers, against 245.
constexpr DeviceTerms kCpuPairs = [] {
  DeviceTerms terms = kCpuAvx512;
  terms.machine = Machine::kCpuPairs;
  terms.tile.short_steps = 2;
  return terms;
}();

// One core with vectors of 32 bytes and 16 registers of them (AVX2), measured on an EPYC of the
// first generation: products with tiles of 14 shapes, whose rate is 16 operations in 0.46 ns and a
// third less where sums do not fit into registers; reads of caches and memory as rooflines measure
// them; rows of windows of 3 x 3 with a border, 8 ns an element. What OpenBLAS 0.3.34 packs of a
// matrix is from one of the third generation, 0.11 to 0.43 ns an element, by the ratio of both
// rates. What is not a loop or a tile is that of AVX-512 times what functions take more.
constexpr DeviceTerms kCpuAvx2 = [] {
  DeviceTerms terms = kCpuAvx512;
  terms.launch = {.kernel_ns = 40, .tile_ns = 45, .library_ns = 300};
  terms.memory = {.near_byte_ns = 0.02, .far_byte_ns = 0.06, .near_bytes = 1 << 19};
  terms.operations = {.simple_ns = 0.12,
                      .row_ns = 0.25,
                      .hard_ns = 1.8,
                      .random_ns = 0.3,
                      .folded_ns = 0.26,
                      .sort_step_ns = 0.3,
                      .sort_turn_ns = 4.4,
                      .transform_ns = 0.14};
  terms.products = {
      .in_place_ns = 0.8, .attention_ns = 0.064, .library_ns = 0.062, .library_pack_ns = 0.5};
  terms.vector = kAvx2Vectors;
  terms.tile = {.multiply_ns = 0.46,
                .load_ns = 0.5,
                .spill = 1.5,
                .registers = 12,
                .pack_row_ns = 0.3,
                .pack_column_ns = 0.25,
                .pack_border = 25,
                .batch_ns = 14};
  return terms;
}();

// Half as wide, with a multiplication and an addition in place of one instruction for both. Not
// measured.
constexpr DeviceTerms kCpuSse = [] {
  DeviceTerms terms = kCpuAvx2;
  terms.products.attention_ns *= 2;
  terms.products.library_ns *= 2;
  terms.operations.transform_ns *= 2;
  terms.vector = kSseVectors;
  return terms;
}();

}  // namespace

const DeviceTerms& cpu_terms(const Target& target) {
  if (machine_of(target) == Machine::kCpuPairs) return kCpuPairs;
  const VectorTerms* vector = &vector_terms_of_target(target.name);
  if (vector == &kAvx2Vectors) return kCpuAvx2;
  return vector == &kSseVectors ? kCpuSse : kCpuAvx512;
}

}  // namespace common
