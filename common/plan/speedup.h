// How much faster a plan is than the plain one, as people are told.
#pragma once

#include <string>

#include "common/plan/plan.h"

namespace common {

// "2.48 times, 2.41 to 2.53": the plain plan's time over this one's, with the 95 % confidence
// interval of a comparison. Without a comparison, the ratio of two single measurements: "about 2.48
// times". Empty where one of the times is not known.
std::string speedup_text(const Provenance& provenance);

}  // namespace common
