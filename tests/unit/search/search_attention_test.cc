// Attention in a search: if these fail, the models' attention is not found, or what a genome makes
// of it does not compute it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "clients/pt2/translate.h"
#include "common/base/clock.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/attention_form.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/roll/roll.h"
#include "common/runtime/interpreter/interpreter.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/space/region_space.h"
#include "coordinator/search/strategy/region_search.h"
#include "program_interpreter.h"
#include "search_testing.h"
#include "tests/unit/ir/models.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::Expr;
using common::Graph;
using common::GraphBuilder;
using common::InputKind;
using common::Program;
using common::ReduceOp;
using common::Shape;
using common::Template;
using common::UnaryOp;
using common::View;
using IrNode = common::NodeId;

bool holds_attention(const Program& program) {
  return std::any_of(program.kernels.begin(), program.kernels.end(),
                     [](const common::Kernel& k) { return k.form == Template::kAttention; });
}

// What the front end makes of scaled_dot_product_attention over [heads, rows, depth].
struct Heads {
  int heads = 4, groups = 4;
  Expr rows = 16, keys = 16;
  bool causal = false;
  int window = 0;             // with causal: each row sees so many keys, its own last; 0: all
  bool shows_scores = false;  // as an output of their own
};
Graph attention(const Heads& a) {
  GraphBuilder b;
  auto input = [&](int heads, const Expr& rows) {
    return b.input(InputKind::kUser, DType::kFloat32, {heads, rows, 64}, "x");
  };
  IrNode q = input(a.heads, a.rows), k = input(a.groups, a.keys), v = input(a.groups, a.keys);
  if (a.groups != a.heads) {
    Shape shape{a.heads, a.keys, 64};
    View repeat{shape,
                {common::floor_div(Expr::index(0), Expr(a.heads / a.groups)), Expr::index(1),
                 Expr::index(2)},
                {},
                0};
    k = b.view(k, repeat);
    v = b.view(v, repeat);
  }
  IrNode scores = b.binary(BinaryOp::kMul, b.matmul(q, b.permute(k, {0, 2, 1})),
                           b.scalar(DType::kFloat32, 0.125));
  if (a.causal) {
    auto position = [&](const Expr& size, int axis) {
      return b.view(b.iota(DType::kInt64, size),
                    View{{a.rows, a.keys}, {Expr::index(axis)}, {}, 0});
    };
    IrNode key = position(a.keys, 1), row = position(a.rows, 0);
    IrNode seen = b.binary(BinaryOp::kLessEqual, key, row);
    if (a.window != 0) {
      IrNode width = b.scalar(DType::kInt64, a.window);
      seen = b.binary(BinaryOp::kAnd, seen,
                      b.binary(BinaryOp::kLess, b.binary(BinaryOp::kSub, row, width), key));
    }
    scores =
        b.select(seen, scores, b.scalar(DType::kFloat32, -std::numeric_limits<double>::infinity()));
  }
  IrNode top = b.reduce(ReduceOp::kMax, scores, {2}, true);
  IrNode e = b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, scores, top));
  IrNode p = b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {2}, true));
  b.output(b.matmul(p, v));
  if (a.shows_scores) b.output(scores);
  return b.finish();
}

TEST(AttentionSearch, OneKernelHoldsItWhateverTheHeads) {
  common::SteadyClock clock;
  for (auto [heads, groups] : std::vector<std::pair<int, int>>{{4, 4}, {4, 2}, {4, 1}}) {
    for (int rows : {1, 16}) {
      Heads a;
      a.heads = heads;
      a.groups = groups;
      a.rows = rows;
      RegionSpace space(attention(a), clock);
      Program program = space.decode({}).program;
      ASSERT_TRUE(holds_attention(program)) << heads << "/" << groups << ", " << rows << " rows";
      for (const common::Kernel& kernel : program.kernels) {
        if (kernel.form != Template::kAttention) continue;
        auto form = common::attention_form(kernel.body);
        ASSERT_TRUE(form.has_value());
        // The rows of all heads of a group share what is read.
        EXPECT_EQ(form->size(form->rows), Expr(rows * (heads / groups)));
        EXPECT_EQ(form->size(form->batch), Expr(groups));
      }
    }
  }
}

// Keys before the window are as far from being read as those behind the row.
TEST(AttentionSearch, AWindowIsReadAndNothingElse) {
  common::SteadyClock clock;
  double predicted[2];
  for (int window : {0, 32}) {
    Heads a;
    a.rows = a.keys = 512;
    a.causal = true;
    a.window = window;
    RegionSpace space(attention(a), clock);
    Program program = space.decode({}).program;
    ASSERT_TRUE(holds_attention(program));
    for (const common::Kernel& kernel : program.kernels) {
      if (kernel.form != Template::kAttention) continue;
      auto form = common::attention_form(kernel.body);
      ASSERT_TRUE(form.has_value());
      EXPECT_EQ(form->hidden.last.size(), 1U);
      EXPECT_EQ(form->hidden.first.size(), window == 0 ? 0U : 1U);
      predicted[window == 0 ? 0 : 1] = predict_ns(kernel, {}, common::device_terms({"cpu"}));
    }
  }
  EXPECT_LT(predicted[1], predicted[0] / 4);
}

// Each block of rows packs all keys and values.
TEST(AttentionSearch, SmallBlocksOfRowsAreSlow) {
  common::SteadyClock clock;
  Heads a;
  a.rows = a.keys = 512;
  RegionSpace space(attention(a), clock);
  Program program = space.decode({}).program;
  ASSERT_TRUE(holds_attention(program));
  for (const char* target : {"cpu-x86_64-avx512", "cpu-x86_64-avx2"}) {
    for (common::Kernel kernel : program.kernels) {
      if (kernel.form != Template::kAttention) continue;
      auto ns = [&](int64_t rows) {
        kernel.schedule = {{"rows", rows}};
        return predict_ns(kernel, {}, common::device_terms({target}));
      };
      EXPECT_GT(ns(8), 1.2 * ns(64)) << target;
    }
  }
}

TEST(AttentionSearch, ScoresThatAreNeededElsewhereAreStored) {
  common::SteadyClock clock;
  Heads a;
  a.shows_scores = true;
  RegionSpace space(attention(a), clock);
  EXPECT_FALSE(holds_attention(space.decode({}).program));
}

TEST(AttentionSearch, IsPredictedToBeTheFastestOfTheSeeds) {
  common::SteadyClock clock;
  const common::DeviceTerms& terms = common::device_terms({"cpu"});
  for (bool causal : {false, true}) {
    for (int length : {128, 512, 2048}) {
      Heads a;
      a.rows = a.keys = length;
      a.causal = causal;
      RegionSpace space(attention(a), clock);
      auto predicted = [&](const Program& program) {
        double ns = 0;
        for (const common::Call& call : program.calls) {
          ns += predict_ns(program.kernels[static_cast<size_t>(call.kernel)], {}, terms);
        }
        return ns;
      };
      Program fused = space.decode({}).program;
      ASSERT_TRUE(holds_attention(fused));
      int others = 0;
      for (const Genome& seed : lowering_seeds(space)) {
        Program program = space.decode(seed).program;
        if (holds_attention(program)) continue;
        ++others;
        EXPECT_LT(predicted(fused), predicted(program)) << length;
      }
      EXPECT_GE(others, 2);
    }
  }
}

class AttentionModels : public ::testing::TestWithParam<std::string> {};

TEST_P(AttentionModels, GenomesWithAttentionComputeTheirRegion) {
  auto model = clients::load_model(GetParam());
  ASSERT_TRUE(model.ok()) << model.error().message;
  Cut cut = cut_into_regions(common::roll(model->graph));
  common::SteadyClock clock;
  int regions = 0, with_attention = 0;
  for (size_t r = 0; r < cut.regions.size(); ++r) {
    const Graph& region = cut.regions[r].graph;
    RegionSpace space(region, clock);
    if (!holds_attention(space.decode({}).program)) continue;
    ++regions;
    std::vector<int64_t> sizes = representative_sizes(region.symbols);
    auto inputs = common::testing::sample_inputs(region, sizes, 17 + r);
    // Nothing is rounded, for rules may leave roundings out.
    constexpr common::Precision kWide = common::Precision::kWide;
    auto expected = common::interpret(region, inputs, {kWide});
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    for (uint64_t seed = 0; seed < 24; ++seed) {
      common::Random random(seed);
      Genome genome = random_genome(space, random, seed);
      Program program = space.decode(genome).program;
      with_attention += holds_attention(program) ? 1 : 0;
      for (const common::Kernel& kernel : program.kernels) {
        if (kernel.form == Template::kAttention) {
          ASSERT_TRUE(common::attention_form(kernel.body).has_value()) << common::print(kernel);
        }
      }
      if (seed % 4 != 0) continue;
      auto actual = common::testing::interpret_program(program, inputs, sizes, kWide);
      ASSERT_TRUE(actual.ok()) << actual.error().message;
      EXPECT_LT(common::testing::largest_difference(*actual, *expected), 1e-5)
          << "region " << r << " seed " << seed << "\n"
          << common::print(program);
    }
  }
  EXPECT_GE(regions, 1);
  EXPECT_GE(with_attention, regions);
}

INSTANTIATE_TEST_SUITE_P(Models, AttentionModels,
                         ::testing::ValuesIn(model_files(
                             {"attention", "attention_dynamic", "bert", "gpt2", "llama",
                              "llama_bf16", "llama_decode", "llama_dynamic_seq",
                              "llama_sdpa_undecomposed", "gemma3", "qwen3", "vit", "kv_step"})),
                         model_case_name<::testing::TestParamInfo<std::string>>);

}  // namespace
}  // namespace coordinator
