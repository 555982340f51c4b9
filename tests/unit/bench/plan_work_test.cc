// What a plan's calls compute, as scorecards are told: if these fail, efficiency and parity are of
// other work than the kernels do.
#include "coordinator/service/inspect/plan_work.h"

#include <gtest/gtest.h>

#include "common/base/files.h"
#include "common/ir/hlir/builder.h"

namespace coordinator::service {
namespace {

using common::DType;
using common::Expr;
using common::Graph;
using common::GraphBuilder;
using common::InputKind;
using common::Kernel;
using common::Op;
using common::Program;
using common::Template;

// [rows, 8] x [8, 16], rows being the one symbol.
Kernel product(DType dtype, Template form) {
  GraphBuilder b;
  Expr rows = b.new_symbol({1, 64});
  auto x = b.input(InputKind::kUser, dtype, {rows, Expr(8)}, "x");
  auto w = b.input(InputKind::kUser, dtype, {Expr(8), Expr(16)}, "w");
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {rows, Expr(16)},
                  {x, w},
                  common::ContractAttr{{0, 1}, {1, 2}, {0, 2}}}));
  return {form, {}, b.finish()};
}

Kernel addition() {
  GraphBuilder b;
  auto x = b.input(InputKind::kUser, DType::kFloat32, {Expr(32)}, "x");
  b.output(b.binary(common::BinaryOp::kAdd, x, x));
  return {Template::kLoops, {}, b.finish()};
}

TEST(PlanWork, IsCountedCallByCallAtTheSizesGiven) {
  Program program;
  program.symbols = {{1, 64}};
  program.kernels = {product(DType::kFloat32, Template::kLoops), addition(),
                     product(DType::kBfloat16, Template::kTile)};
  program.calls = {{0, {}, {}, {Expr::symbol(0)}}, {1, {}, {}, {}}, {2, {}, {}, {Expr(2)}}};
  std::vector<CallWork> work = work_of(program, {4});
  ASSERT_EQ(work.size(), 3u);
  EXPECT_EQ(work[0].operation, "matmul");
  EXPECT_GE(work[0].operations, 2 * 4 * 8 * 16);
  EXPECT_LT(work[0].operations, 4 * 4 * 8 * 16);
  EXPECT_FALSE(work[0].is_half);
  EXPECT_EQ(work[0].kernel, common::kernel_fingerprint(program.kernels[0]));
  EXPECT_EQ(work[1].operation, "elementwise");
  EXPECT_GE(work[1].operations, 32);
  EXPECT_EQ(work[2].operation, "matmul");
  EXPECT_TRUE(work[2].is_half);
  // Twice the rows are twice the products.
  EXPECT_NEAR(work_of(program, {8})[0].operations, 2 * work[0].operations, 1e-6);
}

TEST(PlanWork, OfAPlanThatIsNotThereIsRefused) {
  auto scratch = common::ScratchDirectory::create("lfarm-work").value();
  auto store = cache::Store::open(scratch.path() + "/store").value();
  auto program = program_of_plan(*store, common::digest_of("nothing"));
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, common::Code::kInvalidInput);
}

}  // namespace
}  // namespace coordinator::service
