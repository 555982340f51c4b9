#include "common/runtime/device/devices.h"

#include "common/base/cat.h"
#include "common/runtime/device/cpu_device.h"
#include "common/runtime/device/cuda_device.h"

namespace common {

Result<FoundDevice> find_device(std::string_view name) {
  if (name == "cuda" || name == "auto") {
    auto target = find_cuda_target();
    if (target.ok()) return FoundDevice{"cuda", *target};
    if (name == "cuda") return target.error();
  } else if (name != "cpu") {
    return invalid_input(cat("there is no device called '", name, "', only auto, cpu and cuda"));
  }
  return FoundDevice{"cpu", host_cpu_target()};
}

Result<std::unique_ptr<Device>> open_device(std::string_view name, int threads) {
  LFARM_ASSIGN_OR_RETURN(FoundDevice found, find_device(name));
  if (found.name == "cuda") return open_cuda_device();
  return make_cpu_device({threads});
}

}  // namespace common
