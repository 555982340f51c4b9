#include "coordinator/search/fusion/launches.h"

#include <algorithm>

#include "common/ir/llir/horizontal.h"

namespace coordinator {

bool may_share(LaunchSharing sharing, const common::Kernel& kernel, double bytes) {
  // A GPU's kernel that moves more takes so long that a launch makes no difference.
  constexpr double kGpuBytes = 64e6;
  // Half of the second cache of processors.
  constexpr double kProcessorBytes = 256 * 1024;
  switch (sharing) {
    case LaunchSharing::kNever:
      return false;
    case LaunchSharing::kOnProcessor:
      return kernel.form == common::Template::kLoops && bytes <= kProcessorBytes &&
             common::can_be_part(kernel);
    case LaunchSharing::kOnGpu:
      return kernel.body.outputs.size() == 1 && bytes <= kGpuBytes && common::can_be_part(kernel);
  }
  return false;
}

std::vector<std::vector<size_t>> share_launches(const std::vector<LaunchedKernel>& kernels) {
  std::vector<std::vector<size_t>> launches;
  std::vector<size_t> launch_of;
  std::vector<size_t> outputs;  // by launch
  for (size_t k = 0; k < kernels.size(); ++k) {
    size_t launch = 0;
    for (size_t before : kernels[k].follows) launch = std::max(launch, launch_of[before] + 1);
    auto takes = [&](const std::vector<size_t>& others) {
      return kernels[k].can_join && kernels[others[0]].can_join &&
             outputs[launch] + kernels[k].outputs <= common::kHorizontalPartsMax;
    };
    while (launch < launches.size() && !takes(launches[launch])) ++launch;
    if (launch == launches.size()) {
      launches.emplace_back();
      outputs.push_back(0);
    }
    launches[launch].push_back(k);
    outputs[launch] += kernels[k].outputs;
    launch_of.push_back(launch);
  }
  return launches;
}

}  // namespace coordinator
