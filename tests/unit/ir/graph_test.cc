// Graphs: if these fail, models lose their identity, their text or their guard against nonsense.
#include "common/ir/hlir/graph.h"

#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/gemm_form.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/llir/llir.h"

namespace common {
namespace {

// y = softmax-like rows of x @ w^T, with a loop, a gather and a scatter on the side.
Graph sample(int64_t width = 8, const std::string& name = "x", SymbolRange range = {2, 64}) {
  GraphBuilder b({range});
  Expr s0 = Expr::symbol(0);
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {s0, width}, name);
  NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {4, width}, "w");
  NodeId ids = b.input(InputKind::kUser, DType::kInt64, {s0}, "ids");
  NodeId product = b.matmul(x, b.permute(w, {1, 0}));
  NodeId top = b.reduce(ReduceOp::kMax, product, {1}, true);
  NodeId rows = b.gather(w, {b.reshape(ids, {s0, 1})}, {s0, width}, {{0, 0}, {-1, Expr::index(1)}});
  b.output(b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, product, top)));
  b.output(b.scatter(ScatterMode::kAdd, b.full(DType::kFloat32, {4, width}, 0), rows,
                     {b.reshape(ids, {s0, 1})}, {{0, 0}, {-1, Expr::index(1)}}));
  b.output(b.concat({x, rows}, 1));
  return b.finish();
}

TEST(Graph, TextReadsBack) {
  Graph graph = sample();
  ASSERT_TRUE(verify(graph).ok()) << verify(graph).error().message;
  auto back = parse_graph(print(graph));
  ASSERT_TRUE(back.ok()) << back.error().message << "\n" << print(graph);
  EXPECT_EQ(*back, graph);
}

TEST(Graph, LoopsReadBackAndVerify) {
  GraphBuilder body;
  NodeId c = body.input(InputKind::kUser, DType::kFloat32, {4}, "carry");
  NodeId w = body.input(InputKind::kUser, DType::kFloat32, {4}, "w");
  body.output(body.binary(BinaryOp::kMul, c, w));
  LoopAttr loop;
  loop.body = std::make_shared<const Graph>(body.finish());
  loop.trip_count = 3;
  loop.carried = 1;
  loop.per_iteration = 1;
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {4}, "x");
  Node node{Op::kLoop, DType::kFloat32, {}, {x}, loop};
  for (int k = 0; k < 3; ++k) {
    node.operands.push_back(b.input(InputKind::kWeight, DType::kFloat32, {4}, "w"));
  }
  NodeId l = b.raw(node);
  b.output(b.raw({Op::kLoopResult, {}, {}, {l}, LoopResultAttr{0}}));
  Graph graph = b.finish();
  auto back = parse_graph(print(graph));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, graph);
  graph.nodes[static_cast<size_t>(l)].operands.pop_back();
  EXPECT_FALSE(verify(graph).ok());
}

TEST(Graph, HashIgnoresNamesAndNodeOrderOnly) {
  Digest reference = graph_hash(sample());
  EXPECT_EQ(graph_hash(sample(8, "renamed")), reference);
  EXPECT_NE(graph_hash(sample(16)), reference);
  EXPECT_NE(graph_hash(sample(8, "x", {2, 128})), reference);

  GraphBuilder a;
  NodeId p = a.input(InputKind::kUser, DType::kFloat32, {2}, "p");
  NodeId q = a.input(InputKind::kUser, DType::kFloat32, {2}, "q");
  a.output(a.unary(UnaryOp::kSin, p));
  a.output(a.unary(UnaryOp::kCos, q));
  GraphBuilder b;
  p = b.input(InputKind::kUser, DType::kFloat32, {2}, "p");
  q = b.input(InputKind::kUser, DType::kFloat32, {2}, "q");
  NodeId cosine = b.unary(UnaryOp::kCos, q);
  b.output(b.unary(UnaryOp::kSin, p));
  b.output(cosine);
  Graph first = a.finish();
  Graph second = b.finish();
  EXPECT_NE(first, second);
  EXPECT_EQ(graph_hash(first), graph_hash(second));
  std::swap(second.outputs[0], second.outputs[1]);
  EXPECT_NE(graph_hash(first), graph_hash(second));
}

// Whether anything reads it or not.
TEST(Graph, WhatInputsAreEntersTheHash) {
  for (bool is_read : {true, false}) {
    auto build = [&](InputKind kind, DType dtype, int64_t size) {
      GraphBuilder b;
      NodeId x = b.input(kind, dtype, {size}, "x");
      b.output(is_read ? b.cast(x, DType::kFloat64) : b.full(DType::kFloat64, {2}, 1));
      return graph_hash(b.finish());
    };
    Digest reference = build(InputKind::kUser, DType::kFloat32, 2);
    EXPECT_NE(build(InputKind::kWeight, DType::kFloat32, 2), reference);
    EXPECT_NE(build(InputKind::kState, DType::kFloat32, 2), reference);
    EXPECT_NE(build(InputKind::kUser, DType::kInt32, 2), reference);
    EXPECT_NE(build(InputKind::kUser, DType::kFloat32, 3), reference);
  }
}

// Which value an output is, where the nodes are the same and in the same order.
TEST(Graph, WhatAnOutputReadsEntersTheHash) {
  auto build = [](bool inner_first) {
    GraphBuilder b;
    NodeId inner = b.unary(UnaryOp::kSin, b.input(InputKind::kUser, DType::kFloat32, {2}, "x"));
    NodeId outer = b.unary(UnaryOp::kCos, inner);
    b.output(inner_first ? inner : outer);
    b.output(inner_first ? outer : inner);
    return b.finish();
  };
  EXPECT_NE(graph_hash(build(true)), graph_hash(build(false)));
}

TEST(Graph, WhatALoopRepeatsEntersTheHash) {
  auto build = [](UnaryOp op) {
    GraphBuilder body;
    body.output(body.unary(op, body.input(InputKind::kUser, DType::kFloat32, {4}, "carry")));
    LoopAttr loop;
    loop.body = std::make_shared<const Graph>(body.finish());
    loop.trip_count = 3;
    loop.carried = 1;
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {4}, "x");
    NodeId repeated = b.raw({Op::kLoop, DType::kFloat32, {}, {x}, loop});
    b.output(b.raw({Op::kLoopResult, {}, {}, {repeated}, LoopResultAttr{0}}));
    return b.finish();
  };
  EXPECT_NE(graph_hash(build(UnaryOp::kSin)), graph_hash(build(UnaryOp::kCos)));
}

// A graph's symbols are renumbered wherever they stand.
TEST(Graph, SymbolsInCoordinatesAreRenumbered) {
  auto build = [](int rows, int columns) {
    std::vector<SymbolRange> ranges(2);
    ranges[static_cast<size_t>(rows)] = {1, 8};
    ranges[static_cast<size_t>(columns)] = {2, 9};
    GraphBuilder b(ranges);
    Expr width = Expr::symbol(columns);
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {Expr::symbol(rows), width}, "x");
    NodeId at = b.input(InputKind::kUser, DType::kInt64, {3}, "at");
    b.output(b.gather(x, {at}, {3}, {{0, {}}, {-1, width - 1}}));
    NodeId zeros = b.full(DType::kFloat32, {Expr::symbol(rows), width}, 0);
    NodeId ones = b.full(DType::kFloat32, {3}, 1);
    b.output(b.scatter(ScatterMode::kAssign, zeros, ones, {at}, {{0, {}}, {-1, width - 1}}));
    return b.finish();
  };
  EXPECT_EQ(graph_hash(build(0, 1)), graph_hash(build(1, 0)));
  EXPECT_TRUE(verify(canonical(build(1, 0))).ok());
}

TEST(Graph, SymbolNumbersDoNotEnterTheHash) {
  auto build = [](int first, int second) {
    std::vector<SymbolRange> ranges(2);
    ranges[static_cast<size_t>(first)] = {1, 8};
    ranges[static_cast<size_t>(second)] = {2, 9};
    GraphBuilder b(ranges);
    NodeId x = b.input(InputKind::kUser, DType::kFloat32,
                       {Expr::symbol(first), Expr::symbol(second)}, "x");
    b.output(b.reduce(ReduceOp::kSum, x, {1}));
    return b.finish();
  };
  EXPECT_EQ(graph_hash(build(0, 1)), graph_hash(build(1, 0)));
}

TEST(Graph, VerifierNamesTheNode) {
  Graph graph = sample();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Graph broken = graph;
    broken.nodes[i].shape.push_back(7);
    Status status = verify(broken);
    ASSERT_FALSE(status.ok()) << "node " << i;
    EXPECT_EQ(status.error().code, Code::kInvalidInput);
  }
  Graph cyclic = graph;
  cyclic.nodes[3].operands.assign(1, static_cast<NodeId>(graph.nodes.size() - 1));
  EXPECT_FALSE(verify(cyclic).ok());
}

TEST(Graph, SymbolsBindFromSizesWithClearErrors) {
  Graph graph = sample();
  auto ok = bind_symbols(graph, {{5, 8}, {4, 8}, {5}});
  ASSERT_TRUE(ok.ok());
  EXPECT_EQ(*ok, std::vector<int64_t>{5});
  auto wrong = bind_symbols(graph, {{5, 9}, {4, 8}, {5}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("'x'"), std::string::npos);
  auto outside = bind_symbols(graph, {{1, 8}, {4, 8}, {1}});
  ASSERT_FALSE(outside.ok());
  EXPECT_NE(outside.error().message.find("2..64"), std::string::npos);
}

TEST(GemmForm, SeesThroughLayouts) {
  // Attention scores: q[b, t, h, d] and k[b, u, h, d] read as [b, h, ...] without a copy.
  GraphBuilder b;
  NodeId q = b.input(InputKind::kUser, DType::kFloat32, {2, 5, 64}, "q");
  NodeId k = b.input(InputKind::kUser, DType::kFloat32, {2, 7, 64}, "k");
  NodeId qh = b.permute(b.reshape(q, {2, 5, 4, 16}), {0, 2, 1, 3});
  NodeId kh = b.permute(b.reshape(k, {2, 7, 4, 16}), {0, 2, 1, 3});
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {},
                  {qh, kh},
                  ContractAttr{{0, 1, 2, 3}, {0, 1, 4, 3}, {0, 1, 2, 4}}}));
  EXPECT_FALSE(gemm_form(b.finish()).has_value()) << "batch [2, 4] has no single stride here";

  GraphBuilder c;
  NodeId x = c.input(InputKind::kUser, DType::kFloat32, {2, 5, 8}, "x");
  NodeId w = c.input(InputKind::kUser, DType::kFloat32, {3, 8}, "w");
  c.output(c.raw(
      {Op::kContract, DType::kFloat32, {}, {x, w}, ContractAttr{{0, 1, 2}, {3, 2}, {0, 1, 3}}}));
  auto form = gemm_form(c.finish());
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->m, Expr(10));
  EXPECT_EQ(form->n, Expr(3));
  EXPECT_EQ(form->k, Expr(8));
  EXPECT_EQ(form->b.row_stride, Expr(1));
  EXPECT_EQ(form->b.column_stride, Expr(8));
}

TEST(GemmForm, TakesNoOperandThatRunsBackwards) {
  for (int axis : {0, 1}) {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {4, 6}, "x");
    NodeId w = b.input(InputKind::kUser, DType::kFloat32, {6, 3}, "w");
    NodeId mirrored = b.slice(x, axis, axis == 0 ? 3 : 5, axis == 0 ? 4 : 6, -1);
    b.output(b.raw(
        {Op::kContract, DType::kFloat32, {}, {mirrored, w}, ContractAttr{{0, 1}, {1, 2}, {0, 2}}}));
    EXPECT_FALSE(gemm_form(b.finish()).has_value()) << "axis " << axis;
  }
}

TEST(Program, VerifierRefusesWhatCouldReadGarbage) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {4}, "");
  b.output(b.unary(UnaryOp::kExp, x));
  Program program;
  program.inputs = {{InputKind::kUser, DType::kFloat32, {4}, "x"}};
  program.outputs = {{OutputKind::kUser, -1, -1}};
  program.buffers = {{BufferKind::kInput, 0, DType::kFloat32, {4}},
                     {BufferKind::kTemporary, 0, DType::kFloat32, {4}},
                     {BufferKind::kOutput, 0, DType::kFloat32, {4}}};
  program.kernels = {{Template::kLoops, {}, b.finish()}};
  program.calls = {{0, {0}, {1}, {}}, {0, {1}, {2}, {}}};
  EXPECT_TRUE(verify(program).ok()) << verify(program).error().message;
  Program early = program;
  std::swap(early.calls[0], early.calls[1]);
  EXPECT_FALSE(verify(early).ok());
  Program twice = program;
  twice.calls[1].outputs[0] = 1;
  EXPECT_FALSE(verify(twice).ok());
  Program unwritten = program;
  unwritten.calls.pop_back();
  EXPECT_FALSE(verify(unwritten).ok());
  Program unknown = program;
  unknown.kernels[0].schedule = {{"no_such_gene", 1}};
  EXPECT_FALSE(verify(unknown).ok());
}

}  // namespace
}  // namespace common
