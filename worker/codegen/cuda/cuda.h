// NVIDIA GPUs: kernels as CUDA C++ for NVRTC.
#pragma once

#include "worker/codegen/generator.h"

namespace worker {

class CudaCodeGenerator final : public CodeGenerator {
 public:
  std::string_view language() const override { return "cuda"; }
  std::string preamble() const override;
  common::Result<KernelSource> generate(const common::Kernel& kernel) const override;
};

}  // namespace worker
