// Code of the kLoops template against the reference interpreter.
#include "codegen_testing.h"

namespace testing_codegen {
namespace {

NodeId input(GraphBuilder& b, DType dtype, Shape shape) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "x");
}

TEST(CodegenLoops, ElementwiseWithBroadcast) {
  Random random(1);
  KernelBatch batch;
  GraphBuilder b;
  NodeId x = input(b, DType::kFloat32, {3, 5, 37});
  NodeId y = input(b, DType::kFloat32, {37});
  b.output(b.unary(UnaryOp::kTanh, b.binary(BinaryOp::kAdd, x, y)));
  batch.add(Template::kLoops, {}, b.finish(),
            {random_tensor(random, DType::kFloat32, {3, 5, 37}),
             random_tensor(random, DType::kFloat32, {37})});
  batch.compile();
  batch.check(0);
  batch.check(0, 2e-6, 3);
}

TEST(CodegenLoops, SoftmaxAndNorms) {
  Random random(2);
  KernelBatch batch;
  for (bool log : {false, true}) {
    for (int axis : {0, 1, 2}) {
      GraphBuilder b;
      NodeId x = input(b, DType::kFloat32, {4, 9, 33});
      b.output(b.raw({Op::kSoftmax, DType::kFloat32, b.shape(x), {x}, SoftmaxAttr{axis, log}}));
      batch.add(Template::kLoops, {}, b.finish(),
                {random_tensor(random, DType::kFloat32, {4, 9, 33}, -20, 20)});
    }
  }
  for (bool centred : {false, true}) {
    for (int axes : {1, 2}) {
      GraphBuilder b;
      NodeId x = input(b, DType::kFloat32, {4, 9, 33});
      b.output(b.raw({Op::kNorm, DType::kFloat32, b.shape(x), {x}, NormAttr{axes, centred, 1e-5}}));
      batch.add(Template::kLoops, {}, b.finish(),
                {random_tensor(random, DType::kFloat32, {4, 9, 33}, 99, 101)});
    }
  }
  batch.compile();
  batch.check_all();
}

}  // namespace
}  // namespace testing_codegen
