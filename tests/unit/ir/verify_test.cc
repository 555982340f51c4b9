// The verifier: if these fail, a graph from outside that means nothing reaches those who trust it.
#include "common/ir/hlir/verify.h"

#include <gtest/gtest.h>

#include <functional>

namespace common {
namespace {

// Takes nodes as they are, where GraphBuilder refuses nonsense.
struct RawGraph {
  Graph graph;
  NodeId raw(Node node) {
    graph.nodes.push_back(std::move(node));
    return static_cast<NodeId>(graph.nodes.size() - 1);
  }
  NodeId input(DType dtype, const Shape& shape) {
    int position = static_cast<int>(graph.inputs.size());
    graph.inputs.push_back({InputKind::kUser, dtype, shape, ""});
    return raw({Op::kInput, dtype, shape, {}, InputAttr{position}});
  }
  void output(NodeId node) { graph.outputs.push_back({OutputKind::kUser, node, -1}); }
};

struct Nonsense {
  const char* complaint;  // as the verifier words it
  std::function<NodeId(RawGraph&)> build;
};

NodeId floats(RawGraph& b, const Shape& shape = {4}) { return b.input(DType::kFloat32, shape); }
NodeId integers(RawGraph& b, const Shape& shape = {4}) { return b.input(DType::kInt64, shape); }
Node binary(BinaryOp op, NodeId x, NodeId y) {
  return {Op::kBinary, DType::kFloat32, {4}, {x, y}, BinaryAttr{op}};
}
Node reduce(ReduceOp op, NodeId x, std::vector<int> axes) {
  return {Op::kReduce, DType::kInt64, {}, {x}, ReduceAttr{op, std::move(axes)}};
}

// A loop over a value of four elements, whose body gives `to` elements instead.
NodeId loop(RawGraph& b, int64_t to) {
  RawGraph body;
  floats(body);
  auto bytes = std::make_shared<const Bytes>(static_cast<size_t>(to) * 4);
  body.output(body.raw({Op::kConstant, DType::kFloat32, {Expr(to)}, {}, ConstantAttr{bytes}}));
  LoopAttr attr;
  attr.body = std::make_shared<const Graph>(std::move(body.graph));
  attr.trip_count = 2;
  attr.carried = 1;
  NodeId node = b.raw({Op::kLoop, DType::kFloat32, {}, {floats(b)}, attr});
  return b.raw({Op::kLoopResult, DType::kFloat32, {4}, {node}, LoopResultAttr{0}});
}

std::vector<Nonsense> everything_wrong() {
  return {
      {"dtypes differ",
       [](RawGraph& b) { return b.raw(binary(BinaryOp::kAdd, floats(b), integers(b))); }},
      {"shapes differ",
       [](RawGraph& b) { return b.raw(binary(BinaryOp::kAdd, floats(b), floats(b, {5}))); }},
      {"bitwise operations take bool and integers",
       [](RawGraph& b) { return b.raw(binary(BinaryOp::kAnd, floats(b), floats(b))); }},
      {"not takes bool or integers",
       [](RawGraph& b) {
         return b.raw({Op::kUnary, DType::kFloat32, {4}, {floats(b)}, UnaryAttr{UnaryOp::kNot}});
       }},
      {"the condition is bool",
       [](RawGraph& b) {
         NodeId x = floats(b);
         return b.raw({Op::kSelect, DType::kFloat32, {4}, {x, x, x}, {}});
       }},
      {"takes one axis",
       [](RawGraph& b) {
         return b.raw(reduce(ReduceOp::kArgmax, floats(b, {4, 4}), {0, 1}));
       }},
      {"axes must be sorted",
       [](RawGraph& b) {
         return b.raw(reduce(ReduceOp::kSum, integers(b, {4, 4}), {1, 0}));
       }},
      {"a line has fewer elements",
       [](RawGraph& b) {
         return b.raw({Op::kSort, DType::kInt64, {5}, {floats(b, {4})}, SortAttr{0, false, 5}});
       }},
      {"a line has fewer elements",
       [](RawGraph& b) {
         return b.raw({Op::kSort, DType::kInt64, {4}, {floats(b, {4})}, SortAttr{0, false, -1}});
       }},
      {"any/all are for bool",
       [](RawGraph& b) { return b.raw(reduce(ReduceOp::kAny, integers(b), {0})); }},
      {"index uses an unknown variable",
       [](RawGraph& b) {
         View view{{4}, {Expr::index(1)}, {}, 0};
         return b.raw({Op::kView, DType::kFloat32, {4}, {floats(b)}, ViewAttr{view}});
       }},
      {"validity uses an unknown variable",
       [](RawGraph& b) {
         View view{{4}, {Expr::index(0)}, {{Expr::index(0), Expr::symbol(0)}}, 0};
         return b.raw({Op::kView, DType::kFloat32, {4}, {floats(b)}, ViewAttr{view}});
       }},
      {"a coordinate names an unknown index",
       [](RawGraph& b) {
         NodeId x = floats(b, {4, 4}), at = integers(b, {3});
         GatherAttr gather{{{0, {}}, {-1, Expr::index(1)}}};
         return b.raw({Op::kGather, DType::kFloat32, {3}, {x, at}, gather});
       }},
      {"a coordinate names an unknown index",
       [](RawGraph& b) {
         NodeId x = floats(b), at = integers(b, {3});
         return b.raw({Op::kGather, DType::kFloat32, {3}, {x, at}, GatherAttr{{{1, {}}}}});
       }},
      {"indices are integers",
       [](RawGraph& b) {
         NodeId x = floats(b), at = floats(b, {3});
         return b.raw({Op::kGather, DType::kFloat32, {3}, {x, at}, GatherAttr{{{0, {}}}}});
       }},
      {"a label has two sizes",
       [](RawGraph& b) {
         NodeId x = floats(b, {2, 4}), y = floats(b, {5, 3});
         ContractAttr labels{{0, 1}, {1, 2}, {0, 2}};
         return b.raw({Op::kContract, DType::kFloat32, {2, 3}, {x, y}, labels});
       }},
      {"a label repeats within an operand",
       [](RawGraph& b) {
         NodeId x = floats(b, {4, 4}), y = floats(b);
         return b.raw(
             {Op::kContract, DType::kFloat32, {4}, {x, y}, ContractAttr{{0, 0}, {0}, {0}}});
       }},
      {"takes f32 or f64",
       [](RawGraph& b) {
         return b.raw(
             {Op::kFourier, DType::kInt64, {3}, {integers(b)}, FourierAttr{false, false, 3}});
       }},
      {"both parts are of one shape",
       [](RawGraph& b) {
         NodeId x = floats(b), y = floats(b, {5});
         return b.raw({Op::kFourier, DType::kFloat32, {3}, {x, y}, FourierAttr{true, false, 3}});
       }},
      {"points and frequencies",
       [](RawGraph& b) {
         return b.raw(
             {Op::kFourier, DType::kFloat32, {5}, {floats(b)}, FourierAttr{true, true, 5}});
       }},
      {"data has another size",
       [](RawGraph& b) {
         auto bytes = std::make_shared<const Bytes>(8);
         return b.raw({Op::kConstant, DType::kFloat32, {4}, {}, ConstantAttr{bytes}});
       }},
      {"a carried value changes its type", [](RawGraph& b) { return loop(b, 5); }},
  };
}

TEST(Verify, NamesWhatIsWrong) {
  for (const Nonsense& n : everything_wrong()) {
    RawGraph b;
    b.output(n.build(b));
    Status status = verify(b.graph);
    ASSERT_FALSE(status.ok()) << n.complaint;
    EXPECT_EQ(status.error().code, Code::kInvalidInput);
    EXPECT_NE(status.error().message.find(n.complaint), std::string::npos)
        << status.error().message << " instead of: " << n.complaint;
  }
}

TEST(Verify, TakesALoopThatKeepsItsTypes) {
  RawGraph b;
  b.output(loop(b, 4));
  Status status = verify(b.graph);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

}  // namespace
}  // namespace common
