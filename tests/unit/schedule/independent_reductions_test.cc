// If these fail, passes over memory are made twice, or a sum is made beside one that it needs.
#include "common/schedule/reductions/independent_reductions.h"

#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"

namespace common {
namespace {

using Fused = std::map<NodeId, std::vector<NodeId>>;

// The sum, the maximum and the squared distance from the sum of rows, and the sum of columns.
struct Rows {
  Rows() {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {8, 64}, "x");
    NodeId total = b.reduce(ReduceOp::kSum, x, {1}, true);
    b.output(b.reduce(ReduceOp::kMax, x, {1}));
    NodeId distance = b.binary(BinaryOp::kSub, x, total);
    b.output(b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, distance, distance), {1}));
    b.output(b.reduce(ReduceOp::kSum, x, {0}));
    graph = b.finish();
    std::vector<NodeId> found;
    for (size_t id = 0; id < graph.nodes.size(); ++id) {
      if (graph.nodes[id].op == Op::kReduce) found.push_back(static_cast<NodeId>(id));
    }
    EXPECT_EQ(found.size(), 4u);
    sum = found[0], top = found[1], spread = found[2], columns = found[3];
  }
  Graph graph;
  NodeId sum = 0, top = 0, spread = 0, columns = 0;
};

EmittedReduction at(NodeId id, int level, int index) { return {id, level, {Expr::index(index)}}; }

TEST(IndependentReductions, ReductionsOfOnePlaceShareAPass) {
  Rows rows;
  Fused fused = independent_reductions(rows.graph, {at(rows.sum, 1, 0), at(rows.top, 1, 0)});
  EXPECT_EQ(fused, (Fused{{rows.sum, {rows.top}}}));
}

TEST(IndependentReductions, WhatNeedsAnothersValueComesAfterIt) {
  Rows rows;
  Fused fused = independent_reductions(
      rows.graph, {at(rows.sum, 1, 0), at(rows.spread, 1, 0), at(rows.top, 1, 0)});
  EXPECT_EQ(fused, (Fused{{rows.sum, {rows.top}}}));
  // Also where the one that needs it was met first.
  fused = independent_reductions(rows.graph, {at(rows.spread, 1, 0), at(rows.sum, 1, 0)});
  EXPECT_TRUE(fused.empty());
}

TEST(IndependentReductions, OtherPlacesAndAxesAreOtherPasses) {
  Rows rows;
  for (const EmittedReduction& other :
       {at(rows.top, 2, 0), at(rows.top, 1, 1), at(rows.columns, 1, 0), at(rows.sum, 1, 0)}) {
    EXPECT_TRUE(independent_reductions(rows.graph, {at(rows.sum, 1, 0), other}).empty());
  }
}

}  // namespace
}  // namespace common
