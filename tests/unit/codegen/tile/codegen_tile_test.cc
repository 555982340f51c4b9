// Code of the kTile template against the reference interpreter.
#include <array>
#include <limits>
#include <optional>

#include "common/runtime/device/cpu_device.h"
#include "tests/unit/codegen/product_cases.h"

namespace testing_codegen {
namespace {

TEST(CodegenTile, OrdersSizesAndTypes) {
  Random random(21);
  KernelBatch batch;
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBfloat16, DType::kFloat16}) {
    for (bool turn_a : {false, true}) {
      for (bool turn_b : {false, true}) {
        add_product(batch, random, dtype, 37, 75, 500, turn_a, turn_b, {});
        add_product(batch, random, dtype, 1, 130, 33, turn_a, turn_b, {});
      }
    }
  }
  add_product(batch, random, DType::kFloat32, 0, 5, 7, false, false, {});
  add_product(batch, random, DType::kFloat32, 5, 7, 0, false, false, {});
  add_product(batch, random, DType::kFloat32, 600, 300, 20, false, true, {});
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    batch.check(k, 3e-4);
    batch.check(k, 3e-4, 2);
    if (HasFatalFailure()) return;
  }
}

TEST(CodegenTile, EveryScheduleValue) {
  Random random(22);
  KernelBatch batch;
  for (const ScheduleChoice& choice : schedule_parameters(Template::kTile)) {
    for (int64_t value : choice.values) {
      Schedule schedule = {{std::string(choice.name), value}};
      add_product(batch, random, DType::kFloat32, 70, 100, 300, false, true, schedule);
    }
  }
  batch.compile();
  batch.check_all(3e-4);
}

// x with labels (m..., k...) times a matrix [k..., n...] that lies in panels of `width` columns,
// whose elements are of the type `stored`.
void add_panels(KernelBatch& batch, Random& random, DType dtype, std::vector<int64_t> k_sizes,
                std::vector<int64_t> n_sizes, int64_t width, Schedule schedule,
                std::optional<DType> stored = {}) {
  GraphBuilder b;
  std::vector<int64_t> x_sizes{37}, panels_sizes;
  std::vector<int> x_labels{0}, labels, out{0};
  Shape matrix;
  Expr k = 0, n = 0;
  int64_t k_size = 1, n_size = 1;
  for (int64_t size : k_sizes) {
    k = k * Expr(size) + Expr::index(static_cast<int>(labels.size()));
    labels.push_back(static_cast<int>(labels.size()) + 1);
    x_labels.push_back(labels.back());
    x_sizes.push_back(size);
    matrix.push_back(size);
    k_size *= size;
  }
  for (int64_t size : n_sizes) {
    n = n * Expr(size) + Expr::index(static_cast<int>(labels.size()));
    labels.push_back(static_cast<int>(labels.size()) + 1);
    out.push_back(labels.back());
    matrix.push_back(size);
    n_size *= size;
  }
  panels_sizes = {(n_size + width - 1) / width, k_size, width};
  NodeId x = input(b, dtype, Shape(x_sizes.begin(), x_sizes.end()));
  const DType panel_type = stored.value_or(dtype);
  NodeId panels = input(b, panel_type, Shape(panels_sizes.begin(), panels_sizes.end()));
  View view{matrix, {floor_div(n, Expr(width)), k, mod(n, Expr(width))}, {}, 0};
  NodeId columns = b.view(panels, view);
  if (panel_type != dtype) columns = b.cast(columns, dtype);
  b.output(contract(b, x, columns, x_labels, labels, out));
  batch.add(
      Template::kTile, std::move(schedule), b.finish(),
      {random_tensor(random, dtype, x_sizes), random_tensor(random, panel_type, panels_sizes)});
}

// A weight that was laid in panels is not packed in every run.
TEST(CodegenTile, PanelsAreReadInPlace) {
  Random random(31);
  KernelBatch batch;
  const int64_t lanes = batch.lanes(DType::kFloat32);
  add_panels(batch, random, DType::kFloat32, {300}, {96}, lanes, {});
  add_panels(batch, random, DType::kFloat32, {300}, {50}, lanes, {});  // the last panel is not full
  add_panels(batch, random, DType::kFloat32, {1500}, {7}, lanes,
             {});  // blocks of k, one part panel
  add_panels(batch, random, DType::kFloat32, {3, 20}, {5, 32}, lanes, {});
  add_panels(batch, random, DType::kFloat64, {70}, {50}, lanes / 2, {});
  for (const ScheduleChoice& choice : schedule_parameters(Template::kTile)) {
    if (!choice.on_cpu) continue;
    for (int64_t value : choice.values) {
      add_panels(batch, random, DType::kFloat32, {600}, {100}, lanes,
                 {{std::string(choice.name), value}});
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_EQ(batch.at(k).source.text.find("packed"), std::string::npos) << k;
  }
  batch.check_all(3e-4);
}

// Panels of half types are made wider as they are read.
TEST(CodegenTile, PanelsOfHalvesAreReadInPlace) {
  if (runs_on_gpu()) GTEST_SKIP() << "threads of a GPU share all that they read";
  Random random(35);
  KernelBatch batch;
  const int64_t lanes = batch.lanes(DType::kFloat32);
  for (DType half : {DType::kBfloat16, DType::kFloat16}) {
    for (int64_t width : {lanes, 2 * lanes}) {
      add_panels(batch, random, DType::kFloat32, {300}, {96}, width, {}, half);
      add_panels(batch, random, DType::kFloat32, {800}, {3 * lanes}, width, {}, half);
      add_panels(batch, random, DType::kFloat32, {3, 20}, {5, 32}, width, {}, half);
    }
    // Parts of panels.
    add_panels(batch, random, DType::kFloat32, {300}, {50}, lanes, {}, half);
    add_panels(batch, random, DType::kFloat32, {800}, {7}, lanes, {}, half);
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_EQ(batch.at(k).source.text.find("packed"), std::string::npos) << k;
    EXPECT_NE(batch.at(k).source.text.find(" = lf_widen"), std::string::npos) << k;
  }
  batch.check_all(3e-4);
}

// However many rows there are, threads have units to share: parts of the columns where rows may be
// few, parts of the rows where the least number of them is enough.
TEST(CodegenTile, SymbolicRowsMakeManyUnits) {
  if (runs_on_gpu()) GTEST_SKIP() << "a grid has many blocks";
  struct Case {
    int64_t places, columns, least_units;  // `places`: rows for each step of the symbol
  };
  Random random(36);
  KernelBatch batch;
  const int64_t lanes = batch.lanes(DType::kFloat32), depth = 64;
  // Parts of 96 columns, of whole tiles: those of AVX-512 have 64 columns.
  const int64_t few = lanes == 16 ? 2 : 3;
  const std::vector<Case> cases = {{1, 256, few}, {1, 1024, 8}, {1, 4096, 8}, {196, 256, 7}};
  for (const Case& c : cases) {
    GraphBuilder b({{1, 4096}});
    NodeId x = input(b, DType::kBfloat16, {Expr::symbol(0), c.places, depth});
    NodeId panels = input(b, DType::kFloat32, {c.columns / lanes, depth, lanes});
    Expr n = Expr::index(0);
    View view{{c.columns, depth},
              {floor_div(n, Expr(lanes)), Expr::index(1), mod(n, Expr(lanes))},
              {},
              0};
    NodeId rows = b.cast(x, DType::kFloat32);
    b.output(contract(b, rows, b.view(panels, view), {0, 1, 3}, {2, 3}, {0, 1, 2}));
    batch.add(Template::kTile, {}, b.finish(),
              {random_tensor(random, DType::kBfloat16, {2, c.places, depth}),
               random_tensor(random, DType::kFloat32, {c.columns / lanes, depth, lanes})});
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    const Expr& units = batch.at(k).source.entry.units;
    EXPECT_GE(units.evaluate(std::vector<int64_t>{1}), cases[k].least_units) << k;
  }
  batch.check_all(3e-4);
}

// Panels of four columns are no vectors, and the end of a matrix is no panel.
TEST(CodegenTile, WhatIsNoVectorIsPacked) {
  if (runs_on_gpu()) GTEST_SKIP() << "threads of a GPU share all that they read";
  Random random(32);
  KernelBatch batch;
  add_panels(batch, random, DType::kFloat32, {300}, {96}, 4, {});
  add_product(batch, random, DType::kFloat32, 37, 50, 300, false, false, {});
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_NE(batch.at(k).source.text.find("packed_b"), std::string::npos) << k;
  }
  batch.check_all(3e-4);
}

// A sum that stands in where another value of the same has overflowed is computed for those blocks
// alone, and taken for those elements alone.
TEST(CodegenTile, FallbacksAreComputedWhereTheyAreNeeded) {
  Random random(33);
  KernelBatch batch;
  constexpr int64_t kRows = 700, kColumns = 40, kDepth = 50;
  const double inf = std::numeric_limits<double>::infinity();
  for (bool has_epilogue : {false, true}) {
    for (const std::vector<std::pair<int64_t, double>>& bad :
         {std::vector<std::pair<int64_t, double>>{},
          {{0, inf}},
          {{kRows * kColumns - 1, -inf}, {3 * kColumns + 7, std::nan("")}}}) {
      GraphBuilder b;
      NodeId x = input(b, DType::kFloat32, {kRows, kDepth});
      NodeId w = input(b, DType::kFloat32, {kDepth, kColumns});
      NodeId y = input(b, DType::kFloat32, {kRows, kColumns});
      NodeId overflows = b.binary(common::BinaryOp::kOr, b.unary(common::UnaryOp::kIsNan, y),
                                  b.unary(common::UnaryOp::kIsInf, y));
      NodeId out = b.select(overflows, contract(b, x, w, {0, 1}, {1, 2}, {0, 2}), y);
      if (has_epilogue) out = b.unary(common::UnaryOp::kNeg, out);
      b.output(out);
      HostTensor given = random_tensor(random, DType::kFloat32, {kRows, kColumns});
      for (const auto& [place, value] : bad) given.set(place, value);
      batch.add(Template::kTile, {}, b.finish(),
                {random_tensor(random, DType::kFloat32, {kRows, kDepth}),
                 random_tensor(random, DType::kFloat32, {kDepth, kColumns}), given});
    }
  }
  batch.compile();
  batch.check_all(3e-4);
}

TEST(CodegenTile, PrologueAndEpilogue) {
  Random random(23);
  KernelBatch batch;
  // gelu(x bf16 @ w^T + bias) * scale, twice as outputs, one of them permuted into heads.
  GraphBuilder b;
  NodeId x = input(b, DType::kBfloat16, {2, 24, 96});
  NodeId w = input(b, DType::kBfloat16, {64, 96});
  NodeId bias = input(b, DType::kFloat32, {64});
  NodeId gate = input(b, DType::kFloat32, {2, 24, 1});
  NodeId product = contract(b, b.cast(x, DType::kFloat32), b.cast(w, DType::kFloat32), {0, 1, 3},
                            {2, 3}, {0, 1, 2});
  NodeId y = b.binary(BinaryOp::kAdd, product, bias);
  NodeId inner =
      b.unary(UnaryOp::kErf, b.binary(BinaryOp::kMul, y, b.scalar(DType::kFloat32, 0.7)));
  NodeId gelu = b.binary(BinaryOp::kMul, b.binary(BinaryOp::kMul, y, gate),
                         b.binary(BinaryOp::kAdd, inner, b.scalar(DType::kFloat32, 1)));
  b.output(b.cast(gelu, DType::kBfloat16));
  b.output(b.permute(b.reshape(gelu, {2, 24, 4, 16}), {0, 2, 1, 3}));
  batch.add(Template::kTile, {}, b.finish(),
            {random_tensor(random, DType::kBfloat16, {2, 24, 96}),
             random_tensor(random, DType::kBfloat16, {64, 96}),
             random_tensor(random, DType::kFloat32, {64}),
             random_tensor(random, DType::kFloat32, {2, 24, 1})});
  batch.compile();
  batch.check_all(1e-4);
}

TEST(CodegenTile, BatchedAttentionShapes) {
  Random random(24);
  KernelBatch batch;
  GraphBuilder b;
  // Heads lie inside of the rows: q[b, s, h, d] . k[b, t, h, d] -> scores[b, h, s, t].
  NodeId q = input(b, DType::kFloat32, {2, 19, 3, 40});
  NodeId k = input(b, DType::kFloat32, {2, 23, 3, 40});
  NodeId scores = contract(b, q, k, {0, 1, 2, 4}, {0, 3, 2, 4}, {0, 2, 1, 3});
  NodeId scaled = b.binary(BinaryOp::kMul, scores, b.scalar(DType::kFloat32, 0.125));
  b.output(scaled);
  batch.add(Template::kTile, {}, b.finish(),
            {random_tensor(random, DType::kFloat32, {2, 19, 3, 40}),
             random_tensor(random, DType::kFloat32, {2, 23, 3, 40})});
  // A row-wise epilogue needs the whole product first.
  GraphBuilder c;
  NodeId left = input(c, DType::kFloat32, {5, 30});
  NodeId right = input(c, DType::kFloat32, {30, 70});
  NodeId p = contract(c, left, right, {0, 2}, {2, 1}, {0, 1});
  c.output(c.raw({Op::kSoftmax, DType::kFloat32, c.shape(p), {p}, SoftmaxAttr{1, false}}));
  batch.add(Template::kTile, {}, c.finish(),
            {random_tensor(random, DType::kFloat32, {5, 30}),
             random_tensor(random, DType::kFloat32, {30, 70})});
  batch.compile();
  batch.check_all(1e-4);
}

TEST(CodegenTile, LesserTargets) {
  Random random(28);
  std::string own = common::host_cpu_target().name;
  for (const char* name : {"cpu-x86_64-avx512", "cpu-x86_64-avx2", "cpu-x86_64"}) {
    if (name == own || (std::string(name) == "cpu-x86_64-avx512" &&
                        common::machine_of({own}) != common::Machine::kCpuPairs)) {
      continue;
    }
    if (runs_on_gpu() || own.substr(0, 10) != "cpu-x86_64" || own == "cpu-x86_64") {
      GTEST_SKIP() << "this machine cannot run " << name;
    }
    KernelBatch batch(name);
    for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBfloat16}) {
      add_product(batch, random, dtype, 37, 75, 300, false, true, {});
      add_product(batch, random, dtype, 37, 75, 300, true, false, {});
    }
    GraphBuilder b;
    NodeId x = input(b, DType::kFloat32, {70, 90});
    b.output(b.permute(
        b.raw({Op::kSoftmax, DType::kFloat32, b.shape(x), {x}, SoftmaxAttr{1, false}}), {1, 0}));
    batch.add(Template::kLoops, {}, b.finish(), {random_tensor(random, DType::kFloat32, {70, 90})});
    batch.compile();
    batch.check_all(3e-4);
  }
}

TEST(CodegenTile, Convolutions) {
  Random random(26);
  KernelBatch batch;
  for (int64_t stride : {1, 2}) {
    GraphBuilder b;
    NodeId x = input(b, DType::kFloat32, {2, 3, 9, 14});
    NodeId w = input(b, DType::kFloat32, {20, 3, 3, 3});
    NodeId bias = input(b, DType::kFloat32, {20, 1, 1});
    NodeId padded = b.pad(b.pad(x, 2, 1, 1), 3, 1, 1);
    int64_t rows = (11 - 3) / stride + 1;
    int64_t columns = (16 - 3) / stride + 1;
    NodeId tall = b.view(padded, view_unfold(b.shape(padded), 2, rows, 3, stride));
    NodeId windows = b.view(tall, view_unfold(b.shape(tall), 3, columns, 3, stride));
    NodeId y = contract(b, windows, w, {0, 4, 2, 3, 5, 6}, {1, 4, 5, 6}, {0, 1, 2, 3});
    b.output(
        b.binary(BinaryOp::kMax, b.binary(BinaryOp::kAdd, y, bias), b.scalar(DType::kFloat32, 0)));
    batch.add(Template::kTile, {}, b.finish(),
              {random_tensor(random, DType::kFloat32, {2, 3, 9, 14}),
               random_tensor(random, DType::kFloat32, {20, 3, 3, 3}),
               random_tensor(random, DType::kFloat32, {20, 1, 1})});
  }
  batch.compile();
  batch.check_all(1e-4);
}

TEST(CodegenTile, FewRows) {
  Random random(27);
  KernelBatch batch;
  for (int64_t m : {1, 2, 4, 5}) {
    for (bool turn_b : {false, true}) {
      add_product(batch, random, DType::kFloat32, m, 300, 200, false, turn_b, {});
      add_product(batch, random, DType::kBfloat16, m, 300, 200, false, turn_b, {});
    }
  }
  batch.compile();
  batch.check_all(3e-4);
}

// What tensor cores multiply for a few rows, or a few columns: whole and ragged ends of the matrix
// and of k, steps fewer than warps, and blocks that share a k.
TEST(CodegenTile, FewRowsOfHalves) {
  Random random(28);
  KernelBatch batch;
  for (DType dtype : {DType::kBfloat16, DType::kFloat16}) {
    for (int64_t few : {2, 3, 8, 9, 16}) {
      add_product(batch, random, dtype, few, 64, 1024, false, true, {});
      add_product(batch, random, dtype, few, 41, 1032, false, true, {});
      add_product(batch, random, dtype, few, 33, 24, false, true, {});
      add_product(batch, random, dtype, 50, few, 264, false, true, {});
      add_product(batch, random, dtype, few, 48, 3000, false, true, {{"splits", 4}});
    }
    // Rows of the matrix are as many as make a warp take twice the rows.
    add_product(batch, random, dtype, 6, 9000, 64, false, true, {});
  }
  batch.compile();
  batch.check_all(3e-4);
}

// Every block that a GPU may choose, with whole and cut blocks, in all orders of memory.
TEST(CodegenTile, BlocksOfGpus) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no such parameters";
  Random random(29);
  KernelBatch batch;
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBfloat16}) {
    for (int64_t rows : {16, 32, 64, 128}) {
      for (int64_t columns : {16, 32, 64, 128}) {
        Schedule schedule = {{"block_columns", columns}, {"block_rows", rows}};
        bool turn_a = rows % 64 == 0;
        bool turn_b = columns != 32;
        add_product(batch, random, dtype, 136, 168, 72, turn_a, turn_b, schedule);
        add_product(batch, random, dtype, 131, 75, 69, !turn_a, turn_b, schedule);
        add_product(batch, random, dtype, 128, 128, 128, turn_a, !turn_b, schedule);
      }
    }
  }
  batch.compile();
  batch.check_all(3e-4);
}

// Half-precision values reach the product through casts, roundings, views and gathers, beside
// others that are not.
TEST(CodegenTile, HalfPrecisionBehindOtherNodes) {
  Random random(30);
  KernelBatch batch;
  constexpr DType kF32 = DType::kFloat32;
  constexpr DType kHalf = DType::kBfloat16;
  for (bool rounded : {false, true}) {
    GraphBuilder b;
    NodeId gate = input(b, kHalf, {1, 30, 128});
    NodeId up = input(b, kHalf, {30, 128});
    NodeId w = input(b, kHalf, {72, 128});
    NodeId x = b.cast(gate, kF32);
    x = b.binary(BinaryOp::kMul, x, b.unary(UnaryOp::kSigmoid, x));
    x = b.binary(BinaryOp::kMul, x, b.reshape(b.cast(up, kF32), {1, 30, 128}));
    if (rounded) x = b.cast(b.cast(x, kHalf), kF32);
    NodeId y = contract(b, b.reshape(x, {30, 128}), b.cast(w, kF32), {0, 2}, {1, 2}, {0, 1});
    b.output(b.cast(y, kHalf));
    batch.add(Template::kTile, {}, b.finish(),
              {random_tensor(random, kHalf, {1, 30, 128}), random_tensor(random, kHalf, {30, 128}),
               random_tensor(random, kHalf, {72, 128})});
  }
  for (int64_t rows : {1, 5, 40}) {  // of each expert's share
    GraphBuilder b;
    NodeId x = input(b, kHalf, {6, rows, 64});
    NodeId w = input(b, kHalf, {4, 48, 64});
    NodeId expert = input(b, DType::kInt64, {6});
    NodeId chosen = b.gather(w, {b.reshape(expert, {6, 1, 1})}, {6, 48, 64},
                             {{0, {}}, {-1, Expr::index(1)}, {-1, Expr::index(2)}});
    b.output(contract(b, b.cast(x, kF32), b.cast(chosen, kF32), {0, 1, 3}, {0, 2, 3}, {0, 1, 2}));
    batch.add(
        Template::kTile, {}, b.finish(),
        {random_tensor(random, kHalf, {6, rows, 64}), random_tensor(random, kHalf, {4, 48, 64}),
         random_tensor(random, DType::kInt64, {6}, 0, 4)});
  }
  for (bool mixed : {false, true}) {  // what no half-precision type of the operand's can hold
    GraphBuilder b;
    NodeId x = b.cast(input(b, kHalf, {33, 64}), kF32);
    NodeId other = b.cast(input(b, mixed ? DType::kFloat16 : kHalf, {33, 64}), kF32);
    NodeId chosen = b.select(input(b, DType::kBool, {33, 64}), x, other);
    if (!mixed) chosen = b.pad(chosen, 1, 8, 8, 100.3);
    NodeId w = input(b, kHalf, {56, mixed ? 64 : 80});
    b.output(contract(b, chosen, b.cast(w, kF32), {0, 2}, {1, 2}, {0, 1}));
    batch.add(Template::kTile, {}, b.finish(),
              {random_tensor(random, kHalf, {33, 64}),
               random_tensor(random, mixed ? DType::kFloat16 : kHalf, {33, 64}),
               random_tensor(random, DType::kBool, {33, 64}),
               random_tensor(random, kHalf, {56, mixed ? 64 : 80})});
  }
  // Rows that are loaded in runs of 8 elements, and rows that are no such runs.
  for (auto [rows, depth] : {std::pair<int64_t, int64_t>{2, 80}, {33, 80}, {33, 84}}) {
    GraphBuilder b;
    NodeId x = input(b, kF32, {rows, depth});
    NodeId w = input(b, kHalf, {56, depth});
    b.output(contract(b, x, b.cast(w, kF32), {0, 2}, {1, 2}, {0, 1}));
    batch.add(
        Template::kTile, {}, b.finish(),
        {random_tensor(random, kF32, {rows, depth}), random_tensor(random, kHalf, {56, depth})});
  }
  batch.compile();
  batch.check_all(3e-4);
}

// The experts that a router chose for each token: their matrices are read where they lie, 16 bytes
// at a time, whether the index is an input or computed, the matrix transposed or not.
TEST(CodegenTile, GatheredMatrices) {
  Random random(34);
  KernelBatch batch;
  for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    for (bool transposed : {false, true}) {
      for (int64_t rows : {1, 40}) {  // of each expert's share
        GraphBuilder b;
        NodeId x = input(b, dtype, {6, rows, 64});
        NodeId w = input(b, dtype, transposed ? Shape{4, 64, 48} : Shape{4, 48, 64});
        NodeId expert = input(b, DType::kInt64, {6});
        if (transposed) expert = b.binary(BinaryOp::kMin, expert, b.scalar_int(DType::kInt64, 2));
        Shape chosen = transposed ? Shape{6, 64, 48} : Shape{6, 48, 64};
        NodeId y = b.gather(w, {b.reshape(expert, {6, 1, 1})}, chosen,
                            {{0, {}}, {-1, Expr::index(1)}, {-1, Expr::index(2)}});
        if (transposed) y = b.permute(y, {0, 2, 1});
        b.output(contract(b, b.cast(x, DType::kFloat32), b.cast(y, DType::kFloat32), {0, 1, 3},
                          {0, 2, 3}, {0, 1, 2}));
        std::vector<int64_t> sizes =
            transposed ? std::vector<int64_t>{4, 64, 48} : std::vector<int64_t>{4, 48, 64};
        batch.add(Template::kTile, {}, b.finish(),
                  {random_tensor(random, dtype, {6, rows, 64}), random_tensor(random, dtype, sizes),
                   random_tensor(random, DType::kInt64, {6}, -1, 6)});
      }
    }
  }
  batch.compile();
  batch.check_all(3e-4);
  if (!runs_on_gpu()) return;
  for (size_t k = 0; k < batch.size(); ++k) {
    const std::string& text = batch.at(k).source.text;
    bool is_half = batch.at(k).inputs[0].dtype() == DType::kBfloat16;
    bool is_skinny = batch.at(k).inputs[0].sizes()[1] == 1;
    if (!is_half && !is_skinny) continue;
    EXPECT_NE(text.find("in1 + "), std::string::npos) << text;
    EXPECT_EQ(text.find("in1["), std::string::npos) << text;
  }
}

// Few rows, in blocks that share a k: of any length, whole and cut.
TEST(CodegenTile, BlocksShareK) {
  Random random(37);
  KernelBatch batch;
  for (int64_t splits : {0, 2, 32}) {
    for (int64_t k : {64, 520, 4096}) {
      for (int64_t rows : {8, 40}) {
        Schedule schedule{{"block_columns", 64}, {"splits", splits}};
        add_product(batch, random, DType::kBfloat16, rows, 200, k, false, true, schedule);
        add_product(batch, random, DType::kFloat32, rows, 200, k, false, true, schedule);
      }
    }
    add_product(batch, random, DType::kFloat64, 20, 90, 700, true, false, {{"splits", splits}});
    for (int64_t k : {0, 1, 300, 2048}) {
      GraphBuilder b({{0, 1 << 20}});
      NodeId p = input(b, DType::kFloat16, {24, Expr::symbol(0)});
      NodeId v = input(b, DType::kFloat16, {Expr::symbol(0), 72});
      b.output(b.unary(UnaryOp::kTanh, contract(b, p, v, {0, 2}, {2, 1}, {0, 1})));
      batch.add(Template::kTile, {{"splits", splits}}, b.finish(),
                {random_tensor(random, DType::kFloat16, {24, k}, -0.02, 0.02),
                 random_tensor(random, DType::kFloat16, {k, 72})});
    }
  }
  batch.compile();
  // A float sum of 4,096 products passes through some hundreds on its way to almost nothing, and
  // each step may round it by 2^-24 of that: 64 such errors, as they add up, are 1e-3.
  batch.check_all(1e-2);
  if (!runs_on_gpu()) return;
  // As many blocks as a GPU has processors, where nobody says how many.
  for (size_t k : {8, 9, 10, 11}) {
    EXPECT_GT(batch.at(k).source.entry.units.evaluate(std::vector<int64_t>{}), 32)
        << batch.at(k).source.text;
  }
}

// What is not finite reaches its own row and column only: not through the edges of blocks, nor
// through parts that blocks share.
TEST(CodegenTile, SpecialValues) {
  Random random(35);
  KernelBatch batch;
  for (double special :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      for (bool transposed : {false, true}) {
        for (auto [m, k, splits] : std::vector<std::array<int64_t, 3>>{
                 {37, 72, 1}, {33, 69, 1}, {20, 1000, 4}, {3, 1000, 4}, {1, 33, 1}}) {
          std::vector<int64_t> left = transposed ? std::vector<int64_t>{k, m} : std::vector{m, k};
          std::vector<int64_t> right =
              transposed ? std::vector<int64_t>{75, k} : std::vector{k, int64_t{75}};
          GraphBuilder b;
          NodeId x = input(b, dtype, Shape(left.begin(), left.end()));
          NodeId y = input(b, dtype, Shape(right.begin(), right.end()));
          b.output(contract(b, x, y, transposed ? std::vector<int>{2, 0} : std::vector<int>{0, 2},
                            transposed ? std::vector<int>{1, 2} : std::vector<int>{2, 1}, {0, 1}));
          std::vector<HostTensor> inputs{random_tensor(random, dtype, left),
                                         random_tensor(random, dtype, right)};
          inputs[0].set(0, special);
          inputs[0].set(inputs[0].elements() - 1, special);
          inputs[1].set(inputs[1].elements() - 1, -special);
          batch.add(Template::kTile, {{"splits", splits}}, b.finish(), std::move(inputs));
        }
      }
    }
  }
  batch.compile();
  batch.check_all(3e-4);
}

// A product that is stored transposed, and few rows or columns of each kind.
TEST(CodegenTile, TransposedAndSkinny) {
  Random random(31);
  KernelBatch batch;
  for (auto [m, n] : std::vector<std::pair<int64_t, int64_t>>{{40, 50}, {3, 50}, {300, 2}}) {
    for (DType dtype : {DType::kFloat32, DType::kFloat16}) {
      for (bool along : {false, true}) {
        GraphBuilder b;
        NodeId x = input(b, dtype, along ? Shape{m, 264} : Shape{264, m});
        NodeId w = input(b, dtype, along ? Shape{n, 264} : Shape{264, n});
        NodeId y = contract(b, x, w, along ? std::vector<int>{0, 2} : std::vector<int>{2, 0},
                            along ? std::vector<int>{1, 2} : std::vector<int>{2, 1}, {0, 1});
        b.output(b.permute(y, {1, 0}));
        std::vector<int64_t> left =
            along ? std::vector<int64_t>{m, 264} : std::vector<int64_t>{264, m};
        std::vector<int64_t> right =
            along ? std::vector<int64_t>{n, 264} : std::vector<int64_t>{264, n};
        batch.add(Template::kTile, {}, b.finish(),
                  {random_tensor(random, dtype, left), random_tensor(random, dtype, right)});
      }
    }
  }
  add_product(batch, random, DType::kFloat32, 2, 270'001, 3, true, false, {});
  add_product(batch, random, DType::kFloat32, 1, 65'536, 5, false, false, {});
  batch.compile();
  batch.check_all(3e-4);
}

// Few rows and columns, whose k several blocks share.
TEST(CodegenTile, SharedK) {
  Random random(33);
  KernelBatch batch;
  for (DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat64}) {
    for (bool transposed : {false, true}) {
      for (int64_t k : {1, 3000, 8192})
        add_product(batch, random, dtype, 2, 40, k, true, transposed, {});
    }
  }
  for (int64_t splits : {1, 4, 32}) {
    Schedule schedule{{"splits", splits}};
    add_product(batch, random, DType::kBfloat16, 3, 136, 5000, false, false, schedule);
    add_product(batch, random, DType::kBfloat16, 136, 1, 9001, false, true, schedule);
    for (int64_t k : {0, 1, 255, 2049, 4000}) {
      // Probabilities of grouped heads times their values, of any number of keys.
      GraphBuilder b({{0, 1 << 20}});
      NodeId p = input(b, DType::kFloat32, {2, 4, Expr::symbol(0)});
      NodeId v = b.cast(input(b, DType::kBfloat16, {Expr::symbol(0), 2, 64}), DType::kFloat32);
      NodeId out = contract(b, p, v, {0, 1, 2}, {2, 0, 3}, {0, 1, 3});
      b.output(b.unary(UnaryOp::kTanh, out));
      batch.add(Template::kTile, schedule, b.finish(),
                {random_tensor(random, DType::kFloat32, {2, 4, k}, -0.02, 0.02),
                 random_tensor(random, DType::kBfloat16, {k, 2, 64})});
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    // Thousands of products that cancel, one after the other: 5e-5 of error at 5000, whether they
    // are added one by one or in pairs.
    bool cancels = batch.at(k).inputs[0].dtype() == DType::kBfloat16;
    batch.check(k, cancels ? 2e-3 : 3e-4);
    if (HasFatalFailure()) return;
  }
}

// How many blocks share a k follows from the rows: 4 of 20 rows, 2 of 100, and none of 200.
TEST(CodegenTile, PartsOfSymbolicRows) {
  Random random(41);
  KernelBatch batch;
  for (int64_t m : {1, 20, 100, 200}) {
    GraphBuilder b({{1, 4096}});
    NodeId x = input(b, DType::kBfloat16, {Expr::symbol(0), 320});
    NodeId w = input(b, DType::kBfloat16, {1024, 320});
    NodeId out = contract(b, x, w, {0, 2}, {1, 2}, {0, 1});
    b.output(b.cast(b.unary(UnaryOp::kTanh, out), DType::kBfloat16));
    batch.add(Template::kTile, {{"block_columns", 64}, {"block_rows", 16}, {"splits", 4}},
              b.finish(),
              {random_tensor(random, DType::kBfloat16, {m, 320}, -0.1, 0.1),
               random_tensor(random, DType::kBfloat16, {1024, 320}, -0.1, 0.1)});
  }
  batch.compile();
  batch.check_all(1e-2);
}

TEST(CodegenTile, SymbolicSizes) {
  Random random(25);
  KernelBatch batch;
  for (int64_t m : {0, 1, 5, 64, 130}) {
    for (int64_t k : {1, 40, 700}) {
      GraphBuilder b({{0, 4096}, {1, 4096}});
      NodeId x = input(b, DType::kFloat32, {Expr::symbol(0), Expr::symbol(1)});
      NodeId w = input(b, DType::kFloat32, {50, Expr::symbol(1)});
      b.output(contract(b, x, w, {0, 2}, {1, 2}, {0, 1}));
      batch.add(Template::kTile, {}, b.finish(),
                {random_tensor(random, DType::kFloat32, {m, k}),
                 random_tensor(random, DType::kFloat32, {50, k})});
    }
  }
  batch.compile();
  batch.check_all(3e-4);
}

}  // namespace
}  // namespace testing_codegen
