#include "coordinator/search/records/calibration.h"

#include <cstddef>

namespace coordinator {

const char* calibration_name(Calibration calibration) {
  static constexpr const char* kNames[] = {"none", "default", "measured"};
  return kNames[static_cast<size_t>(calibration)];
}

}  // namespace coordinator
