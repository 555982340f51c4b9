// Products by warpgroups, against the reference interpreter.
#include "product_cases.h"

namespace testing_codegen {
namespace {

// Blocks that warpgroups multiply, whole and cut, in all orders of memory, with every number of
// stages, shared or not; copied as they lie and computed on the way.
TEST(CodegenWarpgroup, Products) {
  Random random(36);
  KernelBatch batch("cuda-sm_90a");
  for (const ScheduleChoice& choice : schedule_parameters(Template::kTile)) {
    if (choice.name != "warpgroups") continue;
    for (int64_t block : choice.values) {
      if (block <= 1) continue;
      for (bool turn_a : {false, true}) {
        for (bool turn_b : {false, true}) {
          DType dtype = turn_a ? DType::kFloat16 : DType::kBfloat16;
          Schedule schedule{{"warpgroups", block}};
          // Chunks of 16 bytes, and operands that are read element by element.
          add_product(batch, random, dtype, 136, 264, 200, turn_a, turn_b, schedule);
          add_product(batch, random, dtype, 67, 75, 69, turn_a, turn_b, schedule);
        }
      }
    }
  }
  for (int64_t stages : {3, 4, 6}) {
    for (int64_t k : {0, 1, 64, 192, 640}) {
      Schedule schedule{{"stages", stages}, {"warpgroups", 64064}};
      add_product(batch, random, DType::kBfloat16, 64, 64, k, false, true, schedule);
    }
    for (int64_t splits : {2, 8}) {
      Schedule schedule{{"splits", splits}, {"stages", stages}, {"warpgroups", 128064}};
      add_product(batch, random, DType::kBfloat16, 130, 72, 1600, false, true, schedule);
    }
  }
  // silu(x) * w^T, two batches, a row is added in the end.
  GraphBuilder b;
  NodeId x = b.cast(input(b, DType::kBfloat16, {2, 70, 96}), DType::kFloat32);
  x = b.cast(b.binary(BinaryOp::kMul, x, b.unary(UnaryOp::kSigmoid, x)), DType::kBfloat16);
  NodeId w = input(b, DType::kBfloat16, {2, 80, 96});
  NodeId bias = input(b, DType::kFloat32, {80});
  NodeId y = contract(b, b.cast(x, DType::kFloat32), b.cast(w, DType::kFloat32), {0, 1, 3},
                      {0, 2, 3}, {0, 1, 2});
  b.output(b.cast(b.binary(BinaryOp::kAdd, y, bias), DType::kBfloat16));
  batch.add(Template::kTile, {{"warpgroups", 64128}}, b.finish(),
            {random_tensor(random, DType::kBfloat16, {2, 70, 96}),
             random_tensor(random, DType::kBfloat16, {2, 80, 96}),
             random_tensor(random, DType::kFloat32, {80})});
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_NE(batch.at(k).source.text.find("lf_wgmma"), std::string::npos) << k;
  }
  batch.check_all(3e-4);
}

// Blocks whose operands the copy engine brings: whole and cut, in all orders of memory, alone and
// together, below or beside each other, with more and fewer steps of k than there are stages.
TEST(CodegenWarpgroup, BoxesOfOperands) {
  Random random(37);
  KernelBatch batch("cuda-sm_90a");
  for (int64_t clusters : {1, 2, 102}) {
    for (int64_t block : {64064, 64256, 128128, 128256, 192128, 256064}) {
      Schedule schedule{{"clusters", clusters}, {"warpgroups", block}};
      for (bool turn_a : {false, true}) {
        bool turn_b = turn_a != (clusters == 1);
        DType dtype = turn_b ? DType::kFloat16 : DType::kBfloat16;
        add_product(batch, random, dtype, 256, 256, 320, turn_a, turn_b, schedule);
        add_product(batch, random, dtype, 200, 328, 136, !turn_a, turn_b, schedule);
      }
    }
    for (int64_t stages : {3, 6}) {
      for (int64_t k : {8, 64, 320}) {
        Schedule schedule{{"clusters", clusters}, {"stages", stages}, {"warpgroups", 64064}};
        add_product(batch, random, DType::kBfloat16, 72, 64, k, false, true, schedule);
        add_product(batch, random, DType::kBfloat16, 72, 64, k, false, false, schedule);
      }
    }
  }
  // One stage for all steps.
  for (int64_t clusters : {1, 2, 4, 104}) {
    for (int64_t k : {64, 328}) {
      add_product(batch, random, DType::kBfloat16, 200, 136, k, false, true,
                  {{"clusters", clusters}, {"stages", 1}, {"warpgroups", 64064}});
    }
  }
  // As many stages as steps, and blocks of more rows or columns than the product.
  for (int64_t clusters : {1, 2, 4, 102, 104}) {
    for (int64_t k : {64, 128, 1096}) {
      add_product(batch, random, DType::kBfloat16, 200, 136, k, clusters % 100 == 2, k != 128,
                  {{"clusters", clusters}, {"warpgroups", 64064}});
    }
  }
  for (int64_t clusters : {1, 2, 102}) {
    for (int64_t splits : {2, 8}) {
      for (int64_t rows : {20, 130, 256}) {
        Schedule schedule{{"clusters", clusters}, {"splits", splits}, {"warpgroups", 128128}};
        add_product(batch, random, DType::kBfloat16, rows, 72, 1096, false, true, schedule);
      }
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_EQ(batch.at(k).source.entry.maps.size(), 2u) << k;
  }
  // A GPU's tensor cores cut sums where the emulated ones round them (Fasi et al., Numerical
  // behavior of NVIDIA tensor cores, 2021): each of 1096 / 16 steps by up to a unit in the last
  // place of sums below 64.
  constexpr double kCut = 1096.0 / 16 * 0x1p-18;
  for (size_t k = 0; k < batch.size(); ++k) batch.check(k, 3e-4, 1, kCut);
}

// Integers of [-2, 2], whose sums float32 holds exactly.
HostTensor random_integers(Random& random, DType dtype, const std::vector<int64_t>& sizes) {
  HostTensor t = HostTensor::zeros(dtype, sizes).value();
  for (int64_t i = 0; i < t.elements(); ++i) t.set(i, std::floor(5 * random.unit()) - 2);
  return t;
}

// How readers take a product's sums.
enum class Readers { kRound, kRoundToBoth, kRoundAndKeep, kRoundAndStore, kKeep };

void add_rounded_product(KernelBatch& batch, Random& random, DType dtype, int64_t rows,
                         int64_t columns, int64_t depth, Readers readers,
                         const Schedule& schedule) {
  GraphBuilder b;
  NodeId x = input(b, dtype, {rows, depth}), w = input(b, dtype, {columns, depth});
  NodeId other = b.cast(input(b, dtype, {rows, columns}), DType::kFloat32);
  NodeId sum = contract(b, x, w, {0, 2}, {1, 2}, {0, 1});
  const DType second = dtype == DType::kFloat16 ? DType::kBfloat16 : DType::kFloat16;
  NodeId y = readers == Readers::kKeep ? sum : b.cast(b.cast(sum, dtype), DType::kFloat32);
  if (readers == Readers::kRoundToBoth) {
    y = b.binary(BinaryOp::kAdd, y, b.cast(b.cast(sum, second), DType::kFloat32));
  }
  if (readers == Readers::kRoundAndKeep) y = b.binary(BinaryOp::kAdd, y, sum);
  if (readers == Readers::kRoundAndStore) b.output(sum);
  b.output(b.cast(b.binary(BinaryOp::kAdd, y, other), dtype));
  batch.add(Template::kTile, schedule, b.finish(),
            {random_integers(random, dtype, {rows, depth}),
             random_integers(random, dtype, {columns, depth}),
             random_integers(random, dtype, {rows, columns})});
}

// Sums that all readers round first are exchanged in two bytes, and are the same to the last bit:
// of whole and cut blocks, shared or not, copied by the engine or by threads. Others stay float32.
TEST(CodegenWarpgroup, SumsAreRoundedBeforeTheyAreExchanged) {
  Random random(44);
  KernelBatch batch("cuda-sm_90a");
  for (DType dtype : {DType::kBfloat16, DType::kFloat16}) {
    for (int64_t block : {64064, 128128, 128256, 192128}) {
      add_rounded_product(batch, random, dtype, 200, 136, 192, Readers::kRound,
                          {{"warpgroups", block}});
    }
    for (int64_t clusters : {1, 2, 102}) {
      add_rounded_product(batch, random, dtype, 130, 72, 1096, Readers::kRound,
                          {{"clusters", clusters}, {"splits", 4}, {"warpgroups", 128064}});
    }
    add_rounded_product(batch, random, dtype, 64, 64, 69, Readers::kRound, {{"warpgroups", 64064}});
  }
  const size_t rounded = batch.size();
  for (Readers readers :
       {Readers::kRoundToBoth, Readers::kRoundAndKeep, Readers::kRoundAndStore, Readers::kKeep}) {
    add_rounded_product(batch, random, DType::kBfloat16, 64, 64, 64, readers,
                        {{"warpgroups", 64064}});
  }
  add_rounded_product(batch, random, DType::kBfloat16, 64, 75, 64, Readers::kRound,
                      {{"warpgroups", 64064}});
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    const std::string& text = batch.at(k).source.text;
    EXPECT_EQ(text.find("uint16_t (* const stage)") != std::string::npos, k < rounded) << text;
    if (!batch.runs()) continue;
    const std::vector<HostTensor> got = batch.run(k, 1);
    const auto expected = interpret(batch.at(k).kernel.body, batch.at(k).inputs, {});
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    for (size_t o = 0; o < got.size(); ++o) {
      for (int64_t i = 0; i < got[o].elements(); ++i) {
        ASSERT_EQ(got[o].get(i), (*expected)[o].get(i)) << k << ": " << o << ", " << i << "\n"
                                                        << text;
      }
    }
  }
}

// Matrices of s0 rows in two batches of three, times three matrices that both batches share.
void add_grouped_product(KernelBatch& batch, Random& random, int64_t rows,
                         const Schedule& schedule) {
  constexpr int64_t kOuter = 2, kGroups = 3, kColumns = 72, kDepth = 136;
  GraphBuilder b({{1, 4096}});
  Expr s = Expr::symbol(0);
  NodeId x = input(b, DType::kBfloat16, {kOuter, kGroups, s, kDepth});
  NodeId w = b.view(input(b, DType::kBfloat16, {kGroups, kColumns, kDepth}),
                    View{{kOuter, kGroups, kColumns, kDepth},
                         {Expr::index(1), Expr::index(2), Expr::index(3)},
                         {},
                         0});
  // 0 outer, 1 group, 2 row, 3 column, 4 depth
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {kOuter, kGroups, s, kColumns},
                  {x, w},
                  ContractAttr{{0, 1, 2, 4}, {0, 1, 3, 4}, {0, 1, 2, 3}}}));
  batch.add(Template::kTile, schedule, b.finish(),
            {random_tensor(random, DType::kBfloat16, {kOuter, kGroups, rows, kDepth}),
             random_tensor(random, DType::kBfloat16, {kGroups, kColumns, kDepth})});
}

// Dimensions of batches, along which an operand may stay, and sizes that are known at the launch.
TEST(CodegenWarpgroup, BoxesOfBatches) {
  Random random(38);
  KernelBatch batch("cuda-sm_90a");
  for (int64_t clusters : {1, 2, 102}) {
    for (int64_t rows : {1, 64, 150}) {
      add_grouped_product(batch, random, rows, {{"clusters", clusters}, {"warpgroups", 64064}});
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_EQ(batch.at(k).source.entry.maps.size(), 2u) << k;
  }
  batch.check_all(3e-4);
}

// Rows that do not lie in memory by one stride are none of a box's.
TEST(CodegenWarpgroup, RowsThatLieApartAreNoBox) {
  Random random(40);
  KernelBatch batch("cuda-sm_90a");
  GraphBuilder b;
  NodeId x = input(b, DType::kBfloat16, {2, 3, 40, 72});
  NodeId w = input(b, DType::kBfloat16, {3, 72, 72});
  // 0 outer and 2 row are rows, between which 1 group lies, of the batch; 3 column, 4 depth
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {3, 2, 40, 72},
                  {x, w},
                  ContractAttr{{0, 1, 2, 4}, {1, 3, 4}, {1, 0, 2, 3}}}));
  batch.add(Template::kTile, {{"warpgroups", 64064}}, b.finish(),
            {random_tensor(random, DType::kBfloat16, {2, 3, 40, 72}),
             random_tensor(random, DType::kBfloat16, {3, 72, 72})});
  batch.compile();
  EXPECT_TRUE(batch.at(0).source.entry.maps.empty()) << batch.at(0).source.text;
  batch.check_all(3e-4);
}

// Runs of k that lie apart, such as what the heads of an attention leave, are a dimension of their
// own.
TEST(CodegenWarpgroup, BoxesOfRuns) {
  Random random(43);
  KernelBatch batch("cuda-sm_90a");
  for (int64_t run : {64, 128}) {
    for (int64_t clusters : {1, 2, 102}) {
      constexpr int64_t kHeads = 3, kRows = 100, kColumns = 72;
      GraphBuilder b;
      NodeId x = input(b, DType::kBfloat16, {kHeads, kRows, run});
      NodeId w = input(b, DType::kBfloat16, {kColumns, kHeads * run});
      View rows{{kRows, kHeads * run},
                {floor_div(Expr::index(1), run), Expr::index(0), mod(Expr::index(1), run)},
                {},
                0};
      b.output(contract(b, b.view(x, rows), w, {0, 2}, {1, 2}, {0, 1}));
      batch.add(Template::kTile, {{"clusters", clusters}, {"warpgroups", 64064}}, b.finish(),
                {random_tensor(random, DType::kBfloat16, {kHeads, kRows, run}),
                 random_tensor(random, DType::kBfloat16, {kColumns, kHeads * run})});
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_EQ(batch.at(k).source.entry.maps.size(), 2u) << k;
  }
  batch.check_all(3e-4);
}

// What a schedule that says nothing gets: boxes where both operands lie in memory in order and the
// product is large, else what single warps multiply.
TEST(CodegenWarpgroup, BoxesAreTheDefault) {
  Random random(39);
  // What they compute is tested with smaller ones above.
  KernelBatch large("cuda-sm_90a");
  add_product(large, random, DType::kBfloat16, 2048, 2048, 2048, false, true, {});
  add_product(large, random, DType::kBfloat16, 2048, 2048, 2048, false, true, {{"warpgroups", 1}});
  large.compile();
  EXPECT_EQ(large.at(0).source.entry.maps.size(), 2u);
  EXPECT_EQ(large.at(1).source.entry.maps.size(), 0u);
  KernelBatch batch("cuda-sm_90a");
  add_product(batch, random, DType::kBfloat16, 510, 509, 67, false, true, {});
  add_product(batch, random, DType::kBfloat16, 20, 512, 64, false, true, {});
  GraphBuilder b;
  NodeId x = b.cast(input(b, DType::kBfloat16, {512, 64}), DType::kFloat32);
  x = b.cast(b.binary(BinaryOp::kMul, x, b.scalar(DType::kFloat32, 2)), DType::kBfloat16);
  NodeId w = input(b, DType::kBfloat16, {512, 64});
  b.output(
      contract(b, b.cast(x, DType::kFloat32), b.cast(w, DType::kFloat32), {0, 2}, {1, 2}, {0, 1}));
  batch.add(Template::kTile, {}, b.finish(),
            {random_tensor(random, DType::kBfloat16, {512, 64}),
             random_tensor(random, DType::kBfloat16, {512, 64})});
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_TRUE(batch.at(k).source.entry.maps.empty()) << k;
  }
  batch.check_all(3e-4);
}

// How many blocks share a k follows from the rows: 4 of 20 rows, 2 of 150 and none of 300, but in
// clusters no more than 2.
TEST(CodegenWarpgroup, PartsOfSymbolicRows) {
  Random random(42);
  KernelBatch batch("cuda-sm_90a");
  for (int64_t clusters : {1, 2}) {
    for (int64_t rows : {1, 20, 150, 300}) {
      GraphBuilder b({{1, 4096}});
      NodeId x = input(b, DType::kBfloat16, {Expr::symbol(0), 256});
      NodeId w = input(b, DType::kBfloat16, {4096, 256});
      NodeId out = contract(b, x, w, {0, 2}, {1, 2}, {0, 1});
      b.output(b.cast(b.unary(UnaryOp::kTanh, out), DType::kBfloat16));
      batch.add(Template::kTile, {{"clusters", clusters}, {"splits", 4}, {"warpgroups", 128128}},
                b.finish(),
                {random_tensor(random, DType::kBfloat16, {rows, 256}, -0.1, 0.1),
                 random_tensor(random, DType::kBfloat16, {4096, 256}, -0.1, 0.1)});
    }
  }
  batch.compile();
  batch.check_all(1e-2);
}

}  // namespace
}  // namespace testing_codegen
