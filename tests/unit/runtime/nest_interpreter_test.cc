// If these fail, what executes nests computes something else than their bodies say, or does not see
// that loops leave elements out.
#include "common/runtime/interpreter/nest_interpreter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/ir/hlir/builder.h"
#include "common/ir/nest/transformations.h"

namespace common {
namespace {

constexpr int64_t kRows = 21, kColumns = 50;

// tanh(x), and the sums of its rows.
Graph body() {
  GraphBuilder b;
  NodeId x =
      b.unary(UnaryOp::kTanh, b.input(InputKind::kUser, DType::kFloat32, {kRows, kColumns}, ""));
  b.output(x);
  b.output(b.reduce(ReduceOp::kSum, x, {1}));
  return b.finish();
}

// Both outputs share the rows' loop.
LoopNest plain_nest() {
  LoopNest nest;
  nest.shared = plain_band({kRows});
  nest.groups = {{plain_band({kColumns}), {}}, {{}, {}}};
  nest.grid = 1;
  return nest;
}

HostTensor numbers() {
  HostTensor x = HostTensor::zeros(DType::kFloat32, {kRows, kColumns}).value();
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i % 13 - 6) / 5);
  return x;
}

void expect_equal(const LoopNest& nest) {
  const Graph graph = body();
  ASSERT_TRUE(verify(nest, graph).ok()) << verify(nest, graph).error().message;
  const std::vector<HostTensor> inputs = {numbers()};
  auto expected = interpret(graph, inputs, {});
  auto got = interpret_nest(graph, nest, inputs, {});
  ASSERT_TRUE(got.ok()) << got.error().message << "\n" << print(nest);
  ASSERT_EQ(got->size(), expected->size());
  for (size_t k = 0; k < got->size(); ++k) {
    ASSERT_EQ((*got)[k].sizes(), (*expected)[k].sizes());
    for (int64_t i = 0; i < (*got)[k].elements(); ++i) {
      ASSERT_NEAR((*got)[k].get(i), (*expected)[k].get(i), 1e-5) << print(nest);
    }
  }
}

TEST(NestInterpreter, LoopsInAnyOrderComputeTheBody) {
  LoopNest nest = plain_nest();
  expect_equal(nest);
  nest.groups[0].own = *split_loop(nest.groups[0].own, 0, Expr(5));
  expect_equal(nest);
  nest.groups[0].own = *reorder_loops(nest.groups[0].own, {1, 0});
  expect_equal(nest);
}

// Blocks of 16 columns end beyond the last, and threads have unequal shares of a sum.
TEST(NestInterpreter, StepsBeyondTheEndComputeNothing) {
  LoopNest nest = plain_nest();
  nest.groups[0].accumulators = AccumulatorBlock{0, 16};
  expect_equal(nest);
  for (int64_t threads : {2, 32, 64}) {
    nest = plain_nest();
    nest.threads.threads = threads;
    nest.threads.access = 4;
    expect_equal(nest);
    nest.threads.blocks = threads == 64 ? 3 : 1;
    expect_equal(nest);
  }
}

TEST(NestInterpreter, SquaresAndRowsAtOnceCoverTheirEnds) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {kRows, kColumns}, "");
  b.output(b.permute(x, {1, 0}));
  const Graph transpose = b.finish();
  LoopNest nest;
  nest.shared = plain_band({kColumns, kRows});
  nest.groups.resize(1);
  const std::vector<HostTensor> inputs = {numbers()};
  const HostTensor expected = interpret(transpose, inputs, {}).value()[0].clone().value();
  auto check = [&] {
    ASSERT_TRUE(verify(nest, transpose).ok()) << verify(nest, transpose).error().message;
    auto got = interpret_nest(transpose, nest, inputs, {});
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_TRUE(std::ranges::equal((*got)[0].bytes(), expected.bytes())) << print(nest);
  };
  nest.transposed = true;
  check();
  nest.transposed = false;
  nest.grid = 2;
  nest.threads.threads = 32;
  nest.threads.rows = 4;
  check();
}

// verify() would refuse these: the interpreter sees it by itself.
TEST(NestInterpreter, ElementsLeftOutOrVisitedTwiceAreSeen) {
  const std::vector<HostTensor> inputs = {numbers()};
  LoopNest nest = plain_nest();
  nest.groups[0].own.extents[0] = Expr(kColumns - 1);
  auto left_out = interpret_nest(body(), nest, inputs, {});
  ASSERT_FALSE(left_out.ok());
  EXPECT_EQ(left_out.error().code, Code::kInvalidInput);
  EXPECT_NE(left_out.error().message.find("1029 of 1050"), std::string::npos)
      << left_out.error().message;
  nest = plain_nest();
  nest.groups[0].own.position[0] = floor_div(Expr::index(0), Expr(2));
  auto twice = interpret_nest(body(), nest, inputs, {});
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.error().message.find("twice"), std::string::npos) << twice.error().message;
}

}  // namespace
}  // namespace common
