// What a horizontal kernel's parts are, and what is refused: a worker must never print one that
// leaves an output out.
#include "common/ir/llir/horizontal.h"

#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "common/ir/nest/transformations.h"

namespace common {
namespace {

// An exponential and a scatter, of whose base the exponential may be.
Kernel two_parts(bool reads_base = false) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {32}, "");
  NodeId base = b.input(InputKind::kUser, DType::kFloat32, {8, 4}, "");
  NodeId at = b.input(InputKind::kUser, DType::kInt64, {1}, "");
  b.output(b.unary(UnaryOp::kExp, reads_base ? b.reshape(base, {32}) : x));
  NodeId spread = b.view(at, View{{1, 4}, {Expr::index(0)}, {}, 0});
  NodeId row = b.view(x, View{{1, 4}, {Expr::index(1)}, {}, 0});
  b.output(b.scatter(ScatterMode::kAssign, base, row, {spread}, {{0, 0}, {-1, Expr::index(1)}}));
  return {Template::kHorizontal, {}, b.finish(), {}, {}};
}

Kernel part_of(const Kernel& kernel, size_t part) {
  return horizontal_part(kernel, horizontal_parts(kernel.body), part);
}

TEST(Horizontal, PartsAreTheOutputs) {
  Kernel kernel = two_parts();
  Kernel first = part_of(kernel, 0), second = part_of(kernel, 1);
  EXPECT_EQ(first.form, Template::kLoops);
  EXPECT_EQ(second.form, Template::kScatter);
  EXPECT_EQ(first.body.outputs.size(), 1U);
  EXPECT_EQ(first.body.inputs.size(), 3U) << "pointers keep their names";
  EXPECT_TRUE(can_be_part(first));
  EXPECT_FALSE(can_be_part(kernel));
}

// A momentum and the parameter that it changes share a sum. The rate, which all read, is no work;
// nor is a row's sum for what is computed of each of its elements.
TEST(Horizontal, OutputsThatShareWorkOfTheirShapeAreOnePart) {
  using Parts = std::vector<std::vector<size_t>>;
  GraphBuilder b;
  NodeId rate = b.expand(b.input(InputKind::kUser, DType::kFloat32, {1}, ""), {8});
  std::vector<NodeId> momenta, parameters;
  for (int k = 0; k < 2; ++k) {
    NodeId parameter = b.input(InputKind::kUser, DType::kFloat32, {8}, "");
    NodeId gradient = b.input(InputKind::kUser, DType::kFloat32, {8}, "");
    NodeId kept = b.input(InputKind::kUser, DType::kFloat32, {8}, "");
    momenta.push_back(b.binary(BinaryOp::kAdd, kept, gradient));
    NodeId change = b.binary(BinaryOp::kMul, momenta.back(), rate);
    parameters.push_back(b.binary(BinaryOp::kSub, parameter, change));
  }
  for (NodeId id : momenta) b.output(id);
  for (NodeId id : parameters) b.output(id);
  NodeId rows = b.input(InputKind::kUser, DType::kFloat32, {4, 8}, "");
  NodeId sum = b.reduce(ReduceOp::kSum, rows, {0});
  b.output(b.unary(UnaryOp::kExp, sum));
  b.output(b.binary(BinaryOp::kMul, rows, b.expand(b.reshape(sum, {1, 8}), {4, 8})));
  Graph graph = b.finish();
  EXPECT_EQ(horizontal_parts(graph), (Parts{{0, 2}, {1, 3}, {4}, {5}}));
  Kernel kernel{Template::kHorizontal, {}, graph, {}, {}};
  EXPECT_FALSE(can_be_part(kernel));
  EXPECT_EQ(part_of(kernel, 1).body.outputs.size(), 2U);
  Kernel update = part_of(kernel, 0);
  EXPECT_TRUE(can_be_part(update)) << "loops that write both";
}

TEST(Horizontal, NestsAreThoseOfAllPartsOrNone) {
  Kernel kernel = two_parts();
  EXPECT_TRUE(verify_horizontal(kernel).ok());
  LoopNest nest = plain_loops(part_of(kernel, 0).body);
  nest.grid = nest.shared.extents.size();
  kernel.part_nests = {nest, LoopNest()};
  EXPECT_TRUE(verify_horizontal(kernel).ok()) << verify_horizontal(kernel).error().message;
  EXPECT_NE(code_fingerprint(kernel), code_fingerprint(two_parts()));
  kernel.part_nests = {nest};
  EXPECT_FALSE(verify_horizontal(kernel).ok()) << "one is missing";
  kernel.part_nests = {LoopNest(), LoopNest()};
  EXPECT_FALSE(verify_horizontal(kernel).ok()) << "loops need one";
  kernel.part_nests = {nest, nest};
  EXPECT_FALSE(verify_horizontal(kernel).ok()) << "they are not alike";
  LoopNest updates = plain_loops(part_of(kernel, 1).body);
  kernel.part_nests = {nest, updates};
  EXPECT_TRUE(verify_horizontal(kernel).ok()) << verify_horizontal(kernel).error().message;
  Kernel reader = two_parts(true);
  reader.part_nests = kernel.part_nests;
  EXPECT_FALSE(verify_horizontal(reader).ok()) << "loops find no base that others read";
  nest.threads = {64, 1, 2, 1};
  kernel.part_nests = {nest, LoopNest()};
  EXPECT_FALSE(verify_horizontal(kernel).ok()) << "blocks share a sum";
  Kernel loops = part_of(kernel, 0);
  loops.part_nests = kernel.part_nests;
  EXPECT_FALSE(verify_horizontal(loops).ok()) << "loops have no parts";
}

}  // namespace
}  // namespace common
