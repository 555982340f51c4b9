// Offsets as sums of strides: if these fail, tensor maps describe other elements than kernels read.
#include "common/lowering/text/affine.h"

#include <gtest/gtest.h>

namespace common {
namespace {

Expr index(int id) { return Expr::index(id); }

TEST(AffineOffset, StridesFollowTheOrderOfTheIndices) {
  const Expr s = Expr::symbol(0);
  auto found = affine_offset(Expr(3) + index(5) * 8 * s + index(2), {index(5), index(2)});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->base, Expr(3));
  EXPECT_EQ(found->strides, (std::vector<Expr>{s * 8, 1}));
}

TEST(AffineOffset, OtherIndicesAreNone) {
  EXPECT_FALSE(affine_offset(index(0) + index(1), {index(0)}));
  EXPECT_FALSE(affine_offset(index(0) + index(1), {index(0), index(2)}));
  EXPECT_FALSE(affine_offset(floor_div(index(0), 4), {index(0)}));
  EXPECT_TRUE(affine_offset(index(0), {index(0), index(2)}));
}

}  // namespace
}  // namespace common
