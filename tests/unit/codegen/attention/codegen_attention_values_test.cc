// Code of the kAttention template for values that are not finite, scores that are lowest, rows that
// see no key, and keys that none sees.
#include "attention_batch.h"

namespace testing_codegen {
namespace {

// Rows that only the lowest number hides keys from are averages; what they are scaled by must not
// become infinite, wherever the keys that they see begin.
TEST(CodegenAttention, LowestScores) {
  Random random(73);
  KernelBatch batch;
  for (int64_t shown : {0, 1, 70, 200}) {
    Attention a;
    a.groups = 1;
    a.rows = 40;
    a.keys = 200;
    a.half = true;
    a.mask = Mask::kBias;
    Builder builder(a);
    Graph body = builder.build();
    std::vector<HostTensor> inputs = builder.values(random);
    for (int64_t row = 0; row < a.rows; ++row) {
      for (int64_t key = 0; key < a.keys - shown; ++key) {
        inputs[3].set(row * a.keys + key, std::numeric_limits<float>::lowest());
      }
    }
    batch.add(Template::kAttention, {}, body, inputs);
  }
  compile_and_check(batch, 1e-4, kTwoParts);
}

// Scores and probabilities that are rounded to bfloat16 take the same steps as the reference takes.
TEST(CodegenAttention, RoundedProbabilities) {
  Random random(64);
  KernelBatch batch;
  for (bool half : {false, true}) {
    for (Mask mask : {Mask::kNone, Mask::kCausal, Mask::kGivenSafe}) {
      for (int64_t rows : {2, 19}) {
        Attention a;
        a.rows = rows;
        a.keys = 200;
        a.rounded = true;
        a.half = half;
        a.mask = mask;
        add(batch, random, a);
        if (half) add(batch, random, a, {{"online", 0}});
      }
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) batch.check(k, 1.0 / 128, 1, kRoundedValues);
}

// What is not finite reaches the rows that the unfused computation lets it reach.
TEST(CodegenAttention, SpecialValues) {
  Random random(65);
  KernelBatch batch;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (double special : {kNan, kInfinity, -kInfinity}) {
    for (size_t input : {0, 1, 2, 3}) {
      for (int64_t rows : {2, 20}) {
        Attention a;
        a.rows = rows;
        a.keys = 90;
        a.mask = Mask::kBias;
        Builder builder(a);
        Graph body = builder.build();
        std::vector<HostTensor> inputs = builder.values(random);
        inputs[input].set(7, special);
        inputs[input].set(inputs[input].elements() - 3, special);
        if (input == 3) {
          // A whole row, and only the keys of the first block of another.
          for (int64_t k = 0; k < 90; ++k) inputs[3].set(k, special);
          for (int64_t k = 0; k < 40; ++k) inputs[3].set(90 + k, special);
        }
        for (int64_t online : {1, 0}) {
          batch.add(Template::kAttention, {{"keys", 32}, {"online", online}}, body, inputs);
        }
      }
    }
  }
  compile_and_check(batch);
}

// The same for half-precision operands, whose probabilities are multiplied in two parts: neither
// may be 0 or turn its sign where a value is infinite. Few rows and many, whole and cut blocks of
// keys, blocks that share keys.
TEST(CodegenAttention, SpecialValuesInHalfPrecision) {
  Random random(71);
  KernelBatch batch;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (double special : {kNan, kInfinity, -kInfinity}) {
    for (size_t input : {0, 1, 2}) {
      for (int64_t rows : {2, 20}) {
        for (bool rounded : {false, true}) {
          Attention a;
          a.groups = 1;
          a.rows = rows;
          a.keys = rows == 2 ? 300 : 90;
          a.width = 32;
          a.half = true;
          a.rounded = rounded;
          Builder builder(a);
          Graph body = builder.build();
          std::vector<HostTensor> inputs = builder.values(random);
          inputs[input].set(7, special);
          inputs[input].set(inputs[input].elements() - 3, special);
          for (int64_t online : {1, 0}) {
            batch.add(Template::kAttention, {{"block_keys", 32}, {"online", online}}, body, inputs);
          }
          batch.add(Template::kAttention, {{"splits", 4}}, body, inputs);
        }
      }
    }
  }
  compile_and_check(batch, 1.0 / 128, kRoundedValues);
}

// A row without a visible key is NaN, or 0 where the model says so; other rows are not touched.
TEST(CodegenAttention, HiddenRows) {
  Random random(66);
  KernelBatch batch;
  for (Mask mask : {Mask::kGiven, Mask::kGivenSafe}) {
    for (int64_t online : {1, 0}) {
      Attention a;
      a.rows = 9;
      a.keys = 70;
      a.mask = mask;
      Builder builder(a);
      Graph body = builder.build();
      std::vector<HostTensor> inputs = builder.values(random);
      for (int64_t k = 0; k < 3 * 70; ++k) inputs[3].set_int(k, 0);
      for (int64_t k = 4 * 70; k < 4 * 70 + 64; ++k) inputs[3].set_int(k, 0);
      batch.add(Template::kAttention, {{"keys", 32}, {"online", online}}, body, inputs);
    }
  }
  // Blocks of rows behind the last window.
  for (int64_t online : {1, 0}) {
    Attention a;
    a.rows = 60;
    a.keys = 10;
    a.mask = Mask::kWindow;
    a.half = true;
    add(batch, random, a, {{"block_rows", 16}, {"online", online}});
  }
  compile_and_check(batch);
}

// Keys that no row of a block sees are not read: what they hold does not matter.
TEST(CodegenAttention, LeavesOutHiddenKeys) {
  Random random(67);
  for (Mask mask : {Mask::kCausal, Mask::kWindow, Mask::kAdded}) {
    KernelBatch batch;
    Attention a;
    a.rows = a.keys = 256;
    a.groups = 1;
    a.mask = mask;
    Builder builder(a);
    Graph body = builder.build();
    std::vector<HostTensor> inputs = builder.values(random);
    Schedule schedule{{"keys", 32}, {"rows", 32}};
    batch.add(Template::kAttention, schedule, body, inputs);
    std::vector<HostTensor> poisoned;
    for (const HostTensor& t : inputs) poisoned.push_back(t.clone().value());
    for (int64_t k = 200 * a.width; k < 256 * a.width; ++k) {
      poisoned[2].set(k, std::numeric_limits<double>::quiet_NaN());
    }
    batch.add(Template::kAttention, schedule, body, std::move(poisoned));
    batch.compile();
    if (!batch.runs()) continue;
    std::vector<HostTensor> clean = batch.run(0, 1), hidden = batch.run(1, 1);
    for (int64_t k = 0; k < 192 * a.width; ++k) ASSERT_EQ(clean[0].get(k), hidden[0].get(k)) << k;
    EXPECT_TRUE(std::isnan(hidden[0].get(255 * a.width)));
  }
}

}  // namespace
}  // namespace testing_codegen
