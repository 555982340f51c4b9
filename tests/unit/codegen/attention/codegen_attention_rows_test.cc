// Code of the kAttention template for few rows, as in decoding: blocks that share keys, and rows
// that are computed in one pass.
#include "attention_batch.h"

namespace testing_codegen {
namespace {

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
TEST(CodegenAttention, RowsFindTheirKeysInMasks) {
  Random random(76);
  constexpr int64_t kKeys = 1100, kFrom = 70, kTo = 900;
  // Many rows read all keys on a GPU.
  const std::vector<int64_t> rows =
      runs_on_gpu() ? std::vector<int64_t>{3} : std::vector<int64_t>{3, 40};
  for (size_t turn = 0; turn < 4 * rows.size(); ++turn) {
    const Mask mask = turn % 2 == 0 ? Mask::kGiven : Mask::kBias;
    const bool one_sees_none = turn / 2 % 2 == 1;
    KernelBatch batch;
    Attention a;
    a.groups = 1;
    a.rows = rows[turn / 4];
    a.keys = kKeys;
    a.mask = mask;
    a.half = true;
    Builder builder(a);
    Graph body = builder.build();
    std::vector<HostTensor> inputs = builder.values(random);
    for (int64_t k = 0; k < a.rows * kKeys; ++k) {
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
    batch.add(Template::kAttention, {{"block_keys", 64}, {"splits", 4}}, body, std::move(poisoned));
    batch.compile();
    batch.check(0, 1e-4);
    if (one_sees_none || !batch.runs()) continue;
    std::vector<HostTensor> clean = batch.run(0, 1), hidden = batch.run(1, 1);
    for (int64_t k = 0; k < clean[0].elements(); ++k) {
      ASSERT_NEAR(clean[0].get(k), hidden[0].get(k), 1e-4) << k;
    }
  }
}

}  // namespace
}  // namespace testing_codegen
