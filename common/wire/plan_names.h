// By what a farm's stored plans are found beside where they are kept.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/digest.h"
#include "common/plan/plan.h"
#include "common/plan/seal.h"

namespace common {

// Of an encoded Sealed that holds a plan's grant: the plan key's digest, the grant's (by which
// other farms' revocations name it), and the id of the plan that it was imported, published or
// rebuilt from. None when the bytes are something else.
std::vector<Digest> plan_names(std::string_view sealed);
// The same from the decoded plan and its sealed form.
std::vector<Digest> plan_names(const Plan& plan, const Sealed& outer);

}  // namespace common
