// Which CPU target this machine is, and what a compiler is told for a target.
#pragma once

#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace worker {

// "cpu-x86_64-avx512", "cpu-x86_64-avx2", "cpu-x86_64" or "cpu-aarch64", by what the processor and
// its operating system support. Code for one such target runs on every machine of that target.
common::Target detect_cpu_target();

// The machine options of GCC and Clang for a CPU target; empty for an unknown name.
std::vector<std::string> machine_options(const common::Target& target);
// The width of its SIMD registers.
int vector_bytes(const common::Target& target);

}  // namespace worker
