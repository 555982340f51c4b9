// Comparisons of positions that are decided before a search. If these fail, exported models store
// masks that hide nothing, or a mask that hides something is dropped.
#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/runtime/interpreter/interpreter.h"
#include "coordinator/search/partition/rewrites/known_comparisons.h"
#include "tests/unit/ir/models.h"

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
using common::ScanOp;
using common::Shape;

int64_t count(const Graph& graph, Op op) {
  return std::ranges::count_if(graph.nodes, [&](const common::Node& n) { return n.op == op; });
}

// What models with packed sequences compare: of each row and key, whether they are of one sequence,
// where a sequence ends wherever positions do not follow each other.
struct Packed {
  GraphBuilder b{{{2, 4096}}};
  Expr size = Expr::symbol(0);

  Graph build(NodeId positions, int64_t step = 1) {
    NodeId one = b.scalar_int(DType::kInt64, step);
    NodeId before = b.binary(BinaryOp::kSub, b.slice(positions, 1, 0, 1), one);
    NodeId former = b.slice(b.concat({before, positions}, 1), 1, 0, size);
    NodeId ends = b.binary(BinaryOp::kNotEqual, b.binary(BinaryOp::kSub, positions, former), one);
    NodeId number = b.scan(ScanOp::kSum, b.cast(ends, DType::kInt64), 1);
    NodeId row = b.unsqueeze(
        b.gather(number, {b.iota(DType::kInt64, size)}, {size}, {{-1, Expr(0)}, {0, Expr()}}), 1);
    NodeId key = b.reshape(number, {1, size});
    NodeId same =
        b.binary(BinaryOp::kEqual, b.expand(row, {size, size}), b.expand(key, {size, size}));
    NodeId at = b.iota(DType::kInt64, size);
    NodeId seen =
        b.binary(BinaryOp::kLessEqual, b.reshape(at, {1, size}), b.reshape(at, {size, 1}));
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {size, size}, "x");
    b.output(b.select(b.binary(BinaryOp::kAnd, seen, same), x, b.scalar(DType::kFloat32, -1)));
    return b.finish();
  }
};

void expect_equal(const Graph& graph, const Graph& decided, const std::vector<HostTensor>& inputs) {
  auto expected = common::interpret(graph, inputs, {}),
       got = common::interpret(decided, inputs, {});
  ASSERT_TRUE(expected.ok() && got.ok());
  for (int64_t i = 0; i < (*expected)[0].elements(); ++i) {
    ASSERT_EQ((*expected)[0].get(i), (*got)[0].get(i)) << i;
  }
}

HostTensor numbers(DType dtype, std::vector<int64_t> sizes, int64_t step) {
  HostTensor x = HostTensor::zeros(dtype, std::move(sizes)).value();
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i * step));
  return x;
}

TEST(KnownComparisons, CountedPositionsAreOneSequence) {
  Packed p;
  NodeId positions = p.b.reshape(p.b.iota(DType::kInt64, p.size), {1, p.size});
  Graph graph = p.build(positions);
  Graph decided = decide_comparisons(graph);
  ASSERT_TRUE(common::verify(decided).ok());
  EXPECT_EQ(count(decided, Op::kScan), 0) << print(decided);
  EXPECT_EQ(count(decided, Op::kGather), 0) << print(decided);
  EXPECT_EQ(decided.inputs.size(), graph.inputs.size());
  for (int64_t n : {2, 3, 17}) {
    expect_equal(graph, decided, {numbers(DType::kFloat32, {n, n}, 1)});
  }
}

// Fails when a mask of data is decided, or one that positions make hide something.
TEST(KnownComparisons, WhatHidesSomethingStays) {
  Packed given;
  NodeId positions = given.b.input(InputKind::kUser, DType::kInt64, {1, given.size}, "positions");
  Graph graph = given.build(positions);
  EXPECT_EQ(print(decide_comparisons(graph)), print(graph));
  // Every position ends a sequence: what follows another is 2 more.
  Packed twice;
  NodeId at = twice.b.reshape(twice.b.iota(DType::kInt64, twice.size), {1, twice.size});
  graph = twice.build(twice.b.binary(BinaryOp::kAdd, at, at));
  Graph decided = decide_comparisons(graph);
  EXPECT_EQ(count(decided, Op::kScan), 1) << print(decided);
  expect_equal(graph, decided, {numbers(DType::kFloat32, {9, 9}, 1)});
}

// Fails at the ends of ranges: what holds for all elements but one is not decided.
TEST(KnownComparisons, EveryElementCounts) {
  struct Case {
    BinaryOp op;
    int64_t bound;
    bool is_known;
  };
  for (const Case& c : {Case{BinaryOp::kLess, 8, true},
                        {BinaryOp::kLess, 7, false},
                        {BinaryOp::kLess, 0, true},
                        {BinaryOp::kLess, 1, false},
                        {BinaryOp::kLessEqual, 7, true},
                        {BinaryOp::kLessEqual, 6, false},
                        {BinaryOp::kLessEqual, -1, true},
                        {BinaryOp::kLessEqual, 0, false},
                        {BinaryOp::kEqual, 8, true},
                        {BinaryOp::kEqual, 7, false},
                        {BinaryOp::kNotEqual, -1, true},
                        {BinaryOp::kNotEqual, 0, false}}) {
    GraphBuilder b;
    NodeId at = b.iota(DType::kInt64, 8);
    b.output(b.binary(c.op, at, b.full_int(DType::kInt64, {8}, c.bound)));
    Graph graph = b.finish();
    Graph decided = decide_comparisons(graph);
    EXPECT_EQ(count(decided, Op::kBinary), c.is_known ? 0 : 1) << print(graph);
    expect_equal(graph, decided, {});
  }
}

}  // namespace
}  // namespace coordinator
