// Where a plan's kernels come from, as far as a plan keeps it: by the weights that they read.
#pragma once

#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "common/plan/plan.h"

namespace clients {

// What a kernel serves, in words that ", " separates; empty for kernels that read no weights.
struct KernelOrigin {
  // The modules whose weights and states its calls read, directly or as a call at load prepared
  // them: "lm_head", or "layers.*.mlp.up_proj" where it is called for several layers.
  std::string modules;
  // The lines of the model's source that read them: "modeling_llama.py:174".
  std::string sources;
};

// By kernel of the plan, which is one of the model.
std::vector<KernelOrigin> kernel_origins(const common::Plan& plan, const Model& model);

}  // namespace clients
