#include "coordinator/search/budget.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace coordinator {

std::vector<Effort> expected_efforts(const SearchOptions& options,
                                     const std::vector<double>& region_ns) {
  double all = std::accumulate(region_ns.begin(), region_ns.end(), 0.0);
  std::vector<Effort> efforts;
  for (double ns : region_ns) {
    double share = all > 0 && std::isfinite(all) ? ns / all : 1;
    efforts.push_back({std::llround(static_cast<double>(options.budget) * share),
                       std::llround(static_cast<double>(options.time_ms) * share)});
  }
  return efforts;
}

int64_t budget_for(int64_t budget, double all_ns, double fresh_ns, bool is_known) {
  budget = std::max<int64_t>(1, budget);
  if (budget <= 2) return budget;
  if (is_known) return 2;
  bool shrinks = all_ns > 0 && std::isfinite(all_ns) && fresh_ns < all_ns;
  if (!shrinks) return budget;
  double left = static_cast<double>(budget) * fresh_ns / all_ns;
  return std::max<int64_t>(3, std::llround(std::ceil(left)));
}

}  // namespace coordinator
