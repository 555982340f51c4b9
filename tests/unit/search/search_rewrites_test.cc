// Rewrites of a whole graph before it is cut: gathers at known positions and axes that views merge
// out of order. If these fail, upsampling reads tables, norms of groups copy images, or a model
// computes something else.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/clock.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/runtime/interpreter/interpreter.h"
#include "coordinator/search/partition/rewrites/known_gathers.h"
#include "coordinator/search/partition/rewrites/needed_positions.h"
#include "coordinator/search/partition/rewrites/split_axes.h"
#include "coordinator/search/space/region_space.h"
#include "program_interpreter.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::Expr;
using common::Graph;
using common::GraphBuilder;
using common::HostTensor;
using common::InputKind;
using common::NodeId;
using common::Op;
using common::ReduceOp;
using common::Shape;
using common::UnaryOp;
using common::View;
using common::testing::largest_difference;
using common::testing::sample_inputs;

int64_t count(const Graph& graph, Op op) {
  return std::ranges::count_if(graph.nodes, [&](const common::Node& n) { return n.op == op; });
}

void expect_same_values(const Graph& graph, const Graph& rewritten, double tolerance) {
  ASSERT_TRUE(common::verify(rewritten).ok()) << common::print(rewritten);
  const std::vector<int64_t> symbols(graph.symbols.size(), 7);
  const std::vector<HostTensor> inputs = sample_inputs(graph, symbols, 5);
  auto expected = common::interpret(graph, inputs, {});
  auto got = common::interpret(rewritten, inputs, {});
  ASSERT_TRUE(expected.ok() && got.ok());
  EXPECT_LE(largest_difference(*got, *expected), tolerance) << common::print(rewritten);
}

// x[..., positions, ...] along the axis.
NodeId taken(GraphBuilder& b, NodeId x, int axis, NodeId positions) {
  Shape shape = b.shape(x);
  shape[static_cast<size_t>(axis)] = b.shape(positions)[0];
  View along{shape, {Expr::index(axis)}, {}, 0};
  std::vector<common::Coordinate> coordinates;
  for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
    coordinates.push_back(k == axis ? common::Coordinate{0, Expr()}
                                    : common::Coordinate{-1, Expr::index(k)});
  }
  return b.gather(x, {b.view(positions, along)}, shape, coordinates);
}

// floor(arange(count) * scale), as interpolation to the nearest element is exported.
NodeId nearest(GraphBuilder& b, int64_t count, double scale) {
  NodeId at = b.iota(DType::kFloat32, count);
  NodeId scaled = b.binary(BinaryOp::kMul, at, b.full(DType::kFloat32, {count}, scale));
  return b.cast(b.unary(UnaryOp::kFloor, scaled), DType::kInt64);
}

TEST(KnownGathers, AreTheExpressionsThatGiveTheirPositions) {
  const Expr at = Expr::index(1);
  auto text = [&](std::vector<int64_t> values) {
    auto found = expression_of(values, at);
    return found ? found->text() : std::string("none");
  };
  EXPECT_EQ(text({7}), "7");
  EXPECT_EQ(text({0, 1, 2, 3}), "i1");
  EXPECT_EQ(text({3, 2, 1, 0}), "-i1 + 3");
  EXPECT_EQ(text({0, 2, 4}), "2*i1");
  EXPECT_EQ(text({5, 5, 5}), "5");
  EXPECT_EQ(text({0, 0, 1, 1, 2, 2}), "(i1 // 2)");
  EXPECT_EQ(text({0, 1, 1, 2, 2}), "((i1 + 1) // 2)");
  EXPECT_EQ(text({0, 0, 1, 2, 2, 3}), "((2*i1) // 3)");
  EXPECT_EQ(text({0, 1, 0, 1, 5}), "none");
  EXPECT_EQ(text({0, 0, 0, 1, 3}), "none");
  EXPECT_EQ(text({0, 0, 1, 1, 2, 3}), "((3*i1) // 5)");
}

TEST(KnownGathers, UpsamplingIsAView) {
  struct Case {
    int64_t from, to;
  };
  for (const Case& c : {Case{8, 16}, {6, 9}, {8, 4}, {5, 5}}) {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {2, 3, c.from, c.from}, "x");
    double scale = static_cast<double>(c.from) / static_cast<double>(c.to);
    NodeId rows = taken(b, x, 2, nearest(b, c.to, scale));
    b.output(taken(b, rows, 3, nearest(b, c.to, scale)));
    Graph graph = b.finish();
    Graph rewritten = replace_known_gathers(graph);
    EXPECT_EQ(count(rewritten, Op::kGather), 0) << common::print(rewritten);
    EXPECT_LE(count(rewritten, Op::kView), 1) << common::print(rewritten);
    expect_same_values(graph, rewritten, 0);
  }
}

// Positions beyond the ends are the ends.
TEST(KnownGathers, PositionsAreClamped) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {4}, "x");
  NodeId last = b.binary(BinaryOp::kAdd, b.iota(DType::kInt64, 2),
                         b.full_int(DType::kInt64, {2}, 3));  // 3, 4
  b.output(taken(b, x, 0, last));
  Graph graph = b.finish();
  Graph rewritten = replace_known_gathers(graph);
  EXPECT_EQ(count(rewritten, Op::kGather), 0) << common::print(rewritten);
  expect_same_values(graph, rewritten, 0);
}

// Fails when a position of data is taken for known, or a list that no expression gives.
TEST(KnownGathers, OthersStay) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {6, 6}, "x");
  NodeId at = b.input(InputKind::kUser, DType::kInt64, {4}, "at");
  NodeId given = b.binary(BinaryOp::kMin, at, b.full_int(DType::kInt64, {4}, 5));
  NodeId count_of = b.iota(DType::kInt64, 4);
  NodeId squares = b.binary(BinaryOp::kMul, count_of, count_of);
  b.output(taken(b, taken(b, x, 0, given), 1, nearest(b, 12, 0.5)));
  b.output(taken(b, x, 1, squares));
  Graph graph = b.finish();
  Graph rewritten = replace_known_gathers(graph);
  EXPECT_EQ(count(rewritten, Op::kGather), 2) << common::print(rewritten);
  expect_same_values(graph, rewritten, 0);
}

// Two layers of norm, products and a residual sum over [t, d], as classifiers of one token are.
struct Tokens {
  GraphBuilder b{{{2, 64}}};
  const Expr t = Expr::symbol(0);

  NodeId weight(int64_t rows, int64_t columns) {
    return b.input(InputKind::kWeight, DType::kFloat32, {rows, columns}, "w");
  }
  NodeId product(NodeId x, NodeId w) {
    const common::Shape &left = b.shape(x), &right = b.shape(w);
    common::Shape all{left[0], right[1], left[1]};
    NodeId a = b.view(x, {all, {Expr::index(0), Expr::index(2)}, {}, 0});
    NodeId c = b.view(w, {all, {Expr::index(2), Expr::index(1)}, {}, 0});
    return b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, a, c), {2});
  }
  NodeId layer(NodeId x) {
    NodeId square = b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, x, x), {1});
    NodeId each = b.view(b.unary(UnaryOp::kRsqrt, square), {b.shape(x), {Expr::index(0)}, {}, 0});
    NodeId wide = product(b.binary(BinaryOp::kMul, x, each), weight(4, 8));
    return b.binary(BinaryOp::kAdd, x, product(b.unary(UnaryOp::kTanh, wide), weight(8, 4)));
  }
};

// Products of the second layer and of the words' are of one row, and those of the first one, whose
// rows are summed, of all.
TEST(NeededPositions, OneTokenIsComputedUpToWhereOthersAreRead) {
  Tokens m;
  NodeId x = m.b.input(InputKind::kUser, DType::kFloat32, {m.t, 4}, "x");
  NodeId first = m.layer(x);
  NodeId mean = m.b.reduce(ReduceOp::kSum, first, {0});
  NodeId mixed = m.b.binary(BinaryOp::kAdd, first,
                            m.b.view(mean, {m.b.shape(first), {Expr::index(1)}, {}, 0}));
  NodeId logits = m.product(m.layer(mixed), m.weight(4, 16));
  m.b.output(m.b.view(logits, {{16}, {m.t - 1, Expr::index(0)}, {}, 0}));
  Graph graph = m.b.finish();
  Graph rewritten = compute_needed_positions(graph);
  std::vector<std::string> rows;
  for (const common::Node& node : rewritten.nodes) {
    if (node.op == Op::kReduce && node.shape.size() == 2) rows.push_back(node.shape[0].text());
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"s0", "s0", "1", "1", "1"})) << print(rewritten);
  expect_same_values(graph, rewritten, 1e-6);
  EXPECT_EQ(compute_needed_positions(rewritten), rewritten);
}

// A value that is read at several positions, or along an axis that its operation needs whole.
TEST(NeededPositions, WhatIsReadElsewhereStays) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 3}, "x");
  auto row = [&](NodeId of, int64_t at) {
    return b.view(of, {{3}, {Expr(at), Expr::index(0)}, {}, 0});
  };
  NodeId several = b.unary(UnaryOp::kExp, x);
  b.output(b.binary(BinaryOp::kSub, row(several, 4), row(several, 1)));
  NodeId returned = b.unary(UnaryOp::kTanh, x);
  b.output(returned);
  b.output(row(returned, 2));
  b.output(row(b.scan(common::ScanOp::kSum, b.unary(UnaryOp::kSin, x), 0), 3));
  b.output(row(b.sort_indices(b.unary(UnaryOp::kCos, x), 0, true), 1));
  Graph graph = b.finish();
  EXPECT_EQ(compute_needed_positions(graph), graph);
}

// Position 0 of an axis without any is not read by what has no elements itself.
TEST(NeededPositions, OfNothingNothingIsRead) {
  for (int64_t least : {0, 1}) {
    GraphBuilder b{{{least, 8}}};
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {Expr::symbol(0), 3}, "x");
    View first{{Expr::symbol(0), 3}, {Expr(0), Expr::index(1)}, {}, 0};
    b.output(b.view(b.unary(UnaryOp::kExp, x), first));
    Graph graph = b.finish();
    EXPECT_EQ(compute_needed_positions(graph) == graph, least == 0);
  }
}

// Beside the axis of a scan, and what is read at positions that data gives.
TEST(NeededPositions, GathersAndScansAreNarrowed) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {5, 3}, "x");
  NodeId at = b.input(InputKind::kUser, DType::kInt64, {5, 3}, "at");
  NodeId table = b.unary(UnaryOp::kExp, x);
  NodeId sums = b.scan(common::ScanOp::kSum, b.unary(UnaryOp::kSin, x), 1);
  NodeId read = b.gather(table, {at}, {5, 3}, {{-1, Expr::index(0)}, {0, {}}});
  NodeId both = b.binary(BinaryOp::kAdd, read, sums);
  b.output(b.view(both, {{3}, {Expr(2), Expr::index(0)}, {}, 0}));
  Graph graph = b.finish();
  Graph rewritten = compute_needed_positions(graph);
  for (const common::Node& node : rewritten.nodes) {
    if (node.op == Op::kInput || node.op == Op::kView) continue;
    EXPECT_TRUE(node.shape[0].is_constant(1)) << print(rewritten);
  }
  expect_same_values(graph, rewritten, 0);
}

// A norm of groups of channels as the front end writes it, of an image whose channels are last.
struct GroupNorm {
  int64_t images = 1, rows = 6, channels = 12, groups = 4;
  bool scaled = true;

  int64_t places() const { return rows * rows; }
  int64_t members() const { return channels / groups * places(); }

  Graph build() const {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {images, rows, rows, channels}, "x");
    x = b.unary(UnaryOp::kTanh, x);
    auto i = [](int axis) { return Expr::index(axis); };
    const int64_t each = channels / groups;
    View merged{{images, groups, members()}, {}, {}, 0};
    merged.index = {i(0), common::mod(common::floor_div(i(2), rows), rows), common::mod(i(2), rows),
                    i(1) * each + common::floor_div(i(2), places())};
    NodeId wide = b.view(x, merged);
    auto mean = [&](NodeId of) {
      NodeId sum = b.reduce(ReduceOp::kSum, of, {2});
      auto size = static_cast<double>(members());
      sum = b.binary(BinaryOp::kDiv, sum, b.full(DType::kFloat32, {images, groups}, size));
      return sum;
    };
    auto spread = [&](NodeId value) {
      return b.view(value, View{merged.shape, {i(0), i(1)}, {}, 0});
    };
    NodeId centred = b.binary(BinaryOp::kSub, wide, spread(mean(wide)));
    NodeId variance = mean(b.binary(BinaryOp::kMul, centred, centred));
    NodeId epsilon = b.full(DType::kFloat32, {images, groups}, 1e-5);
    NodeId scale = b.unary(UnaryOp::kRsqrt, b.binary(BinaryOp::kAdd, variance, epsilon));
    NodeId normed = b.binary(BinaryOp::kMul, centred, spread(scale));
    View apart{{images, rows, rows, channels}, {}, {}, 0};
    apart.index = {i(0), common::floor_div(i(3), each),
                   i(1) * rows + i(2) + common::mod(i(3), each) * places()};
    NodeId y = b.view(normed, apart);
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {channels}, "w");
    if (scaled) y = b.binary(BinaryOp::kMul, y, b.expand(w, b.shape(y)));
    b.output(b.binary(BinaryOp::kMul, y, b.unary(UnaryOp::kSigmoid, y)));
    return b.finish();
  }
};

TEST(SplitAxes, GroupsOfChannelsKeepTheImagesOrder) {
  for (const GroupNorm& norm : {GroupNorm{}, GroupNorm{3}, GroupNorm{1, 5, 8, 2},
                                GroupNorm{2, 4, 6, 6}, GroupNorm{2, 4, 6, 1, false}}) {
    Graph graph = norm.build();
    Graph split = split_merged_axes(graph);
    for (const common::Node& node : split.nodes) {
      EXPECT_FALSE(std::ranges::any_of(node.shape, [&](const Expr& size) {
        return size == Expr(norm.members());
      })) << common::print(split);
    }
    expect_same_values(graph, split, 1e-5);
  }
}

// What is divided and rooted for each group is computed for each channel, side by side, and stored:
// five kernels, the last of which reads the image alone.
TEST(SplitAxes, ANormOfGroupsCopiesNoImage) {
  Graph graph = GroupNorm{}.build();
  common::SteadyClock clock;
  Graph split = split_merged_axes(graph);
  common::Program program = RegionSpace(split, clock).decode({}).program;
  int64_t images = 0;
  for (const common::Buffer& buffer : program.buffers) {
    images += buffer.kind == common::BufferKind::kTemporary &&
              common::element_count(buffer.shape) == Expr(GroupNorm{}.places() * 12);
  }
  EXPECT_LE(images, 1) << common::print(program);  // the tanh that it normalises
  const std::vector<HostTensor> inputs = sample_inputs(graph, {}, 5);
  auto expected = common::interpret(graph, inputs, {});
  ASSERT_TRUE(expected.ok());
  auto got = common::testing::interpret_program(program, inputs, {});
  ASSERT_TRUE(got.ok());
  EXPECT_LE(largest_difference(*got, *expected), 1e-5) << common::print(program);
}

// Fails when an axis that something else than arithmetic reads, or one that lies in order, is
// split.
TEST(SplitAxes, OthersStay) {
  auto i = [](int axis) { return Expr::index(axis); };
  for (bool is_sorted : {false, true}) {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {4, 5, 6}, "x");
    View view{{4, 30}, {i(0), common::floor_div(i(1), 6), common::mod(i(1), 6)}, {}, 0};
    if (is_sorted) view.index = {i(0), common::mod(i(1), 5), common::floor_div(i(1), 5)};
    NodeId merged = b.unary(UnaryOp::kTanh, b.view(x, view));
    if (is_sorted) merged = b.sort_indices(merged, 1, false);
    b.output(is_sorted ? merged : b.reduce(ReduceOp::kSum, merged, {1}));
    Graph graph = b.finish();
    EXPECT_EQ(common::print(split_merged_axes(graph)), common::print(graph));
  }
}

// Sums over either axis are added, so that both axes are of one class.
TEST(SplitAxes, AxesThatMustStayAlikeStayWhole) {
  auto i = [](int axis) { return Expr::index(axis); };
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {4, 4, 16}, "x");
  View view{{16, 16}, {common::mod(i(1), 4), common::floor_div(i(1), 4), i(0)}, {}, 0};
  NodeId merged = b.unary(UnaryOp::kTanh, b.view(x, view));
  NodeId sums = b.binary(BinaryOp::kAdd, b.reduce(ReduceOp::kSum, merged, {0}),
                         b.reduce(ReduceOp::kSum, merged, {1}));
  b.output(b.reduce(ReduceOp::kMax, sums, {0}));
  Graph graph = b.finish();
  Graph split = split_merged_axes(graph);
  EXPECT_EQ(common::print(split), common::print(graph));
  expect_same_values(graph, split, 1e-5);
}

}  // namespace
}  // namespace coordinator
