// The CUDA C++ text that every GPU kernel builds on. It includes nothing, so that NVRTC is quick;
// under LF_EMULATED types and intrinsics are there already.
#pragma once

#include <string>

namespace worker {

// Types, casts, integer arithmetic, elementary functions, teams of threads, vector accesses.
const std::string& cuda_preamble();

}  // namespace worker
