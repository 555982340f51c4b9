// How well one order of things agrees with another.
#pragma once

#include <vector>

namespace coordinator {

// Spearman's rank correlation of two lists of the same length: 1 where both order their elements
// alike, -1 where one is the other's reverse. Equal elements share their mean rank. 0 where a list
// has fewer than two different elements.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace coordinator
