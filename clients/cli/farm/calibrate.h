// lfarm doctor --calibrate: teaches a farm what kernels take on its devices, and says how well it
// predicts them.
#pragma once

#include "clients/cli/access/farm_options.h"

namespace clients {

inline constexpr int64_t kCalibrationCandidates = 24;

// Has small graphs of every kind compiled with so many candidates each, then once more at other
// sizes, and prints how well the farm predicted the order of what was measured, before it had
// learned and after. What it learned stays in the farm's store, where every later search for the
// target begins with it. Returns the command's exit code.
int calibrate(const FarmOptions& farm, int64_t candidates, bool json);

}  // namespace clients
