// NVRTC as a compiler of the worker: CUDA text in, a cubin's bytes out, in child processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "common/sandbox/sandbox.h"
#include "worker/compile/compiler.h"

namespace worker {

// The compiler for a target such as "cuda-sm_90a". `child_command` starts a process that calls
// run_nvrtc_child(0) (worker/compile/nvrtc_child.h); at most `children_max` of them compile at a
// time, one for each thread that does, in `sandbox` where there is one. A text that hangs or
// crashes NVRTC costs a child, not the caller. kUnavailable says what is missing: NVRTC itself, or
// the architecture in it.
common::Result<std::shared_ptr<const Compiler>> find_nvrtc_compiler(
    const common::Target& target, std::vector<std::string> child_command, size_t children_max,
    std::shared_ptr<const common::Sandbox> sandbox = nullptr);

}  // namespace worker
