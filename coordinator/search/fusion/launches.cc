#include "coordinator/search/fusion/launches.h"

#include <algorithm>

#include "common/ir/llir/horizontal.h"

namespace coordinator {

std::vector<std::vector<size_t>> share_launches(const std::vector<LaunchedKernel>& kernels) {
  std::vector<std::vector<size_t>> launches;
  std::vector<size_t> launch_of;
  for (size_t k = 0; k < kernels.size(); ++k) {
    size_t launch = 0;
    for (size_t before : kernels[k].follows) launch = std::max(launch, launch_of[before] + 1);
    auto takes = [&](const std::vector<size_t>& others) {
      return kernels[k].can_join && kernels[others[0]].can_join &&
             others.size() < common::kHorizontalPartsMax;
    };
    while (launch < launches.size() && !takes(launches[launch])) ++launch;
    if (launch == launches.size()) launches.emplace_back();
    launches[launch].push_back(k);
    launch_of.push_back(launch);
  }
  return launches;
}

}  // namespace coordinator
