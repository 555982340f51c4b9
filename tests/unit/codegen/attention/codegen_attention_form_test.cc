// Which graphs are attention, and what its form says of their masks and roundings.
#include "attention_cases.h"
#include "common/ir/hlir/attention_form.h"

namespace testing_codegen {
namespace {

// What positions alone hide is not asked for inside of the blocks that every row sees.
TEST(AttentionForm, SaysWhichMasksArePositions) {
  for (Mask mask : {Mask::kCausal, Mask::kWindow, Mask::kAdded, Mask::kBias, Mask::kGiven}) {
    Attention a;
    a.rows = a.keys = 20;
    a.mask = mask;
    Graph body = canonical(Builder(a).build());
    auto form = attention_form(body);
    ASSERT_TRUE(form.has_value());
    ASSERT_EQ(form->hidden.masks.size(), 1u);
    bool is_positional = mask != Mask::kBias && mask != Mask::kGiven;
    EXPECT_EQ(form->hidden.masks[0].is_positional, is_positional) << static_cast<int>(mask);
    EXPECT_FALSE(form->weights.rounds_to.has_value());
    // Exported models round scores once more where the mask was added.
    a.half = a.rounds_masked = true;
    form = attention_form(canonical(Builder(a).build()));
    ASSERT_TRUE(form.has_value());
    ASSERT_EQ(form->hidden.masks.size(), 1u);
    EXPECT_EQ(form->hidden.masks[0].is_positional, is_positional) << static_cast<int>(mask);
    EXPECT_EQ(form->hidden.last.empty(), !is_positional);
  }
  Attention a;
  a.half = a.rounded = true;
  auto form = attention_form(canonical(Builder(a).build()));
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->weights.rounds_to, DType::kBfloat16);
  EXPECT_FALSE(form->weights.scales_rows);
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
  EXPECT_EQ(form->hidden.first.size(), 1U);
  EXPECT_EQ(form->hidden.last.size(), 1U);
  EXPECT_TRUE(form->weights.scales_rows);
  a.rounded = true;
  form = attention_form(Builder(a).build());
  ASSERT_TRUE(form.has_value());
  EXPECT_FALSE(form->weights.scales_rows);
  EXPECT_TRUE(form->weights.keeps_zero);
  for (Mask mask : {Mask::kNone, Mask::kBias, Mask::kGiven}) {
    a.mask = mask;
    form = attention_form(Builder(a).build());
    ASSERT_TRUE(form.has_value());
    ASSERT_EQ(form->hidden.masks.size(), mask == Mask::kNone ? 0U : 1U);
    if (mask == Mask::kNone) continue;
    EXPECT_EQ(form->hidden.masks[0].is_added, mask == Mask::kBias);
  }
}

// Rows that see no key at all spread over all of them, where hiding is but adding.
TEST(AttentionForm, AnAddedMaskHidesOnlyFromRowsThatSeeSomething) {
  Attention a;
  a.mask = Mask::kAdded;
  a.rows = a.keys = 7;
  auto form = attention_form(Builder(a).build());
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->hidden.first.size(), 1U);
  EXPECT_EQ(form->hidden.last.size(), 1U);
  a.rows = 12;
  form = attention_form(Builder(a).build());
  ASSERT_TRUE(form.has_value());
  EXPECT_TRUE(form->hidden.first.empty());
  EXPECT_TRUE(form->hidden.last.empty());
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
    ASSERT_TRUE(add_nest(kernel, runner->machine()).ok());
    EXPECT_NE(runner->generator().generate(kernel).ok(), is_cpu);
  }
}

}  // namespace
}  // namespace testing_codegen
