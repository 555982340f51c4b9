// What loops take on a kind of processor whose vector units a compiler fills, in nanoseconds.
#pragma once

#include <string_view>

namespace common {

// Of innermost loops.
struct LoopTerms {
  double run_ns;         // a loop begins and ends, unless it is so short that it is written out,
  double row_sum_ns;     // and, where it sums, the lanes' sums become one
  double lane_block_ns;  // sums side by side begin in one loop and end in another
  double first_ns;       // of a loop with functions: until the first is done
};

// Of one step by itself, and of one vector's worth of steps at once.
struct StepTerms {
  double simple_ns[2];
  double choice_ns[2];
  double division_ns[2];
  double function_ns[2];
  double fold_ns[2];
  // And where a step by itself chooses: the byte it chooses by goes through a register that the
  // function before it ends in, so that a step waits for the one before. First of steps that are
  // written out, among which a few registers take turns.
  double chosen_function_ns[2];
  // A step by itself, always.
  double call_ns;
  double turn_ns;
  double jump_ns;
};

struct VectorTerms {
  double lanes;  // float32 values in a vector
  LoopTerms loop;
  StepTerms step;
};

// One core with wide vectors (AVX-512), by least squares of the logarithm of measured to predicted
// time of loops over 4,500 kernels of eight small models; see
// docs/measurements/2026-11-21-search-quality.md for how they do on models that were not fitted.
inline constexpr VectorTerms kAvx512Vectors = {
    .lanes = 16,
    .loop = {.run_ns = 1.15, .row_sum_ns = 1.97, .lane_block_ns = 4, .first_ns = 4.5},
    .step = {.simple_ns = {0.057, 0.07},
             .choice_ns = {0.13, 0.05},
             .division_ns = {0.32, 0.66},
             .function_ns = {1.94, 1.92},
             .fold_ns = {0.5, 2.1},
             .chosen_function_ns = {1, 3},
             .call_ns = 7.1,
             .turn_ns = 0.045,
             .jump_ns = 0.23}};

// One core with vectors of 32 bytes (AVX2), measured on an EPYC of the first generation: loops of
// copies, sums, polynomials, divisions and functions over what a cache holds.
inline constexpr VectorTerms kAvx2Vectors = {
    .lanes = 8,
    .loop = {.run_ns = 2, .row_sum_ns = 3.5, .lane_block_ns = 7, .first_ns = 10},
    .step = {.simple_ns = {0.12, 0.35},
             .choice_ns = {0.25, 0.35},
             .division_ns = {1.3, 3.2},
             .function_ns = {6, 11.5},
             .fold_ns = {1, 4.2},
             .chosen_function_ns = {2.5, 7},
             .call_ns = 14,
             .turn_ns = 0.1,
             .jump_ns = 0.5}};

// Half as wide. Not measured.
inline constexpr VectorTerms kSseVectors = [] {
  VectorTerms terms = kAvx2Vectors;
  terms.lanes = 4;
  return terms;
}();

// Of processors that run the target's code; of a target that is none of them, those with AVX-512.
constexpr const VectorTerms& vector_terms_of_target(std::string_view target) {
  if (target == "cpu-x86_64-avx2") return kAvx2Vectors;
  if (target == "cpu-x86_64" || target == "cpu-aarch64") return kSseVectors;
  return kAvx512Vectors;
}

}  // namespace common
