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

// What a kernel's text has behind the functions that every source has.
std::string own_text(const Case& c) { return c.source.text.substr(c.source.text.find("buffers")); }

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
  const std::string text = own_text(batch.at(0));
  size_t tests = 0;
  for (size_t k = text.find("if ("); k != std::string::npos; k = text.find("if (", k + 1)) ++tests;
  EXPECT_EQ(tests, kRows - 1) << text;
  EXPECT_EQ(text.find('?'), std::string::npos);
  batch.check_all();
}

// Side by side along the innermost loop: each part is a loop of its own, in vectors, which asks
// nothing and reads its own input.
TEST(CodegenChoices, PartsOfTheInnermostLoopAreLoops) {
  if (runs_on_gpu()) GTEST_SKIP() << "a thread of a GPU is a step of any part";
  Random random(84);
  KernelBatch batch;
  for (const std::vector<int64_t>& widths :
       std::vector<std::vector<int64_t>>{{5, 32}, {16, 7, 48}, {8, 8, 8, 8, 8, 8, 8, 8, 8}}) {
    GraphBuilder b;
    std::vector<NodeId> parts;
    std::vector<HostTensor> inputs;
    for (int64_t width : widths) {
      parts.push_back(b.unary(UnaryOp::kTanh, input(b, {37, width})));
      inputs.push_back(random_tensor(random, DType::kFloat32, {37, width}));
    }
    b.output(b.unary(UnaryOp::kNeg, b.concat(parts, 1)));
    batch.add(Template::kLoops, {}, b.finish(), std::move(inputs));
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    const std::string text = own_text(batch.at(k));
    EXPECT_EQ(text.find("if ("), std::string::npos) << text;
    EXPECT_EQ(text.find('?'), std::string::npos) << text;
  }
  batch.check_all();
}

// Images with a border: the border's ends are loops, too.
TEST(CodegenChoices, BordersOfTheInnermostLoopAreLoops) {
  Random random(87);
  KernelBatch batch;
  for (int64_t border : {1, 3, 40}) {
    GraphBuilder b;
    NodeId x = b.unary(UnaryOp::kTanh, input(b, {4, 33}));
    b.output(b.unary(UnaryOp::kNeg, b.pad(x, 1, border, border)));
    batch.add(Template::kLoops, {}, b.finish(), {random_tensor(random, DType::kFloat32, {4, 33})});
  }
  batch.compile();
  batch.check_all();
}

// More parts than loops are made of, a choice of each step's, and choices whose sides are at hand.
TEST(CodegenChoices, LoopsThatAreNotCut) {
  Random random(85);
  KernelBatch batch;
  GraphBuilder many;
  std::vector<HostTensor> inputs;
  many.output(parts_along(many, random, 23, 1, {37, 1}, inputs));
  batch.add(Template::kLoops, {}, many.finish(), std::move(inputs));
  GraphBuilder b;
  NodeId x = input(b, {37, 40}), y = input(b, {37, 40});
  NodeId test = b.binary(BinaryOp::kLess, b.expand(b.iota(DType::kInt64, 40), {37, 40}),
                         b.full_int(DType::kInt64, {37, 40}, 21));
  b.output(b.select(test, x, y));
  batch.add(Template::kLoops, {}, b.finish(),
            {random_tensor(random, DType::kFloat32, {37, 40}),
             random_tensor(random, DType::kFloat32, {37, 40})});
  batch.compile();
  batch.check_all();
}

// Parts that lie the other way in memory, as images whose channels become the last axis: each is
// read in squares. Blocks of squares hold steps of one part only where parts begin with a block.
TEST(CodegenChoices, PartsAreTransposedInSquares) {
  Random random(86);
  KernelBatch batch;
  const std::vector<std::vector<int64_t>> all = {{32, 16, 48}, {256, 256}, {32, 20, 12}, {20, 44}};
  for (const std::vector<int64_t>& widths : all) {
    for (int64_t places : {9, 50}) {
      GraphBuilder b;
      std::vector<NodeId> parts;
      std::vector<HostTensor> inputs;
      for (int64_t width : widths) {
        parts.push_back(b.permute(input(b, {width, 6, places}), {1, 2, 0}));
        inputs.push_back(random_tensor(random, DType::kFloat32, {width, 6, places}));
      }
      b.output(b.unary(UnaryOp::kNeg, b.concat(parts, 2)));
      batch.add(Template::kLoops, {}, b.finish(), std::move(inputs));
    }
  }
  if (!runs_on_gpu()) {
    batch.change_nests([](common::Kernel& kernel, common::Machine) {
      LoopNest& nest = *kernel.nest;
      nest.transposed = true;
      nest.grid = std::min(nest.grid, nest.shared.extents.size() - 2);
    });
  }
  batch.compile();
  if (!runs_on_gpu()) {
    for (size_t k = 0; k < batch.size(); ++k) {
      const bool begins_blocks = k < 4;
      const std::string text = own_text(batch.at(k));
      EXPECT_EQ(text.find('?') == std::string::npos, begins_blocks) << k << "\n" << text;
      EXPECT_EQ(text.find("lf_turn_float16(") != std::string::npos, begins_blocks) << k;
    }
  }
  batch.check_all();
}

}  // namespace
}  // namespace testing_codegen
