// What convolutions read on a GPU: if these fail, tensor cores get their operands element by
// element, or products are of other values.
#include <gtest/gtest.h>

#include "common/base/random.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/runtime/interpreter/interpreter.h"
#include "coordinator/search/partition/convolution_operands.h"

namespace coordinator {
namespace {

using common::DType;
using common::Expr;
using common::Graph;
using common::GraphBuilder;
using common::HostTensor;
using common::InputKind;
using common::Op;
using common::Shape;
using common::View;

constexpr DType kHalf = DType::kBfloat16;

// Of images [2, channels, 9, 12], permuted, by a weight [24, channels, 3, width].
Graph convolution(int64_t channels, int64_t width, int64_t stride) {
  GraphBuilder b;
  auto i = [](int axis) { return Expr::index(axis); };
  const int64_t columns = (12 + 2 - width) / stride + 1;
  auto x = b.input(InputKind::kUser, kHalf, {2, channels, 9, 12}, "x");
  auto w = b.input(InputKind::kWeight, kHalf, {24, channels, 3, width}, "w");
  auto image = b.cast(b.permute(x, {0, 2, 3, 1}), DType::kFloat32);
  // 0 image, 1 row, 2 column, 3 channel, 4 and 5 taps
  Expr row = i(1) + i(4) - Expr(1), column = i(2) * Expr(stride) + i(5) - Expr(1);
  View windows{
      {2, 9, columns, channels, 3, width}, {i(0), row, column, i(3)}, {{row, 9}, {column, 12}}, 0};
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {2, 9, columns, 24},
                  {b.view(image, windows), b.cast(w, DType::kFloat32)},
                  common::ContractAttr{{0, 1, 2, 4, 5, 6}, {3, 4, 5, 6}, {0, 1, 2, 3}}}));
  return b.finish();
}

Selected arranged(const Graph& graph) {
  Selected selected = select_all(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op == Op::kContract) selected.lowering[i] = Lowering::kTile;
  }
  return with_convolution_operands(std::move(selected));
}

std::vector<Shape> copies(const Selected& s) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < s.lowering.size(); ++i) {
    if (s.lowering[i] == Lowering::kCopy) shapes.push_back(s.graph.nodes[i].shape);
  }
  return shapes;
}

void expect_same_values(const Graph& before, const Graph& after) {
  ASSERT_TRUE(common::verify(after).ok()) << common::print(after);
  common::Random random(7);
  std::vector<HostTensor> inputs;
  for (const auto& input : before.inputs) {
    std::vector<int64_t> sizes = common::evaluate_shape(input.shape, {});
    inputs.push_back(HostTensor::zeros(input.dtype, sizes).value());
    for (int64_t k = 0; k < inputs.back().elements(); ++k) {
      inputs.back().set(k, random.unit() - 0.5);
    }
  }
  auto expected = common::interpret(before, inputs, {}), got = common::interpret(after, inputs, {});
  ASSERT_TRUE(expected.ok() && got.ok());
  for (int64_t k = 0; k < (*expected)[0].elements(); ++k) {
    ASSERT_NEAR((*got)[0].get(k), (*expected)[0].get(k), 1e-4) << k << common::print(after);
  }
}

TEST(ConvolutionOperands, ChannelsAreLast) {
  Graph graph = convolution(16, 3, 1);
  Selected s = arranged(graph);
  EXPECT_EQ(copies(s), (std::vector<Shape>{{2, 9, 12, 16}, {24, 3, 3, 16}}))
      << common::print(s.graph);
  expect_same_values(graph, s.graph);
}

// A row of a window in one run: 3 or 5 taps of 3 channels are 4 or 6 of 4, 7 of 2 are 8 of 2.
TEST(ConvolutionOperands, FewChannelsAreMergedWithTheirTaps) {
  struct {
    int64_t channels, width, stride, run;
  } cases[] = {{3, 3, 1, 16}, {3, 5, 2, 24}, {2, 7, 2, 16}, {5, 3, 1, 24}};
  for (const auto& c : cases) {
    Graph graph = convolution(c.channels, c.width, c.stride);
    Selected s = arranged(graph);
    const int64_t columns = (14 - c.width) / c.stride + 1;
    EXPECT_EQ(copies(s), (std::vector<Shape>{{2, 9, columns, c.run}, {24, 3, c.run}}))
        << common::print(s.graph);
    expect_same_values(graph, s.graph);
  }
}

// Products without windows, and those of float32, stay as they are.
TEST(ConvolutionOperands, OthersStay) {
  GraphBuilder b;
  auto x = b.input(InputKind::kUser, kHalf, {40, 16}, "x");
  auto w = b.input(InputKind::kWeight, kHalf, {24, 16}, "w");
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {40, 24},
                  {b.cast(x, DType::kFloat32), b.cast(w, DType::kFloat32)},
                  common::ContractAttr{{0, 2}, {1, 2}, {0, 1}}}));
  Graph graph = b.finish();
  EXPECT_EQ(arranged(graph).graph, graph);
}

}  // namespace
}  // namespace coordinator
