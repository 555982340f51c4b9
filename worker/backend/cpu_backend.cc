#include "common/runtime/device/blas.h"
#include "common/runtime/device/cpu_device.h"
#include "worker/backend/backend.h"
#include "worker/codegen/c/cpu_c.h"
#include "worker/compile/c_compiler.h"
#include "worker/compile/target.h"

namespace worker {
namespace {

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  common::Result<common::Target> find() const override { return common::host_cpu_target(); }
  std::string libraries() const override { return common::blas_description(); }
  std::unique_ptr<const CodeGenerator> make_generator(const common::Target& target) const override {
    return std::make_unique<CpuCodeGenerator>(unit_of(target));
  }
  common::Result<std::shared_ptr<const Compiler>> find_compiler(
      const common::Target& target, std::shared_ptr<const common::Sandbox> sandbox) const override {
    return find_c_compiler(target, std::move(sandbox));
  }
  common::Result<std::unique_ptr<common::Device>> open(int threads) const override {
    return common::make_cpu_device({threads});
  }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace worker
