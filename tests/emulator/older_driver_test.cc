// Drivers that are older than the compiler: if these fail, a worker measures nothing because no
// kernel can be loaded.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "common/base/bytes.h"
#include "common/cuda/driver.h"
#include "common/cuda/nvrtc.h"
#include "common/runtime/device/cuda_device.h"
#include "tests/paths/paths.h"

namespace common {
namespace {

constexpr int kOlder = 12040;
constexpr const char* kKernel = R"(
extern "C" __global__ void __launch_bounds__(32) seven(float* out, long long units, char* scratch,
    long long scratch_stride) {
  out[threadIdx.x] = 7;
}
)";

class OlderDriver : public testing::Test {
 protected:
  void SetUp() override { ::setenv("LFARM_EMULATOR_DRIVER", std::to_string(kOlder).c_str(), 1); }
  void TearDown() override {
    ::unsetenv("LFARM_EMULATOR_DRIVER");
    ::unsetenv("CUDA_HOME");
  }
  static std::shared_ptr<const Nvrtc> nvrtc(int driver_version) {
    auto opened = Nvrtc::open(driver_version);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    return opened.ok() ? *opened : nullptr;
  }
  static Bytes compile(const Nvrtc& nvrtc) {
    auto output = nvrtc.compile(kKernel, "sm_90a", {"--std=c++17"});
    EXPECT_TRUE(output.ok()) << (output.ok() ? "" : output.error().message);
    return output.ok() ? output->cubin : Bytes{};
  }
  // Loads and runs it.
  static Status run(const Bytes& object) {
    LFARM_ASSIGN_OR_RETURN(auto device, open_cuda_device());
    LFARM_ASSIGN_OR_RETURN(auto module, device->load(digest_of(object), object));
    LFARM_ASSIGN_OR_RETURN(DeviceMemory memory, device->allocate(128));
    std::vector<void*> buffers = {memory.data()};
    Launch launch;
    LFARM_ASSIGN_OR_RETURN(launch.function, module->entry("seven"));
    launch.buffers = buffers;
    launch.block = {32, 1, 0};
    LFARM_RETURN_IF_ERROR(device->launch(launch));
    std::vector<float> values(32);
    LFARM_RETURN_IF_ERROR(
        device->copy_out(std::as_writable_bytes(std::span(values)), memory.data()));
    return values == std::vector<float>(32, 7) ? Status() : internal_error("other values");
  }
};

TEST_F(OlderDriver, TakesNoMachineCodeOfANewerCompiler) {
  auto driver = CudaDriver::open();
  ASSERT_TRUE(driver.ok());
  EXPECT_EQ((*driver)->version_number(), kOlder);
  EXPECT_EQ((*driver)->version(), "12.4");
  auto unaware = nvrtc(0);
  EXPECT_EQ(unaware->compromise(), "");
  Status refused = run(compile(*unaware));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
}

TEST_F(OlderDriver, GetsPtxOfItsVersion) {
  auto compiler = nvrtc(kOlder);
  EXPECT_EQ(compiler->major_version(), 13);
  EXPECT_NE(compiler->compromise().find("PTX 8.4 is written"), std::string::npos)
      << compiler->compromise();
  // What the compiler's identity and cache keys are made of.
  EXPECT_EQ(compiler->build(), nvrtc(13000)->build() + " as PTX 8.4");
  Bytes object = compile(*compiler);
  EXPECT_NE(as_text(object).find(".version 8.4\n"), std::string_view::npos);
  Status ran = run(object);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  // Newer PTX is refused, and the driver's reason told.
  std::string text(as_text(object));
  text.replace(text.find("8.4"), 3, "8.5");
  Status refused = run(to_bytes(as_bytes(text)));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("PTX is too new"), std::string::npos)
      << refused.error().message;
}

// In a process of its own: a library that was found once is there for good.
using OlderDriverDeathTest = OlderDriver;
TEST_F(OlderDriverDeathTest, GetsMachineCodeOfAnOlderCompilerThatIsThere) {
  auto use = [] {
    ::setenv("CUDA_HOME", paths::binaries("/../tests/emulator/cuda12").c_str(), 1);
    auto compiler = nvrtc(kOlder);
    bool is_older = compiler->major_version() == 12 && compiler->build().starts_with("12.0") &&
                    compiler->compromise().find("NVRTC 12.0 is used") != std::string::npos;
    // For a driver that is new enough the first one found is used.
    bool is_newest = nvrtc(13000)->major_version() == 13;
    std::_Exit(is_older && is_newest && run(compile(*compiler)).ok() ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(use(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace common
