// If these fail, contractions are computed in tiles of the wrong axes, or in slow ones.
#include "common/ir/hlir/tile_form.h"

#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"

namespace common {
namespace {

// Label l has size l + 2.
Graph contraction(const ContractAttr& c) {
  GraphBuilder b;
  auto shape = [](const std::vector<int>& labels) {
    Shape sizes;
    for (int label : labels) sizes.push_back(Expr(label + 2));
    return sizes;
  };
  NodeId x = b.input(InputKind::kUser, DType::kFloat64, shape(c.a), "x");
  NodeId y = b.input(InputKind::kUser, DType::kFloat64, shape(c.b), "y");
  b.output(b.raw({Op::kContract, DType::kFloat64, shape(c.out), {x, y}, c}));
  return b.finish();
}

TileProblem problem_of(const ContractAttr& c) {
  Graph graph = contraction(c);
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kContract) return tile_problem(graph, node);
  }
  ADD_FAILURE() << "no contraction";
  return {};
}

TEST(TileForm, LabelsAreRowsColumnsStepsOrOfABatch) {
  TileProblem p = problem_of({.a = {0, 1, 2, 3}, .b = {0, 3, 4, 2}, .out = {0, 1, 4}});
  EXPECT_FALSE(p.swapped);
  EXPECT_EQ(p.batch, std::vector<int>{0});
  EXPECT_EQ(p.m, std::vector<int>{1});
  EXPECT_EQ(p.n, std::vector<int>{4});
  EXPECT_EQ(p.k, (std::vector<int>{2, 3}));
  EXPECT_EQ(p.m_size.constant(), 3);
  EXPECT_EQ(p.n_size.constant(), 6);
  EXPECT_EQ(p.k_size.constant(), 4 * 5);
  EXPECT_EQ(p.label_size[4].constant(), 6);
  EXPECT_EQ(p.dtype, DType::kFloat64);
}

// Vectors run along columns, and are stored where the output's last axis is one of them.
TEST(TileForm, TheOutputsLastAxisIsAColumnOfEitherOperand) {
  TileProblem p = problem_of({.a = {0, 1}, .b = {1, 2}, .out = {2, 0}});
  EXPECT_TRUE(p.swapped);
  EXPECT_EQ(p.m, std::vector<int>{2});
  EXPECT_EQ(p.n, std::vector<int>{0});
  EXPECT_EQ(p.k, std::vector<int>{1});
  EXPECT_TRUE(p.batch.empty());
}

TEST(TileForm, ALastAxisOfBothOperandsIsNobodysColumn) {
  EXPECT_EQ(column_operand({.a = {0, 1}, .b = {1, 2}, .out = {0, 2}}), 1u);
  EXPECT_EQ(column_operand({.a = {0, 1}, .b = {1, 2}, .out = {2, 0}}), 0u);
  EXPECT_EQ(column_operand({.a = {0, 1}, .b = {1, 0}, .out = {0}}), std::nullopt);
  EXPECT_EQ(column_operand({.a = {0}, .b = {0}, .out = {}}), std::nullopt);
  EXPECT_FALSE(problem_of({.a = {1, 0}, .b = {1, 0}, .out = {0}}).swapped);
}

TEST(TileForm, TilesFillTheRegistersAndFitTheSizes) {
  for (int64_t lanes : {4, 8, 16}) {
    for (bool has_many : {false, true}) {
      RegisterTile usual = choose_register_tile(0, 0, lanes, has_many);
      int64_t sums = usual.vectors * usual.rows;
      EXPECT_GE(sums, has_many ? 20 : 8);
      EXPECT_LE(sums + usual.vectors + 1, has_many ? 32 : 16);
      // No more rows than there are, and no more vectors than the columns fill.
      RegisterTile row = choose_register_tile(1, 4096, lanes, has_many);
      EXPECT_EQ(row.rows, 1);
      EXPECT_EQ(choose_register_tile(4096, lanes, lanes, has_many).vectors, 1);
      RegisterTile two = choose_register_tile(4096, 2 * lanes, lanes, has_many);
      EXPECT_EQ(2 % two.vectors, 0) << two.vectors;
    }
  }
  // 27 rows are three of nine; of eight, five would be computed for nothing.
  EXPECT_EQ(choose_register_tile(27, 0, 16, true).rows, 9);
  EXPECT_EQ(choose_register_tile(49, 512, 8, false).rows, 5);
  EXPECT_EQ(choose_register_tile(25, 512, 8, false).rows, 5);
}

}  // namespace
}  // namespace common
