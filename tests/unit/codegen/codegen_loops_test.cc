// Code of the kLoops template against the reference interpreter.
#include "codegen_testing.h"
#include "common/ir/nest/transformations.h"
#include "common/lowering/loops/gpu_loops.h"
#include "common/lowering/loops/late_reads.h"

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

size_t occurrences(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t k = text.find(word); k != std::string::npos; k = text.find(word, k + 1)) ++count;
  return count;
}

// Few long reductions, each shared by several blocks of a GPU.
TEST(CodegenLoops, LongReductions) {
  Random random(19);
  KernelBatch batch;
  for (int64_t length : {0, 1, 8191, 200'000, 300'001}) {
    for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      // Only what a symbol's least size says decides whether blocks share.
      GraphBuilder b({{length < 200'000 ? 0 : 200'000, 1 << 20}});
      NodeId x = b.input(InputKind::kUser, dtype, {2, Expr::symbol(0)}, "x");
      NodeId wide = b.cast(x, DType::kFloat32);
      NodeId squares = b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, wide, wide), {1});
      NodeId total = b.reduce(ReduceOp::kSum, wide, {1});
      NodeId most = b.reduce(ReduceOp::kMax, wide, {1});
      b.output(b.binary(BinaryOp::kAdd,
                        b.binary(BinaryOp::kMul, total, b.unary(UnaryOp::kSqrt, squares)),
                        b.unary(UnaryOp::kTanh, most)));
      // Values that do not cancel, so that their sum is well conditioned.
      batch.add(Template::kLoops, {}, b.finish(), {random_tensor(random, dtype, {2, length}, -1)});
    }
  }
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kProd}) {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kInt64, {300'000}, "x");
    b.output(b.reduce(op, x, {0}));
    batch.add(Template::kLoops, {}, b.finish(),
              {random_tensor(random, DType::kInt64, {300'000}, -1e6, 1e6)});
  }
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kBool, {3, 300'001}, "x");
  b.output(b.reduce(ReduceOp::kAll, b.unary(UnaryOp::kNot, x), {1}));
  batch.add(Template::kLoops, {}, b.finish(),
            {HostTensor::zeros(DType::kBool, {3, 300'001}).value()});
  batch.compile();
  batch.check_all();
  if (!runs_on_gpu()) return;
  for (size_t k = 0; k < batch.size(); ++k) {
    const std::string& text = batch.at(k).source.text;
    bool is_long = batch.at(k).inputs[0].elements() >= 300'000;
    EXPECT_EQ(text.find("lf_is_last") != std::string::npos, is_long) << text;
  }
}

// Positions of extrema in few long rows, each row shared by several blocks: of equal elements the
// first counts, whatever block saw it, and a NaN before all others.
TEST(CodegenLoops, LongPositions) {
  Random random(20);
  KernelBatch batch;
  for (ReduceOp op : {ReduceOp::kArgmax, ReduceOp::kArgmin}) {
    for (DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kInt64}) {
      for (int64_t rows : {1, 3}) {
        GraphBuilder b;
        NodeId x = b.input(InputKind::kUser, dtype, {rows, 151'936}, "x");
        NodeId wide = dtype == DType::kBfloat16 ? b.cast(x, DType::kFloat32) : x;
        NodeId whole = common::is_float(dtype) ? b.unary(UnaryOp::kFloor, wide) : wide;
        b.output(b.reduce(op, whole, {1}));
        batch.add(Template::kLoops, {}, b.finish(),
                  {random_tensor(random, dtype, {rows, 151'936}, -3, 3)});
      }
    }
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {200'000}, "x");
    // Negative numbers have no square root.
    b.output(b.reduce(op, b.unary(UnaryOp::kSqrt, x), {0}));
    batch.add(Template::kLoops, {}, b.finish(),
              {random_tensor(random, DType::kFloat32, {200'000}, -1e-4, 10)});
  }
  batch.compile();
  batch.check_all();
  if (!runs_on_gpu()) return;
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_GT(occurrences(batch.at(k).source.text, "lf_is_last"), 0u) << batch.at(k).source.text;
  }
}

// Windows of images whose channels come last: each vector of channels is folded in a register, and
// rows beyond the border are read from a row of fills.
TEST(CodegenLoops, WindowsOfChannels) {
  Random random(21);
  KernelBatch batch;
  struct Case {
    DType dtype;
    ReduceOp op;
    int64_t channels, window, stride, before;
    double fill;
  };
  const double inf = std::numeric_limits<double>::infinity();
  const Case cases[] = {
      {DType::kFloat32, ReduceOp::kSum, 16, 3, 1, 1, 0},
      {DType::kFloat32, ReduceOp::kSum, 37, 3, 2, 1, 0.5},  // some lanes are left over
      {DType::kFloat32, ReduceOp::kMax, 300, 2, 2, 0, -inf},
      {DType::kFloat32, ReduceOp::kMin, 144, 3, 1, 2, inf},  // whole windows outside
      {DType::kBfloat16, ReduceOp::kSum, 24, 3, 1, 1, 0},
      {DType::kInt64, ReduceOp::kProd, 33, 3, 1, 1, 1},
      {DType::kInt32, ReduceOp::kMax, 20, 5, 3, 2, -7},
      {DType::kBool, ReduceOp::kAny, 40, 2, 1, 1, 1},
      {DType::kFloat32, ReduceOp::kSum, 16, 7, 1, 3, 0},  // too many steps to write out
      {DType::kFloat32, ReduceOp::kArgmax, 19, 3, 1, 0, 0},
  };
  for (const Case& c : cases) {
    GraphBuilder b;
    NodeId x = input(b, c.dtype, {2, 6, 7, c.channels});
    int64_t height = (6 + 2 * c.before - c.window) / c.stride + 1;
    int64_t width = (7 + 2 * c.before - c.window) / c.stride + 1;
    Expr row = Expr::index(1) * Expr(c.stride) + Expr::index(4) - Expr(c.before);
    Expr column = Expr::index(2) * Expr(c.stride) + Expr::index(5) - Expr(c.before);
    View view{{2, height, width, c.channels, c.window, c.window},
              {Expr::index(0), row, column, Expr::index(3)},
              {},
              c.fill};
    if (c.before > 0) view.valid = {{row, 6}, {column, 7}};
    NodeId windows = b.view(x, view);
    if (c.dtype == DType::kBfloat16) windows = b.cast(windows, DType::kFloat32);
    // Sums of what does not cancel.
    double least = c.op == ReduceOp::kSum ? 0.1 : -2;
    std::vector<HostTensor> inputs{random_tensor(random, c.dtype, {2, 6, 7, c.channels}, least, 2)};
    if (c.op == ReduceOp::kSum) {
      NodeId w = input(b, DType::kFloat32, {c.window, c.window, c.channels});
      View spread{b.shape(windows), {Expr::index(4), Expr::index(5), Expr::index(3)}, {}, 0};
      windows = b.binary(BinaryOp::kMul, windows, b.view(w, spread));
      inputs.push_back(
          random_tensor(random, DType::kFloat32, {c.window, c.window, c.channels}, 0.1, 1));
    }
    std::vector<int> axes{4, 5};
    if (c.op == ReduceOp::kArgmax) axes = {4};
    b.output(b.reduce(c.op, windows, axes));
    batch.add(Template::kLoops, {}, b.finish(), std::move(inputs));
  }
  batch.compile();
  batch.check_all();
  for (size_t k = 0; k < batch.size(); ++k) batch.check(k, 2e-5, 3);
  if (runs_on_gpu()) return;
  EXPECT_NE(batch.at(0).source.text.find(" : fill"), std::string::npos) << "no row of fills in\n"
                                                                        << batch.at(0).source.text;
}

// A residual sum that is stored and normalised.
TEST(CodegenLoops, StoresWhatItNormalises) {
  Random random(3);
  KernelBatch batch;
  for (bool sum_first : {false, true}) {
    for (int64_t stage : {0, 1}) {
      GraphBuilder b;
      NodeId x = input(b, DType::kFloat32, {37, 65});
      NodeId y = input(b, DType::kFloat32, {37, 65});
      NodeId w = input(b, DType::kFloat32, {65});
      NodeId sum = b.binary(BinaryOp::kAdd, x, y);
      NodeId norm =
          b.raw({Op::kNorm, DType::kFloat32, b.shape(sum), {sum}, NormAttr{1, stage == 1, 1e-5}});
      NodeId scaled = b.binary(BinaryOp::kMul, norm, w);
      b.output(sum_first ? sum : scaled);
      b.output(sum_first ? scaled : sum);
      batch.add(Template::kLoops, {{"stage", stage}}, b.finish(),
                {random_tensor(random, DType::kFloat32, {37, 65}),
                 random_tensor(random, DType::kFloat32, {37, 65}),
                 random_tensor(random, DType::kFloat32, {65})});
    }
  }
  batch.compile();
  batch.check_all();
  for (size_t k = 0; k < batch.size(); ++k) batch.check(k, 2e-6, 3);
}

// Outputs of two ranks share a reduction and the function that it sums.
TEST(CodegenLoops, ComputesOnceWhatOutputsShare) {
  Random random(4);
  KernelBatch batch;
  for (int outputs = 1; outputs <= 4; ++outputs) {
    GraphBuilder b;
    NodeId x = input(b, DType::kFloat32, {19, 70});
    NodeId total = b.reduce(ReduceOp::kSum, b.unary(UnaryOp::kExp, x), {1});
    NodeId spread = b.expand(b.unsqueeze(total, 1), {19, 70});
    if (outputs > 1) b.output(b.binary(BinaryOp::kMul, x, spread));
    if (outputs > 2) b.output(b.binary(BinaryOp::kSub, x, spread));
    b.output(total);
    if (outputs > 3) b.output(b.unary(UnaryOp::kNeg, total));
    batch.add(Template::kLoops, {}, b.finish(), {random_tensor(random, DType::kFloat32, {19, 70})});
  }
  {
    GraphBuilder b;
    NodeId angle = b.binary(BinaryOp::kMul, input(b, DType::kFloat32, {9, 40}),
                            b.scalar(DType::kFloat32, 0.5));
    NodeId power = b.unary(UnaryOp::kExp, angle);
    b.output(b.unary(UnaryOp::kSin, power));
    b.output(b.unary(UnaryOp::kCos, power));
    batch.add(Template::kLoops, {}, b.finish(), {random_tensor(random, DType::kFloat32, {9, 40})});
  }
  batch.compile();
  batch.check_all();
  EXPECT_GT(occurrences(batch.at(0).source.text, "exp"), 0u);
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_EQ(occurrences(batch.at(k).source.text, "exp"),
              occurrences(batch.at(0).source.text, "exp"))
        << batch.at(k).source.text;
    batch.check(k, 2e-6, 3);
  }
}

// Teams of threads over rows and columns: parts that are summed apart, members and units that are
// left over, extrema of which several are equal.
TEST(CodegenLoops, TeamsOfGpus) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no such parameters";
  Random random(5);
  KernelBatch batch;
  for (int64_t team : {1, 8, 32, 128, 1024}) {
    for (auto [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{37, 70}, {5, 2600}}) {
      for (int axis : {0, 1}) {
        GraphBuilder b;
        NodeId x = input(b, DType::kFloat32, {rows, columns});
        NodeId whole = b.unary(UnaryOp::kFloor, x);
        b.output(b.reduce(ReduceOp::kSum, x, {axis}));
        b.output(b.reduce(ReduceOp::kMax, b.unary(UnaryOp::kNeg, x), {axis}));
        b.output(b.reduce(ReduceOp::kArgmax, whole, {axis}));
        b.output(b.reduce(ReduceOp::kArgmin, whole, {axis}));
        batch.add(Template::kLoops, {{"team", team}}, b.finish(),
                  {random_tensor(random, DType::kFloat32, {rows, columns})});
      }
    }
  }
  batch.compile();
  batch.check_all(1e-4);  // what cancels in a float sum; a missing element is near 1
}

// Where memory runs across the rows that are summed, neighbouring threads take neighbouring sums
// and the members of a team sit apart.
TEST(CodegenLoops, TeamsSideBySide) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no such parameters";
  Random random(7);
  KernelBatch batch;
  for (int64_t team : {8, 32}) {
    GraphBuilder b;
    NodeId x = input(b, DType::kFloat32, {700, 77});
    NodeId whole = b.unary(UnaryOp::kFloor, x);
    b.output(b.reduce(ReduceOp::kSum, x, {0}));
    b.output(b.reduce(ReduceOp::kMin, x, {0}));
    b.output(b.reduce(ReduceOp::kArgmax, whole, {0}));
    batch.add(Template::kLoops, {{"team", team}}, b.finish(),
              {random_tensor(random, DType::kFloat32, {700, 77})});
  }
  batch.compile();
  batch.check_all(1e-4);
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_GT(occurrences(batch.at(k).source.text, "threadIdx.x % 32"), 0u)
        << batch.at(k).source.text;
  }
}

// Beside 2^24 a float sum would lose every 1.
TEST(CodegenLoops, LongSumsOfTeamsAreCarriedInDouble) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no such parameters";
  KernelBatch batch;
  for (int64_t team : {8, 128}) {
    int64_t columns = 2500 * team;
    GraphBuilder b;
    b.output(b.reduce(ReduceOp::kSum, input(b, DType::kFloat32, {3, columns}), {1}));
    HostTensor x = HostTensor::zeros(DType::kFloat32, {3, columns}).value();
    for (int64_t i = 0; i < x.elements(); ++i) x.set(i, i % columns < team ? 16777216 : 1);
    batch.add(Template::kLoops, {{"team", team}}, b.finish(), {x});
  }
  batch.compile();
  batch.check_all(1e-7);
}

// Neighbours that a thread could load at once, transposed, shifted, spread and repeated.
TEST(CodegenLoops, NeighboursThatAreNoVectors) {
  Random random(6);
  KernelBatch batch;
  for (DType dtype : {DType::kFloat32, DType::kInt8}) {
    for (bool sums : {false, true}) {
      GraphBuilder b;
      NodeId transposed = b.permute(input(b, dtype, {64, 32}), {1, 0});
      NodeId shifted = b.slice(input(b, dtype, {32, 68}), 1, 1, 64, 1);
      NodeId spread = b.slice(input(b, dtype, {32, 128}), 1, 0, 64, 2);
      NodeId repeated = b.expand(input(b, dtype, {32, 1}), {32, 64});
      NodeId sum = b.binary(BinaryOp::kAdd, b.binary(BinaryOp::kAdd, transposed, shifted),
                            b.binary(BinaryOp::kAdd, spread, repeated));
      b.output(sums ? b.reduce(ReduceOp::kMax, sum, {1}) : sum);
      batch.add(Template::kLoops, {}, b.finish(),
                {random_tensor(random, dtype, {64, 32}), random_tensor(random, dtype, {32, 68}),
                 random_tensor(random, dtype, {32, 128}), random_tensor(random, dtype, {32, 1})});
    }
  }
  batch.compile();
  batch.check_all();
}

// Squares of two-byte elements go through words and come out whole, their signs included, also at
// the ends of rows.
TEST(CodegenLoops, ShortElementsAreTransposed) {
  Random random(8);
  KernelBatch batch;
  for (DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kInt16}) {
    for (int64_t rows : {64, 75}) {
      GraphBuilder b;
      NodeId transposed = b.permute(input(b, dtype, {3, rows, 90}), {0, 2, 1});
      b.output(b.cast(transposed, is_float(dtype) ? DType::kFloat32 : DType::kInt32));
      batch.add(Template::kLoops, {}, b.finish(),
                {random_tensor(random, dtype, {3, rows, 90}, -30000, 30000)});
      GraphBuilder c;
      c.output(c.permute(input(c, dtype, {3, rows, 90}), {0, 2, 1}));
      batch.add(Template::kLoops, {}, c.finish(),
                {random_tensor(random, dtype, {3, rows, 90}, -30000, 30000)});
    }
  }
  batch.compile();
  if (!runs_on_gpu()) {
    EXPECT_NE(batch.at(0).source.text.find("lf_turn_float16"), std::string::npos);
  }
  batch.check_all(0);
}

// Sums within a reduction that a group of threads shares, in a kernel without a grid: each thread
// makes those of its own steps.
TEST(CodegenLoops, SumsWithinSharedReductions) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no groups of threads";
  Random random(77);
  KernelBatch batch;
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {40, 33}, "");
  NodeId sums = b.unary(UnaryOp::kSin, b.reduce(ReduceOp::kSum, x, {1}));
  b.output(b.raw({Op::kSoftmax, DType::kFloat32, {40}, {sums}, SoftmaxAttr{0, false}}));
  batch.add(Template::kLoops, {}, b.finish(), {random_tensor(random, DType::kFloat32, {40, 33})});
  batch.change_nests([](Kernel& kernel, Machine) {
    LoopNest nest;
    nest.shared = plain_band({40});
    nest.groups.resize(1);
    nest.threads = {8, 1, 1, 1};
    kernel.nest = nest;
  });
  batch.compile();
  batch.check_all();
}

// Products of one row as decoding has them: several columns at once, loads a step ahead, a norm of
// the row in front and a product of two sums behind; columns, steps and groups that do not divide.
TEST(CodegenLoops, RowsAtOnceAndLoadsAhead) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no groups of threads";
  Random random(78);
  KernelBatch batch;
  std::vector<ThreadGroup> groups, chosen;
  for (int64_t rows : {1, 2, 4, 8}) {
    for (int64_t threads : {8, 32, 128}) {
      groups.push_back({threads, 1, 1, 8, rows, true});
      groups.push_back({threads, 1, 1, 8, rows, false});
    }
  }
  for (int64_t columns : {int64_t{3}, int64_t{13}, int64_t{64}}) {
    for (int64_t depth : {int64_t{2056}, int64_t{4096}, int64_t{4099}}) {
      // Every body with some of the groups.
      for (size_t k = static_cast<size_t>(columns + depth) % 5; k < groups.size(); k += 5) {
        GraphBuilder b;
        NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {depth}, "");
        NodeId wide = b.cast(x, DType::kFloat32);
        NodeId squares = b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, wide, wide), {0});
        NodeId scale = b.expand(b.unary(UnaryOp::kRsqrt, squares), {Expr(depth)});
        NodeId normed = b.cast(b.binary(BinaryOp::kMul, wide, scale), DType::kBfloat16);
        NodeId row = b.expand(b.cast(normed, DType::kFloat32), {Expr(columns), Expr(depth)});
        std::vector<NodeId> sums;
        for (int k2 : {0, 1}) {
          NodeId w = b.input(InputKind::kUser, DType::kBfloat16, {columns, depth}, cat("w", k2));
          NodeId product = b.binary(BinaryOp::kMul, row, b.cast(w, DType::kFloat32));
          sums.push_back(b.reduce(ReduceOp::kSum, product, {1}));
        }
        b.output(b.binary(BinaryOp::kMul, b.unary(UnaryOp::kSigmoid, sums[0]), sums[1]));
        batch.add(Template::kLoops, {}, b.finish(),
                  {random_tensor(random, DType::kBfloat16, {depth}),
                   random_tensor(random, DType::kBfloat16, {columns, depth}, 0, 2),
                   random_tensor(random, DType::kBfloat16, {columns, depth}, 0, 2)});
        chosen.push_back(groups[k]);
      }
    }
  }
  size_t next = 0;
  batch.change_nests([&](Kernel& kernel, Machine) {
    LoopNest& nest = *kernel.nest;
    nest = plain_loops(nest_body(kernel.body, nest));
    nest.grid = nest.shared.extents.size();
    nest.threads = chosen[next++];
    if (next % 2 == 0) nest.prefetch = BlockPrefetch{1, 512};
    // Without whole vectors nothing is loaded ahead.
    Graph body = nest_body(kernel.body, nest);
    // Groups of 128 keep their part of a row, and load that of the matrices before the norm's sum.
    if (next % 3 == 0) nest.reductions.staged = late_inputs(body);
    GpuLoops trial(body, nest);
    ASSERT_TRUE(trial.run().ok());
    nest = trial.used();
  });
  batch.compile();
  batch.check_all();
}

// What a token's chosen experts add up to, each rounded: threads walk the experts, and a group
// shares what is summed for each, of all experts and of several columns in one loop.
TEST(CodegenLoops, GroupsShareTheSumsOfWhatTheyWalk) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no groups of threads";
  constexpr int64_t kExperts = 5;
  Random random(79);
  KernelBatch batch;
  std::vector<ThreadGroup> chosen;
  for (int64_t columns : {int64_t{3}, int64_t{16}}) {
    for (int64_t depth : {int64_t{96}, int64_t{101}, int64_t{768}}) {
      for (int64_t rows : {int64_t{1}, int64_t{2}, int64_t{4}}) {
        int64_t few = rows == 2 ? 8 : 3;
        GraphBuilder b;
        Shape all = {few, columns, depth};
        NodeId x = b.cast(input(b, DType::kBfloat16, {few, 1, depth}), DType::kFloat32);
        NodeId w = input(b, DType::kBfloat16, {kExperts, columns, depth});
        NodeId places = b.view(input(b, DType::kInt64, {few}), View{all, {Expr::index(0)}, {}, 0});
        NodeId weights = b.cast(input(b, DType::kBfloat16, {few, 1}), DType::kFloat32);
        NodeId residual = b.cast(input(b, DType::kBfloat16, {columns}), DType::kFloat32);
        GatherAttr form;
        form.coordinates = {{0, {}}, {-1, Expr::index(1)}, {-1, Expr::index(2)}};
        NodeId rows_of = b.raw({Op::kGather, DType::kBfloat16, all, {w, places}, form});
        NodeId product =
            b.binary(BinaryOp::kMul, b.expand(x, all), b.cast(rows_of, DType::kFloat32));
        NodeId sums = b.cast(b.reduce(ReduceOp::kSum, product, {2}), DType::kBfloat16);
        NodeId weighed = b.binary(BinaryOp::kMul, b.cast(sums, DType::kFloat32),
                                  b.expand(weights, {few, columns}));
        NodeId rounded = b.cast(b.cast(weighed, DType::kBfloat16), DType::kFloat32);
        b.output(b.binary(BinaryOp::kAdd, b.reduce(ReduceOp::kSum, rounded, {0}), residual));
        batch.add(Template::kLoops, {}, b.finish(),
                  {random_tensor(random, DType::kBfloat16, {few, 1, depth}),
                   random_tensor(random, DType::kBfloat16, {kExperts, columns, depth}),
                   random_tensor(random, DType::kInt64, {few}, 0, kExperts),
                   random_tensor(random, DType::kBfloat16, {few, 1}),
                   random_tensor(random, DType::kBfloat16, {columns})});
        chosen.push_back({int64_t{8} << (chosen.size() % 5), 1, 1, 8, rows, false});
      }
    }
  }
  size_t next = 0;
  batch.change_nests([&](Kernel& kernel, Machine) {
    LoopNest& nest = *kernel.nest;
    nest = plain_loops(nest_body(kernel.body, nest));
    nest.grid = nest.shared.extents.size();
    nest.threads = chosen[next++];
    Graph body = nest_body(kernel.body, nest);
    for (size_t id = 0; id < body.nodes.size(); ++id) {
      // The last one, over the experts.
      if (body.nodes[id].op == Op::kReduce) nest.reductions.walked = {static_cast<NodeId>(id)};
    }
    GpuLoops trial(body, nest);
    ASSERT_TRUE(trial.run().ok());
    ASSERT_EQ(trial.used(), nest);
  });
  batch.compile();
  batch.check_all();
}

// The nest in squares along some loop, as large as they can be; empty where no load runs along one.
std::optional<LoopNest> in_squares(const Graph& body, int64_t access) {
  auto side = [](const Expr& extent, int64_t unit) {
    int64_t most = 48 / unit * unit;
    while (most > 0 && !exact_div(extent, most)) most -= unit;
    return most;
  };
  LoopNest plain = plain_loops(body);
  plain.grid = plain.shared.extents.size();
  for (size_t row = plain.grid - 1; row-- > 0;) {
    int64_t rows = side(plain.shared.extents[row], 1);
    int64_t columns = side(plain.shared.extents.back(), access);
    if (rows == 0 || columns == 0) continue;
    auto nest = cut_squares(plain, body, row, rows, columns);
    if (nest.ok()) nest = bind_threads(*nest, body, {64, 1, 1, access});
    if (!nest.ok()) continue;
    GpuLoops loops(body, *nest);
    if (loops.run().ok() && loops.used() == *nest) return *nest;
  }
  return std::nullopt;
}

// Loads that jump where stores run, by squares in shared memory: of every width that threads take
// at once, and of sides that are no powers of two.
TEST(CodegenLoops, SquaresOfGpus) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU transposes in registers";
  Random random(83);
  for (int64_t access : {1, 2, 8}) {
    KernelBatch batch;
    auto permuted = [&](DType d, const std::vector<int64_t>& sizes, const std::vector<int>& axes) {
      GraphBuilder b({{1, 4096}});
      Shape shape(sizes.begin(), sizes.end());
      shape[0] = Expr::symbol(0);
      NodeId x = b.input(InputKind::kUser, d, shape, "");
      NodeId y = b.permute(x, axes);
      NodeId z = b.input(InputKind::kUser, d, b.shape(y), "");
      DType wide = d == DType::kBfloat16 ? DType::kFloat32 : d;
      b.output(b.cast(b.binary(BinaryOp::kAdd, b.cast(y, wide), b.cast(z, wide)), d));
      std::vector<int64_t> other;
      for (int axis : axes) other.push_back(sizes[static_cast<size_t>(axis)]);
      batch.add(Template::kLoops, {}, b.finish(),
                {random_tensor(random, d, sizes), random_tensor(random, d, other)});
    };
    for (DType d : {DType::kInt8, DType::kBfloat16, DType::kFloat32, DType::kFloat64}) {
      permuted(d, {3, 128, 72}, {0, 2, 1});
      permuted(d, {2, 40, 7, 16}, {0, 2, 3, 1});
      permuted(d, {2, 3, 96, 33}, {0, 3, 1, 2});
      permuted(d, {5, 16, 17}, {0, 2, 1});
    }
    batch.change_nests([&](Kernel& kernel, Machine) {
      kernel.nest = in_squares(nest_body(kernel.body, *kernel.nest), access);
      ASSERT_TRUE(kernel.nest) << print(kernel);
    });
    batch.compile();
    for (size_t k = 0; k < batch.size(); ++k) {
      EXPECT_NE(batch.at(k).source.text.find("__shared__"), std::string::npos);
    }
    batch.check_all();
  }
}

// Squares pay where memory's pipe is what a transpose waits for.
TEST(CodegenLoops, LargeTransposesRunInSquares) {
  for (DType d : {DType::kBfloat16, DType::kFloat32}) {
    GraphBuilder b;
    b.output(b.permute(b.input(InputKind::kUser, d, {64, 64, 14, 14}, ""), {0, 2, 3, 1}));
    Kernel kernel{Template::kLoops, {}, b.finish(), {}, {}};
    auto nest = kernel_nest(kernel, Machine::kGpu);
    ASSERT_TRUE(nest.ok() && *nest);
    EXPECT_TRUE((*nest)->transposed) << print(**nest);
  }
}

// Kernels of unlike shapes and blocks in one launch: products of one row, a pointwise part of a
// symbolic number of elements, a sum, and on a GPU a scatter that copies what it does not work in
// place on.
TEST(CodegenLoops, HorizontalKernels) {
  Random random(79);
  KernelBatch batch;
  for (int64_t rows : {1, 300}) {
    GraphBuilder b({{1, 4096}});
    NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {512}, "");
    NodeId w = b.input(InputKind::kUser, DType::kBfloat16, {40, 512}, "");
    NodeId table = b.input(InputKind::kUser, DType::kFloat32, {Expr::symbol(0), 7}, "");
    NodeId cache = b.input(InputKind::kUser, DType::kFloat32, {64, 40}, "");
    NodeId at = b.input(InputKind::kUser, DType::kInt64, {1}, "");
    NodeId y = b.input(InputKind::kUser, DType::kFloat32, {512}, "");
    NodeId v = b.input(InputKind::kUser, DType::kFloat32, {40, 512}, "");
    NodeId wide = b.cast(x, DType::kFloat32);
    for (auto [row, matrix] : {std::pair{wide, b.cast(w, DType::kFloat32)}, std::pair{y, v}}) {
      NodeId product = b.binary(BinaryOp::kMul, b.expand(row, {40, 512}), matrix);
      b.output(b.reduce(ReduceOp::kSum, product, {1}));
    }
    b.output(b.unary(UnaryOp::kSin, table));
    NodeId spread = b.view(at, View{{1, 40}, {Expr::index(0)}, {}, 0});
    NodeId halves = b.view(wide, View{{1, 40}, {Expr::index(1)}, {}, 0});
    NodeId updated =
        b.scatter(ScatterMode::kAssign, cache, halves, {spread}, {{0, 0}, {-1, Expr::index(1)}});
    if (runs_on_gpu()) b.output(updated);
    b.output(b.reduce(ReduceOp::kSum, table, {0, 1}));
    batch.add(Template::kHorizontal, {}, b.finish(),
              {random_tensor(random, DType::kBfloat16, {512}, 0, 1),
               random_tensor(random, DType::kBfloat16, {40, 512}, 0, 1),
               random_tensor(random, DType::kFloat32, {rows, 7}, 0, 1),
               random_tensor(random, DType::kFloat32, {64, 40}),
               random_tensor(random, DType::kInt64, {1}, 9, 10),
               random_tensor(random, DType::kFloat32, {512}, 0, 1),
               random_tensor(random, DType::kFloat32, {40, 512}, 0, 1)});
  }
  batch.compile();
  if (!runs_on_gpu()) {
    EXPECT_NE(batch.at(0).source.text.find("lf_dot_f32_f32(in0"), std::string::npos)
        << "a call reads the part's inputs\n"
        << batch.at(0).source.text;
  }
  batch.check_all();
}

// Updates of parameters with what is kept for each: parts that write two values, of which those of
// one size share code.
TEST(CodegenLoops, HorizontalUpdates) {
  Random random(83);
  KernelBatch batch;
  GraphBuilder b;
  std::vector<HostTensor> inputs{random_tensor(random, DType::kFloat32, {1}, 0, 1)};
  NodeId rate = b.input(InputKind::kUser, DType::kFloat32, {1}, "");
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{40}, {3, 17}, {40}, {1}, {40}, {3, 17}}) {
    Shape shape(sizes.begin(), sizes.end());
    std::vector<NodeId> x;
    for (int k = 0; k < 3; ++k) {
      x.push_back(b.input(InputKind::kUser, DType::kFloat32, shape, ""));
      inputs.push_back(random_tensor(random, DType::kFloat32, sizes, -1, 1));
    }
    NodeId momentum = b.binary(BinaryOp::kAdd, x[0], x[1]);
    b.output(momentum);
    NodeId scale = b.view(rate, View{shape, {Expr(0)}, {}, 0});
    b.output(b.binary(BinaryOp::kSub, x[2], b.binary(BinaryOp::kMul, momentum, scale)));
  }
  batch.add(Template::kHorizontal, {}, b.finish(), inputs);
  batch.compile();
  batch.check_all();
}

}  // namespace
}  // namespace testing_codegen
