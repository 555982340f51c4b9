// A kernel's fingerprint from its parts, for whoever gives one body many schedules.
#pragma once

#include "common/base/digest.h"
#include "common/ir/llir/llir.h"

namespace common {

// kernel_fingerprint() of the kernel with this form and schedule, whose body has this graph_hash().
Digest kernel_fingerprint(Template form, const Schedule& schedule, const Digest& body);

}  // namespace common
