// One model as two versions of torch export it, in archives of two layouts: if these fail, a team
// that upgrades torch finds none of its plans again.
#include <gtest/gtest.h>

#include <filesystem>

#include "clients/pt2/translate.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "tests/paths/paths.h"

namespace clients {
namespace {

void expect_one_graph(const std::string& older, const std::string& newer) {
  auto a = load_model(older), b = load_model(newer);
  ASSERT_TRUE(a.ok()) << a.error().message;
  ASSERT_TRUE(b.ok()) << b.error().message;
  EXPECT_EQ(common::graph_hash(a->graph), common::graph_hash(b->graph))
      << older << "\n"
      << common::print(a->graph) << newer << "\n"
      << common::print(b->graph);
}

class Versions : public testing::TestWithParam<const char*> {};

TEST_P(Versions, OfTorchExportTheSameGraph) {
  std::string name = GetParam();
  expect_one_graph(paths::fixtures("/pt2/torch-2.6/") + name + ".pt2",
                   paths::fixtures("/models/") + name + "/model.pt2");
}
INSTANTIATE_TEST_SUITE_P(Models, Versions, testing::Values("mlp", "mlp_dynamic", "kv_step"));

TEST(Versions, OfEveryPairOfTheLargerCasesExportTheSameGraph) {
  std::filesystem::path models = paths::shared("/models");
  if (!std::filesystem::exists(models)) GTEST_SKIP() << "no " << models;
  int pairs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    std::string name = entry.path().filename();
    if (!name.starts_with("flat_")) continue;
    ++pairs;
    expect_one_graph(entry.path() / "model.pt2", models / name.substr(5) / "model.pt2");
  }
  EXPECT_GT(pairs, 0);
}

}  // namespace
}  // namespace clients
