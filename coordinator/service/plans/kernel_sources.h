// The source of a plan's kernels, for people: written out once more by the worker's program, which
// gives the same text for the same kernel, in a confined process of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"
#include "common/sandbox/sandbox.h"

namespace coordinator::service {

struct KernelSources {
  std::string preamble;              // comes before every kernel
  std::vector<std::string> kernels;  // in the program's order
};

inline constexpr size_t kSourceBytesMax = size_t{8} << 20;  // of one program
inline constexpr int kSourceMsMax = 20'000;

// Waits for a process, for as long as kSourceMsMax or `is_wanted`. kUnavailable when lfarm-worker
// does not lie beside this program or was not done in time; kInvalidInput when it has no code for
// a kernel; kUnsupported when the text is too long.
common::Result<KernelSources> write_sources(const common::Program& program,
                                            const common::Target& target,
                                            const common::Sandbox* sandbox,
                                            const std::function<bool()>& is_wanted);

}  // namespace coordinator::service
