// Attention by warpgroup products against the reference interpreter: sizes, masks and types for
// which compute capability 9.0a has kernels of its own, which other machines compute as ever.
#include "attention_cases.h"
#include "common/ir/hlir/attention_form.h"

namespace testing_codegen {
namespace {

// Probabilities that are rounded before they are normalised: half a unit of bfloat16, in parts of
// the greatest value.
constexpr double kRoundedValues = 2.0 / 512;
// Two parts of bfloat16 have 16 bits of a probability, and round the last.
constexpr double kTwoParts = 2.0 / (1 << 17);

Attention prompt(int64_t depth, int64_t width, Mask mask) {
  Attention a;
  a.half = true;
  a.stores_half = true;
  a.rounds_probabilities = true;
  a.groups = 1;
  a.depth = depth;
  a.width = width;
  a.mask = mask;
  a.rows = a.keys = 200;
  a.window = 90;
  return a;
}

void add(KernelBatch& batch, Random& random, const Attention& attention, Schedule schedule = {}) {
  Builder builder(attention);
  Graph body = builder.build();
  ASSERT_TRUE(attention_form(canonical(body)).has_value()) << print(body);
  batch.add(Template::kAttention, std::move(schedule), body, builder.values(random));
}

void check_all(KernelBatch& batch) {
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    batch.check(k, 1e-4, 1, kRoundedValues);
  }
}

// Fails when a head size, of queries or of values, is multiplied from the wrong places.
TEST(CodegenAttentionWarpgroups, HeadSizes) {
  Random random(81);
  KernelBatch batch;
  for (auto [depth, width] : std::vector<std::pair<int64_t, int64_t>>{
           {64, 64}, {80, 64}, {96, 96}, {128, 128}, {192, 128}, {128, 192}, {256, 256}}) {
    add(batch, random, prompt(depth, width, Mask::kCausal));
    Attention other = prompt(depth, width, Mask::kNone);
    other.half_type = DType::kFloat16;
    other.stores_half = false;
    other.rows = 70;
    add(batch, random, other, {{"block_rows", 64}});
  }
  check_all(batch);
}

// Fails when a block of keys is left out that a row sees, or a border is taken for an inner block.
TEST(CodegenAttentionWarpgroups, Masks) {
  Random random(82);
  KernelBatch batch;
  for (Mask mask :
       {Mask::kNone, Mask::kCausal, Mask::kWindow, Mask::kAdded, Mask::kBias, Mask::kGivenSafe}) {
    for (bool symbolic : {false, true}) {
      Attention a = prompt(64, 64, mask);
      a.symbolic = symbolic;
      a.groups = 2;
      a.members = 2;
      a.keys = 330;
      add(batch, random, a);
      a.rows = 330;
      a.packed = true;
      a.turned = true;
      add(batch, random, a, {{"block_rows", symbolic ? 64 : 128}, {"block_keys", 64}});
    }
  }
  check_all(batch);
}

// Fails when scores that the model rounds, before and after a mask is added, are rounded elsewhere.
TEST(CodegenAttentionWarpgroups, RoundedScores) {
  Random random(83);
  KernelBatch batch;
  for (Mask mask : {Mask::kCausal, Mask::kAdded, Mask::kBias}) {
    Attention a = prompt(64, 64, mask);
    a.rounded = a.rounds_masked = true;
    a.rows = 150;
    a.keys = 270;
    add(batch, random, a);
    a.turned = a.symbolic = true;
    a.stores_half = false;
    add(batch, random, a, {{"block_keys", 64}});
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) batch.check(k, 1.0 / 128, 1, 4 * kRoundedValues);
}

// Fails when the second parts of probabilities are left out, or are multiplied where the type has
// no room for them.
TEST(CodegenAttentionWarpgroups, TwoParts) {
  Random random(84);
  KernelBatch batch;
  for (DType type : {DType::kBfloat16, DType::kFloat16}) {
    Attention a = prompt(128, 128, Mask::kCausal);
    a.rounds_probabilities = a.stores_half = false;
    a.half_type = type;
    a.keys = 300;
    add(batch, random, a);
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) batch.check(k, 1e-4, 1, kTwoParts);
}

// Fails when a row that sees no key is not NaN, or a block without keys waits for some.
TEST(CodegenAttentionWarpgroups, RowsWithoutKeys) {
  Random random(85);
  KernelBatch batch;
  for (auto [rows, keys] : std::vector<std::pair<int64_t, int64_t>>{{300, 70}, {130, 1}, {70, 0}}) {
    Attention a = prompt(64, 64, Mask::kCausal);
    a.symbolic = true;
    a.rows = rows;
    a.keys = keys;
    add(batch, random, a);
  }
  check_all(batch);
}

// Fails where features that have tests of their own meet: sizes that are no multiples of blocks,
// types, masks, and operands that lie in other orders or are computed.
TEST(CodegenAttentionWarpgroups, RandomAttentions) {
  Random random(86);
  KernelBatch batch;
  auto one_of = [&](std::vector<int64_t> values) { return values[random.below(values.size())]; };
  for (int k = 0; k < 24; ++k) {
    Attention a = prompt(one_of({64, 72, 80, 128, 192}), one_of({64, 96, 128}), Mask::kNone);
    a.mask = static_cast<Mask>(one_of({0, 1, 2, 3, 4, 5, 6}));
    a.groups = one_of({1, 2});
    a.members = one_of({1, 3});
    a.rows = 9 + static_cast<int64_t>(random.below(250));
    a.keys = 1 + static_cast<int64_t>(random.below(400));
    a.window = 1 + static_cast<int64_t>(random.below(200));
    a.half_type = random.below(3) == 0 ? DType::kFloat16 : DType::kBfloat16;
    a.symbolic = random.below(2) == 0;
    a.packed = random.below(2) == 0;
    a.turned = random.below(3) == 0;
    a.within = random.below(3) == 0;
    a.transposed = !a.within && random.below(5) == 0;
    a.stores_half = random.below(2) == 0;
    a.rounded = random.below(3) == 0;
    a.rounds_masked = a.rounded;
    a.soft_cap = random.below(4) == 0 ? 30 : 0;
    add(batch, random, a, {{"block_rows", one_of({0, 64, 128})}});
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) batch.check(k, 1.0 / 128, 1, 4 * kRoundedValues);
}

}  // namespace
}  // namespace testing_codegen
