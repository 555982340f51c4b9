// Attention forms that are remembered: if these fail, a search takes one selection's attention for
// another's, and stores what a kernel should hold or asks a kernel for what it cannot hold.
#include "coordinator/search/partition/attention_memo.h"

#include <gtest/gtest.h>

#include "common/base/random.h"
#include "common/ir/hlir/attention_form.h"
#include "common/ir/hlir/builder.h"

namespace coordinator {
namespace {

using common::DType;
using common::NodeId;
using common::Op;

struct Case {
  Selected selected;
  NodeId product = 0;
};

// Attention of 8 rows over 6 keys, whose values are products themselves: an obstacle where they are
// not stored. `shift` nodes come before it, with genes of their own.
Case attention(int shift) {
  common::GraphBuilder b;
  NodeId q = b.input(common::InputKind::kUser, DType::kFloat32, {8, 4}, "q");
  NodeId k = b.input(common::InputKind::kUser, DType::kFloat32, {6, 4}, "k");
  NodeId v = b.input(common::InputKind::kUser, DType::kFloat32, {6, 5}, "v");
  NodeId w = b.input(common::InputKind::kUser, DType::kFloat32, {5, 3}, "w");
  NodeId mask = b.input(common::InputKind::kUser, DType::kFloat32, {8, 6}, "mask");
  NodeId scaled = b.binary(common::BinaryOp::kMul, q, b.full(DType::kFloat32, {8, 4}, 0.5));
  NodeId scores = b.raw({Op::kContract,
                         DType::kFloat32,
                         {8, 6},
                         {scaled, k},
                         common::ContractAttr{{0, 1}, {2, 1}, {0, 2}}});
  NodeId masked = b.binary(common::BinaryOp::kAdd, scores, b.unary(common::UnaryOp::kExp, mask));
  NodeId softmax =
      b.raw({Op::kSoftmax, DType::kFloat32, {8, 6}, {masked}, common::SoftmaxAttr{1, false}});
  NodeId values = b.raw({Op::kContract,
                         DType::kFloat32,
                         {6, 3},
                         {v, w},
                         common::ContractAttr{{0, 1}, {1, 2}, {0, 2}}});
  NodeId product = b.raw({Op::kContract,
                          DType::kFloat32,
                          {8, 3},
                          {softmax, b.unary(common::UnaryOp::kTanh, values)},
                          common::ContractAttr{{0, 1}, {1, 2}, {0, 2}}});
  b.output(product);
  Case made{select_all(b.finish()), 0};
  Selected& selected = made.selected;
  made.product = selected.graph.outputs[0].node + shift;
  for (int n = 0; n < shift; ++n) {
    selected.graph.nodes.insert(selected.graph.nodes.begin(),
                                {Op::kIota, DType::kInt64, {3 + n}, {}, {}});
    selected.lowering.insert(selected.lowering.begin(), Lowering::kInPlace);
    selected.gene.insert(selected.gene.begin(), static_cast<ClassId>(1000 + n));
    selected.choice.insert(selected.choice.begin(), static_cast<coordinator::NodeId>(1000 + n));
  }
  auto count = static_cast<size_t>(shift);
  for (size_t k = count; k < selected.graph.nodes.size(); ++k) {
    for (NodeId& operand : selected.graph.nodes[k].operands) operand += shift;
  }
  selected.graph.outputs[0].node = made.product;
  return made;
}

TEST(AttentionMemo, FindsWhatTheGraphSays) {
  AttentionMemo memo;
  common::Random random(7);
  Case cases[] = {attention(0), attention(3)};
  int found = 0, with_obstacle = 0;
  for (int draw = 0; draw < 400; ++draw) {
    const Case& one = cases[draw % 2];
    std::vector<char> stored(one.selected.graph.nodes.size());
    for (char& flag : stored) flag = random.chance(0.15) ? 1 : 0;
    auto is_stored = [&](NodeId id) { return stored[static_cast<size_t>(id)] != 0; };
    auto parts = memo.find(one.selected, one.product, is_stored);
    auto form = common::attention_form(one.selected.graph, one.product, is_stored);
    ASSERT_EQ(parts.has_value(), form.has_value()) << "draw " << draw;
    if (!form) continue;
    ++found;
    EXPECT_EQ(parts->scores, form->scores);
    EXPECT_EQ(parts->members, form->members);
    EXPECT_EQ(parts->obstacle.has_value(), !form->obstacles.empty()) << "draw " << draw;
    if (parts->obstacle) {
      ++with_obstacle;
      EXPECT_EQ(*parts->obstacle, form->obstacles[0]);
    }
    const auto& graph = one.selected.graph;
    EXPECT_EQ(parts->keys,
              graph.node(form->scores).operands[static_cast<size_t>(1 - form->queries)]);
    EXPECT_EQ(parts->values,
              graph.node(one.product).operands[static_cast<size_t>(1 - form->probabilities)]);
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(with_obstacle, 50);
  EXPECT_LT(with_obstacle, found);
}

}  // namespace
}  // namespace coordinator
