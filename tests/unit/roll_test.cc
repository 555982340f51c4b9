// Loop rolling: if these fail, deep models cost what their depth costs, or compute something else.
#include "common/ir/roll.h"

#include <gtest/gtest.h>

#include "common/ir/builder.h"
#include "common/ir/graph_hash.h"
#include "common/ir/text.h"
#include "common/ir/verify.h"

namespace common {
namespace {

struct Options {
  int layers = 4;
  bool caches = false;       // each layer mutates its own state
  bool shared_mask = false;  // all layers read one computed value
  int wide_every = 0;        // every n-th layer has another activation
  bool tap_outputs = false;  // every layer's result is an output of the model
};

Graph deep(const Options& o) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "x");
  NodeId gate = b.input(InputKind::kUser, DType::kFloat32, {5, 1}, "gate");
  std::vector<NodeId> weights, states;
  for (int l = 0; l < o.layers; ++l) {
    weights.push_back(b.input(InputKind::kWeight, DType::kFloat32, {16, 16}, "w"));
  }
  for (int l = 0; l < o.layers && o.caches; ++l) {
    states.push_back(b.input(InputKind::kState, DType::kFloat32, {5, 16}, "cache"));
  }
  NodeId mask = b.unary(UnaryOp::kSigmoid, gate);
  NodeId h = b.binary(BinaryOp::kMul, x, b.scalar(DType::kFloat32, 0.5));
  for (int l = 0; l < o.layers; ++l) {
    auto k = static_cast<size_t>(l);
    NodeId y = b.matmul(h, b.permute(weights[k], {1, 0}));
    y = b.binary(BinaryOp::kAdd, y, b.scalar(DType::kFloat32, 0.25));
    bool wide = o.wide_every != 0 && l % o.wide_every == o.wide_every - 1;
    y = b.unary(wide ? UnaryOp::kErf : UnaryOp::kTanh, y);
    if (o.shared_mask) y = b.binary(BinaryOp::kMul, y, mask);
    if (o.caches) {
      NodeId next = b.binary(BinaryOp::kAdd, states[k], y);
      b.mutate(2 + o.layers + l, next);
      y = b.unary(UnaryOp::kSin, next);
    }
    h = b.binary(BinaryOp::kAdd, h, y);
    if (o.tap_outputs) b.output(h);
  }
  b.output(b.unary(UnaryOp::kExp, h));
  return b.finish();
}

std::vector<const Node*> loops(const Graph& graph) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kLoop) found.push_back(&node);
  }
  return found;
}

void expect_rolls(const Options& o, int64_t trips) {
  Graph graph = deep(o);
  Graph rolled = roll(graph);
  ASSERT_TRUE(verify(rolled).ok()) << verify(rolled).error().message;
  ASSERT_EQ(loops(rolled).size(), 1u) << print(rolled);
  EXPECT_EQ(attr<LoopAttr>(*loops(rolled)[0]).trip_count, trips);
  EXPECT_EQ(graph_hash(unroll(rolled)), graph_hash(graph));
  EXPECT_EQ(roll(graph), rolled) << "rolling must be deterministic";
}

TEST(Roll, FoldsPlainLayers) { expect_rolls({.layers = 12}, 12); }
TEST(Roll, FoldsTwoLayers) { expect_rolls({.layers = 2}, 2); }
TEST(Roll, KeepsIterationInvariantValues) { expect_rolls({.layers = 5, .shared_mask = true}, 5); }
TEST(Roll, CarriesStatePerIteration) { expect_rolls({.layers = 4, .caches = true}, 4); }
TEST(Roll, SeesThroughOutputsTakenInsideTheLoop) {
  expect_rolls({.layers = 6, .shared_mask = true, .tap_outputs = true}, 6);
}

TEST(Roll, NestsWhenThePatternHasAPeriod) {
  Graph graph = deep({.layers = 12, .wide_every = 4});
  Graph rolled = roll(graph);
  ASSERT_TRUE(verify(rolled).ok()) << verify(rolled).error().message;
  ASSERT_EQ(loops(rolled).size(), 1u) << print(rolled);
  const auto& outer = attr<LoopAttr>(*loops(rolled)[0]);
  EXPECT_EQ(outer.trip_count, 3);
  ASSERT_EQ(loops(*outer.body).size(), 1u) << print(rolled);
  EXPECT_EQ(attr<LoopAttr>(*loops(*outer.body)[0]).trip_count, 3);
  EXPECT_EQ(graph_hash(unroll(rolled)), graph_hash(graph));
}

TEST(Roll, CostGrowsWithTheBlockNotWithTheDepth) {
  Graph shallow = roll(deep({.layers = 4}));
  Graph deep_one = roll(deep({.layers = 48}));
  EXPECT_EQ(attr<LoopAttr>(*loops(shallow)[0]).body->nodes.size(),
            attr<LoopAttr>(*loops(deep_one)[0]).body->nodes.size());
}

TEST(Roll, LeavesGraphsWithoutRepetitionAlone) {
  Graph graph = deep({.layers = 1});
  EXPECT_EQ(roll(graph), graph);
}

}  // namespace
}  // namespace common
