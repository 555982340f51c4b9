// Products of bfloat16 that a processor multiplies pair by pair, against the reference interpreter.
#include <limits>

#include "codegen_testing.h"
#include "common/runtime/device/cpu_device.h"
#include "worker/codegen/c/cpu_c.h"
#include "worker/compile/c_compiler.h"
#include "worker/compile/target.h"

namespace testing_codegen {
namespace {

constexpr DType kShort = DType::kBfloat16;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// By pairs, and by tiles of such on a stand-in for their unit: kernels for either are the same but
// for the register tile.
class CodegenPairs : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (machine_of(host_cpu_target()) != Machine::kCpuPairs) {
      GTEST_SKIP() << "this machine has no AVX512_BF16";
    }
  }
  static bool multiplies_pairs(const Case& c) {
    bool by_tiles = c.source.text.find("LF_TILE_PAIRS") != std::string::npos;
    EXPECT_EQ(by_tiles, has_tiles()) << c.source.text;
    return c.source.text.find("lf_add_pairs") != std::string::npos;
  }
  static bool multiplies_rows(const Case& c) {
    return c.source.text.find("lf_dot_bf16_bf16") != std::string::npos;
  }
  static bool has_tiles() { return std::string_view(GetParam()).find("amx") != std::string::npos; }
  static bool packs(const Case& c) { return c.source.text.find("packed") != std::string::npos; }
  static bool packs_columns(const Case& c) {
    return c.source.text.find("packed_b") != std::string::npos;
  }
};
INSTANTIATE_TEST_SUITE_P(Units, CodegenPairs,
                         ::testing::Values("cpu-x86_64-avx512bf16", "cpu-x86_64-amxbf16"),
                         [](const auto& info) {
                           return std::string(info.param).substr(std::string("cpu-x86_64-").size());
                         });

Shape shape_of(const std::vector<int64_t>& sizes) { return {sizes.begin(), sizes.end()}; }

NodeId input(GraphBuilder& b, const std::vector<int64_t>& sizes, DType dtype = kShort) {
  return b.input(InputKind::kUser, dtype, shape_of(sizes), "x");
}

NodeId product(GraphBuilder& b, NodeId x, NodeId y, std::vector<int> lx, std::vector<int> ly,
               Shape shape, std::vector<int> out) {
  ContractAttr labels{std::move(lx), std::move(ly), std::move(out)};
  return b.raw({Op::kContract, DType::kFloat32, std::move(shape), {x, y}, std::move(labels)});
}

// The matrix [k, n] that lies in panels of pairs.
NodeId matrix_in_panels(GraphBuilder& b, NodeId panels, int64_t k, int64_t n) {
  Expr step = Expr::index(0), column = Expr::index(1);
  View view{{k, n},
            {floor_div(column, Expr(16)), floor_div(step, Expr(2)), mod(column, Expr(16)),
             mod(step, Expr(2))},
            {},
            0};
  return b.view(panels, view);
}
std::vector<int64_t> panel_sizes(int64_t k, int64_t n) {
  return {(n + 15) / 16, (k + 1) / 2, 16, 2};
}

// m x k times k x n in panels; what the panels hold beyond the matrix is not a number.
void add_panels(KernelBatch& batch, Random& random, int64_t m, int64_t k, int64_t n,
                Schedule schedule = {}, bool to_short = false) {
  GraphBuilder b;
  NodeId x = input(b, {m, k});
  NodeId matrix = matrix_in_panels(b, input(b, panel_sizes(k, n)), k, n);
  NodeId y = product(b, x, matrix, {0, 2}, {2, 1}, {m, n}, {0, 1});
  b.output(to_short ? b.cast(y, kShort) : y);
  HostTensor panels = random_tensor(random, kShort, panel_sizes(k, n));
  for (int64_t i = 0; i < panels.elements(); ++i) {
    int64_t half = i % 2, column = i / 2 % 16, pair = i / 32 % ((k + 1) / 2);
    int64_t panel = i / 32 / ((k + 1) / 2);
    if (2 * pair + half >= k || 16 * panel + column >= n) panels.set(i, kNan);
  }
  batch.add(Template::kTile, std::move(schedule), b.finish(),
            {random_tensor(random, kShort, {m, k}), std::move(panels)});
}

// A weight that was laid in panels of pairs is not packed, nor are rows that lie along the sum,
// whether or not the last pair is whole: half pairs must not let in what lies beside them.
TEST_P(CodegenPairs, PanelsAndRowsAreReadInPlace) {
  Random random(41);
  KernelBatch batch(GetParam());
  for (int64_t k : {1, 2, 3, 64, 65, 768, 2051}) {
    for (int64_t n : {1, 15, 17, 96}) add_panels(batch, random, 37, k, n);
  }
  add_panels(batch, random, 5, 301, 50);
  add_panels(batch, random, 130, 64, 160, {}, true);
  for (const ScheduleChoice& choice : schedule_parameters(Template::kTile)) {
    if (!choice.on_cpu) continue;
    for (int64_t value : choice.values) {
      add_panels(batch, random, 37, 1201, 100, {{std::string(choice.name), value}});
      add_panels(batch, random, 37, 1200, 100, {{std::string(choice.name), value}});
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    const Case& c = batch.at(k);
    EXPECT_TRUE(multiplies_pairs(c)) << k;
    // An axis of one element says nothing of what lies beside it.
    const Shape& shape = c.kernel.body.node(c.kernel.body.outputs[0].node).shape;
    if (c.inputs[0].sizes()[1] == 1 || shape[1].is_constant(1)) continue;
    EXPECT_FALSE(has_tiles() ? packs_columns(c) : packs(c)) << k << "\n" << c.source.text;
  }
  for (size_t k = 0; k < batch.size(); ++k) {
    batch.check(k, 3e-4, k % 3 == 0 ? 2 : 1);
    if (HasFatalFailure()) return;
  }
}

// What does not lie in pairs is packed in pairs, whichever way it runs.
TEST_P(CodegenPairs, EveryOrderOfMemoryIsPacked) {
  Random random(42);
  KernelBatch batch(GetParam());
  for (int64_t k : {1, 2, 7, 33, 500}) {
    for (bool turn_a : {false, true}) {
      for (bool turn_b : {false, true}) {
        for (int64_t n : {1, 17, 75}) {
          std::vector<int64_t> a_sizes{3, 19, k}, b_sizes{3, k, n};
          if (turn_a) a_sizes = {3, k, 19};
          if (turn_b) b_sizes = {n, 3, k};
          std::vector<int> a_labels{0, 1, 3}, b_labels{0, 3, 2};
          if (turn_a) a_labels = {0, 3, 1};
          if (turn_b) b_labels = {2, 0, 3};
          GraphBuilder b;
          NodeId x = input(b, a_sizes), y = input(b, b_sizes);
          b.output(product(b, x, y, a_labels, b_labels, {3, 19, n}, {0, 1, 2}));
          batch.add(
              Template::kTile, {}, b.finish(),
              {random_tensor(random, kShort, a_sizes), random_tensor(random, kShort, b_sizes)});
        }
      }
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) EXPECT_TRUE(multiplies_pairs(batch.at(k))) << k;
  batch.check_all(3e-4);
}

// Windows of images, channels last. Rows of a window are read in place where they hold whole pairs,
// and packed where a pair reaches from one to the next.
TEST_P(CodegenPairs, WindowsAreReadInRunsOfPairs) {
  Random random(43);
  KernelBatch batch(GetParam());
  for (int64_t channels : {3, 8, 64, 160}) {
    for (int64_t kc : {0, 64}) {
      GraphBuilder b;
      int64_t depth = 9 * channels;
      NodeId x = input(b, {2, 7, 9, channels});
      NodeId panels = input(b, panel_sizes(depth, 20));
      View windows{{2, 5, 4, 3, 3, channels},
                   {Expr::index(0), Expr::index(1) + Expr::index(3),
                    Expr::index(2) * Expr(2) + Expr::index(4), Expr::index(5)},
                   {},
                   0};
      Expr k = (Expr::index(0) * Expr(3) + Expr::index(1)) * Expr(channels) + Expr::index(2);
      Expr n = Expr::index(3);
      View matrix{
          {3, 3, channels, 20},
          {floor_div(n, Expr(16)), floor_div(k, Expr(2)), mod(n, Expr(16)), mod(k, Expr(2))},
          {},
          0};
      b.output(product(b, b.view(x, windows), b.view(panels, matrix), {0, 1, 2, 3, 4, 5},
                       {3, 4, 5, 6}, {2, 5, 4, 20}, {0, 1, 2, 6}));
      Schedule schedule;
      if (kc != 0) schedule = {{"kc", kc}};
      batch.add(Template::kTile, schedule, b.finish(),
                {random_tensor(random, kShort, {2, 7, 9, channels}),
                 random_tensor(random, kShort, panel_sizes(depth, 20))});
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); k += 2) {
    bool in_place = k > 0 && !has_tiles();  // by whole pairs
    EXPECT_EQ(packs(batch.at(k)), !in_place) << k << "\n" << batch.at(k).source.text;
    EXPECT_EQ(batch.at(k).source.text.find("packed_b"), std::string::npos) << k;
  }
  batch.check_all(3e-4);
}

// Rows computed on the way and rounded, with a border; what follows the product, rounded too.
TEST_P(CodegenPairs, PrologueAndEpilogue) {
  Random random(44);
  KernelBatch batch(GetParam());
  for (int64_t k : {95, 96}) {
    GraphBuilder b;
    NodeId x = b.cast(input(b, {2, 24, k}), DType::kFloat32);
    x = b.cast(b.binary(BinaryOp::kMul, x, b.unary(UnaryOp::kSigmoid, x)), kShort);
    NodeId y =
        product(b, b.pad(x, 1, 1, 2), input(b, {64, k}), {0, 1, 3}, {2, 3}, {2, 27, 64}, {0, 1, 2});
    NodeId sum = b.binary(BinaryOp::kAdd, y, input(b, {64}, DType::kFloat32));
    b.output(b.cast(b.unary(UnaryOp::kTanh, sum), kShort));
    b.output(b.permute(b.reshape(sum, {2, 27, 4, 16}), {0, 2, 1, 3}));
    batch.add(Template::kTile, {}, b.finish(),
              {random_tensor(random, kShort, {2, 24, k}), random_tensor(random, kShort, {64, k}),
               random_tensor(random, DType::kFloat32, {64})});
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) EXPECT_TRUE(multiplies_pairs(batch.at(k))) << k;
  batch.check_all(3e-4);
}

// Sizes that are known in a run only: whether the last pair is whole is found there.
TEST_P(CodegenPairs, SizesThatAreKnownLate) {
  Random random(45);
  KernelBatch batch(GetParam());
  for (int64_t k : {0, 1, 2, 15, 700, 701}) {
    for (bool transposed : {false, true}) {
      GraphBuilder b({{0, 1024}});
      Expr depth = Expr::symbol(0);
      NodeId x = b.input(InputKind::kUser, kShort, {21, depth}, "x");
      NodeId y =
          b.input(InputKind::kUser, kShort, transposed ? Shape{34, depth} : Shape{depth, 34}, "y");
      b.output(product(b, x, y, {0, 2},
                       transposed ? std::vector<int>{1, 2} : std::vector<int>{2, 1}, {21, 34},
                       {0, 1}));
      std::vector<int64_t> sizes{k, 34};
      if (transposed) sizes = {34, k};
      batch.add(Template::kTile, {}, b.finish(),
                {random_tensor(random, kShort, {21, k}), random_tensor(random, kShort, sizes)});
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) EXPECT_TRUE(multiplies_pairs(batch.at(k))) << k;
  batch.check_all(3e-4);
}

// One value that is no finite number reaches its own row or column and nothing else.
TEST_P(CodegenPairs, InfinitiesAndNansStayInTheirRows) {
  constexpr int64_t kRows = 9, kColumns = 18;
  for (int64_t depth : {6, 7}) {
    for (double special : {kNan, kInfinity}) {
      for (int64_t place : {int64_t{0}, depth - 1}) {
        Random random(46);
        KernelBatch batch(GetParam());
        add_panels(batch, random, kRows, depth, kColumns);
        GraphBuilder b;
        NodeId left = input(b, {kRows, depth}), right = input(b, {depth, kColumns});
        b.output(product(b, left, right, {0, 2}, {2, 1}, {kRows, kColumns}, {0, 1}));
        HostTensor x = random_tensor(random, kShort, {kRows, depth}, 1, 2);
        x.set(4 * depth + place, special);
        batch.add(Template::kTile, {}, b.finish(),
                  {std::move(x), random_tensor(random, kShort, {depth, kColumns}, 1, 2)});
        batch.compile();
        batch.check_all(3e-4);
        std::vector<HostTensor> got = batch.run(1, 1);
        for (int64_t i = 0; i < got[0].elements(); ++i) {
          EXPECT_EQ(std::isfinite(got[0].get(i)), i / kColumns != 4) << i;
        }
      }
    }
  }
}

// The processor takes denormals for zeros, in operands and in sums: results may be off by the least
// normal number times the other factor, which no model sees. This is where it is written down.
TEST_P(CodegenPairs, DenormalsCountAsZeros) {
  KernelBatch batch(GetParam());
  GraphBuilder b;
  NodeId left = input(b, {5, 2}), right = input(b, {2, 16});
  b.output(product(b, left, right, {0, 2}, {2, 1}, {5, 16}, {0, 1}));
  HostTensor x = HostTensor::zeros(kShort, {5, 2}).value();
  HostTensor y = HostTensor::zeros(kShort, {2, 16}).value();
  for (int64_t i = 0; i < 10; ++i) x.set(i, std::ldexp(1.0, -130));
  for (int64_t i = 0; i < 32; ++i) y.set(i, 1024);
  batch.add(Template::kTile, {}, b.finish(), {std::move(x), std::move(y)});
  batch.compile();
  std::vector<HostTensor> got = batch.run(0, 1);
  for (int64_t i = 0; i < got[0].elements(); ++i) EXPECT_EQ(got[0].get(i), 0) << i;
}

// One row times a matrix, which is read once as it lies: whole vectors, single ones and what is
// left.
TEST_P(CodegenPairs, RowsAlongTheSumAreMultipliedWhereTheyLie) {
  Random random(48);
  KernelBatch batch(GetParam());
  for (int64_t k : {1, 31, 32, 33, 127, 128, 161, 2048, 2051, 6000}) {
    for (Template form : {Template::kTile, Template::kLoops}) {
      GraphBuilder b;
      NodeId x = b.cast(input(b, {1, k}), DType::kFloat32);
      NodeId y = product(b, x, b.cast(input(b, {37, k}), DType::kFloat32), {0, 2}, {1, 2}, {1, 37},
                         {0, 1});
      b.output(b.cast(b.binary(BinaryOp::kAdd, y, b.scalar(DType::kFloat32, 0.25)), kShort));
      b.output(y);
      batch.add(form, {}, b.finish(),
                {random_tensor(random, kShort, {1, k}), random_tensor(random, kShort, {37, k})});
    }
  }
  batch.compile();
  // A sum of one product, as in the first two, is none.
  for (size_t k = 2; k < batch.size(); ++k) {
    EXPECT_TRUE(multiplies_rows(batch.at(k))) << k << "\n" << batch.at(k).source.text;
  }
  batch.check_all(3e-4);
}

// The same where the length is known in a run only, and where a table says which row is read.
TEST_P(CodegenPairs, RowsOfUnknownLengthAndRowsOfTables) {
  Random random(49);
  KernelBatch batch(GetParam());
  for (int64_t k : {0, 1, 40, 2500}) {
    GraphBuilder b({{0, 4096}});
    Expr depth = Expr::symbol(0);
    NodeId table = b.input(InputKind::kUser, kShort, {11, depth}, "x");
    NodeId which = b.input(InputKind::kUser, DType::kInt64, {3}, "i");
    NodeId y = b.input(InputKind::kUser, kShort, {7, depth}, "y");
    NodeId each = b.view(which, {{3, depth}, {Expr::index(0)}, {}, 0});
    GatherAttr rows{{{0, 0}, {-1, Expr::index(1)}}};
    NodeId x = b.raw({Op::kGather, kShort, {3, depth}, {table, each}, rows});
    b.output(product(b, x, y, {0, 2}, {1, 2}, {3, 7}, {0, 1}));
    HostTensor places = HostTensor::zeros(DType::kInt64, {3}).value();
    for (int64_t i = 0; i < 3; ++i) places.set(i, 5 * i);
    batch.add(
        Template::kLoops, {}, b.finish(),
        {random_tensor(random, kShort, {11, k}), places, random_tensor(random, kShort, {7, k})});
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) EXPECT_TRUE(multiplies_rows(batch.at(k))) << k;
  batch.check_all(3e-4);
}

// Anything between the values and their product keeps them from being multiplied as they lie: a
// matrix that runs the other way, and factors that are no longer what is stored.
TEST_P(CodegenPairs, OtherSumsAreNoProductsOfRows) {
  Random random(50);
  KernelBatch batch(GetParam());
  auto wide = [](GraphBuilder& b, NodeId x) { return b.cast(x, DType::kFloat32); };
  for (bool transposed : {false, true}) {
    GraphBuilder b;
    NodeId x = wide(b, input(b, {1, 300}));
    if (!transposed) x = b.binary(BinaryOp::kAdd, x, b.scalar(DType::kFloat32, 1e-3));
    NodeId y = wide(
        b, input(b, transposed ? std::vector<int64_t>{300, 40} : std::vector<int64_t>{40, 300}));
    b.output(product(b, x, y, {0, 2}, transposed ? std::vector<int>{2, 1} : std::vector<int>{1, 2},
                     {1, 40}, {0, 1}));
    batch.add(Template::kLoops, {}, b.finish(),
              {random_tensor(random, kShort, {1, 300}),
               random_tensor(
                   random, kShort,
                   transposed ? std::vector<int64_t>{300, 40} : std::vector<int64_t>{40, 300})});
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) EXPECT_FALSE(multiplies_rows(batch.at(k))) << k;
  batch.check_all(3e-4);
}

// The instructions themselves, which the stand-in takes the place of: what is compiled for such a
// machine multiplies by them, four to each step of the register tile of 32 rows by 32 columns.
TEST(CodegenTiles, AreInstructions) {
  const common::Target target{"cpu-x86_64-amxbf16"};
  GraphBuilder b;
  NodeId x = input(b, {64, 128}), y = input(b, {128, 96});
  b.output(product(b, x, y, {0, 2}, {2, 1}, {64, 96}, {0, 1}));
  worker::CpuCodeGenerator generator(worker::unit_of(target));
  Kernel kernel{Template::kTile, {}, canonical(b.finish()), {}};
  ASSERT_TRUE(add_nest(kernel, {machine_of(target), target.name, ""}).ok());
  auto source = generator.generate(kernel);
  ASSERT_TRUE(source.ok()) << source.error().message;
  auto compiler = worker::find_c_compiler(target);
  ASSERT_TRUE(compiler.ok()) << compiler.error().message;
  auto object = (*compiler)->compile(generator.preamble() + source->text, 300'000);
  ASSERT_TRUE(object.ok()) << object.error().message;
  // VEX.128.F3.0F38.W0 5C is tdpbf16ps.
  int multiplications = 0;
  for (size_t at = 0; at + 4 < object->size(); ++at) {
    auto byte = [&](size_t k) { return std::to_integer<int>((*object)[at + k]); };
    if (byte(0) == 0xC4 && byte(1) == 0xE2 && (byte(2) & 0x87) == 0x02 && byte(3) == 0x5C) {
      ++multiplications;
    }
  }
  EXPECT_GT(multiplications, 0) << source->text;
  EXPECT_EQ(multiplications % 4, 0) << multiplications;
}

// Random sizes, orders of memory and schedules: a size at which a tile, a block and a run end at
// different places.
TEST_P(CodegenPairs, RandomProducts) {
  Random random(47);
  KernelBatch batch(GetParam());
  const std::vector<ScheduleChoice>& choices = schedule_parameters(Template::kTile);
  for (int round = 0; round < 40; ++round) {
    Schedule schedule;
    for (const ScheduleChoice& choice : choices) {
      if (!choice.on_cpu || !random.chance(0.3)) continue;
      schedule.push_back(
          {std::string(choice.name), choice.values[random.below(choice.values.size())]});
    }
    auto size = [&](uint64_t most) { return static_cast<int64_t>(1 + random.below(most)); };
    add_panels(batch, random, size(80) + 4, size(700), size(130), schedule, random.chance(0.5));
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    batch.check(k, 3e-4, 1 + static_cast<int>(k % 3));
    if (HasFatalFailure()) return;
  }
}

// Weights as pairs in panels of 16 columns: whole squares of pairs, parts of squares, and rows that
// begin at an odd element.
TEST(PairSquares, TurnWholeSquares) {
  Random random(24);
  KernelBatch batch;
  for (DType dtype : {DType::kBfloat16, DType::kInt16}) {
    for (int64_t depth : {32, 96, 40}) {
      for (int64_t begin : {0, 1, 2}) {
        GraphBuilder b;
        const Shape shape = {80, depth + 4};
        NodeId x = b.input(InputKind::kUser, dtype, shape, "x");
        View panels;
        panels.shape = {5, depth / 2, 16, 2};
        panels.index = {Expr::index(0) * Expr(16) + Expr::index(2),
                        Expr::index(1) * Expr(2) + Expr::index(3) + Expr(begin)};
        b.output(b.view(x, panels));
        batch.add(Template::kLoops, {}, b.finish(),
                  {random_tensor(random, dtype, {80, depth + 4})});
      }
    }
  }
  batch.compile();
  batch.check_all();
  for (size_t k = 0; k < batch.size(); ++k) batch.check(k, 0, 3);
  for (size_t k = 0; k < batch.size(); ++k) {
    const bool is_even = k % 3 != 1, is_whole = k % 9 < 6;
    const std::string& text = batch.at(k).source.text;
    EXPECT_EQ(text.find("lf_turn_float16") != std::string::npos, is_even && is_whole) << text;
  }
}

}  // namespace
}  // namespace testing_codegen
