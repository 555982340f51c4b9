// If these fail, what is said of the cost model's order is not so.
#include "coordinator/search/records/rank_correlation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace coordinator {
namespace {

TEST(RankCorrelation, LooksAtTheOrderAlone) {
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {10, 100, 1000, 1e9}), 1);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {-1, -2, -3, -4}), -1);
  // Ranks 1 2 3 4 5 and 2 1 4 3 5: 1 - 6 * 4 / (5 * 24).
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4, 5}, {7, 6, 9, 8, 10}), 0.8);
}

TEST(RankCorrelation, EqualElementsShareTheirRank) {
  // Ranks 1.5 1.5 3 and 1 2 3: covariance 1.5, variances 1.5 and 2.
  EXPECT_NEAR(rank_correlation({4, 4, 9}, {1, 2, 3}), 1.5 / std::sqrt(1.5 * 2), 1e-12);
}

TEST(RankCorrelation, SaysNothingOfListsWithoutAnOrder) {
  EXPECT_EQ(rank_correlation({}, {}), 0);
  EXPECT_EQ(rank_correlation({3}, {4}), 0);
  EXPECT_EQ(rank_correlation({3, 3, 3}, {1, 2, 3}), 0);
}

}  // namespace
}  // namespace coordinator
