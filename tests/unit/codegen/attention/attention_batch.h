// Batches of kernels of the kAttention template: cases are added as graphs that are attention,
// compiled together, and compared with the reference interpreter.
#pragma once

#include <utility>

#include "attention_cases.h"
#include "common/ir/hlir/attention_form.h"

namespace testing_codegen {

inline void add(KernelBatch& batch, Random& random, const Attention& attention,
                Schedule schedule = {}) {
  Builder builder(attention);
  Graph body = builder.build();
  ASSERT_TRUE(attention_form(canonical(body)).has_value()) << print(body);
  batch.add(Template::kAttention, std::move(schedule), body, builder.values(random));
}

// Rounding a probability to bfloat16 before it is normalised, where the body rounds it after,
// changes it by half a unit in the last place: a bound in parts of the greatest value.
inline constexpr double kRoundedValues = 2.0 / 512;

// Two parts of bfloat16 have 16 bits of a probability, and round the last: a bound likewise.
inline constexpr double kTwoParts = 2.0 / (1 << 17);

inline void compile_and_check(KernelBatch& batch) {
  batch.compile();
  for (size_t k = 0; k < batch.size() && !testing::Test::HasFatalFailure(); ++k) {
    bool is_half = batch.at(k).kernel.body.inputs[0].dtype == DType::kBfloat16;
    batch.check(k, 2e-5, 1, is_half ? kTwoParts : 0);
    batch.check(k, 2e-5, 3, is_half ? kTwoParts : 0);
  }
}

inline void compile_and_check(KernelBatch& batch, double slack, double absolute) {
  batch.compile();
  for (size_t k = 0; k < batch.size() && !testing::Test::HasFatalFailure(); ++k) {
    batch.check(k, slack, 1, absolute);
  }
}

}  // namespace testing_codegen
