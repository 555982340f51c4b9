#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "codegen_runner.h"
#include "common/cuda/cubin.h"
#include "common/cuda/nvrtc.h"
#include "kept_cubins.h"
#include "worker/codegen/cuda/cuda.h"

namespace testing_codegen {
namespace {

std::string kept_directory() {
  const char* directory = std::getenv("LFARM_KEPT_CUBINS");
  return directory != nullptr ? directory : "";
}

// Compiles with the real NVRTC, straight to machine code, and runs nothing. With
// $LFARM_KEPT_CUBINS the directory of what earlier runs compiled.
class NvrtcRunner final : public KernelRunner {
 public:
  // Without a target for all of them, and with the instructions that all have.
  explicit NvrtcRunner(const std::string& target)
      : target_{target.starts_with("cuda-") ? target : "cuda-sm_80"}, generator_(target_) {
    if (target.starts_with("cuda-")) architectures_ = {target.substr(std::string("cuda-").size())};
    auto nvrtc = common::Nvrtc::open();
    if (nvrtc.ok()) {
      nvrtc_ = *nvrtc;
    } else {
      missing_ = nvrtc.error().message;
    }
  }

  const worker::CodeGenerator& generator() const override { return generator_; }
  common::NestMachine machine() const override {
    return {common::machine_of(target_), target_.name, {}};
  }
  bool runs() const override { return false; }

  void load(const std::string& text) override {
    if (nvrtc_ == nullptr) GTEST_SKIP() << "nothing is compiled: " << missing_;
    for (const std::string& architecture : architectures_) {
      if (!nvrtc_->supports(architecture)) {
        std::cout << "this NVRTC does not know " << architecture << "\n";
        continue;
      }
      auto cubin = compiled(text, architecture);
      ASSERT_TRUE(cubin.ok()) << architecture << ": " << cubin.error().message;
      auto kernels = common::read_cubin(*cubin);
      ASSERT_TRUE(kernels.ok()) << kernels.error().message;
      EXPECT_FALSE(kernels->empty());
      size_t with_local = 0;
      uint64_t most = 0;
      for (const common::CubinKernel& kernel : *kernels) {
        with_local += kernel.local_bytes > 0 ? 1 : 0;
        most = std::max(most, kernel.local_bytes);
      }
      std::cout << architecture << ": " << kernels->size() << " kernels, " << with_local
                << " with local memory, " << most << " bytes at most\n";
    }
  }

  void run(const worker::KernelSource&, const std::vector<common::HostTensor>&,
           std::vector<common::HostTensor>&, const std::vector<int64_t>&, int) override {
    ADD_FAILURE() << "nothing runs here";
  }

 private:
  common::Result<common::Bytes> compiled(const std::string& text,
                                         const std::string& architecture) const {
    common::Hasher hasher;
    hasher.text(nvrtc_->build()).text(architecture).text(text);
    const common::Digest key = hasher.finish();
    if (auto known = kept_.find(key)) return *std::move(known);
    LFARM_ASSIGN_OR_RETURN(common::NvrtcOutput output, nvrtc_->compile(text, architecture, {}));
    kept_.put(key, output.cubin);
    return std::move(output.cubin);
  }

  KeptCubins kept_{kept_directory()};
  std::shared_ptr<const common::Nvrtc> nvrtc_;
  std::string missing_;
  std::vector<std::string> architectures_{"sm_80", "sm_90a", "sm_100"};
  common::Target target_;
  worker::CudaCodeGenerator generator_;
};

}  // namespace

std::unique_ptr<KernelRunner> make_runner(const std::string& target) {
  return std::make_unique<NvrtcRunner>(target);
}
bool runs_on_gpu() { return true; }

}  // namespace testing_codegen
