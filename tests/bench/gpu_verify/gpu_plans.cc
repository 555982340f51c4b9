#include "tests/bench/gpu_verify/gpu_plans.h"

#include <thread>
#include <utility>

#include "common/runtime/device/cuda_device.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "worker/codegen/cuda/cuda.h"
#include "worker/compile/build_plan.h"
#include "worker/compile/kernel_cache.h"
#include "worker/compile/nvrtc_child.h"
#include "worker/compile/nvrtc_compiler.h"

namespace bench {
namespace {

constexpr int kCompileMsMax = 600'000;

}  // namespace

GpuPlans::GpuPlans(std::unique_ptr<common::Device> device,
                   std::shared_ptr<const worker::Compiler> compiler)
    : device_(std::move(device)),
      compiler_(std::move(compiler)),
      generator_(std::make_unique<worker::CudaCodeGenerator>(device_->target())) {}

common::Result<std::unique_ptr<GpuPlans>> GpuPlans::open() {
  LFARM_ASSIGN_OR_RETURN(auto device, common::open_cuda_device());
  LFARM_ASSIGN_OR_RETURN(
      auto compiler,
      worker::find_nvrtc_compiler(device->target(), {"/proc/self/exe", worker::kNvrtcChildFlag},
                                  std::max(1u, std::thread::hardware_concurrency())));
  return std::unique_ptr<GpuPlans>(new GpuPlans(std::move(device), std::move(compiler)));
}

common::Result<std::unique_ptr<common::Executor>> GpuPlans::load(
    common::Program program, const common::ExecutorOptions& options) {
  common::add_nests(program, {common::machine_of(target()), target().name, {}});
  worker::KernelCache cache;
  LFARM_ASSIGN_OR_RETURN(
      auto built, worker::build_plan(program, *generator_, *compiler_, cache, kCompileMsMax));
  built.plan.key.target = target();
  auto objects = [&built](const common::Digest& digest) -> common::Result<common::ByteView> {
    return common::ByteView(*built.objects.at(digest));
  };
  return common::Executor::load(built.plan, objects, *device_, options);
}

common::Result<std::unique_ptr<common::Executor>> GpuPlans::load(common::Program program) {
  common::ExecutorOptions options;
  options.guard = true;
  return load(std::move(program), options);
}

}  // namespace bench
