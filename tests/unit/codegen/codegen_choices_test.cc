// Choices by position, as concatenations make them, against the reference interpreter.
#include "codegen_testing.h"

namespace testing_codegen {
namespace {

NodeId input(GraphBuilder& b, Shape shape) {
  return b.input(InputKind::kUser, DType::kFloat32, std::move(shape), "x");
}

// Parts of 1, 2, 3, 1, 2, ... along `axis` of `shape`.
NodeId parts_along(GraphBuilder& b, Random& random, int count, int axis,
                   const std::vector<int64_t>& shape, std::vector<HostTensor>& inputs) {
  std::vector<NodeId> parts;
  for (int p = 0; p < count; ++p) {
    std::vector<int64_t> own = shape;
    own[static_cast<size_t>(axis)] = 1 + p % 3;
    parts.push_back(input(b, Shape(own.begin(), own.end())));
    inputs.push_back(random_tensor(random, DType::kFloat32, own));
  }
  return b.concat(parts, axis);
}

TEST(CodegenChoices, ConcatenationsAlongEveryAxis) {
  Random random(81);
  KernelBatch batch;
  for (int axis : {0, 1, 2}) {
    for (int count : {2, 5, 19}) {
      GraphBuilder b;
      std::vector<HostTensor> inputs;
      NodeId all = parts_along(b, random, count, axis, {3, 5, 37}, inputs);
      b.output(b.unary(UnaryOp::kNeg, all));
      batch.add(Template::kLoops, {}, b.finish(), std::move(inputs));
    }
  }
  batch.compile();
  batch.check_all();
}

// Within sums, as an operand of other values, and read from a shifted place.
TEST(CodegenChoices, ConcatenationsWithinKernels) {
  Random random(82);
  KernelBatch batch;
  for (int axis : {0, 1}) {
    for (int summed : {0, 1}) {
      GraphBuilder b;
      std::vector<HostTensor> inputs;
      NodeId all = parts_along(b, random, 9, axis, {7, 41}, inputs);
      b.output(b.reduce(ReduceOp::kSum, b.unary(UnaryOp::kTanh, all), {summed}));
      b.output(b.reduce(ReduceOp::kMax, all, {summed}));
      batch.add(Template::kLoops, {}, b.finish(), std::move(inputs));
    }
  }
  GraphBuilder b;
  std::vector<HostTensor> inputs;
  NodeId all = parts_along(b, random, 9, 0, {1, 41}, inputs);
  const Shape rest{b.shape(all)[0] - 4, 41};
  b.output(b.view(all, View{rest, {Expr::index(0) + 3, Expr::index(1)}, {}, 0}));
  batch.add(Template::kLoops, {}, b.finish(), std::move(inputs));
  batch.compile();
  batch.check_all();
}

// Of many rows an element asks as often as a binary search does, and no part asks whether it has
// the element.
TEST(CodegenChoices, OnlyTheChosenRowIsRead) {
  constexpr int kRows = 32;
  GraphBuilder b;
  std::vector<NodeId> rows;
  std::vector<HostTensor> inputs;
  Random random(83);
  for (int r = 0; r < kRows; ++r) {
    rows.push_back(input(b, {1, 64}));
    inputs.push_back(random_tensor(random, DType::kFloat32, {1, 64}));
  }
  b.output(b.concat(rows, 0));
  KernelBatch batch;
  batch.add(Template::kLoops, {}, b.finish(), std::move(inputs));
  batch.compile();
  const std::string& text = batch.at(0).source.text;
  size_t tests = 0;
  for (size_t k = text.find("if ("); k != std::string::npos; k = text.find("if (", k + 1)) ++tests;
  size_t others = 0;  // in functions that every source has
  for (size_t k = text.find("if ("); k < text.find("buffers"); k = text.find("if (", k + 1))
    ++others;
  EXPECT_EQ(tests - others, kRows - 1) << text.substr(text.find("buffers"));
  EXPECT_EQ(text.find("?", text.find("buffers")), std::string::npos);
  batch.check_all();
}

}  // namespace
}  // namespace testing_codegen
