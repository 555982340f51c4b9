// Loop rolling: if these fail, deep models cost what their depth costs, or compute something else.
#include "common/ir/roll/roll.h"

#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"

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

// The one loop of a graph that must come back from its loop as it was.
LoopAttr only_loop(const Graph& graph) {
  Graph rolled = roll(graph);
  EXPECT_TRUE(verify(rolled).ok()) << verify(rolled).error().message;
  EXPECT_EQ(graph_hash(unroll(rolled)), graph_hash(graph));
  EXPECT_EQ(roll(graph), rolled) << "rolling must be deterministic";
  EXPECT_EQ(loops(rolled).size(), 1u) << print(rolled);
  return loops(rolled).empty() ? LoopAttr{} : attr<LoopAttr>(*loops(rolled)[0]);
}

NodeId dense(GraphBuilder& b, NodeId x, NodeId weight) {
  return b.matmul(x, b.permute(weight, {1, 0}));
}

// An LSTM, written out: every step needs the hidden state and the cell of the one before.
Graph recurrent(int steps, bool return_cells) {
  GraphBuilder b;
  NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {64, 16}, "w");
  NodeId u = b.input(InputKind::kWeight, DType::kFloat32, {64, 16}, "u");
  NodeId h = b.input(InputKind::kUser, DType::kFloat32, {3, 16}, "h");
  NodeId c = b.input(InputKind::kUser, DType::kFloat32, {3, 16}, "c");
  NodeId xs = b.input(InputKind::kUser, DType::kFloat32, {steps, 3, 16}, "x");
  for (int t = 0; t < steps; ++t) {
    NodeId x = b.squeeze(b.slice(xs, 0, Expr(t), Expr(1)), 0);
    NodeId gates = b.binary(BinaryOp::kAdd, dense(b, x, w), dense(b, h, u));
    auto gate = [&](int k, UnaryOp op) {
      return b.unary(op, b.slice(gates, 1, Expr(16 * k), Expr(16)));
    };
    NodeId kept = b.binary(BinaryOp::kMul, gate(0, UnaryOp::kSigmoid), c);
    NodeId added = b.binary(BinaryOp::kMul, gate(1, UnaryOp::kSigmoid), gate(2, UnaryOp::kTanh));
    c = b.binary(BinaryOp::kAdd, kept, added);
    h = b.binary(BinaryOp::kMul, gate(3, UnaryOp::kSigmoid), b.unary(UnaryOp::kTanh, c));
    b.output(return_cells ? c : h);
  }
  return b.finish();
}

TEST(Roll, CarriesSeveralValues) {
  LoopAttr loop = only_loop(recurrent(8, false));
  EXPECT_EQ(loop.trip_count, 8);
  EXPECT_EQ(loop.carried, 2);
  EXPECT_EQ(loop.outputs, 1);
  // The last step's hidden state is not needed here, so that the cell's last step stands alone.
  EXPECT_GE(only_loop(recurrent(8, true)).trip_count, 7);
}

// Two streams that read each other's value of the block before: seen from the end of either, the
// other is one block late, so that a block reads of the one before the last, too.
TEST(Roll, CarriesValuesThroughABlock) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {3, 16}, "x");
  NodeId y = b.input(InputKind::kUser, DType::kFloat32, {3, 16}, "y");
  for (int t = 0; t < 8; ++t) {
    NodeId v = b.input(InputKind::kWeight, DType::kFloat32, {16, 16}, "v");
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {16, 16}, "w");
    NodeId next = b.binary(BinaryOp::kAdd, x, b.unary(UnaryOp::kTanh, dense(b, y, v)));
    y = b.binary(BinaryOp::kMul, y, b.unary(UnaryOp::kSin, dense(b, x, w)));
    x = next;
  }
  b.output(x);
  LoopAttr loop = only_loop(b.finish());
  EXPECT_GE(loop.trip_count, 6);
  EXPECT_EQ(loop.carried, 3);
}

// A mask that positions make is computed where it is added: a kernel that only reads it cannot
// leave out what it hides. What data says stays an operand.
TEST(Roll, CopiesMasksOfPositionsIntoTheBody) {
  for (bool is_data : {false, true}) {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {8, 8}, "x");
    NodeId at = b.iota(DType::kInt64, 8);
    NodeId rows = is_data ? b.input(InputKind::kUser, DType::kInt64, {8}, "rows") : at;
    NodeId row = b.expand(b.reshape(rows, {8, 1}), {8, 8});
    NodeId key = b.expand(b.reshape(at, {1, 8}), {8, 8});
    NodeId seen = b.binary(BinaryOp::kAnd, b.binary(BinaryOp::kLessEqual, key, row),
                           b.binary(BinaryOp::kLess, b.binary(BinaryOp::kSub, row, key),
                                    b.full_int(DType::kInt64, {8, 8}, 3)));
    NodeId mask =
        b.cast(b.select(seen, b.scalar(DType::kBfloat16, 0), b.scalar(DType::kBfloat16, -3e38)),
               DType::kFloat32);
    for (int l = 0; l < 6; ++l) {
      NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {8, 8}, "w");
      x = b.binary(BinaryOp::kAdd, b.unary(UnaryOp::kTanh, dense(b, x, w)), mask);
    }
    b.output(x);
    LoopAttr loop = only_loop(b.finish());
    EXPECT_EQ(loop.trip_count, 6);
    EXPECT_EQ(loop.invariant, is_data ? 1 : 0) << print(*loop.body);
  }
}

// Five layers of one kind, one of another, three times over and four more, as in Gemma.
TEST(Roll, NestsPatternsFromTheirStart) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "x");
  for (int l = 0; l < 22; ++l) {
    bool full = l % 6 == 5;
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {full ? 32 : 16, 16}, "w");
    NodeId y = b.unary(UnaryOp::kTanh, b.binary(BinaryOp::kMul, dense(b, x, w),
                                                b.scalar(DType::kFloat32, full ? 0.5 : 0.25)));
    if (full) y = b.slice(b.unary(UnaryOp::kErf, y), 1, Expr(8), Expr(16));
    x = b.binary(BinaryOp::kAdd, x, y);
  }
  b.output(x);
  Graph graph = b.finish();
  Graph rolled = roll(graph);
  ASSERT_TRUE(verify(rolled).ok()) << verify(rolled).error().message;
  EXPECT_EQ(graph_hash(unroll(rolled)), graph_hash(graph));
  ASSERT_EQ(loops(rolled).size(), 2u) << print(rolled);
  const auto& outer = attr<LoopAttr>(*loops(rolled)[0]);
  EXPECT_EQ(outer.trip_count, 3);
  ASSERT_EQ(loops(*outer.body).size(), 1u) << print(rolled);
  EXPECT_EQ(attr<LoopAttr>(*loops(*outer.body)[0]).trip_count, 5);
  EXPECT_EQ(attr<LoopAttr>(*loops(rolled)[1]).trip_count, 4);
}

// Layers that differ only in which of two computed masks they read are one loop.
TEST(Roll, TakesAlternatingValuesAsOperands) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "x");
  NodeId g = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "g");
  NodeId masks[] = {b.unary(UnaryOp::kSigmoid, g),
                    b.unary(UnaryOp::kAbs, b.unary(UnaryOp::kSin, g))};
  for (int l = 0; l < 14; ++l) {
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {16, 16}, "w");
    NodeId y = b.binary(BinaryOp::kMul, b.unary(UnaryOp::kTanh, dense(b, x, w)), masks[l % 6 == 5]);
    x = b.binary(BinaryOp::kAdd, x, y);
  }
  b.output(x);
  LoopAttr loop = only_loop(b.finish());
  EXPECT_EQ(loop.trip_count, 14);
  EXPECT_EQ(loop.per_iteration, 2);
  EXPECT_TRUE(loops(*loop.body).empty());
}

// The last layer reads another mask than the others, made by the same operation: no block makes it.
TEST(Roll, ComputesWhatSomeBlocksShareOutsideTheLoop) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "x");
  NodeId masks[] = {
      b.unary(UnaryOp::kSigmoid, b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "g")),
      b.unary(UnaryOp::kSigmoid, b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "h"))};
  for (int l = 0; l < 14; ++l) {
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {16, 16}, "w");
    NodeId y = b.binary(BinaryOp::kMul, b.unary(UnaryOp::kTanh, dense(b, x, w)), masks[l == 13]);
    x = b.binary(BinaryOp::kAdd, x, y);
  }
  b.output(x);
  LoopAttr loop = only_loop(b.finish());
  EXPECT_EQ(loop.trip_count, 14);
  for (const Node& node : loop.body->nodes) {
    bool is_mask = node.op == Op::kUnary && attr<UnaryAttr>(node).op == UnaryOp::kSigmoid;
    EXPECT_FALSE(is_mask) << print(*loop.body);
  }
}

// What the blocks' inputs hide of a size, an input that stands before their own shows.
TEST(Roll, ShowsBlocksTheSizesThatTheyNeed) {
  GraphBuilder b({{2, 64}});
  Expr rows = Expr::symbol(0);
  NodeId h = b.reshape(b.input(InputKind::kUser, DType::kFloat32, {rows, 4}, "x"), {4 * rows});
  for (int l = 0; l < 6; ++l) {
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {4}, "w");
    NodeId table = b.binary(BinaryOp::kMul, b.reshape(h, {rows, 4}), w);
    h = b.unary(UnaryOp::kTanh, b.reshape(table, {4 * rows}));
  }
  b.output(h);
  LoopAttr loop = only_loop(b.finish());
  EXPECT_GE(loop.trip_count, 5);
  EXPECT_TRUE(hidden_symbols(*loop.body).empty()) << print(*loop.body);
}

// What the first layer makes of its own state, and every layer reads (a cache position).
TEST(Roll, ComputesSharedValuesOfABlockAheadOfTheLoop) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "x");
  std::vector<NodeId> states, weights;
  for (int l = 0; l < 6; ++l) {
    states.push_back(b.input(InputKind::kState, DType::kFloat32, {5, 1}, "position"));
    weights.push_back(b.input(InputKind::kWeight, DType::kFloat32, {16, 16}, "w"));
  }
  NodeId mask = -1;
  for (size_t l = 0; l < 6; ++l) {
    NodeId next = b.binary(BinaryOp::kAdd, states[l], b.scalar(DType::kFloat32, 1));
    b.mutate(1 + 2 * static_cast<int>(l), next);
    if (l == 0) mask = b.unary(UnaryOp::kExp, next);
    NodeId y = b.binary(BinaryOp::kMul, b.unary(UnaryOp::kTanh, dense(b, x, weights[l])), mask);
    x = b.binary(BinaryOp::kAdd, x, b.binary(BinaryOp::kMul, y, next));
  }
  b.output(x);
  EXPECT_EQ(only_loop(b.finish()).trip_count, 6);
}

// A recurrent layer whose first state is 0: its steps from the second on are alike from one product
// to the next, and from one sum to the next.
Graph recurrent(int64_t batch, int64_t width, int steps) {
  GraphBuilder b;
  NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {width, width}, "w");
  std::vector<NodeId> x;
  for (int step = 0; step < steps; ++step) {
    x.push_back(b.input(InputKind::kUser, DType::kFloat32, {batch, width}, "x"));
  }
  const Shape products = {batch, width, width};
  NodeId weights = b.view(w, {products, {Expr::index(1), Expr::index(2)}, {}, 0});
  NodeId state = b.view(b.scalar(DType::kFloat32, 0.0), {products, {}, {}, 0});
  NodeId h = -1;
  for (NodeId input : x) {
    NodeId sum = b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, state, weights), {2});
    h = b.unary(UnaryOp::kTanh, b.binary(BinaryOp::kAdd, input, sum));
    state = b.view(h, {products, {Expr::index(0), Expr::index(2)}, {}, 0});
  }
  b.output(b.unary(UnaryOp::kExp, h));
  return b.finish();
}

TEST(Roll, CarriesSumsAndNotTheProductsThatTheyAreOf) {
  constexpr int64_t kBatch = 8, kWidth = 64;
  constexpr int kSteps = 12;
  Graph rolled = roll(recurrent(kBatch, kWidth, kSteps));
  ASSERT_EQ(loops(rolled).size(), 1u) << print(rolled);
  const auto& loop = attr<LoopAttr>(*loops(rolled)[0]);
  EXPECT_GE(loop.trip_count, kSteps - 2);
  for (int k = 0; k < loop.carried; ++k) {
    EXPECT_LE(element_count(loop.body->inputs[static_cast<size_t>(k)].shape).constant(),
              kBatch * kWidth)
        << print(rolled);
  }
}

// Residual blocks of a network, whose values may be rounded: each adds to the bound of the sum
// before.
Graph residual(int blocks, bool rounds = true) {
  GraphBuilder b;
  auto rounded = [&](NodeId x) {
    return rounds ? b.cast(b.cast(x, DType::kBfloat16), DType::kFloat32) : x;
  };
  auto weight = [&] { return b.input(InputKind::kWeight, DType::kFloat32, {16, 16}, "w"); };
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "x");
  NodeId sum = b.binary(BinaryOp::kAdd, b.unary(UnaryOp::kExp, x), dense(b, x, weight()));
  for (int k = 0; k < blocks; ++k) {
    NodeId y = rounded(b.binary(BinaryOp::kMax, rounded(sum), b.scalar(DType::kFloat32, 0)));
    sum = b.binary(BinaryOp::kAdd, y, rounded(dense(b, b.unary(UnaryOp::kTanh, y), weight())));
  }
  NodeId last = rounded(b.binary(BinaryOp::kMax, rounded(sum), b.scalar(DType::kFloat32, 0)));
  b.output(b.unary(UnaryOp::kSin, last));
  return b.finish();
}

// Fails when blocks end at the sums, which are stored in twice the bytes and rounded by each
// reader.
TEST(Roll, CarriesRoundedValues) {
  for (int blocks : {2, 3, 6}) {
    Graph graph = residual(blocks);
    Graph rolled = roll(graph);
    ASSERT_EQ(loops(rolled).size(), 1u) << print(rolled);
    const auto& loop = attr<LoopAttr>(*loops(rolled)[0]);
    EXPECT_EQ(loop.trip_count, blocks) << print(rolled);
    ASSERT_EQ(loop.carried, 1);
    EXPECT_EQ(loop.body->inputs[0].dtype, DType::kBfloat16) << print(rolled);
    // What is carried has been bounded: the block's first operation is not that.
    const Node& result = loop.body->node(loop.body->outputs[0].node);
    EXPECT_EQ(loop.body->node(result.operands[0]).op, Op::kBinary) << print(rolled);
    EXPECT_EQ(graph_hash(unroll(rolled)), graph_hash(graph));
  }
}

// Fails when blocks end at the sums, whose bound each block would compute by itself before all
// else.
TEST(Roll, CarriesBoundsAndNotTheSumsThatTheyAreOf) {
  for (int blocks : {3, 6}) {
    Graph graph = residual(blocks, false);
    Graph rolled = roll(graph);
    ASSERT_EQ(loops(rolled).size(), 1u) << print(rolled);
    const auto& loop = attr<LoopAttr>(*loops(rolled)[0]);
    ASSERT_EQ(loop.carried, 1);
    const Node& result = loop.body->node(loop.body->outputs[0].node);
    ASSERT_EQ(result.op, Op::kBinary) << print(rolled);
    EXPECT_EQ(attr<BinaryAttr>(result).op, BinaryOp::kMax) << print(rolled);
    EXPECT_EQ(graph_hash(unroll(rolled)), graph_hash(graph));
  }
}

// No cut carries less than another.
TEST(Roll, EndsWhereNothingIsCarriedAtAll) {
  EXPECT_EQ(loops(roll(recurrent(0, 64, 12))).size(), 1u);
}

// Fails when a concatenation becomes a loop, whose blocks store each piece in the size of the
// whole and copy the whole.
TEST(Roll, LeavesConcatenationsAlone) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 8}, "x");
  std::vector<NodeId> pieces;
  for (int k = 0; k < 6; ++k) {
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {8, 8}, "w");
    pieces.push_back(b.unary(UnaryOp::kTanh, dense(b, x, w)));
  }
  b.output(b.concat(pieces, 1));
  Graph graph = b.finish();
  EXPECT_EQ(roll(graph), graph);
}

// Fails when a loop stores the windows of its last value for convolutions that follow it: in their
// own size, nine times the value's.
TEST(Roll, LeavesWindowsToThoseThatReadThem) {
  GraphBuilder b;
  const Shape windows = {4, 6, 6, 4, 3, 3};
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {4, 6, 6}, "x");
  auto windows_of = [&](NodeId image) {
    const Expr row = Expr::index(1) + Expr::index(4) + Expr(-1);
    const Expr column = Expr::index(2) + Expr::index(5) + Expr(-1);
    return b.view(image,
                  {windows, {Expr::index(3), row, column}, {{row, Expr(6)}, {column, Expr(6)}}, 0});
  };
  auto convolved = [&](NodeId image) {
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {4, 4, 3, 3}, "w");
    NodeId kernel = b.view(
        w, {windows, {Expr::index(0), Expr::index(3), Expr::index(4), Expr::index(5)}, {}, 0});
    return b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, image, kernel), {3, 4, 5});
  };
  for (int layer = 0; layer < 3; ++layer) {
    x = b.unary(UnaryOp::kTanh, convolved(windows_of(x)));
  }
  NodeId last = windows_of(x);
  b.output(b.unary(UnaryOp::kExp, convolved(last)));
  b.output(b.unary(UnaryOp::kSin, convolved(last)));
  const LoopAttr loop = only_loop(b.finish());
  for (const GraphOutput& output : loop.body->outputs) {
    EXPECT_EQ(loop.body->node(output.node).shape, (Shape{4, 6, 6})) << print(*loop.body);
  }
}

// What is chosen by data may be any part of the whole: blocks that choose so are layers.
TEST(Roll, FoldsChoicesByData) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "x");
  NodeId expert = b.input(InputKind::kUser, DType::kInt64, {5, 1}, "expert");
  NodeId result = b.unary(UnaryOp::kSigmoid, x);
  for (int k = 0; k < 4; ++k) {
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {16, 16}, "w");
    NodeId number = b.input(InputKind::kWeight, DType::kInt64, {1, 1}, "number");
    NodeId is_asked = b.binary(BinaryOp::kEqual, expert, number);
    result = b.select(is_asked, b.unary(UnaryOp::kTanh, dense(b, x, w)), result);
  }
  b.output(result);
  Graph graph = b.finish();
  Graph rolled = roll(graph);
  ASSERT_EQ(loops(rolled).size(), 1u) << print(rolled);
  EXPECT_EQ(attr<LoopAttr>(*loops(rolled)[0]).trip_count, 4);
  EXPECT_EQ(graph_hash(unroll(rolled)), graph_hash(graph));
}

TEST(Roll, LeavesBlocksAloneThatOnlyLookAlike) {
  // Every layer differs in one operation, or in its width.
  constexpr UnaryOp kOps[] = {UnaryOp::kTanh, UnaryOp::kErf, UnaryOp::kSin, UnaryOp::kCos};
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "x");
  NodeId z = b.input(InputKind::kUser, DType::kFloat32, {5, 16}, "z");
  for (int l = 0; l < 4; ++l) {
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {16, 16}, "w");
    NodeId v = b.input(InputKind::kWeight, DType::kFloat32, {17 + l, 16 + l}, "v");
    x = b.binary(BinaryOp::kAdd, x, b.unary(kOps[l], dense(b, x, w)));
    z = b.unary(UnaryOp::kTanh, dense(b, z, v));
  }
  b.output(x);
  b.output(z);
  Graph graph = b.finish();
  EXPECT_EQ(roll(graph), graph);
}

}  // namespace
}  // namespace common
