#include "common/cuda/driver.h"
#include "common/process/processors.h"
#include "common/runtime/device/cuda_device.h"
#include "common/runtime/machine_class.h"
#include "worker/backend/backend.h"
#include "worker/codegen/cuda/cuda.h"
#include "worker/compile/nvrtc_child.h"
#include "worker/compile/nvrtc_compiler.h"

namespace worker {
namespace {

class CudaBackend final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  common::Status choose(int index) const override { return common::show_one_cuda_device(index); }
  common::Result<common::Target> find() const override { return common::find_cuda_target(); }
  std::string libraries() const override { return common::cuda_library_text(); }
  std::unique_ptr<const CodeGenerator> make_generator(const common::Target& target) const override {
    return std::make_unique<CudaCodeGenerator>(target);
  }
  common::Result<std::shared_ptr<const Compiler>> find_compiler(
      const common::Target& target, std::shared_ptr<const common::Sandbox> sandbox) const override {
    auto driver = common::CudaDriver::open();
    const int version = driver.ok() ? (*driver)->version_number() : 0;
    return find_nvrtc_compiler(target, {"/proc/self/exe", kNvrtcChildFlag, common::cat(version)},
                               static_cast<size_t>(common::usable_processors()),
                               std::move(sandbox));
  }
  common::Result<std::unique_ptr<common::Device>> open(int) const override {
    return common::open_cuda_device({.exact_algorithms = true});
  }
  bool has_driver() const override { return true; }
};

}  // namespace

const Backend& cuda_backend() {
  static const CudaBackend backend;
  return backend;
}

}  // namespace worker
