// The part of NVML that lfarm asks: an emulated GPU whose clocks are as low as the environment's
// LFARM_EMULATOR_CLOCK_REASONS says, a number of NVML's bits.
#include <cstdlib>
#include <cstring>

// NOLINTBEGIN(readability-identifier-naming): names of public interfaces.
#define LF_API extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int kSuccess = 0, kNotFound = 6;
int gpu;  // what its handle points to

}  // namespace

LF_API nvmlInit_v2() { return kSuccess; }
LF_API nvmlShutdown() { return kSuccess; }
LF_API nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  // "emulated-gpu-00" in hexadecimal, as the emulated driver says it, and a digit.
  constexpr char kName[] = "GPU-656d756c-6174-6564-2d67-70752d30303";
  if (std::strncmp(uuid, kName, sizeof kName - 1) != 0) return kNotFound;
  *device = &gpu;
  return kSuccess;
}
LF_API nvmlDeviceGetClockInfo(void*, int, unsigned* mhz) {
  *mhz = 1500;
  return kSuccess;
}
LF_API nvmlDeviceGetMaxClockInfo(void*, int, unsigned* mhz) {
  *mhz = 1980;
  return kSuccess;
}
LF_API nvmlDeviceGetTemperature(void*, int, unsigned* degrees) {
  *degrees = 45;
  return kSuccess;
}
LF_API nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* bits) {
  const char* text = std::getenv("LFARM_EMULATOR_CLOCK_REASONS");
  *bits = text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
  return kSuccess;
}
// NOLINTEND(readability-identifier-naming)
