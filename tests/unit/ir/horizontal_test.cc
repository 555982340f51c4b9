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

TEST(Horizontal, PartsAreTheOutputs) {
  Kernel kernel = two_parts();
  Kernel first = horizontal_part(kernel, 0), second = horizontal_part(kernel, 1);
  EXPECT_EQ(first.form, Template::kLoops);
  EXPECT_EQ(second.form, Template::kScatter);
  EXPECT_EQ(first.body.outputs.size(), 1U);
  EXPECT_EQ(first.body.inputs.size(), 3U) << "pointers keep their names";
  EXPECT_TRUE(can_be_part(first));
  EXPECT_FALSE(can_be_part(kernel));
}

TEST(Horizontal, NestsAreThoseOfAllPartsOrNone) {
  Kernel kernel = two_parts();
  EXPECT_TRUE(verify_horizontal(kernel).ok());
  LoopNest nest = plain_loops(horizontal_part(kernel, 0).body);
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
  LoopNest updates = plain_loops(horizontal_part(kernel, 1).body);
  kernel.part_nests = {nest, updates};
  EXPECT_TRUE(verify_horizontal(kernel).ok()) << verify_horizontal(kernel).error().message;
  Kernel reader = two_parts(true);
  reader.part_nests = kernel.part_nests;
  EXPECT_FALSE(verify_horizontal(reader).ok()) << "loops find no base that others read";
  nest.threads = {64, 1, 2, 1};
  kernel.part_nests = {nest, LoopNest()};
  EXPECT_FALSE(verify_horizontal(kernel).ok()) << "blocks share a sum";
  Kernel loops = horizontal_part(kernel, 0);
  loops.part_nests = kernel.part_nests;
  EXPECT_FALSE(verify_horizontal(loops).ok()) << "loops have no parts";
}

}  // namespace
}  // namespace common
