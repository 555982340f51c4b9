// The CPU target: kernels as C functions that GCC and Clang vectorise.
#pragma once

#include "worker/codegen/generator.h"

namespace worker {

class CpuCodeGenerator final : public CodeGenerator {
 public:
  // `vector_bytes`: the width of the target's SIMD registers, 16, 32 or 64 (see target.h); blocks
  // are chosen for it. The code is correct on any target.
  explicit CpuCodeGenerator(int vector_bytes = 64) : vector_bytes_(vector_bytes) {}
  std::string_view language() const override { return "c"; }
  std::string preamble() const override;
  common::Result<KernelSource> generate(const common::Kernel& kernel) const override;

 private:
  int vector_bytes_;
};

}  // namespace worker
