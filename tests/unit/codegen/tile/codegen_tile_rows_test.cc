// Rows of register tiles that are windows of images: where they are read, and where results go.
#include "tests/unit/codegen/product_cases.h"

namespace testing_codegen {
namespace {

// Windows of images, channels last: a row of a register tile runs through the channels of the
// elements of a window's row, and jumps to the next one's.
TEST(CodegenTile, RowsAreReadInRuns) {
  Random random(33);
  KernelBatch batch;
  const int64_t lanes = batch.lanes(DType::kFloat32);
  for (int64_t channels : {8, 64, 160}) {
    for (int64_t kc : {0, 64, 512}) {
      GraphBuilder b;
      NodeId x = input(b, DType::kFloat32, {2, 7, 9, channels});
      NodeId panels = input(b, DType::kFloat32, {(20 + lanes - 1) / lanes, 9 * channels, lanes});
      View windows{{2, 5, 4, 3, 3, channels},
                   {Expr::index(0), Expr::index(1) + Expr::index(3),
                    Expr::index(2) * Expr(2) + Expr::index(4), Expr::index(5)},
                   {},
                   0};
      Expr k = (Expr::index(0) * Expr(3) + Expr::index(1)) * Expr(channels) + Expr::index(2);
      Expr n = Expr::index(3);
      View matrix{{3, 3, channels, 20}, {floor_div(n, Expr(lanes)), k, mod(n, Expr(lanes))}, {}, 0};
      b.output(contract(b, b.view(x, windows), b.view(panels, matrix), {0, 1, 2, 3, 4, 5},
                        {3, 4, 5, 6}, {0, 1, 2, 6}));
      Schedule schedule;
      if (kc != 0) schedule = {{"kc", kc}};
      batch.add(Template::kTile, schedule, b.finish(),
                {random_tensor(random, DType::kFloat32, {2, 7, 9, channels}),
                 random_tensor(random, DType::kFloat32,
                               {(20 + lanes - 1) / lanes, 9 * channels, lanes})});
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); k += 3) {
    EXPECT_EQ(batch.at(k).source.text.find("packed"), std::string::npos) << k;
  }
  batch.check_all(3e-4);
}

// The gradient to a convolution's input: rows of the filters run through the taps of one result,
// and columns are windows whose width divides a panel or does not.
TEST(CodegenTile, ShortRunsAreCopied) {
  Random random(34);
  KernelBatch batch;
  constexpr int64_t kResults = 20, kChannels = 70;
  for (int64_t width : {4, 7, 8, 32}) {
    for (int64_t kc : {0, 64}) {
      GraphBuilder b;
      NodeId x = input(b, DType::kFloat32, {2, kResults, 5, width});
      NodeId w = input(b, DType::kFloat32, {kResults, kChannels, 3, 3});
      Expr y = Expr::index(2) - Expr::index(4) + Expr(1);
      Expr z = Expr::index(3) - Expr::index(5) + Expr(1);
      View windows{{2, kResults, 5, width, 3, 3},
                   {Expr::index(0), Expr::index(1), y, z},
                   {{y, 5}, {z, width}},
                   0};
      b.output(contract(b, w, b.view(x, windows), {1, 2, 5, 6}, {0, 1, 3, 4, 5, 6}, {2, 0, 3, 4}));
      Schedule schedule;
      if (kc != 0) schedule = {{"kc", kc}};
      batch.add(Template::kTile, schedule, b.finish(),
                {random_tensor(random, DType::kFloat32, {2, kResults, 5, width}),
                 random_tensor(random, DType::kFloat32, {kResults, kChannels, 3, 3})});
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); k += 2) {
    const std::string& text = batch.at(k).source.text;
    if (text.find("__global__") != std::string::npos) continue;  // a GPU's blocks copy other parts
    EXPECT_NE(text.find("packed_a"), std::string::npos) << k;
  }
  batch.check_all(3e-4);
}

}  // namespace
}  // namespace testing_codegen
