// Checks of indices as outputs of a graph. If these fail, a check is lost, renamed or taken for
// something that the model returns.
#include <gtest/gtest.h>

#include <functional>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/roll/roll.h"

namespace common {
namespace {

// Two sizes, in this order among the symbols, and a check below their sum.
Graph sample(int rows = 0, bool wraps = false) {
  GraphBuilder b({{1, 64}, {1, 64}});
  Expr n = Expr::symbol(rows), m = Expr::symbol(1 - rows);
  NodeId ids = b.input(InputKind::kUser, DType::kInt64, {n}, "ids");
  NodeId data = b.input(InputKind::kUser, DType::kFloat32, {m}, "data");
  b.output(data);
  b.check(0, b.reduce(ReduceOp::kMin, ids, {0}), n + m * 3, wraps);
  return b.finish();
}

TEST(GraphChecks, PrintAndParse) {
  for (bool wraps : {false, true}) {
    Graph graph = sample(0, wraps);
    auto parsed = parse_graph(print(graph));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message << print(graph);
    EXPECT_EQ(*parsed, graph) << print(*parsed) << print(graph);
  }
  EXPECT_NE(print(sample(0, true)).find("check 0 %"), std::string::npos) << print(sample());
  std::string text = print(sample());
  std::string others = text.substr(0, text.find("check "));
  EXPECT_TRUE(parse_graph(others + "check -1 %2 below 3\n").ok()) << others;
  for (const char* wrong : {"check %2 below 3", "check 0 %2", "check 0 %999 below 3",
                            "check 0 %2 wrap below 3", "check 0 %2 below "}) {
    EXPECT_FALSE(parse_graph(others + wrong + "\n").ok()) << wrong;
  }
}

TEST(GraphChecks, TheHashCoversTheRangeAndNoNames) {
  EXPECT_EQ(graph_hash(sample(0)), graph_hash(sample(1)));
  EXPECT_NE(graph_hash(sample(0)), graph_hash(sample(0, true)));
  Graph other = sample();
  other.outputs[1].limit = 7;
  EXPECT_NE(graph_hash(sample()), graph_hash(other));
  other = sample();
  other.outputs[1].input = -1;
  EXPECT_NE(graph_hash(sample()), graph_hash(other));
}

TEST(GraphChecks, LimitsFollowTheirSymbols) {
  Graph fixed = narrowed(sample(), {{5, 5}, {2, 2}});
  EXPECT_TRUE(fixed.outputs[1].limit.is_constant(11)) << print(fixed);
  EXPECT_EQ(unroll(roll(sample())).outputs, sample().outputs);
}

TEST(GraphChecks, TheVerifierRefusesWhatNoRuntimeCouldRead) {
  Graph right = sample();
  ASSERT_TRUE(verify(right).ok()) << verify(right).error().message;
  auto refused = [&](const std::function<void(Graph&)>& damage) {
    Graph graph = right;
    damage(graph);
    Status status = verify(graph);
    ASSERT_FALSE(status.ok()) << print(graph);
    EXPECT_NE(status.error().message.find("check"), std::string::npos) << status.error().message;
  };
  refused([](Graph& g) { g.outputs[1].node = 0; });   // a vector
  refused([](Graph& g) { g.outputs[1].input = 2; });  // no such input
  refused([](Graph& g) { g.outputs[1].input = -2; });
  refused([](Graph& g) { g.inputs[0].kind = InputKind::kState; });
  refused([](Graph& g) { g.outputs[1].limit = Expr::symbol(2); });
  refused([](Graph& g) { g.outputs[1].limit = -3; });
}

}  // namespace
}  // namespace common
