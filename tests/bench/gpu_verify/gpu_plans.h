// Programs become plans that are loaded on the GPU which is there, emulated or not.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/runtime/device/device.h"
#include "common/runtime/executor/executor.h"
#include "worker/codegen/generator.h"
#include "worker/compile/compiler.h"

namespace bench {

class GpuPlans {
 public:
  // kUnavailable says what is missing: a GPU, its driver or NVRTC. Compilers are children of this
  // program, whose main() runs them (worker::run_nvrtc_child).
  static common::Result<std::unique_ptr<GpuPlans>> open();

  common::Device& device() { return *device_; }
  const common::Target& target() const { return device_->target(); }
  // Adds the nests, generates and compiles the kernels, and loads the plan. The executor must not
  // outlive this.
  common::Result<std::unique_ptr<common::Executor>> load(common::Program program,
                                                         const common::ExecutorOptions& options);
  // The same with guards.
  common::Result<std::unique_ptr<common::Executor>> load(common::Program program);

 private:
  GpuPlans(std::unique_ptr<common::Device> device,
           std::shared_ptr<const worker::Compiler> compiler);

  std::unique_ptr<common::Device> device_;
  std::shared_ptr<const worker::Compiler> compiler_;
  std::unique_ptr<const worker::CodeGenerator> generator_;
};

}  // namespace bench
