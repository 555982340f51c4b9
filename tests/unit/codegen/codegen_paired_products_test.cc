// Two products that meet in one kernel: if these fail, the last product of a network's block and
// its shortcut's give other sums than the model.
#include "common/schedule/template_fit.h"
#include "product_cases.h"

namespace testing_codegen {
namespace {

// relu(round(x . v) * scale + shift + round(y . w)), where rows are the places of images. `step`:
// between the pixels of y.
struct PairCase {
  std::vector<int64_t> places{2, 9, 7};
  int64_t columns = 72, depth = 64, other_depth = 128, step = 1;
  DType dtype = DType::kBfloat16;
  bool is_across = false;  // weights' columns are their fastest axis
  bool is_shared = false;  // both products have one left operand
  bool is_rounded = true;
};

NodeId product(GraphBuilder& b, const PairCase& c, NodeId images, NodeId weight) {
  NodeId sum =
      contract(b, images, weight, {0, 1, 2, 4},
               c.is_across ? std::vector<int>{4, 3} : std::vector<int>{3, 4}, {0, 1, 2, 3});
  return c.is_rounded ? b.cast(b.cast(sum, c.dtype), DType::kFloat32) : sum;
}

Graph body_of(const PairCase& c) {
  GraphBuilder b;
  const Shape places(c.places.begin(), c.places.end());
  auto images = [&](int64_t depth, int64_t step) {
    Shape shape = places;
    for (size_t k : {1, 2}) shape[k] = (shape[k] - Expr(1)) * Expr(step) + Expr(1);
    shape.emplace_back(depth);
    NodeId x = input(b, c.dtype, shape);
    if (step == 1) return x;
    View view;
    view.shape = places;
    view.shape.emplace_back(depth);
    view.index = {Expr::index(0), Expr::index(1) * Expr(step), Expr::index(2) * Expr(step),
                  Expr::index(3)};
    return b.view(x, view);
  };
  auto weight = [&](int64_t depth) {
    return input(b, c.dtype, c.is_across ? Shape{depth, c.columns} : Shape{c.columns, depth});
  };
  NodeId x = images(c.depth, 1);
  NodeId first = product(b, c, x, weight(c.depth));
  NodeId y = c.is_shared ? x : images(c.other_depth, c.step);
  NodeId second = product(b, c, y, weight(c.is_shared ? c.depth : c.other_depth));
  NodeId scaled = b.binary(BinaryOp::kMul, first, input(b, DType::kFloat32, {c.columns}));
  NodeId shifted = b.binary(BinaryOp::kAdd, scaled, input(b, DType::kFloat32, {c.columns}));
  NodeId sum = b.binary(BinaryOp::kAdd, b.cast(b.cast(shifted, c.dtype), DType::kFloat32), second);
  b.output(b.cast(b.binary(BinaryOp::kMax, sum, b.scalar(DType::kFloat32, 0)), c.dtype));
  return b.finish();
}

// Integers of [-2, 2], whose sums float32 holds exactly.
HostTensor random_integers(Random& random, const common::GraphInput& like) {
  std::vector<int64_t> sizes;
  for (const Expr& size : like.shape) sizes.push_back(size.constant());
  HostTensor t = HostTensor::zeros(like.dtype, sizes).value();
  for (int64_t i = 0; i < t.elements(); ++i) t.set(i, std::floor(5 * random.unit()) - 2);
  return t;
}

void add(KernelBatch& batch, Random& random, const PairCase& c, Schedule schedule) {
  Graph body = body_of(c);
  std::vector<HostTensor> inputs;
  for (const auto& one : body.inputs) inputs.push_back(random_integers(random, one));
  batch.add(Template::kTile, std::move(schedule), std::move(body), std::move(inputs));
}

void check(KernelBatch& batch) {
  batch.compile();
  if (::testing::Test::HasFatalFailure()) return;
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_EQ(batch.at(k).source.entry.maps.size(), 4u) << k;
  }
  batch.check_all(0);
}

// Whole and cut blocks, alone and in clusters, with more and fewer steps than stages.
TEST(CodegenPairedProducts, BlocksOfAllKinds) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no copy engine";
  Random random(81);
  KernelBatch batch("cuda-sm_90a");
  for (int64_t clusters : {1, 2, 4, 102}) {
    for (int64_t block : {64064, 64128, 128064, 128128, 192064}) {
      const Schedule schedule{{"clusters", clusters}, {"warpgroups", block}};
      PairCase c;
      add(batch, random, c, schedule);
      c.dtype = DType::kFloat16;
      c.is_across = true;
      c.depth = 320;
      c.columns = 136;
      add(batch, random, c, schedule);
      c.is_shared = true;
      add(batch, random, c, schedule);
    }
  }
  for (int64_t depth : {64, 128, 192, 256, 320, 640}) {
    PairCase c;
    c.depth = depth;
    c.other_depth = 704 - depth;
    add(batch, random, c, {{"clusters", 1}, {"warpgroups", 128256}});
    add(batch, random, c, {});
  }
  check(batch);
}

// The shortcut of a block that halves images: pixels two and three apart.
TEST(CodegenPairedProducts, PixelsApart) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no copy engine";
  Random random(82);
  KernelBatch batch("cuda-sm_90a");
  for (int64_t clusters : {1, 2}) {
    for (int64_t step : {2, 3}) {
      for (int64_t block : {64064, 128128, 128256}) {
        PairCase c;
        c.step = step;
        c.columns = 264;
        c.is_across = clusters == 2;
        add(batch, random, c, {{"clusters", clusters}, {"warpgroups", block}});
      }
    }
  }
  check(batch);
}

// Which bodies are such pairs.
TEST(CodegenPairedProducts, Form) {
  EXPECT_TRUE(common::paired_products(body_of({})));
  auto is_pair = [](auto change) {
    PairCase c;
    change(c);
    return common::paired_products(body_of(c)).has_value();
  };
  EXPECT_TRUE(is_pair([](PairCase& c) { c.step = 2; }));
  EXPECT_TRUE(is_pair([](PairCase& c) { c.is_shared = true; }));
  EXPECT_TRUE(is_pair([](PairCase& c) { c.is_across = true; }));
  EXPECT_FALSE(is_pair([](PairCase& c) { c.is_rounded = false; }));
  EXPECT_FALSE(is_pair([](PairCase& c) { c.dtype = DType::kFloat32; }));
  EXPECT_FALSE(is_pair([](PairCase& c) { c.depth = 72; }));
  EXPECT_FALSE(is_pair([](PairCase& c) { c.columns = 9; }));
  EXPECT_FALSE(is_pair([](PairCase& c) { c.columns = 84; }));
  EXPECT_FALSE(is_pair([](PairCase& c) { c.places = {1, 4, 2}; }));
}

}  // namespace
}  // namespace testing_codegen
