// Register tiles of a processor for groups of channels, and results that are stored within a
// border.
#include <array>

#include "tests/unit/codegen/product_cases.h"

namespace testing_codegen {
namespace {

// A convolution by groups of channels of an image with its border, channels last, whose result gets
// a border, too.
struct Groups {
  int64_t groups = 3, channels = 8, results = 16, stride = 1;
  std::array<int64_t, 4> border = {1, 1, 1, 1};  // above, below, left and right of the result
  double fill = 0;
  DType dtype = DType::kFloat32;
};

void add_groups(KernelBatch& batch, Random& random, const Groups& g, Schedule schedule = {}) {
  constexpr int64_t kImages = 2, kHeight = 7, kWidth = 9;
  const int64_t height = (kHeight - 3) / g.stride + 1, width = (kWidth - 3) / g.stride + 1;
  GraphBuilder b;
  NodeId x = input(b, g.dtype, {kImages, kHeight, kWidth, g.groups * g.channels});
  NodeId w = input(b, g.dtype, {g.groups, 9 * g.channels, g.results});
  const auto i = [](int k) { return Expr::index(k); };
  View windows{{kImages, g.groups, height, width, 3, 3, g.channels},
               {i(0), i(2) * Expr(g.stride) + i(4), i(3) * Expr(g.stride) + i(5),
                i(1) * Expr(g.channels) + i(6)},
               {},
               0};
  View matrix{{g.groups, 3, 3, g.channels, g.results},
              {i(0), (i(1) * Expr(3) + i(2)) * Expr(g.channels) + i(3), i(4)},
              {},
              0};
  NodeId left = b.view(x, windows), right = b.view(w, matrix);
  if (is_half(g.dtype)) {
    left = b.cast(left, DType::kFloat32);
    right = b.cast(right, DType::kFloat32);
  }
  NodeId y = contract(b, left, right, {0, 1, 2, 3, 4, 5, 6}, {1, 4, 5, 6, 7}, {0, 1, 2, 3, 7});
  const Expr n(g.results);
  NodeId merged = b.view(y, {{kImages, height, width, g.groups * g.results},
                             {i(0), floor_div(i(3), n), i(1), i(2), mod(i(3), n)},
                             {},
                             0});
  merged = b.binary(BinaryOp::kMax, merged, b.scalar(DType::kFloat32, -0.5));
  if (is_half(g.dtype)) merged = b.cast(merged, g.dtype);
  const auto [above, below, before, after] = g.border;
  View bordered{{kImages, height + above + below, width + before + after, g.groups * g.results},
                {i(0), i(1) - Expr(above), i(2) - Expr(before), i(3)},
                {},
                g.fill};
  if (above + below != 0) bordered.valid.push_back({bordered.index[1], Expr(height)});
  if (before + after != 0) bordered.valid.push_back({bordered.index[2], Expr(width)});
  b.output(b.view(merged, bordered));
  batch.add(Template::kTile, std::move(schedule), b.finish(),
            {random_tensor(random, g.dtype, {kImages, kHeight, kWidth, g.groups * g.channels}),
             random_tensor(random, g.dtype, {g.groups, 9 * g.channels, g.results})});
}

// If this fails, runs of a row are read where others lie, units of groups store each other's
// channels, or a part of a border is not written.
TEST(CodegenTileRows, GroupsAreStoredWithinABorder) {
  Random random(35);
  KernelBatch batch;
  add_groups(batch, random, {});
  add_groups(batch, random, {.channels = 16, .results = 32, .stride = 2});
  add_groups(batch, random, {.groups = 2, .channels = 5, .results = 7});
  add_groups(batch, random, {.groups = 1, .border = {0, 2, 3, 0}, .fill = -1.5});
  add_groups(batch, random, {.border = {0, 0, 0, 4}});
  add_groups(batch, random, {.border = {5, 0, 0, 0}});
  add_groups(batch, random, {.channels = 16, .dtype = DType::kBfloat16});
  for (const ScheduleChoice& choice : schedule_parameters(Template::kTile)) {
    if (!choice.on_cpu) continue;
    for (int64_t value : choice.values) {
      add_groups(batch, random, {}, {{std::string(choice.name), value}});
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    for (int shares : {1, 3}) batch.check(k, 1e-3, shares);
    if (HasFatalFailure()) return;
  }
  const std::string& text = batch.at(0).source.text;
  EXPECT_NE(text.find("int64_t run"), std::string::npos) << "sums are kept over runs";
}

}  // namespace
}  // namespace testing_codegen
