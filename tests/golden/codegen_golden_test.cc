// The C text of small kernels, compared with files.
#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "tests/golden/golden.h"
#include "worker/codegen/c/cpu_c.h"

namespace {

using namespace common;  // NOLINT: a test's own vocabulary

NodeId input(GraphBuilder& b, DType dtype, Shape shape) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "");
}

void compare(const std::string& name, Template form, const Graph& body) {
  Kernel kernel{form, {}, canonical(body), {}};
  ASSERT_TRUE(add_nest(kernel, Machine::kCpu).ok());
  auto source = worker::CpuCodeGenerator().generate(kernel);
  ASSERT_TRUE(source.ok()) << source.error().message;
  std::string text = "// units " + source->entry.units.text() + ", scratch " +
                     source->entry.scratch_bytes.text() + "\n" + source->text;
  golden::compare(text, "tests/golden/codegen_" + name + ".c");
}

TEST(CodegenGolden, Gelu) {
  GraphBuilder b({{1, 4096}});
  NodeId x = input(b, DType::kFloat32, {Expr::symbol(0), 768});
  NodeId bias = input(b, DType::kFloat32, {768});
  NodeId y = b.binary(BinaryOp::kAdd, x, bias);
  NodeId e =
      b.unary(UnaryOp::kErf, b.binary(BinaryOp::kMul, y, b.scalar(DType::kFloat32, 0.70710678)));
  NodeId half = b.binary(BinaryOp::kMul, y, b.scalar(DType::kFloat32, 0.5));
  b.output(
      b.binary(BinaryOp::kMul, half, b.binary(BinaryOp::kAdd, e, b.scalar(DType::kFloat32, 1))));
  compare("gelu", Template::kLoops, b.finish());
}

TEST(CodegenGolden, Softmax) {
  GraphBuilder b;
  NodeId x = input(b, DType::kBfloat16, {12, 128, 128});
  NodeId wide = b.cast(x, DType::kFloat32);
  NodeId y = b.raw({Op::kSoftmax, DType::kFloat32, b.shape(wide), {wide}, SoftmaxAttr{2, false}});
  b.output(b.cast(y, DType::kBfloat16));
  compare("softmax", Template::kLoops, b.finish());
}

TEST(CodegenGolden, ColumnSums) {
  GraphBuilder b;
  NodeId x = input(b, DType::kFloat32, {1000, 3000});
  b.output(b.reduce(ReduceOp::kSum, x, {0}));
  compare("column_sums", Template::kLoops, b.finish());
}

TEST(CodegenGolden, LinearWithBias) {
  GraphBuilder b;
  NodeId x = input(b, DType::kFloat32, {64, 256});
  NodeId w = input(b, DType::kFloat32, {128, 256});
  NodeId bias = input(b, DType::kFloat32, {128});
  NodeId y = b.raw(
      {Op::kContract, DType::kFloat32, {64, 128}, {x, w}, ContractAttr{{0, 2}, {1, 2}, {0, 1}}});
  b.output(b.binary(BinaryOp::kAdd, y, bias));
  compare("linear", Template::kTile, b.finish());
}

}  // namespace
