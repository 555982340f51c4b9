// Results beside the chain of blocks: if these fail, backward graphs have as many kernels for
// gradients of weights as layers, or compute something else.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/roll/roll.h"

namespace common {
namespace {

// The loop of a graph that must come back from its loop as it was.
LoopAttr only_loop(const Graph& graph, const Graph& rolled) {
  EXPECT_TRUE(verify(rolled).ok()) << verify(rolled).error().message << print(rolled);
  EXPECT_EQ(graph_hash(unroll(rolled)), graph_hash(graph)) << print(rolled);
  EXPECT_EQ(roll(graph), rolled) << "rolling must be deterministic";
  LoopAttr loop;
  int loops = 0;
  for (const Node& node : rolled.nodes) {
    if (node.op != Op::kLoop) continue;
    loop = attr<LoopAttr>(node);
    ++loops;
  }
  EXPECT_EQ(loops, 1) << print(rolled);
  return loop;
}

int64_t count(const Graph& graph, Op op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [op](const Node& node) { return node.op == op; });
}

// The backward graph of layers y = tanh(x w' + b): gradients of x, of each w and of each b.
struct Options {
  int layers = 4;
  bool biases_are_read = false;  // by something else in each layer, and by one that is alike in all
  bool shows_saved = false;      // turned, as the products read them
};
Graph backward(const Options& o) {
  constexpr UnaryOp kReaders[] = {UnaryOp::kTanh, UnaryOp::kErf, UnaryOp::kSin, UnaryOp::kCos};
  GraphBuilder b;
  NodeId grad = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "grad");
  for (int l = 0; l < o.layers; ++l) {
    NodeId w = b.input(InputKind::kUser, DType::kFloat32, {16, 16}, "w");
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "x");
    NodeId y = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "y");
    NodeId slope =
        b.binary(BinaryOp::kSub, b.scalar(DType::kFloat32, 1), b.binary(BinaryOp::kMul, y, y));
    NodeId inner = b.binary(BinaryOp::kMul, grad, slope);
    NodeId bias = b.reduce(ReduceOp::kSum, inner, {0});
    NodeId turned = b.permute(x, {1, 0});
    b.output(b.permute(b.matmul(turned, inner), {1, 0}));
    b.output(o.biases_are_read ? b.unary(kReaders[l % 4], bias) : bias);
    if (o.biases_are_read) b.output(b.binary(BinaryOp::kMul, bias, bias));
    if (o.shows_saved) b.output(turned);
    grad = b.matmul(inner, w);
  }
  b.output(grad);
  return b.finish();
}

TEST(RollSide, GradientsOfWeightsAreComputedInTheLoop) {
  for (int layers : {2, 4, 12}) {
    Graph graph = backward({.layers = layers}), rolled = roll(graph);
    LoopAttr loop = only_loop(graph, rolled);
    const int64_t outside = layers - loop.trip_count;  // the first layer may be
    EXPECT_LE(outside, 1);
    EXPECT_EQ(loop.carried, 1);
    EXPECT_EQ(loop.outputs, 2) << "gradients of a weight and a bias, and no gradient of a value";
    EXPECT_EQ(count(*loop.body, Op::kReduce), 3);
    EXPECT_EQ(count(rolled, Op::kReduce), 3 * outside) << print(rolled);
  }
}

TEST(RollSide, WhatOthersReadStaysOutside) {
  Graph graph = backward({.layers = 4, .biases_are_read = true}), rolled = roll(graph);
  LoopAttr loop = only_loop(graph, rolled);
  EXPECT_EQ(loop.outputs, 2) << "the gradient of a weight, and what its bias's is a sum of";
  EXPECT_EQ(count(*loop.body, Op::kReduce), 2) << "of the two products";
  EXPECT_EQ(count(rolled, Op::kUnary), 4) << "and so does what reads that";
}

TEST(RollSide, OperandsThatAreReadOutsideStayThereAsWell) {
  Graph graph = backward({.layers = 4, .shows_saved = true}), rolled = roll(graph);
  LoopAttr loop = only_loop(graph, rolled);
  EXPECT_EQ(loop.outputs, 2) << "no saved value that is turned" << print(rolled);
  EXPECT_EQ(count(*loop.body, Op::kReduce), 3);
}

// The update of each layer's weight, and a value that all layers read.
TEST(RollSide, UpdatesFollowTheirGradients) {
  GraphBuilder b;
  constexpr int kLayers = 5;
  NodeId grad = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "grad");
  NodeId rate = b.input(InputKind::kUser, DType::kFloat32, {}, "rate");
  std::vector<NodeId> weights, saved;
  for (int l = 0; l < kLayers; ++l) {
    weights.push_back(b.input(InputKind::kState, DType::kFloat32, {16, 16}, "w"));
    saved.push_back(b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "x"));
  }
  NodeId scale = b.unary(UnaryOp::kExp, rate);
  for (int l = 0; l < kLayers; ++l) {
    auto k = static_cast<size_t>(l);
    NodeId change = b.matmul(b.permute(grad, {1, 0}), saved[k]);
    NodeId scaled = b.binary(BinaryOp::kMul, change, scale);
    b.mutate(2 + 2 * l, b.binary(BinaryOp::kSub, weights[k], scaled));
    grad = b.unary(UnaryOp::kTanh, b.matmul(grad, weights[k]));
  }
  b.output(grad);
  Graph graph = b.finish(), rolled = roll(graph);
  LoopAttr loop = only_loop(graph, rolled);
  const int64_t outside = kLayers - loop.trip_count;
  EXPECT_LE(outside, 1);
  EXPECT_EQ(loop.outputs, 1) << "the new weight, and no gradient";
  EXPECT_EQ(count(rolled, Op::kReduce), 2 * outside) << print(rolled);
}

}  // namespace
}  // namespace common
