// A decode step of the Llama kind in bfloat16, of any depth: embedding, layers with caches, logits.
#pragma once

#include <cmath>
#include <vector>

#include "common/ir/hlir/builder.h"

namespace bench::testing {

// One token at the position that the state "length" tells, which every layer reads.
class SmallDecode {
 public:
  static constexpr int64_t kPositions = 64;

  // `scale` of the scores; another one is another model of the same inputs and outputs.
  explicit SmallDecode(int layers, double scale = 0.25) : scale_(scale) {
    NodeId ids = input(common::InputKind::kUser, common::DType::kInt64, {1}, "ids");
    length_ = input(common::InputKind::kState, common::DType::kInt64, {1}, "length");
    NodeId x = row(weight({kVocabulary, kWidth}), ids);
    NodeId worst = 0;
    for (int k = 0; k < layers; ++k) {
      x = add(x, attention(norm(x)));
      x = add(x, project(gated(norm(x)), kInner, kWidth));
      NodeId check = 0;
      x = add(x, own_row(&check));
      worst = k == 0 ? check : b_.binary(common::BinaryOp::kMin, worst, check);
    }
    b_.check(-1, worst, kRows, false);
    b_.mutate(1,
              b_.binary(common::BinaryOp::kAdd, length_, b_.scalar_int(common::DType::kInt64, 1)));
    b_.output(project(norm(x), kWidth, kVocabulary));
  }
  common::Graph finish() { return b_.finish(); }

 private:
  using NodeId = common::NodeId;
  static constexpr auto kType = common::DType::kBfloat16;
  static constexpr int64_t kVocabulary = 96, kWidth = 64, kHeads = 4, kGroups = 2, kDepth = 16,
                           kInner = 128, kRows = 8;

  NodeId input(common::InputKind kind, common::DType dtype, common::Shape shape, const char* name) {
    ++inputs_;
    return b_.input(kind, dtype, std::move(shape), name);
  }
  NodeId weight(common::Shape shape) {
    return input(common::InputKind::kWeight, kType, std::move(shape), "w");
  }
  NodeId wide(NodeId x) { return b_.cast(x, common::DType::kFloat32); }
  NodeId narrow(NodeId x) { return b_.cast(x, kType); }
  NodeId number(double value) { return b_.scalar(common::DType::kFloat32, value); }
  NodeId mul(NodeId a, NodeId b) { return b_.binary(common::BinaryOp::kMul, a, b); }
  NodeId add(NodeId a, NodeId b) {
    return narrow(b_.binary(common::BinaryOp::kAdd, wide(a), wide(b)));
  }
  NodeId row(NodeId table, NodeId at) {
    return b_.gather(table, {b_.expand(b_.unsqueeze(at, 1), {1, kWidth})}, {1, kWidth},
                     {{0, {}}, {-1, common::Expr::index(1)}});
  }
  NodeId project(NodeId x, int64_t from, int64_t to) {
    return narrow(b_.matmul(wide(x), b_.permute(wide(weight({to, from})), {1, 0})));
  }
  NodeId norm(NodeId x) {
    NodeId sum = b_.reduce(common::ReduceOp::kSum, mul(wide(x), wide(x)), {1}, true);
    NodeId mean = b_.binary(common::BinaryOp::kDiv, sum, number(kWidth));
    NodeId factor =
        b_.unary(common::UnaryOp::kRsqrt, b_.binary(common::BinaryOp::kAdd, mean, number(1e-5)));
    return narrow(mul(mul(wide(x), factor), wide(weight({kWidth}))));
  }
  NodeId gated(NodeId x) {
    NodeId gate = wide(project(x, kWidth, kInner));
    return narrow(mul(mul(gate, b_.unary(common::UnaryOp::kSigmoid, gate)),
                      wide(project(x, kWidth, kInner))));
  }
  // The cache with the row of this position.
  NodeId cached(NodeId row) {
    const int position = inputs_;
    const common::Shape shape{kGroups, kPositions, kDepth}, one{kGroups, 1, kDepth};
    NodeId cache = input(common::InputKind::kState, kType, shape, "cache");
    NodeId at = b_.expand(b_.reshape(length_, {1, 1, 1}), one);
    NodeId next = b_.scatter(common::ScatterMode::kAssign, cache, b_.reshape(row, one), {at},
                             {{-1, common::Expr::index(0)}, {0, {}}, {-1, common::Expr::index(2)}});
    b_.mutate(position, next);
    return next;
  }
  // A row of a table of the layer's own, at what its state says, from the end where that is
  // negative; and whether it is in range, as a check says it.
  NodeId own_row(NodeId* check) {
    NodeId at = input(common::InputKind::kState, common::DType::kInt64, {1}, "own");
    auto number = [&](int64_t value) { return b_.scalar_int(common::DType::kInt64, value); };
    NodeId from_end = b_.binary(common::BinaryOp::kAdd, at, number(kRows));
    at = b_.select(b_.binary(common::BinaryOp::kLess, at, number(0)), from_end, at);
    NodeId is_in = b_.binary(common::BinaryOp::kLess, b_.reshape(at, {}), number(kRows));
    *check = b_.select(is_in, number(common::kNoPosition), number(0));
    return row(weight({kRows, kWidth}), at);
  }
  NodeId attention(NodeId x) {
    NodeId q = b_.reshape(project(x, kWidth, kHeads * kDepth), {kGroups, kHeads / kGroups, kDepth});
    NodeId k = wide(cached(project(x, kWidth, kGroups * kDepth)));
    NodeId v = wide(cached(project(x, kWidth, kGroups * kDepth)));
    NodeId scores = mul(b_.matmul(wide(q), b_.permute(k, {0, 2, 1})), number(scale_));
    NodeId seen = b_.binary(common::BinaryOp::kLessEqual,
                            b_.iota(common::DType::kInt64, kPositions), length_);
    scores = b_.select(b_.reshape(seen, {1, 1, kPositions}), scores, number(-HUGE_VAL));
    NodeId top = b_.reduce(common::ReduceOp::kMax, scores, {2}, true);
    NodeId e = b_.unary(common::UnaryOp::kExp, b_.binary(common::BinaryOp::kSub, scores, top));
    NodeId p =
        b_.binary(common::BinaryOp::kDiv, e, b_.reduce(common::ReduceOp::kSum, e, {2}, true));
    NodeId out = b_.reshape(narrow(b_.matmul(p, v)), {1, kHeads * kDepth});
    return project(out, kHeads * kDepth, kWidth);
  }

  common::GraphBuilder b_;
  int inputs_ = 0;
  NodeId length_ = 0;
  double scale_;
};

}  // namespace bench::testing
