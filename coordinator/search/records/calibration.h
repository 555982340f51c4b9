// What a device's predicted times rest on.
#pragma once

#include <cstdint>

namespace coordinator {

enum class Calibration : uint8_t {
  kNone,      // the constants are of another kind of device: predictions rank, if that
  kDefault,   // a typical CPU core's constants
  kMeasured,  // corrected by measurements on devices of this target
};
const char* calibration_name(Calibration calibration);  // "none", "default", "measured"

}  // namespace coordinator
