// Where a plan's kernels come from, as far as a plan keeps it: by the weights that they read.
#pragma once

#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "common/plan/plan.h"

namespace clients {

// By kernel of the plan, which is one of the model: the modules whose weights and states its calls
// read, directly or as a call at load prepared them, "lm_head" or "layers.*.mlp.up_proj" where it
// is called for several layers; separated by ", ". Empty for kernels that read none.
std::vector<std::string> kernel_modules(const common::Plan& plan, const Model& model);

}  // namespace clients
