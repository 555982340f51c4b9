// A second device, as small as one can be: kernels are their own text, and the reference
// interpreter runs them on memory of its own. It exists to prove that a device joins without a
// change elsewhere.
#pragma once

#include "worker/backend/backend.h"

namespace paper {

inline constexpr const char* kTarget = "paper-1";

const worker::Backend& backend();

}  // namespace paper
