#include "common/cost/gpu_registers.h"

#include <algorithm>
#include <cmath>

namespace common {
namespace {

constexpr double kRegisterBytes = 4;
constexpr double kBase = 24;            // beside the loads that are under way
constexpr double kAheadBase = 16;       // the same where a step's loads begin ahead
constexpr double kLaneRegisters = 512;  // of each lane of a multiprocessor's four partitions
constexpr double kGranule = 8;          // in which registers are given to warps
constexpr double kMost = 255;

// A compiler takes what it may take without fewer warps on a multiprocessor.
double with_spare(double needed) {
  double warps = std::floor(kLaneRegisters / needed);
  double most = std::floor(kLaneRegisters / std::max(1.0, warps) / kGranule) * kGranule;
  return std::max(needed, std::min(most, kMost));
}

}  // namespace

double expected_registers(const ThreadValues& values) {
  const double loaded = values.loaded_bytes / kRegisterBytes;
  // What is loaded a step ahead stays beside what the step computes with, and the sums of rows
  // beside both.
  if (values.ahead) return with_spare(kAheadBase + 2 * loaded + values.sums);
  // Kept rows were loaded, and sums take the place of what was loaded. Beyond what a thread has, a
  // compiler begins loads later.
  const double kept = values.kept_bytes / kRegisterBytes;
  return std::min(with_spare(kBase + std::max(loaded, kept)), kMost);
}

}  // namespace common
