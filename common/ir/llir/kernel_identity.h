// Fingerprints from their parts, for whoever gives one body many schedules.
#pragma once

#include <span>
#include <vector>

#include "common/base/digest.h"
#include "common/ir/llir/llir.h"

namespace common {

// kernel_fingerprint() of the kernel with this form and schedule, whose body has this graph_hash().
Digest kernel_fingerprint(Template form, const Schedule& schedule, const Digest& body);

// graph_hash() of each kernel's body, in the program's order: most of what a fingerprint takes, and
// the same whatever the schedules are.
std::vector<Digest> body_hashes(const Program& program);
// program_fingerprint() of the program with these body_hashes().
Digest program_fingerprint(const Program& program, std::span<const Digest> bodies);

}  // namespace common
