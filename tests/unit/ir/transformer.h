// A transformer of any depth as a graph, not rolled: for measuring what grows with depth.
#pragma once

#include <utility>

#include "common/ir/hlir/builder.h"

namespace common::testing {

// A transformer of the Llama kind, in primitives, each layer with weights of its own: RMS norm,
// grouped attention with a mask, RMS norm, gated MLP.
class Transformer {
 public:
  explicit Transformer(int layers) : b_({{1, 64}}) {
    NodeId x = b_.input(InputKind::kUser, kType, {1, length_, kWidth}, "x");
    NodeId mask = b_.input(InputKind::kUser, kType, {1, 1, length_, length_}, "mask");
    for (int k = 0; k < layers; ++k) {
      x = add(x, attention(norm(x), mask));
      x = add(x, mlp(norm(x)));
    }
    b_.output(x);
  }
  common::Graph finish() { return b_.finish(); }

 private:
  static constexpr DType kType = DType::kFloat32;
  static constexpr int kWidth = 64, kHeads = 4, kGroups = 2, kHeadWidth = 16, kInner = 128;

  NodeId add(NodeId a, NodeId b) { return b_.binary(BinaryOp::kAdd, a, b); }
  NodeId mul(NodeId a, NodeId b) { return b_.binary(BinaryOp::kMul, a, b); }
  NodeId weight(common::Shape shape) {
    return b_.input(InputKind::kWeight, kType, std::move(shape), "w");
  }
  NodeId project(NodeId x, int from, int to) {
    return b_.matmul(x, b_.permute(weight({to, from}), {1, 0}));
  }
  NodeId norm(NodeId x) {
    NodeId squares = b_.binary(BinaryOp::kPow, x, b_.scalar(kType, 2));
    NodeId mean = b_.binary(BinaryOp::kDiv, b_.reduce(ReduceOp::kSum, squares, {2}, true),
                            b_.scalar(kType, kWidth));
    NodeId scale = b_.unary(UnaryOp::kRsqrt, add(mean, b_.scalar(kType, 1e-5)));
    return mul(weight({kWidth}), mul(x, scale));
  }
  NodeId heads(NodeId x, int count) {
    return b_.permute(b_.reshape(x, {1, length_, count, kHeadWidth}), {0, 2, 1, 3});
  }
  NodeId repeated(NodeId x) {
    constexpr int kMembers = kHeads / kGroups;
    NodeId all = b_.expand(b_.unsqueeze(x, 2), {1, kGroups, kMembers, length_, kHeadWidth});
    return b_.reshape(all, {1, kHeads, length_, kHeadWidth});
  }
  NodeId attention(NodeId x, NodeId mask) {
    NodeId q = heads(project(x, kWidth, kWidth), kHeads);
    NodeId k = repeated(heads(project(x, kWidth, kGroups * kHeadWidth), kGroups));
    NodeId v = repeated(heads(project(x, kWidth, kGroups * kHeadWidth), kGroups));
    NodeId scores = mul(b_.matmul(q, b_.permute(k, {0, 1, 3, 2})), b_.scalar(kType, 0.25));
    scores = add(scores, mask);
    NodeId top = b_.reduce(ReduceOp::kMax, scores, {3}, true);
    NodeId e = b_.unary(UnaryOp::kExp, b_.binary(BinaryOp::kSub, scores, top));
    NodeId p = b_.binary(BinaryOp::kDiv, e, b_.reduce(ReduceOp::kSum, e, {3}, true));
    NodeId mixed = b_.permute(b_.matmul(p, v), {0, 2, 1, 3});
    return project(b_.reshape(mixed, {1, length_, kWidth}), kWidth, kWidth);
  }
  NodeId mlp(NodeId x) {
    NodeId gate = project(x, kWidth, kInner);
    gate = mul(gate, b_.unary(UnaryOp::kSigmoid, gate));
    return project(mul(gate, project(x, kWidth, kInner)), kInner, kWidth);
  }

  GraphBuilder b_;
  Expr length_ = Expr::symbol(0);
};

}  // namespace common::testing
