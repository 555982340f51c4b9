// NVIDIA GPUs: kernels as CUDA C++ for NVRTC.
#pragma once

#include <string_view>

#include "worker/codegen/cuda/text/machine.h"
#include "worker/codegen/generator.h"

namespace worker {

class CudaCodeGenerator final : public CodeGenerator {
 public:
  // Code for a target such as "cuda-sm_90a", whose instructions it uses.
  explicit CudaCodeGenerator(const common::Target& target);
  std::string_view language() const override { return "cuda"; }
  std::string preamble() const override;
  std::string preamble_for(std::string_view texts) const override;
  common::Result<KernelSource> generate(const common::Kernel& kernel) const override;

 private:
  CudaMachine machine_;
};

}  // namespace worker
