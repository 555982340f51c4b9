// Weights in panels, by the machine that reads them: if these fail, bfloat16 is multiplied at the
// rate of float32 where it need not be, or products are of other values.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/random.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/runtime/interpreter/interpreter.h"
#include "coordinator/search/fusion/multi_output.h"
#include "coordinator/search/partition/packed_panels.h"

namespace coordinator {
namespace {

using common::DType;
using common::Expr;
using common::Graph;
using common::GraphBuilder;
using common::HostTensor;
using common::InputKind;
using common::Machine;
using common::Op;
using common::Shape;
using IrNode = common::NodeId;

constexpr DType kShort = DType::kBfloat16;

IrNode wide(GraphBuilder& b, IrNode x) { return b.cast(x, DType::kFloat32); }

IrNode product(GraphBuilder& b, IrNode x, IrNode w) {
  Shape shape{b.shape(x)[0], b.shape(w)[0]};
  return b.raw({Op::kContract,
                DType::kFloat32,
                shape,
                {x, w},
                common::ContractAttr{{0, 2}, {1, 2}, {0, 1}}});
}

// Every product by tiles; views over float32 that `copied` names are copies.
Selected selected(const Graph& graph, bool copied = false) {
  Selected result = select_all(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op == Op::kContract) result.lowering[i] = Lowering::kTile;
    if (copied && graph.nodes[i].op == Op::kView) result.lowering[i] = Lowering::kCopy;
  }
  return result;
}

std::vector<Shape> copies(const Selected& s) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < s.lowering.size(); ++i) {
    if (s.lowering[i] == Lowering::kCopy) shapes.push_back(s.graph.nodes[i].shape);
  }
  return shapes;
}

// Types of what products multiply.
std::vector<DType> multiplied(const Graph& graph) {
  std::vector<DType> types;
  for (const common::Node& node : graph.nodes) {
    if (node.op != Op::kContract) continue;
    for (IrNode operand : node.operands) types.push_back(graph.node(operand).dtype);
  }
  return types;
}

void expect_same_values(const Graph& before, const Graph& after) {
  common::Random random(7);
  std::vector<HostTensor> inputs;
  for (const auto& input : before.inputs) {
    std::vector<int64_t> sizes = common::evaluate_shape(input.shape, {});
    inputs.push_back(HostTensor::zeros(input.dtype, sizes).value());
    for (int64_t i = 0; i < inputs.back().elements(); ++i)
      inputs.back().set(i, random.unit() - 0.5);
  }
  auto expected = common::interpret(before, inputs, {}), got = common::interpret(after, inputs, {});
  ASSERT_TRUE(expected.ok() && got.ok());
  for (size_t k = 0; k < expected->size(); ++k) {
    for (int64_t i = 0; i < (*expected)[k].elements(); ++i) {
      EXPECT_EQ((*got)[k].get(i), (*expected)[k].get(i)) << k << " " << i;
    }
  }
}

TEST(Panels, HoldPairsWhereTheMachineMultipliesPairs) {
  for (int64_t depth : {16, 15, 1}) {
    GraphBuilder b;
    IrNode x = b.input(InputKind::kUser, kShort, {32, depth}, "x");
    IrNode w = b.input(InputKind::kWeight, kShort, {24, depth}, "w");
    b.output(product(b, wide(b, x), wide(b, w)));
    Graph graph = b.finish();
    Selected pairs = with_packed_panels(selected(graph), Machine::kCpuPairs);
    EXPECT_EQ(multiplied(pairs.graph), (std::vector<DType>{kShort, kShort}));
    EXPECT_EQ(copies(pairs), (std::vector<Shape>{{2, (depth + 1) / 2, 16, 2}}));
    // The casts are gone with their last readers.
    EXPECT_EQ(std::count_if(pairs.graph.nodes.begin(), pairs.graph.nodes.end(),
                            [](const common::Node& node) { return node.op == Op::kCast; }),
              0);
    expect_same_values(graph, pairs.graph);

    Selected single = with_packed_panels(selected(graph), Machine::kCpu);
    EXPECT_EQ(multiplied(single.graph), (std::vector<DType>{DType::kFloat32, DType::kFloat32}));
    EXPECT_EQ(copies(single), (std::vector<Shape>{{2, depth, 16}}));
    expect_same_values(graph, single.graph);
  }
}

// Panels in float32 take twice the memory, of a model's weights and of what a run reads.
TEST(Panels, OfHalfTypesStayOfThem) {
  for (DType half : {DType::kBfloat16, DType::kFloat16}) {
    GraphBuilder b;
    IrNode x = b.input(InputKind::kUser, DType::kFloat32, {32, 16}, "x");
    IrNode w = b.input(InputKind::kWeight, half, {16, 24}, "w");
    b.output(product(b, x, b.permute(wide(b, w), {1, 0})));
    Graph graph = b.finish();
    for (Machine machine : {Machine::kCpu, Machine::kCpuPairs}) {
      Selected packed = with_packed_panels(selected(graph), machine);
      EXPECT_EQ(copies(packed), (std::vector<Shape>{{2, 16, 16}}));
      const std::vector<std::vector<int64_t>> stores = store_values(packed);
      for (size_t i = 0; i < packed.graph.nodes.size(); ++i) {
        const common::Node& node = packed.graph.nodes[i];
        if (packed.lowering[i] == Lowering::kCopy) {
          EXPECT_EQ(node.dtype, half);
        }
        if (node.op == Op::kCast) {
          EXPECT_TRUE(stores[i].empty()) << "its copy is stored";
        }
      }
      expect_same_values(graph, packed.graph);
    }
  }
}

// Machines that multiply pairs do so for bfloat16 alone.
TEST(Panels, PairsAreOfBfloat16) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat16, {32, 16}, "x");
  IrNode w = b.input(InputKind::kWeight, DType::kFloat16, {24, 16}, "w");
  b.output(product(b, wide(b, x), wide(b, w)));
  Graph graph = b.finish();
  Selected packed = with_packed_panels(selected(graph), Machine::kCpuPairs);
  EXPECT_EQ(multiplied(packed.graph), (std::vector<DType>(2, DType::kFloat32)));
  EXPECT_EQ(copies(packed), (std::vector<Shape>{{2, 16, 16}}));
  expect_same_values(graph, packed.graph);
}

// A copy in float32, such as an image with its channels last, becomes one in bfloat16, and one for
// all its readers; what else reads the float32 values still finds them.
TEST(Panels, CopiesOnTheWayAreMadeInBfloat16) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, kShort, {16, 32}, "x");
  IrNode transposed = b.permute(wide(b, x), {1, 0});
  for (int k = 0; k < 2; ++k) {
    b.output(product(b, transposed, wide(b, b.input(InputKind::kWeight, kShort, {24, 16}, "w"))));
  }
  b.output(b.unary(common::UnaryOp::kTanh, wide(b, x)));
  Graph graph = b.finish();
  Selected pairs = with_packed_panels(selected(graph, true), Machine::kCpuPairs);
  EXPECT_EQ(multiplied(pairs.graph), (std::vector<DType>(4, kShort)));
  EXPECT_EQ(copies(pairs), (std::vector<Shape>{{32, 16}, {2, 8, 16, 2}, {2, 8, 16, 2}}))
      << common::print(pairs.graph);
  std::vector<ClassId> genes = pairs.gene;
  std::sort(genes.begin(), genes.end());
  EXPECT_EQ(std::adjacent_find(genes.begin(), genes.end()), genes.end());
  expect_same_values(graph, pairs.graph);
}

// Values that no bfloat16 holds are multiplied as they are.
TEST(Panels, Float32StaysFloat32) {
  GraphBuilder b;
  IrNode x =
      b.unary(common::UnaryOp::kTanh, wide(b, b.input(InputKind::kUser, kShort, {32, 16}, "x")));
  b.output(product(b, x, wide(b, b.input(InputKind::kWeight, kShort, {24, 16}, "w"))));
  IrNode bordered = b.pad(wide(b, b.input(InputKind::kUser, kShort, {32, 16}, "y")), 0, 1, 1, 0.1);
  b.output(product(b, bordered, wide(b, b.input(InputKind::kWeight, kShort, {24, 16}, "w"))));
  Graph graph = b.finish();
  Selected pairs = with_packed_panels(selected(graph), Machine::kCpuPairs);
  EXPECT_EQ(multiplied(pairs.graph), (std::vector<DType>(4, DType::kFloat32)));
  EXPECT_EQ(copies(pairs), (std::vector<Shape>{{2, 16, 16}, {2, 16, 16}}));
  expect_same_values(graph, pairs.graph);
}

}  // namespace
}  // namespace coordinator
