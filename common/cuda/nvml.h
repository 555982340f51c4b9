// NVML, NVIDIA's library for watching devices, found at run time: what slows a GPU down while it is
// measured.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace common {

// What the device does not say is 0.
struct NvmlConditions {
  uint32_t clock_mhz = 0, clock_mhz_max = 0;  // of the multiprocessors
  uint32_t temperature_c = 0;
};

// One device. Thread-safe.
class NvmlDevice {
 public:
  // `uuid` as in CudaDeviceFacts. kUnavailable when the library is missing or does not know the
  // device.
  static Result<std::unique_ptr<const NvmlDevice>> open(const std::string& uuid);
  ~NvmlDevice();
  NvmlDevice(const NvmlDevice&) = delete;
  NvmlDevice& operator=(const NvmlDevice&) = delete;

  // Whether clocks are held down for a reason other than the work itself: heat, or the power
  // supply.
  bool is_slowed() const;
  // Watts that the device may draw; of the whole GPU where the device is a slice of one. 0: the
  // device does not say.
  uint32_t power_limit_w() const;
  // As the driver's own tools print them: "NVIDIA H100 PCIe MIG 1g.10gb" for a slice. Empty when
  // the library does not say.
  std::string name() const;
  std::string driver_version() const;
  NvmlConditions conditions() const;

 private:
  struct Entries;
  explicit NvmlDevice(std::unique_ptr<Entries> entries);
  std::unique_ptr<Entries> entries_;
};

}  // namespace common
