// Random genomes in numbers: if these fail, some genome crashes the decoder, closes a cycle or
// computes something else than its region.
#include <gtest/gtest.h>

#include <filesystem>

#include "clients/pt2/translate.h"
#include "common/base/clock.h"
#include "common/ir/hlir/builder.h"
#include "tests/bench/search/genome_trials.h"
#include "tests/paths/paths.h"

namespace bench {
namespace {

TEST(Genomes, ThousandsOfEachFixtureComputeTheirModel) {
  for (const char* name : {"mlp", "mlp_dynamic", "kv_step", "llama"}) {
    auto model = clients::load_model(paths::fixtures("/models/") + name + "/model.pt2");
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto trials = try_genomes(model->graph, {2'000, 60, 3});
    ASSERT_TRUE(trials.ok()) << trials.error().message;
    EXPECT_EQ(trials->genomes, 2'000);
    EXPECT_GT(trials->structures, 200) << name;
    EXPECT_GE(trials->sampled, 60) << name;
    EXPECT_EQ(trials->refused + trials->wrong, 0) << name << ": " << trials->complaint;
  }
}

// An oracle that takes anything for right would pass the test above.
TEST(Genomes, TheOracleTellsSineFromCosine) {
  common::GraphBuilder b;
  auto x = b.input(common::InputKind::kUser, common::DType::kFloat32, {4}, "x");
  b.output(b.unary(common::UnaryOp::kSin, x));
  common::Graph graph = b.finish();
  common::SteadyClock clock;
  common::Program sine = coordinator::RegionSpace(graph, clock).plain();
  auto oracle = Oracle::create(graph, 1);
  ASSERT_TRUE(oracle.ok()) << oracle.error().message;
  auto difference = oracle->difference(sine);
  ASSERT_TRUE(difference.ok()) << difference.error().message;
  EXPECT_LE(*difference, Oracle::kDifferenceMax);
  common::Program cosine = sine;
  cosine.kernels[0].body.nodes.back().attr = common::UnaryAttr{common::UnaryOp::kCos};
  difference = oracle->difference(cosine);
  ASSERT_TRUE(difference.ok()) << difference.error().message;
  EXPECT_GT(*difference, Oracle::kDifferenceMax);
}

TEST(Genomes, EqualSeedsDrawEqualGenomes) {
  auto model = clients::load_model(paths::fixtures("/models/mlp/model.pt2"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  common::SteadyClock clock;
  coordinator::RegionSpace space(model->graph, clock);
  GenomeSource first(space, 5), second(space, 5), third(space, 6);
  bool all_alike = true;
  for (int k = 0; k < 50; ++k) {
    uint64_t hash = first.next().hash();
    EXPECT_EQ(second.next().hash(), hash);
    all_alike = all_alike && third.next().hash() == hash;
  }
  EXPECT_FALSE(all_alike);
}

}  // namespace
}  // namespace bench
