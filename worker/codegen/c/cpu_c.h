// The CPU target: kernels as C functions that GCC and Clang vectorise.
#pragma once

#include "common/schedule/kernels/vector_unit.h"
#include "worker/codegen/generator.h"

namespace worker {

class CpuCodeGenerator final : public CodeGenerator {
 public:
  // `unit`: the target's (see target.h), whose registers the code fills. The code is correct on any
  // target, but for what it does with a unit that has pairs.
  explicit CpuCodeGenerator(const common::VectorUnit& unit = {}) : unit_(unit) {}
  std::string_view language() const override { return "c"; }
  std::string preamble() const override;
  common::Result<KernelSource> generate(const common::Kernel& kernel) const override;

 private:
  common::VectorUnit unit_;
};

}  // namespace worker
