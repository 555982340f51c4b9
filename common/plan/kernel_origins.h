// Where a plan's kernels come from: the modules whose weights they read, and the lines of the
// model's source that read them. Every list of a plan's kernels says it from here.
#pragma once

#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace common {

// In words that ", " separates; empty for kernels that read no weights.
struct KernelOrigin {
  // The modules whose weights and states its calls read, directly or as a call at load prepared
  // them: "lm_head", or "layers.*.mlp.up_proj" where it is called for several layers.
  std::string modules;
  // The lines of the model's source that read them: "modeling_llama.py:174".
  std::string sources;
  friend bool operator==(const KernelOrigin&, const KernelOrigin&) = default;
};

// By kernel of the plan. `named`: the inputs of the graph that the plan is of, in its order, whose
// names are those of common/text/tensor_origin.h; a plan's own inputs have none.
std::vector<KernelOrigin> kernel_origins(const Plan& plan, const std::vector<GraphInput>& named);

}  // namespace common
