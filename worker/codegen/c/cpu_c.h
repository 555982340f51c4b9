// The CPU target: kernels as C functions that GCC and Clang vectorise.
#pragma once

#include "worker/codegen/generator.h"
#include "worker/codegen/text/vector_unit.h"

namespace worker {

class CpuCodeGenerator final : public CodeGenerator {
 public:
  // `unit`: the target's (see target.h); blocks are chosen for it. The code is correct on any
  // target, but for what it does with a unit that has pairs.
  explicit CpuCodeGenerator(const VectorUnit& unit = {}) : unit_(unit) {}
  std::string_view language() const override { return "c"; }
  std::string preamble() const override;
  common::Result<KernelSource> generate(const common::Kernel& kernel) const override;

 private:
  VectorUnit unit_;
};

}  // namespace worker
