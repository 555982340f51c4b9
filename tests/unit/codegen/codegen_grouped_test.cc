// Products whose rows multiply matrices of their own, against the reference interpreter. If these
// fail, experts of a model are mixed up, or rows at the end of a group are lost.
#include <algorithm>
#include <numeric>

#include "codegen_testing.h"

namespace testing_codegen {
namespace {

struct Groups {
  int64_t rows = 0, groups = 1;
  std::vector<int64_t> of;  // by row
};

Groups random_groups(Random& random, int64_t rows, int64_t groups, int64_t first, int64_t end) {
  Groups g{rows, groups, {}};
  for (int64_t r = 0; r < rows; ++r) {
    g.of.push_back(first + static_cast<int64_t>(random.unit() * static_cast<double>(end - first)));
  }
  return g;
}

std::vector<int64_t> order_of(const Groups& g) {
  std::vector<int64_t> order(static_cast<size_t>(g.rows));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    auto group = [&](int64_t r) {
      return std::clamp<int64_t>(g.of[static_cast<size_t>(r)], 0, g.groups - 1);
    };
    return group(a) < group(b);
  });
  return order;
}

HostTensor integers(const std::vector<int64_t>& values) {
  HostTensor t = HostTensor::zeros(DType::kInt64, {static_cast<int64_t>(values.size())}).value();
  for (size_t k = 0; k < values.size(); ++k) t.set_int(static_cast<int64_t>(k), values[k]);
  return t;
}

struct Product {
  DType dtype = DType::kFloat16;
  int64_t columns = 40, depth = 72;
  int64_t members = 1;        // rows that share a row of x
  bool is_turned = false;     // matrices are k x n in memory
  bool is_symbolic = false;   // the number of rows
  bool has_epilogue = false;  // rounded, and times a weight for each row
};

Graph body_of(const Groups& g, const Product& p) {
  GraphBuilder b;
  const Expr tokens = p.is_symbolic ? b.new_symbol({2, 4096}) : Expr(g.rows / p.members);
  const Expr rows = tokens * Expr(p.members);
  const Expr n = p.columns, k = p.depth;
  NodeId x = b.input(InputKind::kUser, p.dtype, {tokens, k}, "x");
  Shape stored = p.is_turned ? Shape{g.groups, k, n} : Shape{g.groups, n, k};
  NodeId w = b.input(InputKind::kUser, p.dtype, stored, "w");
  NodeId index = b.input(InputKind::kUser, DType::kInt64, {rows}, "g");
  NodeId order = b.input(InputKind::kUser, DType::kInt64, {rows}, "order");
  auto i = [](int axis) { return Expr::index(axis); };
  NodeId left = b.view(x, {{rows, k}, {floor_div(i(0), Expr(p.members)), i(1)}, {}, 0});
  if (p.is_turned) w = b.permute(w, {0, 2, 1});
  NodeId spread = b.view(index, {{rows, n, k}, {i(0)}, {}, 0});
  NodeId matrices = b.gather(w, {spread}, {rows, n, k}, {{0, {}}, {-1, i(1)}, {-1, i(2)}});
  if (is_half(p.dtype)) {
    left = b.cast(left, DType::kFloat32);
    matrices = b.cast(matrices, DType::kFloat32);
  }
  NodeId y = b.raw({Op::kContract,
                    DType::kFloat32,
                    {rows, n},
                    {left, matrices, order},
                    ContractAttr{{0, 2}, {0, 1, 2}, {0, 1}}});
  if (p.has_epilogue) {
    y = b.cast(b.cast(y, p.dtype), DType::kFloat32);
    NodeId scale = b.input(InputKind::kUser, DType::kFloat32, {rows}, "scale");
    y = b.binary(BinaryOp::kMul, y, b.view(scale, {{rows, n}, {i(0)}, {}, 0}));
  }
  b.output(y);
  return b.finish();
}

void add(KernelBatch& batch, Random& random, const Groups& g, const Product& p,
         Schedule schedule = {}) {
  Graph body = body_of(g, p);
  std::vector<int64_t> stored = p.is_turned ? std::vector<int64_t>{g.groups, p.depth, p.columns}
                                            : std::vector<int64_t>{g.groups, p.columns, p.depth};
  std::vector<HostTensor> inputs;
  inputs.push_back(random_tensor(random, p.dtype, {g.rows / p.members, p.depth}));
  inputs.push_back(random_tensor(random, p.dtype, stored));
  inputs.push_back(integers(g.of));
  inputs.push_back(integers(order_of(g)));
  if (p.has_epilogue) inputs.push_back(random_tensor(random, DType::kFloat32, {g.rows}));
  ASSERT_EQ(inputs.size(), body.inputs.size());
  batch.add(Template::kTile, std::move(schedule), body, std::move(inputs));
}

void check_all(KernelBatch& batch) {
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    batch.check(k, 3e-4);
    batch.check(k, 3e-4, 2);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(CodegenGrouped, RaggedEmptyAndWholeGroups) {
  Random random(31);
  KernelBatch batch;
  for (DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32}) {
    Product p;
    p.dtype = dtype;
    add(batch, random, random_groups(random, 150, 7, 0, 7), p);
    // Two of eleven groups have rows.
    add(batch, random, random_groups(random, 97, 11, 4, 6), p);
    // One has all, the last one.
    add(batch, random, random_groups(random, 130, 5, 4, 5), p);
    // Nearly each row has its own.
    add(batch, random, random_groups(random, 40, 37, 0, 37), p);
    add(batch, random, random_groups(random, 1, 3, 1, 2), p);
  }
  check_all(batch);
}

TEST(CodegenGrouped, IndicesOutOfRangeAreClamped) {
  Random random(32);
  KernelBatch batch;
  add(batch, random, random_groups(random, 90, 6, -4, 11), {});
  Product wide;
  wide.dtype = DType::kFloat32;
  add(batch, random, random_groups(random, 90, 6, -4, 11), wide);
  check_all(batch);
}

TEST(CodegenGrouped, OrdersOfMemorySharedRowsAndEpilogues) {
  Random random(33);
  KernelBatch batch;
  for (bool turned : {false, true}) {
    for (bool symbolic : {false, true}) {
      Product p;
      p.is_turned = turned;
      p.is_symbolic = symbolic;
      p.members = 4;
      p.has_epilogue = true;
      p.columns = 48;
      p.depth = turned ? 35 : 64;
      add(batch, random, random_groups(random, 124, 9, 0, 9), p);
    }
  }
  check_all(batch);
}

TEST(CodegenGrouped, EverySizeOfBlocks) {
  Random random(34);
  KernelBatch batch;
  Product p;
  p.columns = 136;
  for (const ScheduleChoice& choice : schedule_parameters(Template::kTile)) {
    if (!choice.on_gpu && !choice.on_warpgroups) continue;
    for (int64_t value : choice.values) {
      add(batch, random, random_groups(random, 150, 7, 0, 7), p,
          {{std::string(choice.name), value}});
    }
  }
  check_all(batch);
}

// Runs of less and of more rows than a warpgroup has, of which the last ones begin in a block's
// last row; whole blocks of one group; and matrices along either axis.
TEST(CodegenGrouped, WarpgroupsMultiplyRuns) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no warpgroups";
  Random random(36);
  KernelBatch batch("cuda-sm_90a");
  for (bool turned : {false, true}) {
    for (int64_t blocks : {64064, 128128, 128256}) {
      Product p;
      p.is_turned = turned;
      p.columns = 264;
      p.depth = turned ? 72 : 136;
      const Schedule schedule{{"warpgroups", blocks}};
      add(batch, random, random_groups(random, 300, 3, 0, 3), p, schedule);
      Groups g{256, 4, {}};
      for (int64_t r = 0; r < g.rows; ++r)
        g.of.push_back(r < 127 ? 0 : r < 128 ? 1 : r < 192 ? 2 : 3);
      add(batch, random, g, p, schedule);
    }
  }
  check_all(batch);
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_NE(batch.at(k).source.text.find("lf_wgmma_f16"), std::string::npos);
  }
}

// The result is that of the graph whatever the order says, as long as it has each row once.
TEST(CodegenGrouped, AnyOrderIsRight) {
  Random random(35);
  KernelBatch batch;
  Groups g = random_groups(random, 80, 5, 0, 5);
  Product p;
  Graph body = body_of(g, p);
  std::vector<int64_t> order(80);
  for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int64_t>(79 - k);
  std::vector<HostTensor> inputs;
  inputs.push_back(random_tensor(random, p.dtype, {80, p.depth}));
  inputs.push_back(random_tensor(random, p.dtype, {5, p.columns, p.depth}));
  inputs.push_back(integers(g.of));
  inputs.push_back(integers(order));
  batch.add(Template::kTile, {}, body, std::move(inputs));
  check_all(batch);
}

}  // namespace
}  // namespace testing_codegen
