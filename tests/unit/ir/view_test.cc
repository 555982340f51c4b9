// Views: if these fail, movement reads wrong elements.
#include "common/ir/hlir/view.h"

#include <gtest/gtest.h>

#include <tuple>

#include "common/base/random.h"
#include "common/ir/llir/view_inverse.h"

namespace common {
namespace {

const Expr s0 = Expr::symbol(0);
const std::vector<SymbolRange> kSymbols = {{2, 16}};

// The flat input position that each output element reads, -1 where it is filled.
std::vector<int64_t> positions(const View& view, const Shape& input, int64_t s0_value) {
  std::vector<int64_t> symbols = {s0_value};
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (const Expr& size : view.shape) {
    sizes.push_back(size.evaluate(symbols));
    count *= sizes.back();
  }
  std::vector<int64_t> result;
  for (int64_t flat = 0; flat < count; ++flat) {
    std::vector<int64_t> index(sizes.size());
    int64_t rest = flat;
    for (size_t k = sizes.size(); k-- > 0;) {
      index[k] = rest % sizes[k];
      rest /= sizes[k];
    }
    bool valid = true;
    for (const Validity& v : view.valid) {
      int64_t value = v.value.evaluate(symbols, index);
      valid = valid && value >= 0 && value < v.bound.evaluate(symbols, index);
    }
    int64_t position = 0;
    for (size_t k = 0; k < input.size(); ++k) {
      position = position * input[k].evaluate(symbols) + view.index[k].evaluate(symbols, index);
    }
    result.push_back(valid ? position : -1);
  }
  return result;
}

std::vector<int64_t> through(const std::vector<int64_t>& outer, const std::vector<int64_t>& inner) {
  std::vector<int64_t> result;
  for (int64_t p : outer) result.push_back(p < 0 ? -1 : inner[static_cast<size_t>(p)]);
  return result;
}

TEST(View, ReshapeSplitsAndMergesWithoutDivisions) {
  View merge = view_reshape({1, s0, 64}, {s0, 64}, Bounds(kSymbols, {}));
  EXPECT_EQ(merge.index[1], Expr::index(0));
  View split = view_reshape({s0, 64}, {1, s0, 4, 16}, Bounds(kSymbols, {}));
  EXPECT_EQ(split.index[1], Expr::index(2) * 16 + Expr::index(3));
  auto there_and_back = view_compose(view_reshape({4, 16}, {64}, Bounds(kSymbols, {})),
                                     view_reshape({64}, {4, 16}, Bounds(kSymbols, {})), kSymbols);
  ASSERT_TRUE(there_and_back.has_value());
  EXPECT_TRUE(view_is_identity(*there_and_back, {64}));
}

TEST(View, ReshapesOfNothingDivideByNothing) {
  for (const Shape& to : {Shape{0, 5}, Shape{7, 0, 5, 1}, Shape{0}, Shape{5, 7, 0}}) {
    View view = view_reshape({7, 4, 0, 5}, to, Bounds(kSymbols, {}));
    for (const Expr& e : view.index) {
      EXPECT_TRUE(parse_expr(e.text()).ok()) << shape_text(to) << ": " << e.text();
    }
  }
}

TEST(View, PermutedReshapeIsAffineWhereItCanBe) {
  // [b, t, heads * d] -> heads first: the attention layout of every transformer.
  Shape in = {2, s0, 64};
  View split = view_reshape(in, {2, s0, 4, 16}, Bounds(kSymbols, {}));
  int order[] = {0, 2, 1, 3};
  auto heads = view_compose(view_permute(split.shape, order), split, kSymbols);
  ASSERT_TRUE(heads.has_value());
  auto strided = view_strides(*heads, in, kSymbols);
  ASSERT_TRUE(strided.has_value());
  EXPECT_EQ(strided->strides, (std::vector<Expr>{s0 * 64, 16, 64, 1}));
}

TEST(View, FillsThatDifferDoNotCompose) {
  View zero = view_pad({s0}, 0, 1, 1, 0);
  View one = view_pad(zero.shape, 0, 1, 0, 1);
  EXPECT_FALSE(view_compose(one, zero, kSymbols).has_value());
  EXPECT_TRUE(view_compose(view_pad(zero.shape, 0, 1, 0, 0), zero, kSymbols).has_value());
}

View random_view(Random& random, const Shape& in) {
  auto axis = static_cast<int>(in.empty() ? 0 : random.below(in.size()));
  switch (in.empty() ? 5 : random.below(7)) {
    case 0: {
      std::vector<int> order(in.size());
      for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
      for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random.below(k)]);
      return view_permute(in, order);
    }
    case 1:
      return view_slice(in, axis, 1, in[static_cast<size_t>(axis)] - 1, 1);
    case 2:
      return view_slice(in, axis, in[static_cast<size_t>(axis)] - 1, in[static_cast<size_t>(axis)],
                        -1);
    case 3:
      return view_pad(in, axis, 1, 2, 0);
    case 4: {
      Shape flat = {element_count(in)};
      return view_reshape(in, flat, Bounds(kSymbols, {}));
    }
    case 5:
      return view_unsqueeze(in, static_cast<int>(random.below(in.size() + 1)));
    default: {
      Shape wide = in;
      wide.insert(wide.begin(), Expr(3));
      return *view_expand(in, wide);
    }
  }
}

// Composition must equal applying one view after the other, for every element.
TEST(View, RandomChainsComposeExactly) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed);
    Shape in = {s0, 3, 4};
    View chain = view_identity(in);
    std::vector<int64_t> expected = positions(chain, in, 5);
    for (int step = 0; step < 5; ++step) {
      View next = random_view(random, chain.shape);
      std::vector<int64_t> outer = positions(next, chain.shape, 5);
      if (outer.size() > 4000) break;
      auto composed = view_compose(next, chain, kSymbols);
      ASSERT_TRUE(composed.has_value());
      expected = through(outer, expected);
      chain = *composed;
      ASSERT_EQ(positions(chain, in, 5), expected) << "seed " << seed << " step " << step;
      if (auto strided = view_strides(chain, in, kSymbols)) {
        ASSERT_EQ(strided->strides.size(), chain.shape.size());
      }
    }
  }
}

TEST(WindowAxis, IsAPlaceAndATapWithConstantSteps) {
  const Expr i0 = Expr::index(0), i1 = Expr::index(1), i2 = Expr::index(2);
  const std::vector<bool> is_place = {true, true, false};
  auto axis = window_axis(i0 * Expr(2) + i2 * Expr(3) - Expr(1), is_place);
  ASSERT_TRUE(axis);
  EXPECT_EQ(std::tuple(axis->place, axis->place_step), std::tuple(0, 2));
  EXPECT_EQ(std::tuple(axis->tap, axis->tap_step), std::tuple(2, 3));
  EXPECT_EQ(axis->first, -1);
  axis = window_axis(Expr(5), is_place);
  ASSERT_TRUE(axis);
  EXPECT_EQ(std::tuple(axis->place, axis->tap, axis->first), std::tuple(-1, -1, 5));

  EXPECT_FALSE(window_axis(i0 + i1, is_place)) << "two places";
  EXPECT_FALSE(window_axis(i0 - i2, is_place)) << "runs backwards";
  EXPECT_FALSE(window_axis(i0 * s0, is_place)) << "a step that is no constant";
  EXPECT_FALSE(window_axis(i0 + s0, is_place)) << "begins at no constant";
  EXPECT_FALSE(window_axis(floor_div(i0, Expr(2)), is_place)) << "not affine";
}

// If this fails, a kernel stores its results beside where a view with a border has them.
TEST(View, AViewWithABorderIsTheOneWithinMoved) {
  const Shape input = {3, 4};
  View view = *view_compose(view_pad({5, 4}, 1, 0, 3, 1.5), view_pad(input, 0, 2, 0, 1.5), {});
  auto bordered = bordered_view(view, input);
  ASSERT_TRUE(bordered);
  EXPECT_EQ(bordered->inner.shape, input);
  EXPECT_EQ(bordered->axes, 2u);
  const std::vector<int64_t> all = positions(view, input, 0);
  const std::vector<int64_t> within = positions(bordered->inner, input, 0);
  const int64_t above = bordered->before[0].constant(), left = bordered->before[1].constant();
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t column = 0; column < 4; ++column) {
      const size_t place = static_cast<size_t>((row + above) * 7 + column + left);
      EXPECT_EQ(all[place], within[static_cast<size_t>(row * 4 + column)]);
    }
  }
  EXPECT_EQ(std::count(all.begin(), all.end(), -1), 35 - 12);

  EXPECT_FALSE(bordered_view(view_identity(input), input)) << "there is none";
  EXPECT_FALSE(bordered_view(view_pad(input, 0, -1, 2, 0), input)) << "leaves out a row";
  const View reversed = view_slice(input, 0, 2, 3, -1);
  const View below = view_pad(input, 0, 0, 1, 0);
  EXPECT_FALSE(bordered_view(*view_compose(below, reversed, {}), input)) << "runs backwards";
}

}  // namespace
}  // namespace common
