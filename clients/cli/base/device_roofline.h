// The roofline of this machine's device, which plans' times are held against.
#pragma once

#include <string>

#include "clients/score/roofline.h"
#include "common/base/result.h"
#include "common/plan/plan.h"

namespace clients {

enum class RooflineUse {
  kKept,          // what the state directory has of the processor
  kMeasure,       // else measured, which takes a second, and kept
  kMeasureAgain,  // measured in any case
};

// Of a target that this machine is: its processor's, or its GPU's data sheet. kUnavailable when
// nothing is kept (kKept) or the GPU's figures are not known.
common::Result<Roofline> device_roofline(const std::string& state, const common::Target& target,
                                         RooflineUse use);

}  // namespace clients
