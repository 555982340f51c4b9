// What depends on weights alone: if these fail, runs compute what could be computed once, or a plan
// keeps what it should not.
#include <gtest/gtest.h>

#include <set>

#include "common/base/clock.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/llir/load_time.h"
#include "common/ir/roll/roll.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/strategy/region_search.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::Graph;
using common::GraphBuilder;
using common::InputKind;
using common::Op;
using common::Program;
using common::Shape;
using common::UnaryOp;
using IrNode = common::NodeId;

IrNode user(GraphBuilder& b, Shape shape, DType dtype = DType::kFloat32) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "x");
}
IrNode weight(GraphBuilder& b, Shape shape, DType dtype = DType::kFloat32) {
  return b.input(InputKind::kWeight, dtype, std::move(shape), "w");
}

struct CallCount {
  int at_load = 0, in_runs = 0;
};
CallCount count_calls(const Program& program) {
  CallCount count;
  for (char at_load : common::load_time_calls(program)) ++(at_load ? count.at_load : count.in_runs);
  return count;
}

// Shapes of the contractions that runs compute.
std::vector<Shape> contractions_in_runs(const Program& program) {
  std::vector<Shape> shapes;
  std::vector<char> at_load = common::load_time_calls(program);
  for (size_t c = 0; c < program.calls.size(); ++c) {
    if (at_load[c]) continue;
    for (const auto& node :
         program.kernels[static_cast<size_t>(program.calls[c].kernel)].body.nodes) {
      if (node.op == Op::kContract) shapes.push_back(node.shape);
    }
  }
  return shapes;
}

class LoadTime : public ::testing::Test {
 protected:
  Program default_of(const Graph& graph) { return RegionSpace(graph, clock_).decode({}).program; }
  common::SteadyClock clock_;
};

TEST_F(LoadTime, AFunctionOfWeightsIsKept) {
  GraphBuilder b;
  IrNode x = user(b, {64, 8});
  b.output(b.binary(BinaryOp::kAdd, x, b.unary(UnaryOp::kExp, weight(b, {8}))));
  CallCount count = count_calls(default_of(b.finish()));
  EXPECT_EQ(count.at_load, 1);
  EXPECT_EQ(count.in_runs, 1);
}

TEST_F(LoadTime, StatesAndOutputsAreOfEveryRun) {
  GraphBuilder b;
  IrNode x = user(b, {64, 8});
  IrNode state = b.input(InputKind::kState, DType::kFloat32, {8}, "s");
  b.output(b.binary(BinaryOp::kAdd, x, b.unary(UnaryOp::kExp, state)));
  b.output(b.unary(UnaryOp::kExp, weight(b, {8})));
  EXPECT_EQ(count_calls(default_of(b.finish())).at_load, 0);
}

TEST_F(LoadTime, SymbolicSizesAreOfEveryRun) {
  GraphBuilder b({{1, 64}});
  common::Expr n = common::Expr::symbol(0);
  IrNode x = user(b, {n});
  b.output(b.binary(BinaryOp::kAdd, x,
                    b.unary(UnaryOp::kExp, b.cast(b.iota(DType::kInt64, n), DType::kFloat32))));
  EXPECT_EQ(count_calls(default_of(b.finish())).at_load, 0);
}

// Reading twice the bytes in every run would cost more than widening them.
TEST_F(LoadTime, AWidenedWeightStaysNarrow) {
  GraphBuilder b;
  IrNode x = user(b, {4, 64});
  IrNode w = b.cast(weight(b, {64, 64}, DType::kBfloat16), DType::kFloat32);
  b.output(b.binary(BinaryOp::kMul, x, b.reduce(common::ReduceOp::kMax, w, {0})));
  b.output(b.binary(BinaryOp::kAdd, b.reshape(x, {4, 1, 64}), w));
  Program program = default_of(b.finish());
  for (const auto& buffer : program.buffers) {
    bool is_wide_copy = buffer.kind == common::BufferKind::kTemporary &&
                        buffer.shape == Shape{64, 64} && buffer.dtype == DType::kFloat32;
    EXPECT_FALSE(is_wide_copy) << common::print(program);
  }
  EXPECT_EQ(count_calls(program).at_load, 1) << common::print(program);
}

// y = f(w), z = g(y), for a weight w.
TEST(LoadTimeCalls, NeedWhatStaysAndNoSizes) {
  std::vector<common::GraphInput> inputs{{InputKind::kWeight, DType::kFloat32, {4}, "w"}};
  std::vector<common::GraphOutput> outputs{{common::OutputKind::kUser, -1, -1}};
  std::vector<common::Buffer> buffers{{common::BufferKind::kInput, 0, DType::kFloat32, {4}},
                                      {common::BufferKind::kTemporary, 0, DType::kFloat32, {4}},
                                      {common::BufferKind::kOutput, 0, DType::kFloat32, {4}}};
  std::vector<common::Call> calls{{0, {0}, {1}, {}}, {1, {1}, {2}, {}}};
  auto flags = [&] { return common::load_time_calls(inputs, outputs, buffers, calls); };
  EXPECT_EQ(flags(), (std::vector<char>{1, 0}));
  calls[0].symbols = {common::Expr::symbol(0)};
  EXPECT_EQ(flags(), (std::vector<char>{0, 0})) << "a size may change from run to run";
  calls[0].symbols = {common::Expr(3)};
  EXPECT_EQ(flags(), (std::vector<char>{1, 0}));
  outputs[0] = {common::OutputKind::kMutate, -1, 0};
  EXPECT_EQ(flags(), (std::vector<char>{0, 0})) << "a run writes to the weight";
}

// An output's memory is the run's.
TEST(LoadTimeRegions, WhatARunGivesIsMadeInEveryRun) {
  GraphBuilder b;
  IrNode w = b.unary(common::UnaryOp::kExp, b.input(InputKind::kWeight, DType::kFloat32, {4}, "w"));
  b.output(w);
  Cut cut = cut_into_regions(b.finish());
  ASSERT_EQ(cut.regions.size(), 1u);
  EXPECT_EQ(cut.executions[0], 1);
}

// What is only a wider spelling crosses from region to region in the shorter type, which is less to
// write and shows contractions what their operands are; so does a weight.
TEST(LoadTimeRegions, ValuesCrossInTheShorterType) {
  constexpr int kLayers = 6;
  GraphBuilder b;
  auto wide = [&](IrNode x) { return b.cast(x, DType::kFloat32); };
  IrNode x = b.unary(UnaryOp::kTanh, user(b, {16, 8}));
  IrNode kept = wide(b.cast(x, DType::kBfloat16));
  for (int k = 0; k < kLayers; ++k) {
    x = b.unary(UnaryOp::kSigmoid, b.matmul(x, wide(weight(b, {8, 8}, DType::kBfloat16))));
  }
  b.output(b.binary(BinaryOp::kAdd, b.unary(UnaryOp::kTanh, x), kept));
  Cut cut = cut_into_regions(common::roll(b.finish()));
  ASSERT_EQ(cut.regions.size(), 3u);
  std::multiset<DType> types;
  for (const auto& input : cut.regions[2].graph.inputs) types.insert(input.dtype);
  EXPECT_EQ(types, (std::multiset<DType>{DType::kBfloat16, DType::kFloat32}))
      << common::print(cut.regions[2].graph);
}

// Where an element lies is asked by the kernels that choose by it.
TEST(LoadTimeRegions, WhatPositionsTellIsNoInput) {
  constexpr int kSteps = 8;
  GraphBuilder b;
  IrNode w = weight(b, {8, 8});
  IrNode x = user(b, {1, 8});
  for (UnaryOp op : {UnaryOp::kTanh, UnaryOp::kSigmoid}) {
    std::vector<IrNode> states;
    for (int k = 0; k < kSteps; ++k) {
      x = b.unary(op, b.matmul(x, w));
      states.push_back(x);
    }
    IrNode all = b.concat({states.front(), states.back()}, 0);
    b.output(b.unary(UnaryOp::kExp, all));
    x = b.reduce(common::ReduceOp::kSum, all, {0}, true);
  }
  b.output(x);
  Cut cut = cut_into_regions(common::roll(b.finish()));
  EXPECT_GT(cut.regions.size(), 1u);
  for (const auto& region : cut.regions) {
    for (const auto& input : region.graph.inputs) {
      EXPECT_EQ(input.dtype, DType::kFloat32) << common::print(region.graph);
    }
    for (const auto& output : region.graph.outputs) {
      EXPECT_EQ(region.graph.node(output.node).dtype, DType::kFloat32);
    }
  }
}

// (x w + b - m) * rsqrt(v) * g + beta
TEST_F(LoadTime, ANormInEvaluationModeCostsARunOneSum) {
  GraphBuilder b;
  IrNode x = b.matmul(user(b, {32, 16}), b.permute(weight(b, {24, 16}), {1, 0}));
  x = b.binary(BinaryOp::kAdd, x, weight(b, {24}));
  x = b.binary(BinaryOp::kSub, x, weight(b, {24}));
  x = b.binary(BinaryOp::kMul, x, b.unary(UnaryOp::kRsqrt, weight(b, {24})));
  x = b.binary(BinaryOp::kMul, x, weight(b, {24}));
  b.output(b.binary(BinaryOp::kAdd, x, weight(b, {24})));
  Program program = default_of(b.finish());
  int products = 0, sums = 0;
  std::vector<char> at_load = common::load_time_calls(program);
  for (size_t c = 0; c < program.calls.size(); ++c) {
    if (at_load[c]) continue;
    for (const auto& node :
         program.kernels[static_cast<size_t>(program.calls[c].kernel)].body.nodes) {
      if (node.op != Op::kBinary) continue;
      auto op = common::attr<common::BinaryAttr>(node).op;
      products += op == BinaryOp::kMul;
      sums += op == BinaryOp::kAdd || op == BinaryOp::kSub;
    }
  }
  EXPECT_EQ(products, 0) << common::print(program);
  EXPECT_EQ(sums, 1) << common::print(program);
}

Graph projections() {
  GraphBuilder b;
  IrNode x = user(b, {16, 32});
  for (int64_t width : {32, 8, 8}) {
    IrNode y = b.matmul(x, b.permute(weight(b, {width, 32}), {1, 0}));
    b.output(b.unary(UnaryOp::kTanh, y));
  }
  return b.finish();
}

TEST_F(LoadTime, SiblingsArePackedTogether) {
  RegionSpace space(projections(), clock_);
  std::vector<Genome> seeds = packing_seeds(space);
  ASSERT_EQ(seeds.size(), 1u);
  Decoded packed = space.decode(seeds[0]);
  EXPECT_EQ(contractions_in_runs(packed.program), (std::vector<Shape>{{16, 48}}));
  EXPECT_GE(count_calls(packed.program).at_load, 1);
  EXPECT_EQ(contractions_in_runs(space.decode({}).program).size(), 3u);
}

// Seen as rows of a batch, which is how they are exported.
TEST_F(LoadTime, BiasesOfSiblingsArePackedWithThem) {
  GraphBuilder b;
  IrNode x = user(b, {16, 32});
  for (int64_t width : {32, 8, 8}) {
    IrNode y = b.matmul(x, b.permute(weight(b, {width, 32}), {1, 0}));
    y = b.binary(BinaryOp::kAdd, b.reshape(y, {1, 16, width}), weight(b, {width}));
    b.output(b.unary(UnaryOp::kTanh, y));
  }
  RegionSpace space(b.finish(), clock_);
  std::vector<Genome> seeds = packing_seeds(space);
  ASSERT_FALSE(seeds.empty());
  Program program = space.decode(seeds[0]).program;
  EXPECT_EQ(contractions_in_runs(program), (std::vector<Shape>{{16, 48}}));
  std::vector<char> at_load = common::load_time_calls(program);
  std::set<Shape> sums;
  for (size_t c = 0; c < program.calls.size(); ++c) {
    if (at_load[c]) continue;
    for (const auto& node :
         program.kernels[static_cast<size_t>(program.calls[c].kernel)].body.nodes) {
      bool is_sum =
          node.op == Op::kBinary && common::attr<common::BinaryAttr>(node).op == BinaryOp::kAdd;
      if (is_sum) sums.insert(node.shape);
    }
  }
  EXPECT_EQ(sums, (std::set<Shape>{{16, 48}})) << common::print(program);
}

TEST_F(LoadTime, ChoosingOneSliceChoosesItsSiblings) {
  RegionSpace space(projections(), clock_);
  Genome all = packing_seeds(space).at(0);
  std::vector<Site> sites = space.structure({})->sites;
  for (const Site& site : sites) {
    auto slice = all.get(site.name);
    if (site.name.kind != GeneKind::kChoice || !slice) continue;
    Genome one;
    set_choice(space, sites, site, *slice, one);
    EXPECT_EQ(one.hash(), all.hash());
    // And back.
    std::vector<Site> packed = space.structure(all)->sites;
    for (const Site& again : packed) {
      if (again.name != site.name) continue;
      Genome none = all;
      set_choice(space, packed, again, site.current, none);
      EXPECT_EQ(contractions_in_runs(space.decode(none).program).size(), 3u);
    }
  }
}

// Register tiles read the columns of x w^T from panels, which are made once.
TEST_F(LoadTime, AWeightIsPackedOnce) {
  auto program_of = [&](Shape x, Shape w) {
    GraphBuilder b;
    b.output(b.matmul(user(b, std::move(x)), b.permute(weight(b, std::move(w)), {1, 0})));
    RegionSpace space(b.finish(), clock_);
    Genome tiles;
    for (const Site& site : space.structure({})->sites) {
      for (int64_t value : site.values) {
        Head head = space.saturated().graph->head(static_cast<NodeId>(value));
        if (site.name.kind == GeneKind::kChoice &&
            space.saturated().heads->lowering(head) == Lowering::kTile) {
          tiles.set(site.name, value);
        }
      }
    }
    return space.decode(tiles).program;
  };
  auto temporaries = [](const Program& program) {
    std::vector<Shape> shapes;
    for (const common::Buffer& buffer : program.buffers) {
      if (buffer.kind == common::BufferKind::kTemporary) shapes.push_back(buffer.shape);
    }
    return shapes;
  };
  Program program = program_of({32, 16}, {24, 16});
  EXPECT_EQ(temporaries(program), std::vector<Shape>{(Shape{2, 16, 16})}) << print(program);
  EXPECT_EQ(count_calls(program).at_load, 1);
  EXPECT_EQ(count_calls(program).in_runs, 1);
  // A few rows read a matrix as it lies.
  EXPECT_EQ(temporaries(program_of({3, 16}, {24, 16})), std::vector<Shape>{});
}

// On a GPU threads share what they read through memory of their own.
TEST_F(LoadTime, AWeightKeepsItsOrderForAGpu) {
  GraphBuilder b;
  b.output(b.matmul(user(b, {32, 16}), b.permute(weight(b, {24, 16}), {1, 0})));
  RegionSpace space(b.finish(), clock_, Numerics::kStrict, common::Machine::kGpu);
  for (const Genome& seed : lowering_seeds(space)) {
    EXPECT_EQ(count_calls(space.decode(seed).program).at_load, 0);
  }
}

// A table of weights alone is no part of what runs; all layers scale one weight alike.
TEST_F(LoadTime, IterationsShareWhatWeightsGive) {
  constexpr int kLayers = 6;
  GraphBuilder b;
  IrNode x = user(b, {16, 8});
  IrNode table = b.unary(UnaryOp::kCos, weight(b, {16, 8}));
  IrNode shared = b.permute(weight(b, {8, 8}), {1, 0}), scale = weight(b, {8});
  for (int k = 0; k < kLayers; ++k) {
    IrNode y = b.binary(BinaryOp::kMul, b.matmul(x, shared), scale);
    y = b.binary(BinaryOp::kAdd, y, b.binary(BinaryOp::kMul, table, weight(b, {8})));
    x = b.unary(UnaryOp::kSigmoid, y);
  }
  b.output(x);
  Cut cut = cut_into_regions(common::roll(b.finish()));
  ASSERT_EQ(cut.executions, (std::vector<int64_t>{0, kLayers}));
  int users = 0;
  for (const auto& input : cut.regions[1].graph.inputs) users += input.kind == InputKind::kUser;
  EXPECT_EQ(users, 1);
  std::vector<Program> programs;
  for (const Region& region : cut.regions) programs.push_back(default_of(region.graph));
  Program whole = assemble(cut, {&programs[0], &programs[1]});
  ASSERT_TRUE(common::verify(whole).ok());
  // The scaled weight, and the layer's own multiple of the table.
  EXPECT_EQ(count_calls(programs[1]).at_load, 2) << common::print(programs[1]);
  EXPECT_EQ(count_calls(whole).at_load, 1 + 1 + kLayers) << common::print(whole);
}

}  // namespace
}  // namespace coordinator
