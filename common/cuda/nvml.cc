#include "common/cuda/nvml.h"

#include <array>
#include <utility>

#include "common/base/cat.h"
#include "common/process/shared_library.h"

namespace common {
namespace {

constexpr unsigned kTextBytes = 128;
constexpr int kSuccess = 0, kMultiprocessorClock = 1, kGpuTemperature = 0;
// Bits of the reasons for which clocks are lower than they might be.
constexpr unsigned long long kHardwareSlowdown = 0x8, kSoftwareThermal = 0x20,
                             kHardwareThermal = 0x40, kPowerBrake = 0x80;

// NVML writes "GPU-", or "MIG-" for a slice, then the digits in groups of 8, 4, 4, 4 and 12.
std::string nvml_uuid(const char* prefix, const std::string& digits) {
  std::string text = prefix;
  for (size_t k = 0; k < digits.size(); ++k) {
    if (k == 8 || k == 12 || k == 16 || k == 20) text += '-';
    text += digits[k];
  }
  return text;
}

}  // namespace

// Signatures as in the NVML documentation; results are of an enumeration.
struct NvmlDevice::Entries {
  std::shared_ptr<const SharedLibrary> library;
  void* device = nullptr;
  int (*init)() = nullptr;
  int (*shut_down)() = nullptr;
  int (*find)(const char* uuid, void** device) = nullptr;
  int (*clock)(void* device, int which, unsigned* mhz) = nullptr;
  int (*clock_max)(void* device, int which, unsigned* mhz) = nullptr;
  int (*temperature)(void* device, int sensor, unsigned* degrees) = nullptr;
  int (*reasons)(void* device, unsigned long long* bits) = nullptr;
  // Null in old libraries.
  int (*parent)(void* slice, void** device) = nullptr;
  int (*power_limit)(void* device, unsigned* milliwatts) = nullptr;
  int (*name)(void* device, char* text, unsigned size) = nullptr;
  int (*driver)(char* text, unsigned size) = nullptr;

  bool resolve() {
    const SharedLibrary& from = *library;
    from.find(parent, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
    from.find(power_limit, "nvmlDeviceGetPowerManagementLimit");
    from.find(name, "nvmlDeviceGetName");
    from.find(driver, "nvmlSystemGetDriverVersion");
    return from.find(init, "nvmlInit_v2") && from.find(shut_down, "nvmlShutdown") &&
           from.find(find, "nvmlDeviceGetHandleByUUID") &&
           from.find(clock, "nvmlDeviceGetClockInfo") &&
           from.find(clock_max, "nvmlDeviceGetMaxClockInfo") &&
           from.find(temperature, "nvmlDeviceGetTemperature") &&
           (from.find(reasons, "nvmlDeviceGetCurrentClocksEventReasons") ||
            from.find(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons"));
  }
};

NvmlDevice::NvmlDevice(std::unique_ptr<Entries> entries) : entries_(std::move(entries)) {}
NvmlDevice::~NvmlDevice() { entries_->shut_down(); }

Result<std::unique_ptr<const NvmlDevice>> NvmlDevice::open(const std::string& uuid) {
  auto entries = std::make_unique<Entries>();
  LFARM_ASSIGN_OR_RETURN(entries->library, SharedLibrary::open({"libnvidia-ml.so.1"}));
  if (!entries->resolve()) return unavailable("NVML is too old: install NVIDIA's driver again");
  if (int result = entries->init(); result != kSuccess) {
    return unavailable(cat("NVML does not start: error ", result));
  }
  std::unique_ptr<const NvmlDevice> device(new NvmlDevice(std::move(entries)));  // shuts it down
  Entries& made = *device->entries_;
  if (made.find(nvml_uuid("GPU-", uuid).c_str(), &made.device) != kSuccess &&
      made.find(nvml_uuid("MIG-", uuid).c_str(), &made.device) != kSuccess) {
    return unavailable(cat("NVML knows no device ", nvml_uuid("GPU-", uuid)));
  }
  return device;
}

NvmlConditions NvmlDevice::conditions() const {
  NvmlConditions now;
  entries_->clock(entries_->device, kMultiprocessorClock, &now.clock_mhz);
  entries_->clock_max(entries_->device, kMultiprocessorClock, &now.clock_mhz_max);
  entries_->temperature(entries_->device, kGpuTemperature, &now.temperature_c);
  return now;
}

uint32_t NvmlDevice::power_limit_w() const {
  if (entries_->power_limit == nullptr) return 0;
  void* device = entries_->device;
  unsigned milliwatts = 0;
  if (entries_->power_limit(device, &milliwatts) == kSuccess) return milliwatts / 1000;
  // A slice has no limit of its own.
  bool has_parent = entries_->parent != nullptr &&
                    entries_->parent(entries_->device, &device) == kSuccess &&
                    entries_->power_limit(device, &milliwatts) == kSuccess;
  return has_parent ? milliwatts / 1000 : 0;
}

std::string NvmlDevice::name() const {
  std::array<char, kTextBytes> text{};
  bool is_known = entries_->name != nullptr &&
                  entries_->name(entries_->device, text.data(), kTextBytes) == kSuccess;
  return is_known ? text.data() : "";
}

std::string NvmlDevice::driver_version() const {
  std::array<char, kTextBytes> text{};
  bool is_known =
      entries_->driver != nullptr && entries_->driver(text.data(), kTextBytes) == kSuccess;
  return is_known ? text.data() : "";
}

bool NvmlDevice::is_slowed() const {
  unsigned long long reasons = 0;
  entries_->reasons(entries_->device, &reasons);
  return (reasons & (kHardwareSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake)) != 0;
}

}  // namespace common
