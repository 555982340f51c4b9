#include "clients/cli/base/device_roofline.h"

#include "clients/runtime/model/instance.h"
#include "common/base/cat.h"
#include "common/cuda/driver.h"

namespace clients {

using common::cat;
using common::Result;

Result<Roofline> device_roofline(const std::string& state, const common::Target& target,
                                 RooflineUse use) {
  if (!common::is_gpu(common::machine_of(target))) {
    int threads = default_threads();
    if (use != RooflineUse::kKept) {
      return roofline_of_processor(state, threads, use == RooflineUse::kMeasureAgain);
    }
    if (auto kept = kept_roofline_of_processor(state, threads)) return std::move(*kept);
    return common::unavailable(cat("no roofline of this processor is kept in ", state));
  }
  LFARM_ASSIGN_OR_RETURN(auto driver, common::CudaDriver::open());
  LFARM_ASSIGN_OR_RETURN(common::CudaDeviceFacts facts, driver->device(0));
  auto sheet = data_sheet(facts.name);
  if (!sheet) return common::unavailable(cat("the figures of ", facts.name, " are not known"));
  sheet->device = facts.name;
  return std::move(*sheet);
}

}  // namespace clients
