// Convolutions whose windows the copy engine brings: if these fail, a plan for compute capability
// 9.0a computes other images than the model.
#include "convolution_case.h"

namespace testing_codegen {
namespace {

const char* const kTarget = "cuda-sm_90a";

void check(KernelBatch& batch, size_t maps) {
  batch.compile();
  if (::testing::Test::HasFatalFailure()) return;
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_EQ(batch.at(k).source.entry.maps.size(), maps) << k;
  }
  batch.check_all(1e-2);
}

bool keeps_patches(const Case& kernel) {
  return kernel.source.text.find("full_patch") != std::string::npos;
}

// Strides, dilation and borders on all sides, in one, two and three dimensions.
TEST(CodegenConvolution, WindowsOfImages) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no copy engine";
  Random random(61);
  KernelBatch batch(kTarget);
  const Schedule schedule{{"warpgroups", 64064}};
  using Axes = std::vector<ConvolutionCase::Axis>;
  const Axes kinds[] = {
      {{9}, {13}},
      {{9, 3, 2}, {14, 3, 2}},
      {{11, 3, 1, 2, 2}, {10, 3, 1, 3, 3}},
      {{8, 5, 1, 1, 2}, {9, 1, 1, 1, 0}},
      {{10, 2, 2, 1, 0}, {8, 2, 2, 1, 0}},
      {{7, 1, 2, 1, 0}, {9, 1, 2, 1, 0}},
      {{7, 4, 1, 1, 1, 2}, {9, 2, 1, 1, 0, 1}},
      {{6, 3, 3, 1, 1}, {12, 3, 4, 1, 1}},
      {{50}},
      {{5}, {6}, {7, 3, 2}},
  };
  for (const Axes& axes : kinds) {
    ConvolutionCase c;
    c.axes = axes;
    c.channels = 72;
    add_convolution(batch, random, c, schedule);
    c.images = 0;
    c.dtype = DType::kFloat16;
    if (axes[0].taps > 1) add_convolution(batch, random, c, schedule);
  }
  check(batch, 2);
  for (size_t k = 0; k < batch.size(); ++k) EXPECT_FALSE(keeps_patches(batch.at(k))) << k;
}

// Channels that fill whole steps: a block copies its pixels once for all taps. Blocks begin and end
// within rows of images and within images, and have more windows than an image.
TEST(CodegenConvolution, PatchesOfImages) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no copy engine";
  Random random(65);
  KernelBatch batch(kTarget);
  using Axes = std::vector<ConvolutionCase::Axis>;
  const Axes kinds[] = {
      {{9}, {13}},
      {{4}, {5}},
      {{9}, {14, 3, 2}},
      {{11, 3, 1, 2, 2}, {10, 3, 1, 3, 3}},
      {{8, 5, 1, 1, 2}, {9, 1, 1, 1, 0}},
      {{10, 2, 1, 1, 0}, {8, 2, 1, 1, 0}},
      {{7, 4, 1, 1, 1, 2}, {9, 2, 1, 1, 0, 1}},
      {{50, 5}},
      {{5}, {6}, {7}},
  };
  for (const Axes& axes : kinds) {
    ConvolutionCase c;
    c.axes = axes;
    c.images = 5;
    add_convolution(batch, random, c, {{"warpgroups", 64064}});
    c.images = 0;
    c.dtype = DType::kFloat16;
    c.channels = 128;
    add_convolution(batch, random, c, {{"warpgroups", 64064}});
  }
  for (int64_t block : {64128, 64256, 128064, 128128, 128256, 192064, 192128, 256064}) {
    for (int64_t clusters : {1, 2}) {
      ConvolutionCase c;
      c.axes = {{8}, {12}};
      c.images = 8;
      c.channels = clusters == 2 ? 64 : 192;
      c.columns = 72;
      c.weight_across = clusters == 2;
      c.has_epilogue = true;
      add_convolution(batch, random, c, {{"clusters", clusters}, {"warpgroups", block}});
    }
  }
  // More patches than there is room for: two, and one.
  ConvolutionCase line;
  line.axes = {{50, 5}};
  line.channels = 320;
  add_convolution(batch, random, line, {{"warpgroups", 64064}});
  ConvolutionCase wide;
  wide.axes = {{2}, {100}};
  wide.images = 4;
  wide.channels = 128;
  wide.columns = 64;
  add_convolution(batch, random, wide, {{"clusters", 1}, {"splits", 1}, {"warpgroups", 256064}});
  // Parts of the sum have whole patches, or none.
  for (int64_t splits : {2, 4}) {
    for (int64_t clusters : {1, 2}) {
      ConvolutionCase c;
      c.channels = 192;
      c.images = 3;
      c.has_epilogue = clusters == 2;
      add_convolution(
          batch, random, c,
          {{"clusters", clusters}, {"splits", splits}, {"stages", 3}, {"warpgroups", 64064}});
    }
  }
  check(batch, 2);
  // Some of these take less without patches: small ones whose taps have more stages then.
  size_t kept = 0;
  for (size_t k = 0; k < batch.size(); ++k) kept += keeps_patches(batch.at(k)) ? 1 : 0;
  EXPECT_GE(kept, 30);
}

// Channels that fill steps and others, both orders of the weight, every block, alone, two and four
// together, and blocks that share the sum.
TEST(CodegenConvolution, BlocksAndChannels) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no copy engine";
  Random random(62);
  KernelBatch batch(kTarget);
  for (int64_t channels : {8, 40, 64, 72, 128}) {
    for (bool across : {false, true}) {
      ConvolutionCase c;
      c.channels = channels;
      c.weight_across = across;
      c.has_epilogue = across;
      int64_t clusters = across == (channels < 64) ? 1 : 2;
      add_convolution(batch, random, c, {{"clusters", clusters}, {"warpgroups", 64064}});
    }
  }
  for (int64_t block : {64128, 64256, 128064, 128128, 128256}) {
    for (int64_t clusters : {1, 2, 4}) {
      ConvolutionCase c;
      c.axes = {{11}, {13}};
      c.columns = clusters == 1 ? 264 : 136;
      c.has_epilogue = true;
      add_convolution(batch, random, c, {{"clusters", clusters}, {"warpgroups", block}});
    }
  }
  for (int64_t splits : {2, 4}) {
    ConvolutionCase c;
    c.channels = 72;
    add_convolution(batch, random, c,
                    {{"clusters", 1}, {"splits", splits}, {"stages", 3}, {"warpgroups", 64064}});
  }
  check(batch, 2);
}

TEST(CodegenConvolution, SymbolicImages) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no copy engine";
  Random random(63);
  KernelBatch batch(kTarget);
  for (int64_t images : {1, 2, 5}) {
    ConvolutionCase c;
    c.images = images;
    c.is_symbolic = true;
    c.has_epilogue = true;
    add_convolution(batch, random, c, {{"warpgroups", 64064}});
  }
  check(batch, 2);
}

// What no map of windows describes: a border that is no zero, rows in another order, channels of
// less than 16 bytes.
TEST(CodegenConvolution, OthersAreComputed) {
  if (!runs_on_gpu()) GTEST_SKIP() << "a CPU has no copy engine";
  Random random(64);
  KernelBatch batch(kTarget);
  ConvolutionCase c;
  c.channels = 12;
  add_convolution(batch, random, c, {{"warpgroups", 64064}});
  for (bool turns : {false, true}) {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {6, 9, 64}, "x");
    NodeId w = b.input(InputKind::kUser, DType::kBfloat16, {72, 3, 64}, "w");
    // 0 row, 1 place, 2 tap, 3 channel, 4 column
    Expr position = Expr::index(1) + Expr::index(2) - Expr(1);
    View windows{{6, 9, 3, 64}, {Expr::index(0), position, Expr::index(3)}, {{position, 9}}, 1};
    if (turns) windows.fill = 0;
    std::vector<int> out = turns ? std::vector<int>{1, 0, 4} : std::vector<int>{0, 1, 4};
    Shape shape = turns ? Shape{9, 6, 72} : Shape{6, 9, 72};
    b.output(b.raw({Op::kContract,
                    DType::kFloat32,
                    shape,
                    {b.view(x, windows), w},
                    ContractAttr{{0, 1, 2, 3}, {4, 2, 3}, out}}));
    batch.add(Template::kTile, {{"warpgroups", 64064}}, b.finish(),
              {random_tensor(random, DType::kBfloat16, {6, 9, 64}, -1, 1),
               random_tensor(random, DType::kBfloat16, {72, 3, 64}, -1, 1)});
  }
  check(batch, 0);
}

}  // namespace
}  // namespace testing_codegen
