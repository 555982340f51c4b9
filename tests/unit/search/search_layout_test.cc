// The layout of images: if these fail, convolutions read and write their channels apart, or a model
// computes something else because its values lie in another order.
#include <gtest/gtest.h>

#include <algorithm>

#include "clients/pt2/translate.h"
#include "common/base/clock.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/roll/roll.h"
#include "common/runtime/interpreter/interpreter.h"
#include "coordinator/rules/matching/bordered_windows.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/partition/rewrites/layout_assignment.h"
#include "coordinator/search/space/region_space.h"
#include "program_interpreter.h"
#include "tests/unit/ir/models.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::Expr;
using common::Graph;
using common::GraphBuilder;
using common::HostTensor;
using common::InputKind;
using common::Machine;
using common::Node;
using common::Op;
using common::ReduceOp;
using common::Shape;
using common::View;
using common::testing::largest_difference;
using common::testing::sample_inputs;

struct Convolution {
  int64_t filters = 0, height = 1, width = 1;
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

// As the front end writes them: of x[batch, channels, rows, columns].
common::NodeId convolution(GraphBuilder& b, common::NodeId x, const Convolution& c) {
  Shape in = b.shape(x);
  int64_t channels = in[1].constant() / c.groups, filters = c.filters / c.groups;
  common::NodeId w =
      b.input(InputKind::kWeight, DType::kFloat32, {c.filters, channels, c.height, c.width}, "w");
  auto size = [&](size_t axis, int64_t window) {
    return (in[axis].constant() + 2 * c.padding - c.dilation * (window - 1) - 1) / c.stride + 1;
  };
  Shape product{in[0],    c.groups, filters, size(2, c.height), size(3, c.width),
                channels, c.height, c.width};
  auto i = [](int axis) { return Expr::index(axis); };
  Expr row = i(3) * Expr(c.stride) + i(6) * Expr(c.dilation) - Expr(c.padding);
  Expr column = i(4) * Expr(c.stride) + i(7) * Expr(c.dilation) - Expr(c.padding);
  View image{product, {i(0), i(1) * Expr(channels) + i(5), row, column}, {}, 0};
  if (c.padding > 0) image.valid = {{row, in[2]}, {column, in[3]}};
  View weight{product, {i(1) * Expr(filters) + i(2), i(5), i(6), i(7)}, {}, 0};
  common::NodeId sum = b.reduce(
      ReduceOp::kSum, b.binary(BinaryOp::kMul, b.view(x, image), b.view(w, weight)), {5, 6, 7});
  return b.reshape(sum, {in[0], c.filters, product[3], product[4]});
}

common::NodeId with_bias(GraphBuilder& b, common::NodeId x) {
  Shape shape = b.shape(x);
  common::NodeId bias = b.input(InputKind::kWeight, DType::kFloat32, {shape[1], 1, 1}, "bias");
  return b.binary(BinaryOp::kMax, b.binary(BinaryOp::kAdd, x, bias),
                  b.full(DType::kFloat32, shape, 0));
}

common::NodeId image(GraphBuilder& b, int64_t channels) {
  return b.input(InputKind::kUser, DType::kFloat32, {2, channels, 9, 11}, "image");
}

// A block of a mobile network, its mean and a classifier.
Graph network(int64_t channels = 3) {
  GraphBuilder b;
  common::NodeId x = with_bias(b, convolution(b, image(b, channels), {24, 3, 3, 1, 1}));
  common::NodeId y = with_bias(b, convolution(b, x, {40}));
  y = with_bias(b, convolution(b, y, {40, 3, 3, 1, 1, 1, 40}));
  x = b.binary(BinaryOp::kAdd, x, convolution(b, y, {24}));
  x = with_bias(b, convolution(b, x, {32, 3, 3, 2, 1}));
  common::NodeId mean = b.reduce(ReduceOp::kSum, x, {2, 3});
  common::NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {32, 10}, "w");
  b.output(b.matmul(mean, w));
  b.output(x);
  return b.finish();
}

std::vector<HostTensor> values_of(const Graph& graph, const std::vector<HostTensor>& inputs) {
  auto result = common::interpret(graph, inputs, {});
  EXPECT_TRUE(result.ok()) << result.error().message << common::print(graph);
  return result.ok() ? *std::move(result) : std::vector<HostTensor>{};
}

void expect_same_values(const Graph& graph) {
  Graph laid_out = assign_layouts(graph, Machine::kCpu);
  ASSERT_TRUE(common::verify(laid_out).ok()) << common::print(laid_out);
  std::vector<HostTensor> inputs = sample_inputs(graph, {}, 5);
  EXPECT_LT(largest_difference(values_of(laid_out, inputs), values_of(graph, inputs)), 1e-5)
      << common::print(laid_out);
}

struct Laid {
  Cut cut;
  std::vector<common::Program> programs;
};

Laid default_programs(const Graph& graph) {
  Laid laid{cut_into_regions(common::roll(assign_layouts(graph, Machine::kCpu))), {}};
  common::SteadyClock clock;
  for (const Region& region : laid.cut.regions) {
    laid.programs.push_back(RegionSpace(region.graph, clock).decode({}).program);
  }
  return laid;
}

TEST(Layouts, ValuesStay) {
  expect_same_values(network());
  const Convolution kinds[] = {
      {6},                      // one place
      {6, 3, 5, 1, 2},          // two sides
      {6, 3, 3, 2, 1, 2},       // apart
      {12, 3, 3, 1, 1, 1, 12},  // each channel on its own
      {24, 2, 2, 2, 0, 1, 12},  // two filters a channel
      {8, 3, 1, 1, 1, 1, 4},    // in groups of three
  };
  for (const Convolution& kind : kinds) {
    GraphBuilder b;
    b.output(with_bias(b, convolution(b, image(b, 12), kind)));
    expect_same_values(b.finish());
  }
}

// Values of 24, 40 and 32 channels: the channels are the last axis wherever something is computed.
TEST(Layouts, ChannelsAreLastBetweenConvolutions) {
  Graph laid_out = assign_layouts(network(), Machine::kCpu);
  int images = 0;
  for (const Node& node : laid_out.nodes) {
    bool computes = node.op == Op::kBinary || (node.op == Op::kReduce && node.shape.size() > 2);
    if (!computes || node.shape.size() != 4 || node.shape[0] != Expr(2)) continue;
    ++images;
    EXPECT_TRUE(node.shape[3] == Expr(24) || node.shape[3] == Expr(40) || node.shape[3] == Expr(32))
        << common::print(laid_out);
  }
  EXPECT_GE(images, 9);  // three with a bias and a bound, the sums of two others, their sum
}

// An image by itself: products have no axis for it, and what follows them must not have one.
TEST(Layouts, WhatFollowsAProductIsPartOfIt) {
  GraphBuilder b;
  common::NodeId x = b.input(InputKind::kUser, DType::kFloat32, {1, 16, 9, 11}, "image");
  b.output(with_bias(b, convolution(b, with_bias(b, convolution(b, x, {32})), {48})));
  Graph graph = b.finish();
  expect_same_values(graph);
  Laid laid = default_programs(graph);
  int tiles = 0, others = 0;
  for (const common::Program& program : laid.programs) {
    for (const common::Call& call : program.calls) {
      bool is_tile =
          program.kernels[static_cast<size_t>(call.kernel)].form == common::Template::kTile;
      ++(is_tile ? tiles : others);
    }
  }
  EXPECT_EQ(tiles, 2);
  EXPECT_EQ(others, 4);  // panels of two weights, the image channels last, the result as it was
}

TEST(Layouts, InputsAndOutputsStay) {
  Graph graph = network();
  Graph laid_out = assign_layouts(graph, Machine::kCpu);
  EXPECT_EQ(laid_out.inputs, graph.inputs);
  ASSERT_EQ(laid_out.outputs.size(), graph.outputs.size());
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    EXPECT_EQ(laid_out.node(laid_out.outputs[k].node).shape,
              graph.node(graph.outputs[k].node).shape);
  }
}

// Images have their channels last on GPUs, too; models without images stay as they are.
TEST(Layouts, GpusArrangeImagesAlone) {
  GraphBuilder b;
  common::NodeId x = b.input(InputKind::kUser, DType::kFloat32, {1, 1, 8}, "x");
  common::NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {8, 8}, "w");
  common::NodeId y = b.raw({Op::kContract,
                            DType::kFloat32,
                            {1, 1, 8},
                            {x, w},
                            common::ContractAttr{{0, 1, 3}, {2, 3}, {0, 1, 2}}});
  b.output(b.unary(common::UnaryOp::kTanh, y));
  const Graph row = b.finish();
  for (Machine machine : {Machine::kGpu, Machine::kGpuWarpgroups}) {
    EXPECT_EQ(assign_layouts(network(), machine), assign_layouts(network(), Machine::kCpu));
    EXPECT_EQ(assign_layouts(row, machine), row);
  }
  EXPECT_NE(assign_layouts(row, Machine::kCpu), row);
}

// A filter for each channel is no reason to turn an image: vectors run along its rows.
TEST(Layouts, FiltersOfSingleChannelsWantNoOrder) {
  GraphBuilder b;
  common::NodeId x = b.unary(common::UnaryOp::kTanh, image(b, 6));
  x = with_bias(b, convolution(b, x, {6, 3, 3, 1, 1, 1, 6}));
  b.output(convolution(b, x, {6, 5, 5, 1, 2, 1, 6}));
  Graph graph = b.finish();
  expect_same_values(graph);
  for (const Node& node : assign_layouts(graph, Machine::kCpu).nodes) {
    if (node.op != Op::kUnary) continue;
    EXPECT_EQ(node.shape, (Shape{2, 6, 9, 11}));
  }
}

// Where a convolution that sums channels follows, what comes before the filters has its channels
// last, too: filters that read them apart and wrote them last took nine times as long.
TEST(Layouts, FiltersOfSingleChannelsFollowWhatTheyMeet) {
  GraphBuilder b;
  common::NodeId x = b.unary(common::UnaryOp::kTanh, image(b, 6));
  x = with_bias(b, convolution(b, x, {6, 3, 3, 1, 1, 1, 6}));
  b.output(convolution(b, x, {8}));
  Graph graph = b.finish();
  expect_same_values(graph);
  for (const Node& node : assign_layouts(graph, Machine::kCpu).nodes) {
    if (node.op != Op::kUnary) continue;
    EXPECT_EQ(node.shape, (Shape{2, 9, 11, 6}));
  }
}

// The greatest value of each 3 x 3 places.
common::NodeId pool(GraphBuilder& b, common::NodeId x) {
  Shape shape = b.shape(x);
  auto i = [](int axis) { return Expr::index(axis); };
  const Expr row = i(2) + i(4) - Expr(1), column = i(3) + i(5) - Expr(1);
  View windows{shape, {i(0), i(1), row, column}, {{row, shape[2]}, {column, shape[3]}}, -1e9};
  windows.shape.insert(windows.shape.end(), {3, 3});
  return b.reduce(ReduceOp::kMax, b.view(x, windows), {4, 5});
}

// Pools have their channels last where the convolution behind them, or behind a pool that follows,
// has them so, and their rows in order where there is none.
TEST(Layouts, PoolsFollowTheirImages) {
  for (bool is_convolved : {false, true}) {
    GraphBuilder b;
    common::NodeId x = b.unary(common::UnaryOp::kTanh, image(b, 6));
    x = pool(b, pool(b, x));
    b.output(is_convolved ? convolution(b, x, {8}) : x);
    Graph graph = b.finish();
    expect_same_values(graph);
    int pools = 0;
    for (const Node& node : assign_layouts(graph, Machine::kCpu).nodes) {
      const bool is_pool =
          node.op == Op::kReduce && common::attr<common::ReduceAttr>(node).op == ReduceOp::kMax;
      if (!is_pool) continue;
      ++pools;
      EXPECT_EQ(node.shape, is_convolved ? (Shape{2, 9, 11, 6}) : (Shape{2, 6, 9, 11}));
    }
    EXPECT_EQ(pools, 2);
  }
}

// Shapes of what is computed elementwise or by reductions, without axes of size 1.
std::vector<std::string> computed_shapes(const Graph& graph) {
  std::vector<std::string> shapes;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kBinary && node.op != Op::kUnary && node.op != Op::kReduce) continue;
    Shape shape;
    for (const Expr& size : node.shape) {
      if (!size.is_constant(1)) shape.push_back(size);
    }
    shapes.push_back(common::shape_text(shape));
  }
  std::sort(shapes.begin(), shapes.end());
  return shapes;
}

// What linear layers read and write has the features last already.
TEST(Layouts, TransformersKeepTheirOrder) {
  std::vector<std::string> files = model_files({"llama", "gpt2", "bert"});
  ASSERT_FALSE(files.empty());
  for (const std::string& file : files) {
    auto model = clients::load_model(file);
    ASSERT_TRUE(model.ok()) << model.error().message;
    Graph laid_out = assign_layouts(model->graph, Machine::kCpu);
    EXPECT_EQ(computed_shapes(laid_out), computed_shapes(model->graph)) << file;
  }
}

TEST(Layouts, DefaultsComputeTheModel) {
  Graph graph = network();
  Laid laid = default_programs(graph);
  std::vector<const common::Program*> parts;
  for (const common::Program& program : laid.programs) parts.push_back(&program);
  std::vector<HostTensor> inputs = sample_inputs(graph, {}, 9);
  auto result = common::testing::interpret_program(assemble(laid.cut, parts), inputs, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_LT(largest_difference(*result, values_of(graph, inputs)), 1e-4);
}

// The weights of windows of single channels are transposed once, when they are bound; and what such
// windows read is computed before, not once for every window that sees it.
TEST(Layouts, SingleChannelsReadRows) {
  Laid laid = default_programs(network());
  bool transposed = false, sums = false;
  for (const common::Program& program : laid.programs) {
    for (const common::Kernel& kernel : program.kernels) {
      const Graph& body = kernel.body;
      const Shape& out = body.node(body.outputs[0].node).shape;
      transposed = transposed || out == Shape{3, 3, 40};
      for (const Node& node : body.nodes) {
        if (node.op != Op::kReduce || body.node(node.operands[0]).op != Op::kBinary) continue;
        sums = true;
        for (const Node& other : body.nodes) {
          EXPECT_FALSE(other.op == Op::kBinary &&
                       common::attr<common::BinaryAttr>(other).op == BinaryOp::kMax &&
                       &other < &node)
              << common::print(body);
        }
      }
    }
  }
  EXPECT_TRUE(transposed);
  EXPECT_TRUE(sums);
}

// Tiles read windows of such an image row by row: of a copy with a border, or of the image itself.
TEST(Layouts, TilesReadRows) {
  Laid laid = default_programs(network(16));
  int tiles = 0;
  for (const common::Program& program : laid.programs) {
    for (const common::Kernel& kernel : program.kernels) {
      if (kernel.form != common::Template::kTile) continue;
      ++tiles;
      for (const Node& node : kernel.body.nodes) {
        // What a tile gives may have a border.
        if (node.op != Op::kView || &node == &kernel.body.node(kernel.body.outputs[0].node))
          continue;
        EXPECT_TRUE(common::attr<common::ViewAttr>(node).view.valid.empty())
            << common::print(kernel.body);
      }
    }
  }
  EXPECT_GE(tiles, 4);
}

// A border that mirrors the image is copied: sums, whether they are of one channel or of all, read
// places by strides.
TEST(Layouts, SumsReadMirroredBordersInOrder) {
  for (int64_t groups : {1, 16}) {
    GraphBuilder b;
    common::NodeId x = b.unary(common::UnaryOp::kTanh, image(b, 16));
    auto mirrored = [](const Expr& place, int64_t size) {
      const Expr within = common::max(place - Expr(1), Expr(1) - place);
      return common::min(within, Expr(2 * size - 2) - within);
    };
    View border{{2, 16, 11, 13}, {Expr::index(0), Expr::index(1)}, {}, 0};
    border.index.push_back(mirrored(Expr::index(2), 9));
    border.index.push_back(mirrored(Expr::index(3), 11));
    b.output(with_bias(b, convolution(b, b.view(x, border), {16, 3, 3, 1, 0, 1, groups})));
    Graph graph = b.finish();
    expect_same_values(graph);
    int sums = 0;
    for (const common::Program& program : default_programs(graph).programs) {
      for (const common::Kernel& kernel : program.kernels) {
        bool is_sum = std::ranges::any_of(kernel.body.nodes, [](const Node& node) {
          return node.op == Op::kReduce || node.op == Op::kContract;
        });
        if (!is_sum) continue;
        ++sums;
        for (const Node& node : kernel.body.nodes) {
          if (node.op != Op::kView) continue;
          EXPECT_FALSE(bordered_windows(common::attr<common::ViewAttr>(node).view,
                                        kernel.body.node(node.operands[0]).shape, {}))
              << common::print(kernel.body);
        }
      }
    }
    EXPECT_GE(sums, 1);
  }
}

}  // namespace
}  // namespace coordinator
