// Code of the kAttention template against the reference interpreter.
#include "attention_cases.h"
#include "common/ir/hlir/attention_form.h"

namespace testing_codegen {
namespace {

void add(KernelBatch& batch, Random& random, const Attention& attention, Schedule schedule = {}) {
  Builder builder(attention);
  Graph body = builder.build();
  ASSERT_TRUE(attention_form(canonical(body)).has_value()) << print(body);
  batch.add(Template::kAttention, std::move(schedule), body, builder.values(random));
}

// Rounding a probability to bfloat16 before it is normalised, where the body rounds it after,
// changes it by half a unit in the last place: a bound in parts of the greatest value.
constexpr double kRoundedValues = 2.0 / 512;

// Two parts of bfloat16 have 16 bits of a probability, and round the last: a bound likewise.
constexpr double kTwoParts = 2.0 / (1 << 17);

void compile_and_check(KernelBatch& batch) {
  batch.compile();
  for (size_t k = 0; k < batch.size() && !testing::Test::HasFatalFailure(); ++k) {
    bool is_half = batch.at(k).kernel.body.inputs[0].dtype == DType::kBfloat16;
    batch.check(k, 2e-5, 1, is_half ? kTwoParts : 0);
    batch.check(k, 2e-5, 3, is_half ? kTwoParts : 0);
  }
}

void compile_and_check(KernelBatch& batch, double slack, double absolute) {
  batch.compile();
  for (size_t k = 0; k < batch.size() && !testing::Test::HasFatalFailure(); ++k) {
    batch.check(k, slack, 1, absolute);
  }
}

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

// Decoding: blocks share the keys of few rows. Every mask with every number of keys, and each with
// every way to share.
TEST(CodegenAttention, SharedKeys) {
  Random random(67);
  KernelBatch batch;
  bool first = true;
  for (int64_t keys : {0, 1, 127, 128, 129, 700, 2500}) {
    for (Mask mask : {Mask::kNone, Mask::kCausal, Mask::kWindow, Mask::kGivenSafe}) {
      Attention a;
      a.rows = 1;
      a.members = 3;
      a.keys = keys;
      a.mask = mask;
      a.half = true;
      a.width = 32;
      a.growing = true;
      if (first) add(batch, random, a);
      if (!first) add(batch, random, a, {{"splits", 4}});
      a.growing = keys < 700;
      a.rows = 2;
      a.groups = 1;
      a.epilogue = true;
      if (first) add(batch, random, a, {{"splits", 32}});
      if (!first) add(batch, random, a, {{"online", 0}, {"splits", 4}});
      first = !first;
    }
    first = !first;
  }
  compile_and_check(batch);
  // As many blocks as take least over short and long caches, where nobody says how many.
  if (runs_on_gpu()) {
    EXPECT_EQ(batch.at(0).source.entry.units.evaluate(std::vector<int64_t>{5}), 16);
  }
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

// What positions alone hide is not asked for inside of the blocks that every row sees.
TEST(AttentionForm, SaysWhichMasksArePositions) {
  for (Mask mask : {Mask::kCausal, Mask::kWindow, Mask::kAdded, Mask::kBias, Mask::kGiven}) {
    Attention a;
    a.rows = a.keys = 20;
    a.mask = mask;
    Graph body = canonical(Builder(a).build());
    auto form = attention_form(body);
    ASSERT_TRUE(form.has_value());
    ASSERT_EQ(form->masks.size(), 1u);
    bool is_positional = mask != Mask::kBias && mask != Mask::kGiven;
    EXPECT_EQ(form->masks[0].is_positional, is_positional) << static_cast<int>(mask);
    EXPECT_FALSE(form->rounds_to.has_value());
    // Exported models round scores once more where the mask was added.
    a.half = a.rounds_masked = true;
    form = attention_form(canonical(Builder(a).build()));
    ASSERT_TRUE(form.has_value());
    ASSERT_EQ(form->masks.size(), 1u);
    EXPECT_EQ(form->masks[0].is_positional, is_positional) << static_cast<int>(mask);
    EXPECT_EQ(form->last.empty(), !is_positional);
  }
  Attention a;
  a.half = a.rounded = true;
  auto form = attention_form(canonical(Builder(a).build()));
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->rounds_to, DType::kBfloat16);
  EXPECT_FALSE(form->scales_rows);
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

// What GPUs compute in one pass: a few rows, on tensor cores. Head sizes of whole and of cut
// chunks, keys that are less or more than the warps' and the blocks', every number of heads that
// share them, operands that do not lie in memory as they are wanted.
TEST(CodegenAttention, FewRowsInOnePass) {
  Random random(72);
  KernelBatch batch;
  int64_t turn = 0;
  for (auto [depth, width] : std::vector<std::pair<int64_t, int64_t>>{
           {64, 64}, {128, 128}, {256, 256}, {80, 96}, {24, 8}, {192, 128}}) {
    for (int64_t keys : {1, 15, 64, 130, 700}) {
      Attention a;
      a.rows = 1;
      a.keys = keys;
      a.depth = depth;
      a.width = width;
      a.half = true;
      a.members = turn % 8 + 1;
      a.mask = std::array{Mask::kNone, Mask::kBias, Mask::kGivenSafe, Mask::kCausal}[turn % 4];
      a.growing = turn % 3 == 0;
      a.transposed = turn % 7 == 6;
      a.within = turn % 5 == 4;
      a.turned = turn % 2 == 1;
      add(batch, random, a, {{"splits", std::array{0, 1, 4, 32}[turn / 2 % 4]}});
      ++turn;
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size() && !testing::Test::HasFatalFailure(); ++k) {
    if (runs_on_gpu()) {
      const std::string& text = batch.at(k).source.text;
      EXPECT_NE(text.find("lf_two_bf16"), std::string::npos) << k;
      EXPECT_EQ(text.find("lf_await"), std::string::npos) << k;
    }
    // Probabilities are multiplied in two parts.
    batch.check(k, 1e-4);
    batch.check(k, 1e-4, 3);
  }
}

// Where keys are known to fill the blocks' steps nothing is compared, and one step is no loop.
TEST(CodegenAttention, FewRowsInWholeSteps) {
  Random random(77);
  KernelBatch batch;
  std::vector<bool> is_loop;
  int64_t turn = 0;
  for (auto [depth, width] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 64}, {128, 128}, {256, 256}, {80, 96}}) {
    for (int64_t steps : {1, 2, 5}) {
      const int64_t warps = std::array{2, 4}[turn % 2], splits = std::array{1, 2, 4}[turn % 3];
      Attention a;
      a.rows = 1;
      a.keys = 16 * warps * splits * steps;
      a.depth = depth;
      a.width = width;
      a.half = true;
      a.members = turn % 8 + 1;
      a.mask = turn % 4 == 1 ? Mask::kBias : Mask::kNone;
      a.turned = turn % 2 == 1;
      add(batch, random, a, {{"block_keys", 16 * warps}, {"splits", splits}});
      is_loop.push_back(steps > 1);
      ++turn;
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size() && !testing::Test::HasFatalFailure(); ++k) {
    if (runs_on_gpu()) {
      const std::string& text = batch.at(k).source.text;
      EXPECT_EQ(text.find("for (int n0 = from") != std::string::npos, is_loop[k]) << k;
    }
    batch.check(k, 1e-4);
  }
}

TEST(CodegenAttention, FewRowsAreStoredAsTheBodySays) {
  Random random(73);
  KernelBatch batch;
  Attention a;
  a.rows = 1;
  a.members = 4;
  a.keys = 200;
  a.depth = a.width = 64;
  a.half = a.turned = a.epilogue = a.stores_half = true;
  add(batch, random, a);
  batch.compile();
  batch.check(0, 1.0 / 128);
}

// A probability of 1 leaves nothing to its second part, which must not meet an infinite value as 0.
// Rows that see no key are NaN or what the model says; keys that none sees are not read.
TEST(CodegenAttention, FewRowsOfSpecialValues) {
  Random random(74);
  KernelBatch batch;
  Attention a;
  a.rows = 2;
  a.keys = 1;
  a.half = true;
  Builder single(a);
  Graph body = single.build();
  for (double special : {kInfinity, -kInfinity}) {
    std::vector<HostTensor> inputs = single.values(random);
    inputs[2].set(3, special);
    batch.add(Template::kAttention, {}, body, std::move(inputs));
  }
  for (Mask mask : {Mask::kGiven, Mask::kGivenSafe}) {
    Attention hidden = a;
    hidden.keys = 150;
    hidden.mask = mask;
    Builder builder(hidden);
    Graph hides = builder.build();
    std::vector<HostTensor> inputs = builder.values(random);
    for (int64_t k = 0; k < 150; ++k) inputs[3].set_int(k, 0);
    for (int64_t k = 300; k < 440; ++k) inputs[3].set_int(k, 0);
    batch.add(Template::kAttention, {{"splits", 4}}, hides, std::move(inputs));
  }
  compile_and_check(batch);
}

TEST(CodegenAttention, FewRowsLeaveOutHiddenKeys) {
  Random random(75);
  for (int64_t splits : {1, 4}) {
    KernelBatch batch;
    Attention a;
    a.groups = 1;
    a.rows = 6;
    a.keys = 300;
    a.mask = Mask::kWindow;
    a.half = true;
    Builder builder(a);
    Graph body = builder.build();
    std::vector<HostTensor> inputs = builder.values(random);
    std::vector<HostTensor> poisoned;
    for (const HostTensor& t : inputs) poisoned.push_back(t.clone().value());
    for (int64_t k = 6 * a.width; k < a.keys * a.width; ++k) {
      poisoned[2].set(k, std::numeric_limits<double>::quiet_NaN());
    }
    batch.add(Template::kAttention, {{"splits", splits}}, body, inputs);
    batch.add(Template::kAttention, {{"splits", splits}}, body, std::move(poisoned));
    batch.compile();
    if (!batch.runs()) continue;
    std::vector<HostTensor> clean = batch.run(0, 1), hidden = batch.run(1, 1);
    for (int64_t k = 0; k < clean[0].elements(); ++k) {
      ASSERT_EQ(clean[0].get(k), hidden[0].get(k)) << k;
    }
  }
}

// Masks that data give leave out the keys before the first and after the last that some row sees,
// unless a row sees none: that one is spread over all of them.
TEST(CodegenAttention, FewRowsFindTheirKeysInMasks) {
  Random random(76);
  constexpr int64_t kKeys = 1100, kFrom = 70, kTo = 900;
  for (Mask mask : {Mask::kGiven, Mask::kBias}) {
    for (bool one_sees_none : {false, true}) {
      KernelBatch batch;
      Attention a;
      a.groups = 1;
      a.rows = 3;
      a.keys = kKeys;
      a.mask = mask;
      a.half = true;
      Builder builder(a);
      Graph body = builder.build();
      std::vector<HostTensor> inputs = builder.values(random);
      for (int64_t k = 0; k < 3 * kKeys; ++k) {
        bool sees = k % kKeys >= kFrom && k % kKeys < kTo && !(one_sees_none && k < kKeys);
        if (mask == Mask::kGiven) inputs[3].set_int(k, sees ? 1 : 0);
        if (mask == Mask::kBias && !sees) inputs[3].set(k, std::numeric_limits<float>::lowest());
      }
      std::vector<HostTensor> poisoned;
      for (const HostTensor& t : inputs) poisoned.push_back(t.clone().value());
      batch.add(Template::kAttention, {}, body, std::move(inputs));
      for (int64_t k = 0; k < kKeys * a.width; ++k) {
        bool is_seen = k / a.width >= kFrom && k / a.width < kTo;
        if (!is_seen) poisoned[2].set(k, std::numeric_limits<double>::quiet_NaN());
      }
      // Blocks of several steps look for the keys.
      batch.add(Template::kAttention, {{"block_keys", 64}, {"splits", 4}}, body,
                std::move(poisoned));
      batch.compile();
      batch.check(0, 1e-4);
      // A CPU reads all keys.
      if (one_sees_none || !batch.runs() || !runs_on_gpu()) continue;
      std::vector<HostTensor> clean = batch.run(0, 1), hidden = batch.run(1, 1);
      for (int64_t k = 0; k < clean[0].elements(); ++k) {
        ASSERT_NEAR(clean[0].get(k), hidden[0].get(k), 1e-4) << k;
      }
    }
  }
}

TEST(AttentionForm, NamesWhatItFinds) {
  Attention a;
  a.members = 3;
  a.mask = Mask::kWindow;
  Graph body = Builder(a).build();
  auto form = attention_form(body);
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->batch.size(), 1U);
  EXPECT_EQ(form->rows.size(), 2U);
  EXPECT_EQ(form->size(form->rows), Expr(15));
  EXPECT_EQ(form->label_size[static_cast<size_t>(form->key)], Expr(7));
  EXPECT_EQ(form->first.size(), 1U);
  EXPECT_EQ(form->last.size(), 1U);
  EXPECT_TRUE(form->scales_rows);
  a.rounded = true;
  form = attention_form(Builder(a).build());
  ASSERT_TRUE(form.has_value());
  EXPECT_FALSE(form->scales_rows);
  EXPECT_TRUE(form->keeps_zero);
  for (Mask mask : {Mask::kNone, Mask::kBias, Mask::kGiven}) {
    a.mask = mask;
    form = attention_form(Builder(a).build());
    ASSERT_TRUE(form.has_value());
    ASSERT_EQ(form->masks.size(), mask == Mask::kNone ? 0U : 1U);
    if (mask == Mask::kNone) continue;
    EXPECT_EQ(form->masks[0].is_added, mask == Mask::kBias);
  }
}

// Rows that see no key at all spread over all of them, where hiding is but adding.
TEST(AttentionForm, AnAddedMaskHidesOnlyFromRowsThatSeeSomething) {
  Attention a;
  a.mask = Mask::kAdded;
  a.rows = a.keys = 7;
  auto form = attention_form(Builder(a).build());
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->first.size(), 1U);
  EXPECT_EQ(form->last.size(), 1U);
  a.rows = 12;
  form = attention_form(Builder(a).build());
  ASSERT_TRUE(form.has_value());
  EXPECT_TRUE(form->first.empty());
  EXPECT_TRUE(form->last.empty());
}

// A softmax along the rows, or of what is no contraction, is not attention.
TEST(AttentionForm, RefusesWhatIsNone) {
  for (bool contraction : {true, false}) {
    GraphBuilder b;
    auto input = [&] { return b.input(InputKind::kUser, DType::kFloat32, {8, 8}, "x"); };
    auto product = [&](NodeId x, NodeId y) {
      return b.raw(
          {Op::kContract, DType::kFloat32, {8, 8}, {x, y}, ContractAttr{{0, 2}, {2, 1}, {0, 1}}});
    };
    NodeId scores = contraction ? product(input(), input()) : input();
    NodeId p = b.raw(
        {Op::kSoftmax, DType::kFloat32, {8, 8}, {scores}, SoftmaxAttr{contraction ? 0 : 1, false}});
    b.output(product(p, input()));
    Graph body = b.finish();
    EXPECT_FALSE(attention_form(body).has_value());
    // On GPUs such a kernel is computed by loops.
    auto runner = make_runner("");
    bool is_cpu = runner->generator().language() == "c";
    Kernel kernel{Template::kAttention, {}, canonical(body), {}};
    kernel.nest = kernel_nest(kernel, runner->machine()).value();
    EXPECT_NE(runner->generator().generate(kernel).ok(), is_cpu);
  }
}

}  // namespace
}  // namespace testing_codegen
