// If these fail, a nest that leaves elements out or computes some twice reaches a compiler.
#include "common/ir/nest/loop_nest.h"

#include <gtest/gtest.h>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/nest/lower_structure.h"

namespace common {
namespace {

Expr i(int k) { return Expr::index(k); }

// Counts how often the band visits each element of a shape of constants.
bool visits_each_once(const LoopBand& band, const std::vector<int64_t>& shape) {
  int64_t total = 1, steps = 1;
  for (int64_t size : shape) total *= size;
  std::vector<int64_t> extents;
  for (const Expr& e : band.extents) {
    extents.push_back(e.constant());
    steps *= e.constant();
  }
  std::vector<char> seen(static_cast<size_t>(total), 0);
  std::vector<int64_t> at(extents.size(), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t left = step;
    for (size_t k = extents.size(); k-- > 0;) {
      at[k] = left % extents[k];
      left /= extents[k];
    }
    int64_t flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t x = band.position[d].evaluate({}, at);
      if (x < 0 || x >= shape[d]) return false;
      flat = flat * shape[d] + x;
    }
    if (seen[static_cast<size_t>(flat)]++ != 0) return false;
  }
  return steps == total;
}

LoopBand transformed(const LoopBand& band, Random& random) {
  size_t loops = band.extents.size();
  std::optional<LoopBand> result;
  switch (random.below(3)) {
    case 0:
      result = split_loop(band, random.below(loops), static_cast<int64_t>(2 + random.below(4)));
      break;
    case 1:
      result = fuse_loops(band, random.below(loops));
      break;
    default: {
      std::vector<size_t> order(loops);
      for (size_t k = 0; k < loops; ++k) order[k] = k;
      for (size_t k = loops; k > 1; --k) std::swap(order[k - 1], order[random.below(k)]);
      result = reorder_loops(band, order);
    }
  }
  return result.value_or(band);
}

TEST(LoopBand, TransformationsVisitEveryElementOnce) {
  Random random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> sizes = {static_cast<int64_t>(2 + random.below(11)), 12,
                                  static_cast<int64_t>(1 + random.below(6))};
    Shape shape(sizes.begin(), sizes.end());
    LoopBand band = plain_band(shape);
    for (int step = 0; step < 8; ++step) band = transformed(band, random);
    ASSERT_TRUE(visits_each_once(band, sizes)) << print({{}, band});
    Status status = verify_band(band, shape, {});
    ASSERT_TRUE(status.ok()) << status.error().message << "\n" << print({{}, band});
  }
}

// Whatever is changed in a band, what the verifier still takes visits every element once.
TEST(LoopBand, NothingThatLeavesElementsOutIsVerified) {
  Random random(11);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<int64_t> sizes = {6, 4, 10};
    Shape shape(sizes.begin(), sizes.end());
    LoopBand band = plain_band(shape);
    for (int step = 0; step < 4; ++step) band = transformed(band, random);
    size_t loops = band.extents.size();
    Expr& position = band.position[random.below(3)];
    switch (random.below(5)) {
      case 0:
        band.extents[random.below(loops)] += 1;
        break;
      case 1:
        position = position + i(static_cast<int>(random.below(loops)));
        break;
      case 2:
        position = mod(position + 1, Expr(4));
        break;
      case 3:
        std::swap(band.extents[random.below(loops)], band.extents[random.below(loops)]);
        break;
      default:
        position = floor_div(position, 2) * 2;
    }
    bool is_right = visits_each_once(band, sizes);
    bool is_taken = verify_band(band, shape, {}).ok();
    ASSERT_TRUE(is_right || !is_taken) << print({{}, band});
    refused += is_taken ? 0 : 1;
  }
  EXPECT_GT(refused, 500);
}

TEST(LoopBand, SizesMayBeSymbols) {
  Expr s = Expr::symbol(0);
  std::vector<SymbolRange> symbols = {{1, 4096}};
  Shape shape = {s, 8 * s, 32};
  LoopBand band = *split_loop(plain_band(shape), 1, s);
  band = *fuse_loops(*reorder_loops(band, {1, 0, 2, 3}), 2);
  EXPECT_TRUE(verify_band(band, shape, symbols).ok()) << print({{}, band});
  band.extents[0] = 7;
  EXPECT_FALSE(verify_band(band, shape, symbols).ok());
  EXPECT_FALSE(verify_band(plain_band({s}), {Expr::symbol(1)}, symbols).ok());
}

TEST(LoopBand, SizesMayBeSumsOfSymbols) {
  const std::vector<SymbolRange> symbols = {{1, 7}, {2, 9}};
  Shape shape = {2, Expr::symbol(1), Expr::symbol(0) - 1};
  LoopBand band = *fuse_loops(plain_band(shape), 1);
  EXPECT_TRUE(verify_band(band, shape, symbols).ok());
  band = *fuse_loops(band, 0);
  EXPECT_TRUE(verify_band(band, shape, symbols).ok());
}

TEST(LoopBand, NothingIsVisitedOfWhatIsEmpty) {
  EXPECT_TRUE(verify_band(plain_band({5, 0}), {5, 0}, {}).ok());
  EXPECT_FALSE(fuse_loops(plain_band({5, 0}), 0)) << "an index would be divided by 0";
  LoopBand band = plain_band({5, 0});
  band.extents[1] = 1;
  EXPECT_FALSE(verify_band(band, {5, 0}, {}).ok());
}

// A symbol of one value is the same as the value, and sizes may be quotients.
TEST(LoopBand, SizesAreSimplified) {
  Expr s = Expr::symbol(0), t = Expr::symbol(1);
  Expr half = floor_div(t + 1, 2);
  for (const Shape& shape :
       {Shape{t, s}, Shape{s, t}, Shape{4, t, s}, Shape{half, t}, Shape{t, half}}) {
    LoopBand band = *fuse_loops(plain_band(shape), 0);
    EXPECT_TRUE(verify_band(band, shape, {{4, 4}, {1, 7}}).ok()) << print({{}, band});
  }
}

TEST(LoopBand, WhatIsNotLegalIsNotTransformed) {
  LoopBand band = plain_band({6, 4});
  EXPECT_FALSE(split_loop(band, 0, 4));
  EXPECT_FALSE(split_loop(band, 2, 2));
  EXPECT_FALSE(split_loop(band, 0, Expr(0)));
  EXPECT_FALSE(fuse_loops(band, 1));
  EXPECT_FALSE(reorder_loops(band, {0, 0}));
  EXPECT_FALSE(reorder_loops(band, {0}));
}

// A softmax of rows and its sum over the other axis: two groups of outputs, several reductions.
Graph two_groups() {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {8, 64, 3}, "");
  NodeId y = b.raw({Op::kSoftmax, DType::kFloat32, b.shape(x), {x}, SoftmaxAttr{1, false}});
  b.output(y);
  b.output(b.reduce(ReduceOp::kSum, y, {1, 2}));
  return lower_structure(b.finish(), Kept::kNone);
}

std::vector<NodeId> reductions_of(const Graph& body) {
  std::vector<NodeId> found;
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    if (body.nodes[id].op == Op::kReduce) found.push_back(static_cast<NodeId>(id));
  }
  return found;
}

LoopNest nest_of_two_groups() {
  LoopNest nest;
  nest.shared = plain_band({8});
  nest.grid = 1;
  nest.groups = {{plain_band({64, 3}), AccumulatorBlock{1, 3}}, {plain_band({}), {}}};
  return nest;
}

TEST(LoopNest, IsHeldAgainstItsBody) {
  Graph body = two_groups();
  ASSERT_TRUE(verify(nest_of_two_groups(), body).ok())
      << verify(nest_of_two_groups(), body).error().message;
  std::vector<NodeId> reductions = reductions_of(body);
  ASSERT_EQ(reductions.size(), 3u);  // the maximum, the sum that needs it, the sum of both axes
  auto refused = [&](auto change) {
    LoopNest nest = nest_of_two_groups();
    change(nest);
    return !verify(nest, body).ok();
  };
  EXPECT_TRUE(refused([](LoopNest& n) { n.groups.pop_back(); }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.shared = plain_band({4}); }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.grid = 2; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.blocks_in_grid = true; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.transposed = true; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.groups[0].accumulators->before = 2; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.groups[0].accumulators->width = 0; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.unroll = 0; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.simd = -1; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.threads.threads = 3; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.threads.threads = 48; }));
  EXPECT_FALSE(refused([](LoopNest& n) { n.threads.threads = 96; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.threads = {64, 32, 1, 1}; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.threads = {32, 1, 2, 1}; }));
  EXPECT_FALSE(refused([](LoopNest& n) { n.threads = {64, 1, 2, 1}; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.threads = {1, 1, 1, 1, 4}; })) << "no group";
  EXPECT_TRUE(refused([](LoopNest& n) { n.threads = {8, 32, 1, 1, 4}; })) << "neighbours are rows";
  EXPECT_TRUE(refused([](LoopNest& n) { n.threads = {64, 1, 2, 1, 4}; })) << "split and several";
  EXPECT_TRUE(refused([](LoopNest& n) {
    n.grid = 0;
    n.threads = {64, 1, 1, 1, 4};
  })) << "no grid";
  EXPECT_TRUE(refused([](LoopNest& n) { n.reductions.staged = {999}; }));
  EXPECT_TRUE(refused([&](LoopNest& n) { n.reductions.flat = {reductions[0]}; }));
  EXPECT_FALSE(refused([&](LoopNest& n) { n.reductions.flat = {reductions[2]}; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.reductions.walked = {999}; }));
  EXPECT_TRUE(refused([](LoopNest& n) { n.reductions.walked = {0}; })) << "no reduction";
  // The second needs the first.
  EXPECT_TRUE(refused([&](LoopNest& n) { n.reductions.fused[reductions[0]] = {reductions[1]}; }));
}

TEST(LoopNest, TextIsReadBack) {
  LoopNest single;
  single.shared = *fuse_loops(*split_loop(plain_band({Expr::symbol(0) * 4, 10}), 0, 4), 1);
  single.grid = 1;
  single.groups = {{{}, AccumulatorBlock{1, 40}}};
  single.blocks_in_grid = true;
  single.reductions = {{{3, {5, 4}}, {9, {10}}}, {3}, {1, 2}, {6, 7}};
  single.simd = 8;
  single.unroll = 4;
  LoopNest transposed;
  transposed.is_epilogue = true;
  transposed.shared = plain_band({4, 5, 6});
  transposed.groups.resize(1);
  transposed.transposed = transposed.dot_products = true;
  transposed.threads = {64, 2, 1, 4};
  transposed.prefetch = BlockPrefetch{3, 4096};
  for (const LoopNest& nest : {single, transposed, nest_of_two_groups()}) {
    auto read = parse_nest(print(nest));
    ASSERT_TRUE(read.ok()) << read.error().message << "\n" << print(nest);
    EXPECT_EQ(*read, nest) << print(nest) << "\n" << print(*read);
  }
}

TEST(LoopNest, TextThatIsNoneSaysWhere) {
  const char* good = "grid i0 < 8\naxes [i0]\n";
  ASSERT_TRUE(parse_nest(good).ok());
  for (const char* bad :
       {"loop i2 < 8", "loop i0 8", "grid i0 < 8 +", "axes i0", "accumulators before=1",
        "accumulators before=-1 width=3", "transposed twice", "fuse first=1", "flat nodes=[x]",
        "simd width=8", "threads count=8", "prefetch input=-1 bytes=128", "unroll 4",
        "group\ngrid i0 < 4"}) {
    auto read = parse_nest(cat(good, bad, "\n"));
    ASSERT_FALSE(read.ok()) << bad;
    std::string line = std::string_view(bad).find('\n') == std::string_view::npos ? "3" : "4";
    EXPECT_NE(read.error().message.find("line " + line), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace common
