// The CPU target: kernels as C functions that GCC and Clang vectorise.
#pragma once

#include "worker/codegen/generator.h"

namespace worker {

class CpuCodeGenerator final : public CodeGenerator {
 public:
  std::string_view language() const override { return "c"; }
  std::string preamble() const override;
  common::Result<KernelSource> generate(const common::Kernel& kernel) const override;
};

}  // namespace worker
