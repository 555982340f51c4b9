// The C compiler: C text in, a shared object's bytes out.
#pragma once

#include <memory>

#include "common/plan/plan.h"
#include "common/sandbox/sandbox.h"
#include "worker/compile/compiler.h"

namespace worker {

// The host's compiler (common/process/host_compiler.h) for code of `target`. Its objects are ELF
// shared objects without the C runtime's start files. It runs in `sandbox` where there is one.
// kUnavailable when there is no compiler.
common::Result<std::shared_ptr<const Compiler>> find_c_compiler(
    const common::Target& target, std::shared_ptr<const common::Sandbox> sandbox = nullptr);

}  // namespace worker
