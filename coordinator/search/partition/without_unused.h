// Leaves out of a chosen graph what no output needs, as where other nodes took an operand's place.
#pragma once

#include "coordinator/search/partition/materialisation.h"

namespace coordinator {

// Inputs stay.
Selected without_unused(Selected selected);

}  // namespace coordinator
