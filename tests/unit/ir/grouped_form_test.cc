// If these fail, products of rows with matrices of their own are not recognised, or others are.
#include "common/ir/llir/grouped_form.h"

#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"

namespace common {
namespace {

struct Choice {
  bool by_column = false;  // matrices are chosen for each column, too
  bool has_order = true;
  bool turns = false;   // rows last
  bool rounds = false;  // matrices, after they were gathered
};

Graph product_of(const Choice& choice) {
  GraphBuilder b({{1, 64}});
  const Expr s = Expr::symbol(0);
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {s, 8}, "x");
  NodeId w = b.input(InputKind::kWeight, DType::kBfloat16, {5, 3, 8}, "w");
  NodeId g = b.input(InputKind::kUser, DType::kInt64, {s, 3}, "g");
  NodeId order = b.input(InputKind::kUser, DType::kInt64, {s}, "order");
  auto i = [](int axis) { return Expr::index(axis); };
  View spread{{s, 3, 8}, {i(0), choice.by_column ? i(1) : Expr(1)}, {}, 0};
  NodeId own = b.gather(w, {b.view(g, spread)}, {s, 3, 8}, {{0, {}}, {-1, i(1)}, {-1, i(2)}});
  if (choice.rounds) own = b.cast(b.cast(own, DType::kFloat32), DType::kFloat16);
  own = b.permute(b.cast(own, DType::kFloat32), {0, 2, 1});
  std::vector<NodeId> operands{x, own};
  if (choice.has_order) operands.push_back(order);
  ContractAttr labels{{0, 1}, {0, 1, 2}, {0, 2}};
  if (choice.turns) labels.out = {2, 0};
  Shape shape = choice.turns ? Shape{3, s} : Shape{s, 3};
  b.output(b.raw({Op::kContract, DType::kFloat32, shape, operands, labels}));
  return b.finish();
}

std::optional<GroupedForm> form_of(const Graph& graph) {
  return grouped_form(graph, graph.outputs[0].node);
}

TEST(GroupedForm, SeesMatricesThroughViewsAndCasts) {
  Graph graph = product_of({});
  ASSERT_TRUE(verify(graph).ok());
  auto form = form_of(graph);
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->groups, Expr(5));
  EXPECT_EQ(form->matrices, 1);
  EXPECT_EQ(graph.node(form->index).op, Op::kInput);
  EXPECT_EQ(form->index_at, (std::vector<Expr>{Expr::index(0), 1}));
  EXPECT_EQ(form->data_at, (std::vector<Expr>{Expr::index(0), Expr::index(2), Expr::index(1)}));
  EXPECT_TRUE(has_row_order(graph));

  GroupProduct product = group_product(graph, *form);
  const auto& labels = attr<ContractAttr>(product.body.node(product.product));
  EXPECT_EQ(labels.b, (std::vector<int>{product.group, 1, 2}));
  EXPECT_EQ(product.body.node(product.group_of).shape, Shape{Expr::symbol(0)});
  EXPECT_FALSE(has_row_order(product.body));
}

TEST(GroupedForm, RefusesOtherProducts) {
  EXPECT_FALSE(form_of(product_of({.by_column = true})).has_value());
  EXPECT_FALSE(form_of(product_of({.turns = true})).has_value());
  EXPECT_FALSE(form_of(product_of({.rounds = true})).has_value());
  auto without = form_of(product_of({.has_order = false}));
  ASSERT_TRUE(without.has_value());
  EXPECT_EQ(without->order, -1);
}

TEST(GroupedForm, OrdersHaveTextAndAreVerified) {
  Graph graph = product_of({});
  auto back = parse_graph(print(graph));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, graph);
  // The order of another axis than the rows'.
  NodeId x = graph.node(graph.outputs[0].node).operands[0];
  graph.nodes[static_cast<size_t>(graph.outputs[0].node)].operands[2] = x;
  EXPECT_FALSE(verify(graph).ok());
}

}  // namespace
}  // namespace common
