// Code of the kAttention template against the reference interpreter: sizes, masks, types and
// schedules.
#include "attention_batch.h"

namespace testing_codegen {
namespace {

// Every mask at every size, and each with every schedule.
TEST(CodegenAttention, SizesAndMasks) {
  Random random(61);
  KernelBatch batch;
  bool as_given = false;
  for (Mask mask : {Mask::kNone, Mask::kCausal, Mask::kWindow, Mask::kAdded, Mask::kBias,
                    Mask::kGiven, Mask::kGivenSafe}) {
    for (auto [rows, keys] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {1, 37}, {3, 300}, {17, 5}, {70, 70}, {33, 259}, {0, 3}, {3, 0}}) {
      Attention a;
      a.rows = rows;
      a.keys = keys;
      a.mask = mask;
      as_given = !as_given;
      if (as_given) add(batch, random, a);
      a.members = 3;
      if (as_given) add(batch, random, a, {{"keys", 32}});
      a.symbolic = true;
      if (!as_given) add(batch, random, a, {{"keys", 32}, {"rows", 16}});
      if (!as_given) add(batch, random, a, {{"online", 0}, {"rows", 16}});
    }
    as_given = !as_given;
  }
  compile_and_check(batch);
}

TEST(CodegenAttention, Forms) {
  Random random(62);
  KernelBatch batch;
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (int64_t rows : {1, 4, 30}) {
      Attention a;
      a.dtype = dtype;
      a.rows = rows;
      a.keys = 45;
      a.depth = 20;
      a.width = 24;
      add(batch, random, a);
      a.soft_cap = 1.5;
      a.epilogue = true;
      a.mask = Mask::kBias;
      add(batch, random, a);
      a.transposed = true;
      a.members = 2;
      add(batch, random, a);
      a.half = dtype == DType::kFloat32;
      a.width = 64;
      add(batch, random, a);
    }
  }
  compile_and_check(batch);
}

TEST(CodegenAttention, EveryScheduleValue) {
  Random random(63);
  KernelBatch batch;
  for (const ScheduleChoice& choice : schedule_parameters(Template::kAttention)) {
    for (int64_t value : choice.values) {
      Attention a;
      a.rows = 150;
      a.keys = 530;
      a.mask = Mask::kCausal;
      Schedule schedule{{std::string(choice.name), value}};
      add(batch, random, a, schedule);
      a.symbolic = true;
      add(batch, random, a, schedule);
    }
  }
  compile_and_check(batch);
}

// Half-precision queries, keys and values, rounded or not on the way to the product. Every mask at
// every size, and each with every schedule.
TEST(CodegenAttention, HalfPrecision) {
  Random random(68);
  KernelBatch batch;
  bool as_given = false;
  for (Mask mask : {Mask::kNone, Mask::kCausal, Mask::kWindow, Mask::kGivenSafe}) {
    for (auto [rows, keys] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 37}, {17, 5}, {70, 70}, {33, 259}, {0, 3}, {3, 0}}) {
      Attention a;
      a.half = true;
      a.mask = mask;
      a.rows = rows;
      a.keys = keys;
      a.depth = rows % 2 == 0 ? 24 : 64;
      a.width = rows % 2 == 0 ? 40 : 80;
      as_given = !as_given;
      if (as_given) add(batch, random, a);
      a.members = 3;
      if (as_given) add(batch, random, a, {{"block_keys", 32}});
      a.symbolic = true;
      if (!as_given) add(batch, random, a, {{"block_rows", 32}});
      a.transposed = true;
      if (!as_given) add(batch, random, a, {{"block_rows", 64}, {"online", 0}});
    }
    as_given = !as_given;
  }
  compile_and_check(batch, 1e-4, kTwoParts);
}

// Prompts: head sizes, blocks of two tiles a warp, several blocks of keys, and masks whose borders
// lie within blocks, before and behind them. Probabilities are rounded, or multiplied in two parts.
TEST(CodegenAttention, Prompts) {
  Random random(72);
  KernelBatch batch;
  std::vector<std::pair<int64_t, int64_t>> heads{{64, 64},   {80, 80},   {96, 96}, {128, 128},
                                                 {192, 128}, {256, 256}, {24, 40}, {128, 64}};
  std::vector<Mask> masks{Mask::kCausal, Mask::kWindow,    Mask::kAdded,
                          Mask::kBias,   Mask::kGivenSafe, Mask::kNone};
  for (size_t k = 0; k < heads.size(); ++k) {
    Attention a;
    std::tie(a.depth, a.width) = heads[k % heads.size()];
    a.mask = masks[k % masks.size()];
    a.half = true;
    a.rounds_probabilities = k % 4 >= 2;
    a.half_type = k % 3 == 0 ? DType::kFloat16 : DType::kBfloat16;
    a.stores_half = k % 2 == 0;
    a.packed = k % 2 == 1;
    a.groups = 1;
    a.members = 2;
    a.rows = a.keys = 150 + static_cast<int64_t>(k) * 7;
    a.window = 70;
    a.symbolic = k % 5 == 0;
    add(batch, random, a, {{"block_rows", k % 3 == 1 ? 64 : 128}});
    // Whole blocks of keys, and more of them than rows.
    a.mask = masks[(k + 3) % masks.size()];
    a.rounds_probabilities = !a.rounds_probabilities;
    a.rows = 130;
    a.keys = 256;
    if (k % 2 == 0) {
      add(batch, random, a, {{"block_rows", 128}, {"block_keys", k % 4 == 0 ? 32 : 64}});
    }
  }
  compile_and_check(batch, 1e-4, kRoundedValues);
}

// Windows of several blocks of keys: borders before and behind the blocks that every row sees.
TEST(CodegenAttention, LongWindows) {
  Random random(74);
  KernelBatch batch;
  for (auto [window, mask] : std::vector<std::pair<int64_t, Mask>>{
           {150, Mask::kWindow}, {97, Mask::kAdded}, {290, Mask::kWindow}}) {
    Attention a;
    a.half = true;
    a.rows = a.keys = 333;
    a.window = window;
    a.mask = mask;
    a.symbolic = window == 97;
    add(batch, random, a, {{"block_rows", 16}, {"block_keys", 32}});
    add(batch, random, a,
        {{"block_rows", 32}, {"block_keys", 64}, {"online", window == 290 ? 0 : 1}});
  }
  compile_and_check(batch, 1e-4, kTwoParts);
}

// What only some sizes show: rows whose greatest score comes late, for which earlier sums are
// scaled again; rows beyond the last that a block must not read; blocks whose rows all see nothing;
// operands that do not fit beside each other at first.
TEST(CodegenAttention, SizesThatAreHardOnGpus) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no such blocks";
  Random random(69);
  KernelBatch batch;
  for (bool half : {false, true}) {
    Attention late;
    late.rows = 2;
    late.keys = 1500;
    late.depth = late.width = 64;
    late.half = half;
    late.groups = 1;
    add(batch, random, late);
  }
  Attention cut;
  cut.groups = 1;
  cut.rows = 33;
  cut.keys = 20;
  cut.depth = cut.width = 136;
  add(batch, random, cut);
  Attention large;
  large.groups = 1;
  large.dtype = DType::kFloat64;
  large.rows = large.keys = 70;
  large.depth = large.width = 200;
  add(batch, random, large, {{"block_rows", 64}});
  for (int64_t online : {1, 0}) {
    Attention hidden;
    hidden.rows = 70;
    hidden.keys = 5;
    hidden.mask = Mask::kWindow;
    Builder builder(hidden);
    Graph body = builder.build();
    batch.add(Template::kAttention, {{"online", online}}, body, builder.values(random));
  }
  compile_and_check(batch);
}

}  // namespace
}  // namespace testing_codegen
