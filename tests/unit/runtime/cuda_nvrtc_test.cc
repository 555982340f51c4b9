// NVRTC where it is installed: machine code for several architectures, and complaints of one line.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/cuda/nvrtc.h"
#include "common/cuda/toolkit.h"
#include "common/process/shared_library.h"

namespace common {
namespace {

constexpr const char* kDouble = R"(
extern "C" __global__ void __launch_bounds__(128) lf_double(const float* in, float* out, long long n) {
  long long i = blockIdx.x * 128LL + threadIdx.x;
  if (i < n) out[i] = 2.0f * in[i];
}
)";

class NvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Nvrtc::open();
    if (!opened.ok()) GTEST_SKIP() << opened.error().message;
    nvrtc_ = *opened;
  }
  std::shared_ptr<const Nvrtc> nvrtc_;
};

TEST_F(NvrtcTest, CompilesForEveryArchitectureItNames) {
  EXPECT_GE(nvrtc_->major_version(), 11);
  int compiled = 0;
  for (const char* arch : {"sm_80", "sm_89", "sm_90a", "sm_100"}) {
    if (!nvrtc_->supports(arch)) continue;
    auto output = nvrtc_->compile(kDouble, arch, {"--std=c++17"});
    ASSERT_TRUE(output.ok()) << arch << ": " << output.error().message;
    EXPECT_FALSE(output->cubin.empty()) << arch;
    ++compiled;
  }
  EXPECT_GT(compiled, 0) << "it supports none of the architectures that lfarm makes plans for";
}

TEST_F(NvrtcTest, KnowsWhatItDoesNotSupport) {
  EXPECT_FALSE(nvrtc_->supports("sm_1"));
  EXPECT_FALSE(nvrtc_->supports("avx2"));
  EXPECT_FALSE(nvrtc_->supports(""));
}

TEST_F(NvrtcTest, ComplaintsAreOneLineThatNamesThePlace) {
  std::string text =
      std::string(kDouble) + "extern \"C\" __global__ void bad() {\n  nonsense;\n  more;\n}\n";
  auto output = nvrtc_->compile(text, "sm_90a", {});
  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.error().code, Code::kInvalidInput);
  EXPECT_NE(output.error().message.find("nonsense"), std::string::npos) << output.error().message;
  EXPECT_EQ(output.error().message.find('\n'), std::string::npos) << output.error().message;
}

TEST_F(NvrtcTest, WarningsAreNoComplaints) {
  auto output = nvrtc_->compile("extern \"C\" __global__ void bad() {\n  int unused;\n}\n" +
                                    std::string("__device__ int f() { return nonsense; }\n"),
                                "sm_90a", {});
  ASSERT_FALSE(output.ok());
  EXPECT_NE(output.error().message.find("nonsense"), std::string::npos) << output.error().message;
}

// The loader's own places come first, then what an installation elsewhere would be.
TEST(Toolkit, LibrariesAreLookedForInEveryInstallation) {
  const char* home = std::getenv("CUDA_HOME");
  std::string before = home == nullptr ? "" : home;
  ::setenv("CUDA_HOME", "/an/installation", 1);
  std::vector<std::string> names = cuda_library_names({"libone.so.2", "libone.so.1"});
  home == nullptr ? ::unsetenv("CUDA_HOME") : ::setenv("CUDA_HOME", before.c_str(), 1);
  ASSERT_GE(names.size(), 6u);
  EXPECT_EQ(names[0], "libone.so.2");
  EXPECT_EQ(names[1], "libone.so.1");
  EXPECT_EQ(names[2], "/an/installation/lib64/libone.so.2");
  EXPECT_EQ(names[3], "/an/installation/lib64/libone.so.1");
  EXPECT_EQ(names[4], "/an/installation/lib/libone.so.2");
}

TEST(Toolkit, AnOlderLibraryWillDo) {
  auto found = SharedLibrary::open({"libm.so.7777", "libm.so.6"});
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ((*found)->name(), "libm.so.6");
  auto missing = SharedLibrary::open({"libm.so.7777", "libm.so.7778"});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("libm.so.7777"), std::string::npos);
}

TEST_F(NvrtcTest, UnknownOptionsAndArchitecturesAreInvalidInput) {
  for (const auto& output : {nvrtc_->compile(kDouble, "sm_90a", {"--no-such-option"}),
                             nvrtc_->compile(kDouble, "sm_1", {})}) {
    ASSERT_FALSE(output.ok());
    EXPECT_EQ(output.error().code, Code::kInvalidInput) << output.error().message;
  }
}

TEST_F(NvrtcTest, OneLibraryHasOneBuild) { EXPECT_EQ(nvrtc_->build(), nvrtc_->build()); }

}  // namespace
}  // namespace common
